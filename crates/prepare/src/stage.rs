//! What each stage of a pipeline did: busy, waiting for input, waiting for room.

use paceline_base::stage::{Stage, StageFigures};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts of one stage, shared by its threads.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    items: AtomicU64,
    bytes: AtomicU64,
    busy: AtomicU64,
    starved: AtomicU64,
    blocked: AtomicU64,
}

impl Clock {
    /// An item was handled: how large its result is and how long that took.
    pub(crate) fn worked(&self, bytes: usize, time: Duration) {
        self.items.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.busy.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// A thread waited for something to do.
    pub(crate) fn starved(&self, time: Duration) {
        self.starved.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// A thread waited for room to put its result.
    pub(crate) fn blocked(&self, time: Duration) {
        self.blocked.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Bytes of the results so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// What was counted so far, of a stage with so many threads.
    pub(crate) fn figures(&self, stage: Stage, threads: usize) -> StageFigures {
        let seconds = |nanos: &AtomicU64| nanos.load(Ordering::Relaxed) as f64 * 1e-9;
        StageFigures {
            name: stage.name().into(),
            threads,
            items: self.items.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            busy: seconds(&self.busy),
            starved: seconds(&self.starved),
            blocked: seconds(&self.blocked),
        }
    }
}
