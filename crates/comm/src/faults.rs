//! A rank with faults, for tests: slow, late, out of order, hung or dead. Wraps any transport.
//!
//! What may happen on a real network must not change results, and what cannot be survived must end in an error that names
//! the rank. Faults are drawn from a seed, so that a failing test can be repeated.
//!
//! ```
//! use paceline_comm::{Collective, Comm, faults::{Faults, Faulty}, host, threads};
//! use std::time::Duration;
//! # fn main() -> paceline_base::Result<()> {
//! let faults = Faults { seed: 7, delay: Some(Duration::from_micros(100)), reorder: true, ..Faults::default() };
//! let ranks: Vec<_> = threads(2)
//!     .into_iter()
//!     .map(|comm| {
//!         std::thread::spawn(move || -> paceline_base::Result<f32> {
//!             let mut comm = Faulty::new(comm, faults);
//!             let all = comm.group(&[0, 1])?;
//!             let ticket = comm.start(Collective::AllReduce.into(), all, 0, host::stage(&[1f32]))?;
//!             Ok(host::values::<f32>(&comm.wait(ticket)?)[0])
//!         })
//!     })
//!     .collect();
//! for rank in ranks {
//!     assert_eq!(rank.join().unwrap()?, 2.0);
//! }
//! # Ok(()) }
//! ```

use crate::tickets::TicketTable;
use crate::{Comm, Counters, Exchange, GroupId, Ticket};
use paceline_base::Staging;
use paceline_base::{Error, Result};
use std::time::Duration;

/// What goes wrong on one rank.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Of the random choices; each rank draws others from the same one.
    pub seed: u64,
    /// Every call may be held up, for at most this long.
    pub delay: Option<Duration>,
    /// Operations that do not depend on each other are handed over in another order than they were started in.
    pub reorder: bool,
    /// Every wait takes so much longer: a slow rank.
    pub slow: Option<Duration>,
    /// From this sequence number on the rank does nothing any more, for so long: it hangs.
    pub hangs: Option<(u64, Duration)>,
    /// At this sequence number the rank is gone, without a word.
    pub dies: Option<u64>,
}

enum What {
    Send(usize),
    Receive(usize),
    Start(Exchange, GroupId),
}

impl What {
    /// Operations with the same key keep their order.
    fn key(&self) -> (u8, usize) {
        match self {
            Self::Send(to) => (0, *to),
            Self::Receive(from) => (1, *from),
            Self::Start(_, group) => (2, group.0 as usize),
        }
    }
}

struct Held {
    index: u16,
    seq: u64,
    what: What,
    data: Staging,
}

/// A rank that misbehaves as its [`Faults`] say, over a transport that works.
pub struct Faulty<C: Comm> {
    rank: usize,
    size: usize,
    /// None when the rank is dead.
    inner: Option<C>,
    faults: Faults,
    random: u64,
    held: Vec<Held>,
    /// The ticket of the transport, once it was handed over.
    operations: TicketTable<Option<Ticket>>,
    last: Counters,
}

impl<C: Comm> Faulty<C> {
    /// Everything asked of `comm` goes through the faults.
    pub fn new(comm: C, faults: Faults) -> Self {
        let random = faults.seed ^ (comm.rank() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self {
            rank: comm.rank(),
            size: comm.size(),
            last: comm.counters().clone(),
            inner: Some(comm),
            faults,
            random,
            held: Vec::new(),
            operations: TicketTable::new(),
        }
    }

    /// A number below `n`.
    fn draw(&mut self, n: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % n.max(1)
    }

    fn delay(&mut self) {
        if let Some(most) = self.faults.delay
            && self.draw(4) == 0
        {
            let nanos = self.draw(most.as_nanos() as u64);
            std::thread::sleep(Duration::from_nanos(nanos));
        }
    }

    fn inner(&mut self) -> Result<&mut C> {
        let rank = self.rank;
        self.inner.as_mut().ok_or_else(|| Error::failure(format!("rank {rank} is dead")))
    }

    fn begin(&mut self, seq: u64, what: What, data: Staging) -> Result<Ticket> {
        if self.faults.dies.is_some_and(|at| seq >= at) {
            self.inner = None; // what it held is gone with it
        }
        if let Some((at, how_long)) = self.faults.hangs
            && seq >= at
        {
            std::thread::sleep(how_long);
        }
        self.inner()?;
        self.delay();
        let (index, ticket) = self.operations.insert(None)?;
        self.held.push(Held { index, seq, what, data });
        if !self.faults.reorder {
            self.hand_over()?;
        }
        Ok(ticket)
    }

    /// Hands over all that was held back, in a random order that keeps the order within a group and between two ranks.
    fn hand_over(&mut self) -> Result<()> {
        while !self.held.is_empty() {
            let free = |i: usize, held: &[Held]| held[..i].iter().all(|h| h.what.key() != held[i].what.key());
            let candidates: Vec<usize> = (0..self.held.len()).filter(|&i| free(i, &self.held)).collect();
            let at = candidates[self.draw(candidates.len() as u64) as usize];
            let Held { index, seq, what, data } = self.held.remove(at);
            self.delay();
            let inner = self.inner()?;
            let issued = match what {
                What::Send(to) => inner.send(to, seq, data)?,
                What::Receive(from) => inner.receive(from, seq, data)?,
                What::Start(what, group) => inner.start(what, group, seq, data)?,
            };
            *self.operations.get_mut(index) = Some(issued);
        }
        Ok(())
    }
}

impl<C: Comm> Comm for Faulty<C> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn group(&mut self, ranks: &[usize]) -> Result<GroupId> {
        self.inner()?.group(ranks)
    }

    fn send(&mut self, to: usize, seq: u64, data: Staging) -> Result<Ticket> {
        self.begin(seq, What::Send(to), data)
    }

    fn receive(&mut self, from: usize, seq: u64, data: Staging) -> Result<Ticket> {
        self.begin(seq, What::Receive(from), data)
    }

    fn start(&mut self, what: Exchange, group: GroupId, seq: u64, data: Staging) -> Result<Ticket> {
        self.begin(seq, What::Start(what, group), data)
    }

    fn progress(&mut self) -> Result<()> {
        self.delay();
        if self.draw(3) == 0 {
            self.hand_over()?;
        }
        self.inner()?.progress()
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Staging> {
        self.hand_over()?;
        if let Some(slow) = self.faults.slow {
            std::thread::sleep(slow);
        }
        self.delay();
        let index = self.operations.find(ticket)?;
        let issued = self.operations.remove(index);
        let issued = issued.ok_or_else(|| Error::internal("waited for an operation that could not be started"))?;
        let data = self.inner()?.wait(issued)?;
        self.last = self.inner()?.counters().clone();
        Ok(data)
    }

    fn counters(&self) -> &Counters {
        &self.last
    }

    fn abort(&mut self, why: &str) {
        if let Some(inner) = &mut self.inner {
            inner.abort(why);
        }
    }
}
