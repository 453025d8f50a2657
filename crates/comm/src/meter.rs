//! Counting bytes and time with few readings of the clock (about 25 ns each).
//!
//! An operation that finds everything there costs two readings: before and after its work. The reading after one piece
//! of work is the reading before the next. Time between the first fruitless look and the next news is waiting. Work on
//! less than 2 KB takes no longer than the readings would, while a peer waits for it: it is not timed.

use crate::Counters;
use std::time::Instant;

/// Smaller work is not timed.
const TIMED: usize = 2048;

/// The counters of one rank and the clock edges it is between.
pub(crate) struct Meter {
    pub(crate) counters: Counters,
    waiting_since: Option<Instant>,
    edge: Option<Instant>,
    now: fn() -> Instant,
}

impl Meter {
    pub(crate) fn new(ranks: usize) -> Self {
        let counters = Counters { received: vec![0; ranks], ..Counters::default() };
        Self { counters, waiting_since: None, edge: None, now: Instant::now }
    }

    /// Runs work that moves or sums `bytes`.
    pub(crate) fn moving<R>(&mut self, bytes: usize, work: impl FnOnce() -> R) -> R {
        if bytes < TIMED {
            return work();
        }
        let begin = self.edge.take().unwrap_or_else(self.now);
        if let Some(since) = self.waiting_since.take() {
            self.counters.waiting += begin - since;
        }
        let result = work();
        let end = (self.now)();
        self.counters.moving += end - begin;
        self.edge = Some(end);
        result
    }

    /// Nothing to do: from here on it is waiting.
    pub(crate) fn idle(&mut self) {
        if self.waiting_since.is_none() {
            self.waiting_since = Some(self.edge.take().unwrap_or_else(self.now));
        }
        self.edge = None;
    }

    /// The call returns to its user: whatever follows is not ours.
    pub(crate) fn leave(&mut self) {
        if let Some(since) = self.waiting_since.take() {
            self.counters.waiting += (self.now)() - since;
        }
        self.edge = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::OnceLock;
    use std::time::Duration;

    thread_local! {
        static PASSED: Cell<u64> = const { Cell::new(0) };
    }

    /// A clock that stands still unless time is made to pass.
    fn now() -> Instant {
        static BEGIN: OnceLock<Instant> = OnceLock::new();
        *BEGIN.get_or_init(Instant::now) + Duration::from_millis(PASSED.get())
    }

    fn pass(ms: u64) {
        PASSED.set(PASSED.get() + ms);
    }

    #[test]
    fn waiting_and_moving_are_told_apart_and_the_users_time_is_neither() {
        let mut meter = Meter { now, ..Meter::new(1) };
        meter.moving(TIMED, || pass(5));
        meter.leave();
        pass(100);
        meter.idle();
        meter.idle();
        pass(20);
        meter.moving(TIMED, || pass(7));
        meter.idle();
        pass(30);
        meter.leave();
        pass(1000);
        meter.moving(TIMED - 1, || pass(3));
        let Counters { waiting, moving, .. } = meter.counters;
        assert_eq!((moving.as_millis(), waiting.as_millis()), (12, 50));
    }
}
