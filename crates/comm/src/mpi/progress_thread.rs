//! The progress thread of a process: moves its operations on while its ranks compute, and parks when there is nothing to do.
//!
//! It does not spin beside ranks that compute: with as many ranks as cores every turn of it is taken from a kernel. While a
//! rank computes it looks, then parks for a few ten to a few hundred microseconds. A rank that waits makes progress
//! itself ([`ProgressThread::try_progress`]), without a change of threads; while all ranks wait, this thread is parked.
//! MPI moves data only inside its calls, so that nobody can sleep until something comes.

use super::priority;
use super::progress_state::ProgressState;
use super::submission::SubmissionQueue;
use paceline_base::{Error, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// The thread, and what it works on for whoever has time to make progress. Whoever drops it waits for its end, which comes
/// when all ranks of the process have left, or one of any process failed.
pub(super) struct ProgressThread {
    state: Arc<Mutex<ProgressState>>,
    /// None once it was waited for.
    handle: Option<std::thread::JoinHandle<()>>,
}

impl ProgressThread {
    /// Starts the thread for operations that are submitted to `queue`.
    pub(super) fn start(state: ProgressState, queue: Arc<SubmissionQueue>) -> Result<Self> {
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        let handle = std::thread::Builder::new()
            .name("progress".into())
            .spawn(move || {
                priority::run_soon();
                let body = std::panic::AssertUnwindSafe(|| run(&shared, &queue));
                if std::panic::catch_unwind(body).is_err() {
                    queue.fail("the communication thread panicked".into(), None);
                }
            })
            .map_err(|e| Error::failure(format!("cannot start the communication thread: {e}")))?;
        Ok(Self { state, handle: Some(handle) })
    }

    /// Makes progress on the thread of a rank that waits, unless somebody does already; how long there has been no news.
    pub(super) fn try_progress(&self) -> Option<Duration> {
        match self.state.try_lock() {
            Ok(mut state) => Some(state.advance()),
            Err(TryLockError::Poisoned(_) | TryLockError::WouldBlock) => None,
        }
    }
}

impl Drop for ProgressThread {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            let _ = handle.join(); // a panic there has failed the queue
        }
    }
}

/// The thread's body: makes progress until all ranks of the process have left, or one of any process failed.
fn run(state: &Mutex<ProgressState>, queue: &SubmissionQueue) {
    loop {
        if queue.all_wait() && !queue.all_left() && !queue.has_failed() {
            park(queue, Duration::from_millis(5), || !queue.all_wait()); // they do it themselves
            continue;
        }
        let mut at_work = lock(state);
        if queue.has_failed() {
            return at_work.give_up();
        }
        let news = at_work.advance().is_zero();
        if !news && at_work.is_over() {
            return at_work.announce_end();
        }
        let pause = if news { Duration::ZERO } else { at_work.next_pause() };
        let seen = at_work.seen;
        drop(at_work);
        if !pause.is_zero() {
            park(queue, pause, || queue.has_submitted(seen));
        }
    }
}

/// Parks this thread, until it is woken or for `at_most`; not at all if there is something `to_do`.
fn park(queue: &SubmissionQueue, at_most: Duration, to_do: impl Fn() -> bool) {
    let me = queue.local();
    queue.parker.prepare_to_park(me);
    if !to_do() && !queue.has_failed() {
        queue.parker.park(me, at_most);
    }
    queue.parker.finish_parking(me);
}

fn lock(state: &Mutex<ProgressState>) -> MutexGuard<'_, ProgressState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
