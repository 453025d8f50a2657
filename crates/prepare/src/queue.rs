//! A bounded queue between two stages that knows how long each side waited.
//!
//! A full queue makes its producers wait, an empty one its consumers: that is what keeps memory bounded, and the two
//! waiting times are what tells which stage is the slow one.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A bounded first-in, first-out queue for any number of producers and consumers.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    capacity: usize,
    filled: Condvar,
    emptied: Condvar,
}

struct State<T> {
    items: VecDeque<T>,
    producers: usize,
    closed: bool,
}

impl<T> Queue<T> {
    /// A queue of at most `capacity` items that ends when `producers` of them have left.
    pub(crate) fn new(capacity: usize, producers: usize) -> Self {
        let state = State { items: VecDeque::with_capacity(capacity), producers, closed: false };
        Self { state: Mutex::new(state), capacity, filled: Condvar::new(), emptied: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an item in. Returns how long it had to wait, or nothing if the queue was closed and the item is dropped.
    pub(crate) fn put(&self, item: T) -> Option<Duration> {
        let mut state = self.lock();
        let mut waited = Duration::ZERO;
        if state.items.len() >= self.capacity && !state.closed {
            let begin = Instant::now();
            while state.items.len() >= self.capacity && !state.closed {
                state = self.emptied.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            waited = begin.elapsed();
        }
        if state.closed {
            return None;
        }
        state.items.push_back(item);
        drop(state);
        self.filled.notify_one();
        Some(waited)
    }

    /// Takes the next item out, with how long that had to wait; nothing when all producers have left or it was closed.
    pub(crate) fn take(&self) -> Option<(T, Duration)> {
        let mut state = self.lock();
        let mut waited = Duration::ZERO;
        if state.items.is_empty() && state.producers > 0 && !state.closed {
            let begin = Instant::now();
            while state.items.is_empty() && state.producers > 0 && !state.closed {
                state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            waited = begin.elapsed();
        }
        if state.closed {
            return None;
        }
        let item = state.items.pop_front()?;
        drop(state);
        self.emptied.notify_one();
        Some((item, waited))
    }

    /// A producer leaves.
    pub(crate) fn leave(&self) {
        let mut state = self.lock();
        state.producers -= 1;
        if state.producers == 0 {
            drop(state);
            self.filled.notify_all();
        }
    }

    /// Ends everything at once: waiting sides wake up, items are dropped.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.items.clear();
        drop(state);
        self.filled.notify_all();
        self.emptied.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_arrives_once_and_never_more_than_fits() {
        let queue = Queue::new(3, 2);
        let mut seen = Vec::new();
        std::thread::scope(|scope| {
            for part in 0..2 {
                let queue = &queue;
                scope.spawn(move || {
                    (0..500).for_each(|i| assert!(queue.put(part * 500 + i).is_some()));
                    queue.leave();
                });
            }
            while let Some((item, _)) = queue.take() {
                assert!(queue.lock().items.len() <= 3);
                seen.push(item);
            }
        });
        seen.sort_unstable();
        assert_eq!(seen, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn closing_wakes_both_sides() {
        let (full, empty) = (Queue::new(1, 1), Queue::<u8>::new(1, 1));
        full.put(1);
        std::thread::scope(|scope| {
            let putting = scope.spawn(|| full.put(2));
            let taking = scope.spawn(|| empty.take());
            std::thread::sleep(Duration::from_millis(20));
            full.close();
            empty.close();
            assert!(putting.join().unwrap().is_none());
            assert!(taking.join().unwrap().is_none());
        });
    }
}
