//! A ring of rows between workers and ranks.
//!
//! 1. A worker claims the next position, and waits until the row of that position is free: until every rank has released
//!    what lies a whole ring before it.
//! 2. It fills the row and marks it with its position, so that a rank cannot take an older row for it.
//! 3. A rank waits for the *last* row it needs, then looks at the others: rows are finished nearly in order, so that it
//!    wakes up once for a batch and not once for a row.
//! 4. A rank releases a batch as soon as it has read it.
//!
//! Positions here are those that this process reads, counted without gaps.
//!
//! Marks are atomics; the lock is taken only by those who sleep or wake others. Nothing here allocates after `new`.

use crate::stage::Clock;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

/// Set in the mark of a row whose sample could not be made.
const FAILED: u64 = 1 << 63;

/// Why a rank gets no row: the row at this position failed, or everything was stopped.
pub(super) struct Gone(pub Option<u64>);

pub(super) struct Ring {
    rows: Vec<Row>,
    size: usize,
    end: u64,
    next: AtomicU64,
    ranks: Vec<Reader>,
    lock: Mutex<()>,
    room: Condvar,
    /// Workers that wait for room.
    sleepers: AtomicUsize,
    stopped: AtomicBool,
}

struct Row {
    /// Position + 1 of what it holds.
    mark: AtomicU64,
    bytes: RwLock<Box<[u8]>>,
}

#[derive(Default)]
struct Reader {
    /// It needs nothing before this position.
    released: AtomicU64,
    /// Position + 1 of the row it sleeps for, or 0.
    wants: AtomicU64,
    ready: Condvar,
}

impl Ring {
    pub(super) fn new(rows: usize, size: usize, ranks: usize, start: u64, end: u64) -> Self {
        let row = || Row { mark: AtomicU64::new(0), bytes: RwLock::new(vec![0; size].into()) };
        let reader = || Reader { released: AtomicU64::new(start), ..Reader::default() };
        Self {
            rows: (0..rows.max(1)).map(|_| row()).collect(),
            size,
            end,
            next: AtomicU64::new(start),
            ranks: (0..ranks.max(1)).map(|_| reader()).collect(),
            lock: Mutex::new(()),
            room: Condvar::new(),
            sleepers: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    /// Bytes of a row.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    fn row(&self, position: u64) -> &Row {
        &self.rows[(position % self.rows.len() as u64) as usize]
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_room(&self, position: u64) -> bool {
        let tail = self.ranks.iter().map(|r| r.released.load(SeqCst)).min().unwrap_or(0);
        position < tail + self.rows.len() as u64
    }

    /// The next position to be filled, once there is room for it; none at the end.
    pub(crate) fn claim(&self, clock: &Clock) -> Option<u64> {
        let position = self.next.fetch_add(1, SeqCst);
        if position >= self.end {
            return None;
        }
        if !self.has_room(position) {
            let begin = Instant::now();
            self.sleepers.fetch_add(1, SeqCst);
            let mut guard = self.lock();
            while !self.has_room(position) && !self.stopped.load(SeqCst) {
                guard = self.room.wait(guard).unwrap_or_else(PoisonError::into_inner);
            }
            drop(guard);
            self.sleepers.fetch_sub(1, SeqCst);
            clock.blocked(begin.elapsed());
        }
        (!self.stopped.load(SeqCst)).then_some(position)
    }

    /// Fills a claimed row; `fill` says whether it could. A panic of `fill` leaves a failed row, so that nobody waits for it.
    pub(crate) fn fill(&self, position: u64, fill: impl FnOnce(&mut [u8]) -> bool) {
        struct Marking<'a>(&'a Ring, u64, bool);
        impl Drop for Marking<'_> {
            fn drop(&mut self) {
                self.0.mark(self.1, self.2);
            }
        }
        let mut marking = Marking(self, position, false);
        marking.2 = fill(&mut self.row(position).bytes.write().unwrap_or_else(PoisonError::into_inner));
    }

    fn mark(&self, position: u64, good: bool) {
        self.row(position).mark.store((position + 1) | if good { 0 } else { FAILED }, SeqCst);
        for reader in self.ranks.iter().filter(|r| r.wants.load(SeqCst) == position + 1) {
            drop(self.lock()); // it either sees the mark or sleeps already
            reader.ready.notify_one();
        }
    }

    fn is_done(&self, position: u64) -> bool {
        self.row(position).mark.load(SeqCst) & !FAILED == position + 1
    }

    /// Waits until all these rows are there.
    pub(crate) fn wait(&self, rank: usize, positions: Range<u64>, clock: &Clock) -> Result<(), Gone> {
        let Some(last) = positions.end.checked_sub(1).filter(|&last| last >= positions.start) else { return Ok(()) };
        let mut begin = None;
        for position in std::iter::once(last).chain(positions.clone()) {
            if !self.is_done(position) {
                begin.get_or_insert_with(Instant::now);
                self.sleep(rank, position);
            }
        }
        clock.worked(self.size * (positions.end - positions.start) as usize, std::time::Duration::ZERO);
        if let Some(begin) = begin {
            clock.starved(begin.elapsed());
        }
        for position in positions {
            if !self.is_done(position) {
                return Err(Gone(None)); // stopped
            }
            if self.row(position).mark.load(SeqCst) & FAILED != 0 {
                return Err(Gone(Some(position)));
            }
        }
        Ok(())
    }

    fn sleep(&self, rank: usize, position: u64) {
        let reader = &self.ranks[rank];
        reader.wants.store(position + 1, SeqCst);
        let mut guard = self.lock();
        while !self.is_done(position) && !self.stopped.load(SeqCst) {
            guard = reader.ready.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        drop(guard);
        reader.wants.store(0, SeqCst);
    }

    /// Shows a row that was waited for.
    pub(crate) fn look(&self, position: u64, at: impl FnOnce(&[u8])) {
        debug_assert!(self.is_done(position), "position {position} was not waited for");
        at(&self.row(position).bytes.read().unwrap_or_else(PoisonError::into_inner));
    }

    /// A rank needs nothing before this position.
    pub(crate) fn release(&self, rank: usize, position: u64) {
        self.ranks[rank].released.store(position, SeqCst);
        if self.sleepers.load(SeqCst) > 0 {
            drop(self.lock());
            self.room.notify_all();
        }
    }

    /// Everybody who waits gives up.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, SeqCst);
        drop(self.lock());
        self.room.notify_all();
        self.ranks.iter().for_each(|reader| reader.ready.notify_all());
    }
}
