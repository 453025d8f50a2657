//! Where the ranks of a process and its courier meet: orders in, finished work out, and what went wrong.

use super::group::Group;
use crate::Collective;
use crate::parker::Parker;
use paceline_base::{Error, Result};
use paceline_kernels::Staging;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// Ranks that this process holds, and those of them that wait, whatever desk they stand at.
static HELD: AtomicUsize = AtomicUsize::new(0);
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Whether this process holds ranks, and all of them wait for others.
pub fn all_wait() -> bool {
    let held = HELD.load(Ordering::Relaxed);
    held > 0 && WAITING.load(Ordering::Relaxed) >= held
}

/// Room for that many orders or results from the start.
pub const ROOM: usize = 256;

/// What is to be done with a buffer.
pub enum Kind {
    /// Send it to a rank.
    Send { to: usize },
    /// Fill it with what a rank sends.
    Receive { from: usize },
    /// Use it in a collective, in place.
    Collective { what: Collective, group: Arc<Group> },
}

/// What a rank wants of the courier.
pub struct Order {
    pub kind: Kind,
    pub seq: u64,
    pub data: Staging,
    /// The rank, counted within the process.
    pub local: usize,
    /// Where the rank keeps the ticket.
    pub place: u32,
}

/// An order that was carried out.
pub struct Done {
    pub place: u32,
    pub data: Staging,
    /// When the last peer had shown up: before, the rank waited; after, bytes moved.
    pub there: Instant,
}

/// What one rank gets back.
struct Outbox {
    done: Mutex<Vec<Done>>,
    count: AtomicU64,
    /// Bytes that came, by rank.
    received: Box<[AtomicU64]>,
}

/// How far one rank came, for those who wait for it.
#[derive(Default)]
#[repr(align(128))]
struct Pulse {
    /// The last sequence number that it started, plus one.
    reached: AtomicU64,
    /// Milliseconds after the desk was made.
    at: AtomicU64,
    waiting: AtomicBool,
}

/// See the module's text.
pub struct Desk {
    /// This process.
    pub process: usize,
    /// The first rank of each process, and after the last one the number of ranks.
    pub first: Box<[usize]>,
    /// Ranks of the process that holds most.
    pub largest: usize,
    /// The host of each process.
    pub hosts: Box<[String]>,
    /// One place to park for each local rank, and the last for the courier.
    pub parker: Parker,
    inbox: Mutex<Vec<Order>>,
    posted: AtomicU64,
    /// Orders that are not carried out.
    open: AtomicUsize,
    out: Box<[Outbox]>,
    pulses: Box<[Pulse]>,
    began: Instant,
    waiting: AtomicUsize,
    left: AtomicUsize,
    failed: AtomicBool,
    failure: OnceLock<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    pub fn new(process: usize, first: Box<[usize]>, hosts: Box<[String]>) -> Self {
        let local = first[process + 1] - first[process];
        let size = first[first.len() - 1];
        let outbox = || Outbox {
            done: Mutex::new(Vec::with_capacity(ROOM)),
            count: AtomicU64::new(0),
            received: (0..size).map(|_| AtomicU64::new(0)).collect(),
        };
        Self {
            process,
            largest: first.windows(2).map(|two| two[1] - two[0]).max().unwrap_or(1),
            first,
            hosts,
            parker: Parker::new(local + 1),
            inbox: Mutex::new(Vec::with_capacity(ROOM)),
            posted: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            out: (0..local).map(|_| outbox()).collect(),
            pulses: (0..local).map(|_| Pulse::default()).collect(),
            began: Instant::now(),
            waiting: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            failure: OnceLock::new(),
        }
    }

    /// Ranks in this process.
    pub fn local(&self) -> usize {
        self.out.len()
    }

    /// Ranks in all.
    pub fn size(&self) -> usize {
        self.first[self.first.len() - 1]
    }

    /// The process that holds a rank.
    pub fn process_of(&self, rank: usize) -> usize {
        self.first.partition_point(|&f| f <= rank) - 1
    }

    /// A rank with its host, for people.
    pub fn name(&self, rank: usize) -> String {
        format!("rank {rank} on {}", self.hosts[self.process_of(rank)])
    }

    /// Hands an order over. The courier's thread may sleep on: [`ring`](Self::ring) wakes it.
    pub fn post(&self, order: Order) {
        self.note(order.local, order.seq);
        self.open.fetch_add(1, Ordering::Relaxed);
        lock(&self.inbox).push(order);
        self.posted.fetch_add(1, Ordering::Release);
    }

    /// Wakes the courier's thread.
    pub fn ring(&self) {
        self.parker.unpark(&[self.local()], || true);
    }

    /// Takes all orders into an empty list; true if there were any. `seen` counts those taken before.
    pub fn take(&self, seen: &mut u64, into: &mut Vec<Order>) -> bool {
        if self.posted.load(Ordering::Acquire) == *seen {
            return false;
        }
        std::mem::swap(&mut *lock(&self.inbox), into);
        *seen += into.len() as u64;
        !into.is_empty()
    }

    /// Whether there are orders that were not taken.
    pub fn has_orders(&self, seen: u64) -> bool {
        self.posted.load(Ordering::Acquire) != seen
    }

    /// Gives a finished order back.
    pub fn finish(&self, local: usize, done: Done) {
        lock(&self.out[local].done).push(done);
        self.out[local].count.fetch_add(1, Ordering::Release);
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.parker.unpark(&[local], || true);
    }

    /// Takes all that is finished; false if nothing is new. `seen` counts what was taken before.
    pub fn collect(&self, local: usize, seen: &mut u64, into: &mut Vec<Done>) -> bool {
        if self.out[local].count.load(Ordering::Acquire) == *seen {
            return false;
        }
        let mut done = lock(&self.out[local].done);
        *seen += done.len() as u64;
        into.append(&mut done);
        true
    }

    /// Whether there is something for a rank that it has not taken.
    pub fn has_done(&self, local: usize, seen: u64) -> bool {
        self.out[local].count.load(Ordering::Acquire) != seen
    }

    /// Counts bytes that came from a rank for a local one.
    pub fn count(&self, local: usize, from: usize, bytes: usize) {
        self.out[local].received[from].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes that came for a local rank, by rank.
    pub fn received(&self, local: usize, into: &mut [u64]) {
        into.iter_mut().zip(&self.out[local].received).for_each(|(n, m)| *n = m.load(Ordering::Relaxed));
    }

    fn note(&self, local: usize, seq: u64) {
        let pulse = &self.pulses[local];
        pulse.reached.store(seq.wrapping_add(1), Ordering::Relaxed);
        pulse.at.store(self.began.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Says that a rank waits, or no longer does.
    pub fn set_waiting(&self, local: usize, waiting: bool) {
        self.pulses[local].waiting.store(waiting, Ordering::Relaxed);
        if waiting {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            WAITING.fetch_add(1, Ordering::Relaxed);
        } else {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            WAITING.fetch_sub(1, Ordering::Relaxed);
            if self.open.load(Ordering::Relaxed) > 0 {
                self.ring(); // what is left is the courier's again
            }
        }
    }

    /// A rank takes its place.
    pub fn enter(&self) {
        HELD.fetch_add(1, Ordering::Relaxed);
    }

    /// A rank leaves.
    pub fn leave(&self) {
        HELD.fetch_sub(1, Ordering::Relaxed);
        self.left.fetch_add(1, Ordering::Release);
        self.ring(); // the courier is waited for with the last rank
    }

    /// Whether any local rank waits.
    pub fn some_wait(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Whether all local ranks are gone.
    pub fn all_left(&self) -> bool {
        self.left.load(Ordering::Acquire) >= self.local()
    }

    /// Whether no local rank computes: then those who wait do the courier's work.
    pub fn all_wait(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) + self.left.load(Ordering::Relaxed) >= self.local()
    }

    /// How far a local rank came, for people.
    pub fn last_did(&self, local: usize) -> String {
        let pulse = &self.pulses[local];
        let now = self.began.elapsed().as_millis() as u64;
        let ago = now.saturating_sub(pulse.at.load(Ordering::Relaxed)) as f64 / 1e3;
        match pulse.reached.load(Ordering::Relaxed) {
            0 => format!("nothing started yet, {:.1} s after it was connected", now as f64 / 1e3),
            next => {
                let doing = if pulse.waiting.load(Ordering::Relaxed) { "waits" } else { "computes" };
                format!("last started seq {} {ago:.1} s ago, {doing}", next.wrapping_sub(1))
            }
        }
    }

    /// The first failure is the one that all report.
    pub fn fail(&self, why: String) {
        let _ = self.failure.set(why);
        self.failed.store(true, Ordering::Release);
        self.parker.unpark_all();
    }

    /// Whether any rank failed.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// An error, if any rank failed.
    pub fn check(&self) -> Result<()> {
        match self.failure.get() {
            Some(why) if self.has_failed() => Err(Error::failure(why.clone())),
            _ => Ok(()),
        }
    }
}
