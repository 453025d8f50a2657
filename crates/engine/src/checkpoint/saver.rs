//! The thread that writes checkpoints while training goes on.
//!
//! It never holds training up: a snapshot that comes while the last one is still being written waits, and a newer one takes
//! its place. The best one waits in a place of its own, so that it is never lost to a newer, worse one.

use super::files::{self, Identity};
use super::gather::Snapshot;
use crate::train::Progress;
use paceline_base::{Error, Result};
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

struct Job {
    snapshot: Snapshot,
    progress: Progress,
}

#[derive(Default)]
struct Waiting {
    best: Option<Job>,
    last: Option<Job>,
    closed: bool,
    failed: Option<String>,
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
        let shared = Arc::new(Shared { waiting: Mutex::default(), bell: Condvar::new() });
        let theirs = shared.clone();
        let thread = std::thread::Builder::new()
            .name("checkpoint".into())
            .spawn(move || work(&theirs, &dir, keep.max(1), &identity))
            .map_err(|e| Error::failure(format!("cannot start the checkpoint thread: {e}")))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Hands over a snapshot.
    pub fn save(&self, snapshot: Snapshot, progress: Progress, best: bool) {
        let mut waiting = self.shared.lock();
        let job = Some(Job { snapshot, progress });
        let replaced = if best {
            let last = waiting.last.take().is_some();
            usize::from(waiting.best.take().is_some()) + usize::from(last)
        } else {
            usize::from(waiting.last.take().is_some())
        };
        waiting.replaced += replaced as u64;
        *if best { &mut waiting.best } else { &mut waiting.last } = job;
        self.shared.bell.notify_all();
    }

    /// An error of an earlier write, if there was one.
    pub fn check(&self) -> Result<()> {
        match &self.shared.lock().failed {
            Some(why) => Err(Error::failure(why.clone())),
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
            let _ = thread.join(); // a panic there was already turned into `failed`
        }
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        self.close();
    }
}

fn work(shared: &Shared, dir: &std::path::Path, keep: usize, identity: &Identity) {
    let mut best_step = None;
    loop {
        let mut waiting = shared.lock();
        let job = loop {
            if waiting.failed.is_some() {
                return;
            }
            if let Some(job) = waiting.best.take().or_else(|| waiting.last.take()) {
                break job;
            }
            if waiting.closed {
                return;
            }
            waiting = shared.bell.wait(waiting).unwrap_or_else(std::sync::PoisonError::into_inner);
        };
        drop(waiting);
        best_step = job.progress.best.map(|b| b.step).or(best_step);
        let mut marked = Ok(());
        let result = files::write(dir, &job.snapshot, job.progress, identity).and_then(|_| {
            // Before what it pointed to is removed.
            marked = best_step.map_or(Ok(()), |step| files::mark_best(dir, step));
            prune(dir, keep, best_step)
        });
        let mut waiting = shared.lock();
        // The link is for people; the best is known without it.
        waiting.unmarked = marked.err().map(|e| e.message().to_string());
        match result {
            Ok(()) => waiting.written += 1,
            Err(e) => {
                waiting.failed =
                    Some(format!("{}; earlier checkpoints are kept: continue later with --resume", e.message()));
            }
        }
    }
}

/// Removes all but the newest `keep` and the best.
fn prune(dir: &std::path::Path, keep: usize, best: Option<u64>) -> Result<()> {
    for (step, path) in files::list(dir)?.into_iter().skip(keep) {
        if Some(step) != best {
            fs::remove_dir_all(&path).map_err(|e| Error::io("remove", &path, &e))?;
        }
    }
    Ok(())
}
