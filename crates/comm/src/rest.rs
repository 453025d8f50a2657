//! How a rank waits: spin, then give way, then sleep until a peer rings its bell.
//!
//! Spinning answers within a hundred nanoseconds when the peer is about to arrive; yielding keeps more ranks than
//! cores going; sleeping leaves the core to others in a long wait. Nobody oversleeps: a sleeper raises its flag,
//! *then* looks once more; a peer stores its news, *then* looks at the flags; and a sequentially consistent fence
//! between the two steps on both sides makes sure that one of them sees the other.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Sleeping never lasts longer, so that a deadline is noticed.
const LONGEST_NAP: Duration = Duration::from_millis(50);

/// Where the ranks of one hub sleep.
pub(crate) struct Dormitory {
    /// How many sleep or are about to: the one word that a busy rank looks at.
    sleepers: AtomicUsize,
    beds: Box<[Bed]>,
}

#[repr(align(128))]
#[derive(Default)]
struct Bed {
    asleep: AtomicBool,
    lock: Mutex<()>,
    bell: Condvar,
}

impl Dormitory {
    /// Beds for `ranks`.
    pub fn new(ranks: usize) -> Self {
        Self { sleepers: AtomicUsize::new(0), beds: (0..ranks).map(|_| Bed::default()).collect() }
    }

    /// Wakes `ranks` if they sleep and `worth_it`. To be called after the store that is the news.
    pub fn wake(&self, ranks: &[usize], worth_it: impl FnOnce() -> bool) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 && worth_it() {
            for &rank in ranks {
                self.beds[rank].ring();
            }
        }
    }

    /// Wakes everybody.
    pub fn wake_all(&self) {
        fence(Ordering::SeqCst);
        for bed in &self.beds {
            bed.ring();
        }
    }

    /// Raises the flag of `rank`. Then it must look once more for news, and [`sleep`](Self::sleep) or
    /// [`rise`](Self::rise).
    pub fn lie_down(&self, rank: usize) {
        self.beds[rank].asleep.store(true, Ordering::Relaxed);
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Sleeps until the bell, or for `at_most`.
    pub fn sleep(&self, rank: usize, at_most: Duration) {
        let bed = &self.beds[rank];
        let guard = bed.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let nap = at_most.min(LONGEST_NAP);
        drop(bed.bell.wait_timeout_while(guard, nap, |()| bed.asleep.load(Ordering::Relaxed)));
    }

    /// Lowers the flag.
    pub fn rise(&self, rank: usize) {
        self.beds[rank].asleep.store(false, Ordering::Relaxed);
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Bed {
    fn ring(&self) {
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            // Through the lock: the sleeper has either not looked at its flag yet, or already listens.
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.bell.notify_one();
        }
    }
}

/// What a rank with nothing to do does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Look again almost at once.
    Spin,
    /// Let another thread run first.
    Yield,
    /// Sleep until the bell.
    Sleep,
}

/// Fewest and most looks before giving way. A look takes some 50 ns, so the most is about 50 µs.
const SPINS: (u32, u32) = (50, 1000);

/// How long to give way before going to sleep. It must be longer than waking takes (some 50 µs): else two ranks that
/// once slept find each other asleep at every operation, for ever.
const YIELDING: Duration = Duration::from_micros(250);

/// How long a rank has been idle without any news, and how it rests meanwhile.
///
/// It learns: where spinning did not help (the peer computes for long, or waits for this very core) it spins less
/// the next time, and more again where it did.
pub(crate) struct Patience {
    rounds: u32,
    spins: u32,
    most: u32,
    since: Option<Instant>,
}

impl Patience {
    /// With fewer cores than ranks (`crowded`) the peer cannot run while we spin.
    pub fn new(crowded: bool) -> Self {
        let most = if crowded { SPINS.0 } else { SPINS.1 };
        Self { rounds: 0, spins: most, most, since: None }
    }

    /// There was news, or a new wait begins.
    pub fn renew(&mut self) {
        if self.rounds > self.spins {
            self.spins = (self.spins / 2).max(SPINS.0);
        } else if self.rounds > 0 {
            self.spins = (self.spins * 2).min(self.most);
        }
        (self.rounds, self.since) = (0, None);
    }

    /// What to do now.
    pub fn next(&mut self) -> Rest {
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds <= self.spins {
            Rest::Spin
        } else if self.idle() < YIELDING {
            Rest::Yield
        } else {
            Rest::Sleep
        }
    }

    /// Time without news, counted from the first question (asked only after the spinning).
    pub fn idle(&mut self) -> Duration {
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
    use std::sync::Arc;

    #[test]
    fn patience_spins_then_yields_then_sleeps_and_begins_again_after_news() {
        for crowded in [false, true] {
            let mut patience = Patience::new(crowded);
            let mut order = vec![patience.next()];
            while order.last() != Some(&Rest::Sleep) {
                order.push(patience.next());
            }
            order.dedup();
            assert_eq!(order, [Rest::Spin, Rest::Yield, Rest::Sleep]);
            patience.renew();
            assert_eq!(patience.next(), Rest::Spin);
            let spins = 1 + (0..2000).filter(|_| patience.next() == Rest::Spin).count();
            assert_eq!(spins, if crowded { 50 } else { 500 });
        }
    }

    /// A ring that is complete has woken whoever lay down before it: however long a thread is held up, that is true or false.
    #[test]
    fn no_ring_is_lost() {
        let house = Arc::new(Dormitory::new(1));
        let [news, rung, taken] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
        let rounds = 500;
        let sleeper = {
            let (house, news, rung, taken) = (house.clone(), news.clone(), rung.clone(), taken.clone());
            std::thread::spawn(move || {
                let mut lost = 0;
                for n in 1..=rounds {
                    while news.load(Ordering::Acquire) < n {
                        house.lie_down(0);
                        if news.load(Ordering::Acquire) < n {
                            house.sleep(0, LONGEST_NAP);
                            // Looked at in this order: the ring was over before, and yet the flag is up.
                            let over = rung.load(Ordering::Acquire) >= n;
                            lost += usize::from(over && house.beds[0].asleep.load(Ordering::Relaxed));
                        }
                        house.rise(0);
                    }
                    taken.store(n, Ordering::Release);
                }
                lost
            })
        };
        for n in 1..=rounds {
            if n % 3 == 0 {
                std::thread::yield_now(); // it may lie down first
            }
            news.store(n, Ordering::Release);
            house.wake(&[0], || true);
            rung.store(n, Ordering::Release);
            while taken.load(Ordering::Acquire) < n {
                std::thread::yield_now();
            }
        }
        assert_eq!(sleeper.join().unwrap(), 0);
    }
}
