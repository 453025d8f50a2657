//! Whether a process computes or only waits for others: what its sign of life to a launcher says.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The ranks that a [`World`](crate::World) holds, and how many of them wait for ranks of other processes. A clone counts
/// the same ranks: whoever reports for the process keeps one.
///
/// ```
/// let world = paceline_comm::World::alone();
/// assert!(!world.waiting_ranks().all_wait(), "it holds no ranks");
/// ```
#[derive(Clone, Debug, Default)]
pub struct WaitingRanks(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    held: AtomicUsize,
    waiting: AtomicUsize,
}

impl WaitingRanks {
    /// Whether there are ranks, and all of them wait for ranks of other processes. Ranks of a job of one process are not
    /// counted: they wait for each other only.
    pub fn all_wait(&self) -> bool {
        let held = self.0.held.load(Ordering::Relaxed);
        held > 0 && self.0.waiting.load(Ordering::Relaxed) >= held
    }
}

/// What transports between processes say.
#[cfg(any(feature = "mpi", test))]
impl WaitingRanks {
    /// A rank was made.
    pub(crate) fn enter(&self) {
        self.0.held.fetch_add(1, Ordering::Relaxed);
    }

    /// A rank is dropped.
    pub(crate) fn leave(&self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
    }

    /// A rank begins to wait, or no longer does.
    pub(crate) fn set_waiting(&self, waiting: bool) {
        if waiting {
            self.0.waiting.fetch_add(1, Ordering::Relaxed);
        } else {
            self.0.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_wait_when_each_rank_does_and_jobs_share_nothing() {
        let (job, other) = (WaitingRanks::default(), WaitingRanks::default());
        let reports = job.clone();
        job.enter();
        job.enter();
        job.set_waiting(true);
        assert!(!reports.all_wait(), "one computes");
        job.set_waiting(true);
        assert!(reports.all_wait());
        assert!(!other.all_wait(), "another job");
        job.set_waiting(false);
        assert!(!reports.all_wait());
        job.leave();
        assert!(reports.all_wait(), "the one that is left waits");
        job.set_waiting(false);
        job.leave();
        assert!(!reports.all_wait(), "no ranks");
    }
}
