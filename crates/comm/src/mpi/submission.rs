//! What the ranks of a process and its progress thread exchange: submissions in, completions out, and what went wrong.

use super::group::Group;
use crate::Exchange;
use crate::parker::Parker;
use crate::tickets::ROOM;
use crate::waiting::WaitingRanks;
use paceline_base::Staging;
use paceline_base::{Error, Peer, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// What is to be done with a buffer.
pub(super) enum OpKind {
    /// Send it to a rank.
    Send { to: usize },
    /// Fill it with what a rank sends.
    Receive { from: usize },
    /// Use it in a collective, in index.
    Collective { what: Exchange, group: Arc<Group> },
}

/// An operation that a rank submits to the progress thread.
pub(super) struct Submission {
    pub(super) kind: OpKind,
    pub(super) seq: u64,
    pub(super) data: Staging,
    /// The rank, counted within the process.
    pub(super) local: usize,
    /// Index of the operation in the rank's table of tickets.
    pub(super) index: u16,
}

/// An operation that is complete.
pub(super) struct Completion {
    pub(super) index: u16,
    pub(super) data: Staging,
    /// When the last peer had shown up: before, the rank waited; after, bytes moved.
    pub(super) there: Instant,
}

/// The complete operations of one rank that it has not taken back.
struct CompletionQueue {
    done: Mutex<Vec<Completion>>,
    count: AtomicU64,
    /// Bytes that came, by rank.
    received: Box<[AtomicU64]>,
}

/// How far one rank came, for those who wait for it.
#[derive(Default)]
#[repr(align(128))]
struct RankActivity {
    /// The last sequence number that it started, plus one.
    reached: AtomicU64,
    /// Milliseconds after the queue was made.
    at: AtomicU64,
    waiting: AtomicBool,
}

/// Shared by the ranks of one process, which submit, and whoever makes progress, which completes; lives until the last of both.
pub(super) struct SubmissionQueue {
    /// This process.
    pub(super) process: usize,
    /// The first rank of each process, and after the last one the number of ranks.
    pub(super) first: Box<[usize]>,
    /// Ranks of the process that holds most.
    pub(super) largest: usize,
    /// The host of each process.
    pub(super) hosts: Box<[String]>,
    /// One index for each local rank, and the last for the progress thread.
    pub(super) parker: Parker,
    submitted: Mutex<Vec<Submission>>,
    posted: AtomicU64,
    /// Operations that were submitted and are not complete.
    open: AtomicUsize,
    completed: Box<[CompletionQueue]>,
    activity: Box<[RankActivity]>,
    began: Instant,
    /// Of all queues of the session.
    waiting_ranks: WaitingRanks,
    /// Ranks of this queue that wait.
    waiting: AtomicUsize,
    left: AtomicUsize,
    failed: AtomicBool,
    failure: OnceLock<Error>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SubmissionQueue {
    pub(super) fn new(process: usize, first: Box<[usize]>, hosts: Box<[String]>, waiting_ranks: WaitingRanks) -> Self {
        let local = first[process + 1] - first[process];
        let size = first[first.len() - 1];
        let completion_queue = || CompletionQueue {
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
            submitted: Mutex::new(Vec::with_capacity(ROOM)),
            posted: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            completed: (0..local).map(|_| completion_queue()).collect(),
            activity: (0..local).map(|_| RankActivity::default()).collect(),
            began: Instant::now(),
            waiting_ranks,
            waiting: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            failure: OnceLock::new(),
        }
    }

    /// Ranks in this process.
    pub(super) fn local(&self) -> usize {
        self.completed.len()
    }

    /// Ranks in all.
    pub(super) fn size(&self) -> usize {
        self.first[self.first.len() - 1]
    }

    /// The process that holds a rank.
    pub(super) fn process_of(&self, rank: usize) -> usize {
        self.first.partition_point(|&f| f <= rank) - 1
    }

    /// A rank with its host, for people.
    pub(super) fn name(&self, rank: usize) -> String {
        format!("rank {rank} on {}", self.hosts[self.process_of(rank)])
    }

    /// Hands an operation over. The progress thread may stay parked: [`wake_progress_thread`](Self::wake_progress_thread) wakes it.
    pub(super) fn submit(&self, submission: Submission) {
        self.note_started(submission.local, submission.seq);
        self.open.fetch_add(1, Ordering::Relaxed);
        lock(&self.submitted).push(submission);
        self.posted.fetch_add(1, Ordering::Release);
    }

    /// Unparks it, if it is parked.
    pub(super) fn wake_progress_thread(&self) {
        self.parker.unpark(&[self.local()], || true);
    }

    /// Takes all submissions into an empty list; true if there were any. `seen` counts those taken before.
    pub(super) fn take_submitted(&self, seen: &mut u64, into: &mut Vec<Submission>) -> bool {
        if self.posted.load(Ordering::Acquire) == *seen {
            return false;
        }
        std::mem::swap(&mut *lock(&self.submitted), into);
        *seen += into.len() as u64;
        !into.is_empty()
    }

    /// Whether there are submissions that were not taken.
    pub(super) fn has_submitted(&self, seen: u64) -> bool {
        self.posted.load(Ordering::Acquire) != seen
    }

    /// Gives the buffer of a complete operation back to its rank.
    pub(super) fn complete(&self, local: usize, done: Completion) {
        lock(&self.completed[local].done).push(done);
        self.completed[local].count.fetch_add(1, Ordering::Release);
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.parker.unpark(&[local], || true);
    }

    /// Takes all that is finished; false if nothing is new. `seen` counts what was taken before.
    pub(super) fn take_completed(&self, local: usize, seen: &mut u64, into: &mut Vec<Completion>) -> bool {
        if self.completed[local].count.load(Ordering::Acquire) == *seen {
            return false;
        }
        let mut done = lock(&self.completed[local].done);
        *seen += done.len() as u64;
        into.append(&mut done);
        true
    }

    /// Whether there is something for a rank that it has not taken.
    pub(super) fn has_completed(&self, local: usize, seen: u64) -> bool {
        self.completed[local].count.load(Ordering::Acquire) != seen
    }

    /// Counts bytes that came from a rank for a local one.
    pub(super) fn count(&self, local: usize, from: usize, bytes: usize) {
        self.completed[local].received[from].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes that came for a local rank, by rank.
    pub(super) fn received(&self, local: usize, into: &mut [u64]) {
        into.iter_mut().zip(&self.completed[local].received).for_each(|(n, m)| *n = m.load(Ordering::Relaxed));
    }

    fn note_started(&self, local: usize, seq: u64) {
        let activity = &self.activity[local];
        activity.reached.store(seq.wrapping_add(1), Ordering::Relaxed);
        activity.at.store(self.began.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Says that a rank waits, or no longer does.
    pub(super) fn set_waiting(&self, local: usize, waiting: bool) {
        self.activity[local].waiting.store(waiting, Ordering::Relaxed);
        self.waiting_ranks.set_waiting(waiting);
        if waiting {
            self.waiting.fetch_add(1, Ordering::Relaxed);
        } else {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            if self.open.load(Ordering::Relaxed) > 0 {
                self.wake_progress_thread(); // what is left is its work again
            }
        }
    }

    /// A rank was made.
    pub(super) fn enter(&self) {
        self.waiting_ranks.enter();
    }

    /// A rank leaves.
    pub(super) fn leave(&self) {
        self.waiting_ranks.leave();
        self.left.fetch_add(1, Ordering::Release);
        self.wake_progress_thread(); // whoever drops the last rank waits for it
    }

    /// Whether any local rank waits.
    pub(super) fn some_wait(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Whether all local ranks are gone.
    pub(super) fn all_left(&self) -> bool {
        self.left.load(Ordering::Acquire) >= self.local()
    }

    /// Whether no local rank computes: then those who wait make progress themselves.
    pub(super) fn all_wait(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) + self.left.load(Ordering::Relaxed) >= self.local()
    }

    /// How far a local rank came, for people.
    pub(super) fn last_did(&self, local: usize) -> String {
        let activity = &self.activity[local];
        let now = self.began.elapsed().as_millis() as u64;
        let ago = now.saturating_sub(activity.at.load(Ordering::Relaxed)) as f64 / 1e3;
        match activity.reached.load(Ordering::Relaxed) {
            0 => format!("nothing started yet, {:.1} s after it was connected", now as f64 / 1e3),
            next => {
                let doing = if activity.waiting.load(Ordering::Relaxed) { "waits" } else { "computes" };
                format!("last started seq {} {ago:.1} s ago, {doing}", next.wrapping_sub(1))
            }
        }
    }

    /// The first failure is the one that all ranks of this process report; `peer` if it is not one of this process's own.
    pub(super) fn fail(&self, message: String, peer: Option<Peer>) {
        let error = Error::failure(message);
        let _ = self.failure.set(peer.into_iter().fold(error, Error::of_peer));
        self.failed.store(true, Ordering::Release);
        self.parker.unpark_all();
    }

    /// Whether any rank failed.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// An error, if any rank failed.
    pub(super) fn check(&self) -> Result<()> {
        match self.failure.get() {
            Some(error) if self.has_failed() => Err(error.clone()),
            _ => Ok(()),
        }
    }
}
