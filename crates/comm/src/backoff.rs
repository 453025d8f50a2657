//! How a rank waits: spin, then give way, then park until a peer unparks it.
//!
//! Spinning answers within a hundred nanoseconds when the peer is about to arrive; yielding keeps more ranks than
//! cores going; parking ([`Parker`](crate::parker::Parker)) leaves the core to others in a long wait.

use std::time::{Duration, Instant};

/// What a rank with nothing to do does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Look again almost at once.
    Spin,
    /// Let another thread run first.
    Yield,
    /// Sleep until a peer unparks this rank.
    Park,
}

/// Fewest and most looks before giving way. A look takes some 50 ns, so the most is about 50 µs.
const SPINS: (u32, u32) = (50, 1000);

/// How long to give way before parking. It must be longer than unparking takes (some 50 µs): else two ranks that
/// once parked find each other parked at every operation, for ever.
const YIELDING: Duration = Duration::from_micros(250);

/// How long a rank has been idle without any news, and what it does meanwhile.
///
/// It learns: where spinning did not help (the peer computes for long, or waits for this very core) it spins less
/// the next time, and more again where it did.
pub(crate) struct Backoff {
    rounds: u32,
    spins: u32,
    most: u32,
    since: Option<Instant>,
}

impl Backoff {
    /// With fewer cores than ranks (`crowded`) the peer cannot run while we spin.
    pub(crate) fn new(crowded: bool) -> Self {
        let most = if crowded { SPINS.0 } else { SPINS.1 };
        Self { rounds: 0, spins: most, most, since: None }
    }

    /// There was news, or a new wait begins: spin again first.
    pub(crate) fn reset(&mut self) {
        if self.rounds > self.spins {
            self.spins = (self.spins / 2).max(SPINS.0);
        } else if self.rounds > 0 {
            self.spins = (self.spins * 2).min(self.most);
        }
        (self.rounds, self.since) = (0, None);
    }

    /// What to do now.
    pub(crate) fn next(&mut self) -> Idle {
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds <= self.spins {
            Idle::Spin
        } else if self.idle() < YIELDING {
            Idle::Yield
        } else {
            Idle::Park
        }
    }

    /// Time without news, counted from the first question (asked only after the spinning).
    pub(crate) fn idle(&mut self) -> Duration {
        match self.since {
            Some(since) => since.elapsed(),
            None => {
                self.since = Some(Instant::now());
                Duration::ZERO
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_spins_then_yields_then_parks_and_begins_again_after_news() {
        for crowded in [false, true] {
            let mut backoff = Backoff::new(crowded);
            let mut seen = vec![backoff.next()];
            while seen.last() != Some(&Idle::Park) {
                seen.push(backoff.next());
            }
            seen.dedup();
            assert_eq!(seen, [Idle::Spin, Idle::Yield, Idle::Park]);
            backoff.reset();
            assert_eq!(backoff.next(), Idle::Spin);
            let spins = 1 + (0..2000).filter(|_| backoff.next() == Idle::Spin).count();
            assert_eq!(spins, if crowded { 50 } else { 500 });
        }
    }
}
