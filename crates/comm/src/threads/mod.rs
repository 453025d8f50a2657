//! Ranks that are threads of one process: rendezvous over shared memory, without copies in between.
//!
//! A sender posts where its buffer is and the receiver copies straight out of it; in a collective every member works
//! on its chunk of everybody's buffer. Buffers on loan lie in the hub that the ranks share, so they outlive a rank
//! that fails.
//!
//! Nothing is allocated after [`group`](Comm::group), as long as no more operations are outstanding than ever before.
//! `start`, `send` and `receive` never wait: when the ring of a group (64) or of a pair of ranks (16) is full,
//! operations queue up at this rank. After any failure all calls of all ranks fail, naming the rank and the reason of
//! the first.

mod hub;
mod op;
mod op_table;
mod slot;

use crate::backoff::{Backoff, Idle};
use crate::comm::{check_floats, check_writable, index_in_group, no_such_group, no_such_rank};
use crate::meter::Meter;
use crate::{Collective, Comm, Counters, Encoding, Exchange, GroupId, Ticket, chunk};
use hub::Hub;
use op::{Membership, Op, OpKind, OpState};
use op_table::OpTable;
use paceline_base::Staging;
use paceline_base::units::DType;
use paceline_base::{Error, Result};
use std::sync::Arc;
use std::time::Duration;

/// How long [`Comm::wait`] waits for a peer unless [`Threads::set_timeout`] says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// The ranks `0..size` of one process. Each is to be moved to its thread.
///
/// # Panics
/// If `size` is 0.
pub fn threads(size: usize) -> Vec<Threads> {
    assert!(size > 0, "at least one rank");
    let hub = Arc::new(Hub::new(size));
    (0..size).map(|rank| Threads::new(rank, Arc::clone(&hub))).collect()
}

/// The only rank of a run on one worker: every collective leaves its buffer as it is.
pub fn single() -> Threads {
    Threads::new(0, Arc::new(Hub::new(1)))
}

/// One rank of [`threads`](fn@threads).
pub struct Threads {
    rank: usize,
    hub: Arc<Hub>,
    groups: Vec<Membership>,
    /// Messages sent to and received from each rank.
    sent: Vec<u64>,
    received: Vec<u64>,
    ops: OpTable,
    meter: Meter,
    backoff: Backoff,
    timeout: Duration,
}

impl Threads {
    fn new(rank: usize, hub: Arc<Hub>) -> Self {
        let (size, backoff) = (hub.size, Backoff::new(hub.crowded));
        Self {
            rank,
            hub,
            groups: Vec::new(),
            sent: vec![0; size],
            received: vec![0; size],
            ops: OpTable::new(),
            meter: Meter::new(size),
            backoff,
            timeout: DEFAULT_TIMEOUT,
        }
    }

    /// How long [`wait`](Comm::wait) may pass without any news before it fails, naming the ranks that are missing and
    /// how far they came.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    fn begin(&mut self, kind: OpKind, number: u64, seq: u64, data: Staging) -> Result<Ticket> {
        self.hub.reach(self.rank, seq);
        let op = Op { kind, state: OpState::Queued, number, seq, data: Some(data) };
        let (index, ticket) = self.ops.add(op)?;
        self.advance(index)?;
        self.meter.leave();
        Ok(ticket)
    }

    fn check_rank(&self, peer: usize) -> Result<()> {
        if peer < self.hub.size {
            return Ok(());
        }
        Err(no_such_rank(self.rank, peer, self.hub.size))
    }

    fn advance(&mut self, index: u16) -> Result<()> {
        let Self { rank, hub, groups, ops, meter, .. } = self;
        ops.one(index, |op| op.advance(*rank, hub, groups, meter))
    }

    /// Moves all pending operations on, in the order of their issue; true if there was any news.
    fn advance_all(&mut self) -> Result<bool> {
        let Self { rank, hub, groups, ops, meter, .. } = self;
        ops.each_pending(|op| op.advance(*rank, hub, groups, meter))
    }

    fn complete(&mut self, index: u16) -> Result<()> {
        self.backoff.reset();
        loop {
            self.hub.check()?;
            if self.advance_all()? {
                self.backoff.reset();
            }
            if self.ops.is_complete(index) {
                return Ok(());
            }
            self.meter.idle();
            match self.backoff.next() {
                Idle::Spin => std::hint::spin_loop(),
                Idle::Yield => {
                    let idle = self.backoff.idle();
                    self.check_peers(index, idle)?;
                    std::thread::yield_now();
                }
                Idle::Park => {
                    let idle = self.backoff.idle();
                    self.hub.parker.prepare_to_park(self.rank);
                    let last_look = self.last_look(index, idle);
                    if let Ok(false) = last_look {
                        self.hub.parker.park(self.rank, self.timeout.saturating_sub(idle));
                    }
                    self.hub.parker.finish_parking(self.rank);
                    if last_look? {
                        self.backoff.reset();
                    }
                }
            }
        }
    }

    /// Whether there is news after all, before parking.
    fn last_look(&mut self, index: u16, idle: Duration) -> Result<bool> {
        self.hub.check()?;
        self.check_peers(index, idle)?;
        self.advance_all()
    }

    /// Fails if the operation can never complete, or did not for too long.
    fn check_peers(&self, index: u16, idle: Duration) -> Result<()> {
        let op = self.ops.get(index);
        if let Some(departed) = op.departed_peer(self.rank, &self.hub, &self.groups) {
            let reached = self.hub.reached(departed);
            self.hub.fail(departed, &format!("it left ({reached}) while rank {} waits for {op}", self.rank));
            return self.hub.check();
        }
        if idle < self.timeout {
            return Ok(());
        }
        let missing = op.missing(self.rank, &self.hub, &self.groups);
        let name = |&(rank, begun): &(usize, bool)| {
            let begun = if begun { "begun, not finished; " } else { "" };
            format!("rank {rank} ({begun}{})", self.hub.reached(rank))
        };
        let names: Vec<_> = missing.iter().map(name).collect();
        let message = format!(
            "rank {} waited {:.1} s for {op}; missing: {}; find out what holds it up, or allow a longer timeout",
            self.rank,
            idle.as_secs_f64(),
            names.join(", "),
        );
        self.hub.fail(self.rank, &message);
        Err(Error::failure(message))
    }
}

impl Comm for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.hub.size
    }

    fn group(&mut self, ranks: &[usize]) -> Result<GroupId> {
        let index = index_in_group(ranks, self.rank, self.hub.size)?;
        let nth = self.groups.iter().filter(|g| *g.group.ranks == *ranks).count();
        self.groups.push(Membership { group: self.hub.group(ranks, nth), index, started: 0 });
        Ok(GroupId(self.groups.len() as u32 - 1))
    }

    fn send(&mut self, to: usize, seq: u64, data: Staging) -> Result<Ticket> {
        self.hub.check()?;
        self.check_rank(to)?;
        let number = self.sent[to];
        self.sent[to] += 1;
        self.begin(OpKind::Send { to }, number, seq, data)
    }

    fn receive(&mut self, from: usize, seq: u64, data: Staging) -> Result<Ticket> {
        self.hub.check()?;
        self.check_rank(from)?;
        check_writable(self.rank, seq, &data)?;
        let number = self.received[from];
        self.received[from] += 1;
        self.begin(OpKind::Receive { from }, number, seq, data)
    }

    fn start(&mut self, what: Exchange, group: GroupId, seq: u64, mut data: Staging) -> Result<Ticket> {
        self.hub.check()?;
        let rank = self.rank;
        let Some(membership) = self.groups.get_mut(group.0 as usize) else {
            return Err(no_such_group(rank, what, seq));
        };
        check_writable(rank, seq, &data)?;
        check_floats(rank, what, seq, &data)?;
        let number = membership.started;
        membership.started += 1;
        if what == (Exchange { what: Collective::AllGather, encoding: Encoding::Bf16 }) && data.dtype() == DType::F32 {
            // Before the others see it: they take it as it is.
            let own = chunk(data.len(), membership.group.ranks.len(), membership.index);
            // SAFETY: an exclusive loan of `f32`, aligned for it; the chunk lies within.
            crate::bf16::round(unsafe { crate::raw::range_mut(data.bytes_mut().as_mut_ptr().cast(), &own) });
        }
        self.begin(OpKind::Collective { what, group: group.0 as usize }, number, seq, data)
    }

    fn progress(&mut self) -> Result<()> {
        if self.ops.has_pending() {
            self.hub.check()?;
            self.advance_all()?;
            self.meter.leave();
        }
        Ok(())
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Staging> {
        let index = self.ops.find(ticket)?;
        if !self.ops.is_complete(index) {
            self.hub.check()?;
            self.advance(index)?;
            if !self.ops.is_complete(index) {
                let completed = self.complete(index);
                self.meter.leave();
                completed?;
            }
            self.meter.leave();
        }
        Ok(self.ops.remove(index))
    }

    fn counters(&self) -> &Counters {
        &self.meter.counters
    }

    fn abort(&mut self, why: &str) {
        self.hub.fail(self.rank, why);
    }
}

impl Drop for Threads {
    /// Others must not wait for a rank that is gone: whoever leaves in the middle of something fails the run.
    fn drop(&mut self) {
        if self.hub.has_failed() {
            return;
        }
        if std::thread::panicking() {
            return self.hub.fail(self.rank, "it panicked");
        }
        // An error fails the hub itself.
        let _ = self.advance_all();
        match self.ops.first_pending() {
            Some(op) => self.hub.fail(self.rank, &format!("it left before {op} was complete")),
            None => self.hub.leave(self.rank),
        }
    }
}
