//! Where threads of one process that wait for each other sleep, and how they are woken.
//!
//! No wake-up is lost: a thread raises its flag, *then* looks once more before it parks; a peer stores its news, *then*
//! looks at the flags; and a sequentially consistent fence between the two steps on both sides makes sure that one of
//! them sees the other.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Parking never lasts longer, so that a deadline is noticed.
const LONGEST_PARK: Duration = Duration::from_millis(50);

/// Where the threads of one process that wait for each other park: ranks by number, and whoever else was counted in.
pub(crate) struct Parker {
    /// How many are parked or about to be: the one word that a busy rank looks at.
    count: AtomicUsize,
    slots: Box<[ParkSlot]>,
}

#[repr(align(128))]
#[derive(Default)]
struct ParkSlot {
    /// Parked, or about to be; lowered by whoever unparks it.
    parked: AtomicBool,
    lock: Mutex<()>,
    wakeup: Condvar,
}

impl Parker {
    /// Room for so many threads, by number.
    pub(crate) fn new(ranks: usize) -> Self {
        Self { count: AtomicUsize::new(0), slots: (0..ranks).map(|_| ParkSlot::default()).collect() }
    }

    /// Unparks `ranks` if any thread is parked and it is `worth_it`. To be called after the store that is the news.
    pub(crate) fn unpark(&self, ranks: &[usize], worth_it: impl FnOnce() -> bool) {
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::Relaxed) > 0 && worth_it() {
            for &rank in ranks {
                self.slots[rank].unpark();
            }
        }
    }

    /// Unparks all threads.
    pub(crate) fn unpark_all(&self) {
        fence(Ordering::SeqCst);
        for slot in &self.slots {
            slot.unpark();
        }
    }

    /// Raises the flag of `rank`. Then it must look once more for news, and [`park`](Self::park) or
    /// [`finish_parking`](Self::finish_parking).
    pub(crate) fn prepare_to_park(&self, rank: usize) {
        self.slots[rank].parked.store(true, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Sleeps until it is unparked, or for `at_most`.
    pub(crate) fn park(&self, rank: usize, at_most: Duration) {
        let slot = &self.slots[rank];
        let guard = slot.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = at_most.min(LONGEST_PARK);
        drop(slot.wakeup.wait_timeout_while(guard, limit, |()| slot.parked.load(Ordering::Relaxed)));
    }

    /// Lowers the flag.
    pub(crate) fn finish_parking(&self, rank: usize) {
        self.slots[rank].parked.store(false, Ordering::Relaxed);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ParkSlot {
    fn unpark(&self) {
        if self.parked.load(Ordering::Relaxed) && self.parked.swap(false, Ordering::Relaxed) {
            // Through the lock: the thread has either not looked at its flag yet, or already waits.
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.wakeup.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// An unpark that is complete has woken whoever prepared to park before it: however long a thread is held up, that is true or false.
    #[test]
    fn no_unpark_is_lost() {
        let parker = Arc::new(Parker::new(1));
        let [news, unparked, taken] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
        let rounds = 500;
        let waiter = {
            let (parker, news, unparked, taken) = (parker.clone(), news.clone(), unparked.clone(), taken.clone());
            std::thread::spawn(move || {
                let mut lost = 0;
                for n in 1..=rounds {
                    while news.load(Ordering::Acquire) < n {
                        parker.prepare_to_park(0);
                        if news.load(Ordering::Acquire) < n {
                            parker.park(0, LONGEST_PARK);
                            // Looked at in this order: the unpark was over before, and yet the flag is up.
                            let over = unparked.load(Ordering::Acquire) >= n;
                            lost += usize::from(over && parker.slots[0].parked.load(Ordering::Relaxed));
                        }
                        parker.finish_parking(0);
                    }
                    taken.store(n, Ordering::Release);
                }
                lost
            })
        };
        for n in 1..=rounds {
            if n % 3 == 0 {
                std::thread::yield_now(); // it may park first
            }
            news.store(n, Ordering::Release);
            parker.unpark(&[0], || true);
            unparked.store(n, Ordering::Release);
            while taken.load(Ordering::Acquire) < n {
                std::thread::yield_now();
            }
        }
        assert_eq!(waiter.join().unwrap(), 0);
    }
}
