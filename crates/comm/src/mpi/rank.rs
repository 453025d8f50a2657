//! One rank of a job over MPI: submits its operations to the progress thread of its process.

use super::group::Group;
use super::progress_thread::ProgressThread;
use super::submission::{Completion, OpKind, Submission, SubmissionQueue};
use crate::comm::{check_floats, check_writable, index_in_group, no_such_group};
use crate::tickets::{ROOM, TicketTable};
use crate::{Comm, Counters, Exchange, GroupId, Ticket};
use paceline_base::Staging;
use paceline_base::{Error, Peer, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One of the ranks that [`Session::ranks`](super::Session::ranks) makes.
pub(super) struct MpiRank {
    rank: usize,
    local: usize,
    queue: Arc<SubmissionQueue>,
    groups: Vec<Arc<Group>>,
    /// None until the operation is complete.
    operations: TicketTable<Option<Completion>>,
    seen: u64,
    news: Vec<Completion>,
    /// The progress thread was not woken for the last submissions.
    thread_unaware: bool,
    counters: Counters,
    /// Ends with the last rank of the process.
    progress_thread: Arc<ProgressThread>,
}

/// How long a rank that waits looks without pause, and how long then it gives way, before it parks.
const SPINNING: Duration = Duration::from_micros(50);
const YIELDING: Duration = Duration::from_millis(1);

impl MpiRank {
    pub(super) fn new(local: usize, queue: Arc<SubmissionQueue>, progress_thread: Arc<ProgressThread>) -> Self {
        queue.enter();
        let counters = Counters { received: vec![0; queue.size()], ..Counters::default() };
        Self {
            rank: queue.first[queue.process] + local,
            local,
            queue,
            groups: Vec::new(),
            operations: TicketTable::new(),
            seen: 0,
            news: Vec::with_capacity(ROOM),
            thread_unaware: false,
            counters,
            progress_thread,
        }
    }

    fn check_rank(&self, peer: usize) -> Result<()> {
        if peer < self.queue.size() && peer != self.rank {
            return Ok(());
        }
        let (rank, size) = (self.rank, self.queue.size());
        Err(Error::internal(format!("rank {rank} addresses rank {peer} of {size} ranks")))
    }

    fn submit(&mut self, kind: OpKind, seq: u64, data: Staging) -> Result<Ticket> {
        self.queue.check()?;
        let (index, ticket) = self.operations.insert(None)?;
        self.queue.submit(Submission { kind, seq, data, local: self.local, index });
        // Begun here and now; the progress thread is woken only if this rank goes on to compute, not if it waits.
        self.progress_thread.try_progress();
        self.thread_unaware = true;
        Ok(ticket)
    }

    /// Takes in what is complete; true if anything.
    fn take_completed(&mut self) -> bool {
        if !self.queue.take_completed(self.local, &mut self.seen, &mut self.news) {
            return false;
        }
        for done in self.news.drain(..) {
            let index = done.index;
            *self.operations.get_mut(index) = Some(done);
        }
        true
    }

    /// Makes progress until the operation is complete; looks without pause at first, then gives way, then parks for short times.
    fn complete(&mut self, index: u16) -> Result<()> {
        let mut kept_out: Option<Instant> = None;
        loop {
            if self.take_completed() && self.operations.get(index).is_some() {
                return Ok(());
            }
            self.queue.check()?;
            let helped = self.progress_thread.try_progress();
            match (helped, kept_out) {
                (Some(idle), _) if idle < SPINNING => std::hint::spin_loop(),
                (Some(idle), _) if idle < YIELDING => std::thread::yield_now(),
                (Some(_), _) => self.park(Duration::from_micros(50)),
                // Another rank of this process does it, or the progress thread, and will unpark this one.
                (None, Some(since)) if since.elapsed() > YIELDING => self.park(Duration::from_millis(1)),
                (None, _) => std::thread::yield_now(),
            }
            kept_out = if helped.is_some() { None } else { kept_out.or_else(|| Some(Instant::now())) };
        }
    }

    /// Sleeps, but not beyond the next thing that is done for this rank.
    fn park(&mut self, at_most: Duration) {
        self.queue.parker.prepare_to_park(self.local);
        if !self.queue.has_completed(self.local, self.seen) && !self.queue.has_failed() {
            self.queue.parker.park(self.local, at_most);
        }
        self.queue.parker.finish_parking(self.local);
    }
}

impl Comm for MpiRank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.queue.size()
    }

    fn group(&mut self, ranks: &[usize]) -> Result<GroupId> {
        index_in_group(ranks, self.rank, self.queue.size())?;
        self.groups.push(Arc::new(Group::new(ranks, &self.queue)));
        Ok(GroupId(self.groups.len() as u32 - 1))
    }

    fn send(&mut self, to: usize, seq: u64, data: Staging) -> Result<Ticket> {
        self.check_rank(to)?;
        self.submit(OpKind::Send { to }, seq, data)
    }

    fn receive(&mut self, from: usize, seq: u64, data: Staging) -> Result<Ticket> {
        self.check_rank(from)?;
        check_writable(self.rank, seq, &data)?;
        self.submit(OpKind::Receive { from }, seq, data)
    }

    fn start(&mut self, what: Exchange, group: GroupId, seq: u64, data: Staging) -> Result<Ticket> {
        let rank = self.rank;
        let group = self.groups.get(group.0 as usize).cloned().ok_or_else(|| no_such_group(rank, what, seq))?;
        check_writable(rank, seq, &data)?;
        check_floats(rank, what, seq, &data)?;
        self.submit(OpKind::Collective { what, group }, seq, data)
    }

    /// Only wakes the progress thread for what was started, and notices a failure.
    fn progress(&mut self) -> Result<()> {
        if std::mem::take(&mut self.thread_unaware) {
            self.queue.wake_progress_thread();
        }
        if self.queue.has_failed() { self.queue.check() } else { Ok(()) }
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Staging> {
        let index = self.operations.find(ticket)?;
        if self.operations.get(index).is_none() {
            self.take_completed();
        }
        if self.operations.get(index).is_none() {
            let begin = Instant::now();
            self.thread_unaware = false; // this rank does it, and wakes the thread if something is left
            self.queue.set_waiting(self.local, true);
            let completed = self.complete(index);
            self.queue.set_waiting(self.local, false);
            let end = Instant::now();
            let there = self.operations.get(index).as_ref().map_or(end, |d| d.there.clamp(begin, end));
            self.counters.waiting += there - begin;
            self.counters.moving += end - there;
            completed?;
        }
        let done = self.operations.remove(index).expect("it is complete");
        self.queue.received(self.local, &mut self.counters.received);
        Ok(done.data)
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn abort(&mut self, why: &str) {
        let message = format!("{} failed: {why}", self.queue.name(self.rank));
        self.queue.fail(message, Some(Peer::Rank(self.rank)));
    }
}

impl Drop for MpiRank {
    /// Others must not wait for a rank that is gone: whoever leaves in the middle of something fails the job.
    fn drop(&mut self) {
        self.take_completed();
        let unfinished = self.operations.iter().any(Option::is_none);
        if std::thread::panicking() {
            self.abort("it panicked");
        } else if unfinished && !self.queue.has_failed() {
            self.abort("it left before all that it started was complete");
        }
        self.queue.leave();
    }
}
