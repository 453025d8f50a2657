//! The thread that writes checkpoints while training goes on.
//!
//! It never holds training up: a snapshot that comes while the last one is still being written waits, and a newer one takes
//! its place. The best one waits in a place of its own, so that it is never lost to a newer, worse one.
//!
//! What goes wrong there, a panic included, is an error of the run at its next snapshot and at its end.

use super::files::{self, Identity};
use super::gather::Snapshot;
use crate::state::TrainState;
use paceline_base::{Error, Kind, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

struct Request {
    snapshot: Snapshot,
    progress: TrainState,
}

#[derive(Default)]
struct Waiting {
    best: Option<Request>,
    last: Option<Request>,
    closed: bool,
    failed: Option<(Kind, String)>,
    written: u64,
    replaced: u64,
    unmarked: Option<String>,
}

struct Shared {
    waiting: Mutex<Waiting>,
    bell: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Counts of a finished saver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Checkpoints on disk.
    pub written: u64,
    /// Snapshots that a newer one replaced before they were written.
    pub replaced: u64,
    /// Why there is no link to the best one, where the file system has none.
    pub unmarked: Option<String>,
}

/// Writes checkpoints in the background.
pub struct Saver {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Saver {
    /// A saver into `dir` that keeps the newest `keep` and the best.
    pub fn new(dir: PathBuf, keep: usize, identity: Identity) -> Result<Self> {
        fs::create_dir_all(&dir).map_err(|e| Error::io("create", &dir, &e))?;
        files::sweep(&dir)?;
        let keep = keep.max(1);
        let mut best_step = None;
        Self::start(move |request| {
            best_step = request.progress.best.map(|b| b.step).or(best_step);
            files::write(&dir, &request.snapshot, request.progress, &identity)?;
            // Before what it pointed to is removed. The link is for people; the best is known without it.
            let marked = best_step.map_or(Ok(()), |step| files::mark_best(&dir, step));
            prune(&dir, keep, best_step)?;
            Ok(marked.err().map(|e| e.message().to_string()))
        })
    }

    /// The thread, with how it writes a checkpoint, which returns why the best could not be marked.
    fn start(write: impl FnMut(&Request) -> Result<Option<String>> + Send + 'static) -> Result<Self> {
        let shared = Arc::new(Shared { waiting: Mutex::default(), bell: Condvar::new() });
        let theirs = shared.clone();
        let thread = std::thread::Builder::new()
            .name("checkpoint".into())
            .spawn(move || work(&theirs, write))
            .map_err(|e| Error::failure(format!("cannot start the checkpoint thread: {e}")))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Hands over a snapshot.
    pub fn save(&self, snapshot: Snapshot, progress: TrainState, best: bool) {
        let mut waiting = self.shared.lock();
        let request = Some(Request { snapshot, progress });
        let replaced = if best {
            let last = waiting.last.take().is_some();
            usize::from(waiting.best.take().is_some()) + usize::from(last)
        } else {
            usize::from(waiting.last.take().is_some())
        };
        waiting.replaced += replaced as u64;
        *if best { &mut waiting.best } else { &mut waiting.last } = request;
        self.shared.bell.notify_all();
    }

    /// An error of an earlier write, if there was one.
    pub fn check(&self) -> Result<()> {
        match &self.shared.lock().failed {
            Some((kind, why)) => Err(Error::new(*kind, why.clone())),
            None => Ok(()),
        }
    }

    /// Writes what waits and ends.
    pub fn finish(mut self) -> Result<Written> {
        self.close();
        self.check()?;
        let waiting = self.shared.lock();
        Ok(Written { written: waiting.written, replaced: waiting.replaced, unmarked: waiting.unmarked.clone() })
    }

    fn close(&mut self) {
        self.shared.lock().closed = true;
        self.shared.bell.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic there is in `failed`, by `Gone`
        }
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        self.close();
    }
}

/// Leaves word when the thread panics.
struct Gone<'a>(&'a Shared);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let why = "the thread that writes checkpoints panicked; earlier checkpoints are kept";
            self.0.lock().failed.get_or_insert((Kind::Internal, why.into()));
        }
    }
}

fn work(shared: &Shared, mut write: impl FnMut(&Request) -> Result<Option<String>>) {
    let _gone = Gone(shared);
    loop {
        let mut waiting = shared.lock();
        let request = loop {
            if waiting.failed.is_some() {
                return;
            }
            if let Some(request) = waiting.best.take().or_else(|| waiting.last.take()) {
                break request;
            }
            if waiting.closed {
                return;
            }
            waiting = shared.bell.wait(waiting).unwrap_or_else(std::sync::PoisonError::into_inner);
        };
        drop(waiting);
        let result = write(&request);
        let mut waiting = shared.lock();
        match result {
            Ok(unmarked) => {
                waiting.written += 1;
                waiting.unmarked = unmarked;
            }
            Err(e) => {
                let why = format!("{}; earlier checkpoints are kept, from which the run can be resumed", e.message());
                waiting.failed = Some((Kind::Failure, why));
            }
        }
    }
}

/// Removes all but the newest `keep` and the best.
fn prune(dir: &Path, keep: usize, best: Option<u64>) -> Result<()> {
    for (step, path) in files::list(dir)?.into_iter().skip(keep) {
        if Some(step) != best {
            fs::remove_dir_all(&path).map_err(|e| Error::io("remove", &path, &e))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(step: u64) -> TrainState {
        TrainState { step, ..TrainState::default() }
    }

    #[test]
    fn a_panic_is_an_error_at_the_next_snapshot_and_at_the_end() {
        let (panics, after) = std::sync::mpsc::channel::<()>();
        let saver = Saver::start(move |request| {
            let _held = &panics; // gone when the thread is
            assert!(request.progress.step < 2, "injected");
            Ok(None)
        })
        .unwrap();
        saver.save(Snapshot::default(), progress(1), false);
        while saver.shared.lock().written == 0 {
            std::thread::yield_now();
        }
        saver.check().unwrap();
        saver.save(Snapshot::default(), progress(2), false);
        assert!(after.recv().is_err(), "it waits for the thread's end, and nothing is ever sent");
        let error = saver.check().unwrap_err();
        assert!(error.kind() == Kind::Internal && error.message().contains("panicked"), "{error}");
        // Nobody waits for a thread that is gone.
        saver.save(Snapshot::default(), progress(3), true);
        assert!(saver.finish().unwrap_err().message().contains("panicked"));
    }

    #[test]
    fn a_panic_at_the_last_snapshot_is_an_error_of_the_end() {
        let saver = Saver::start(|_| panic!("injected")).unwrap();
        saver.save(Snapshot::default(), progress(1), false);
        assert!(saver.finish().unwrap_err().message().contains("panicked"));
    }
}
