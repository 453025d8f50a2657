//! Writing `steps.jsonl` without slowing training.
//!
//! Records are `Copy` and go into a queue whose memory is taken once; a background thread turns them into lines. The
//! training thread never allocates, never blocks and never wakes anybody: the writer looks into the queue by itself.
//! When the queue is full the record is dropped and counted, and the file says so at its end. When writing fails the
//! first error is kept, for [`StepWriter::check`] and [`StepWriter::finish`] to return; a panic of the thread is such an
//! error, from the moment it happens.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use paceline_base::{Error, Kind, Result};

use crate::line::Line;
use crate::{EpochRecord, Header, StepRecord};

/// At 200 records a second this is twenty seconds of a stalled disk.
const QUEUE: usize = 4096;
/// How often the writer looks into the queue.
const LOOK: Duration = Duration::from_millis(20);
/// How long a record may stay in memory.
const FLUSH: Duration = Duration::from_millis(250);

/// A file that can be written and brought to the disk.
pub(crate) trait SyncWrite: Write + Send {
    fn sync(&self) -> std::io::Result<()>;
}

impl SyncWrite for std::fs::File {
    fn sync(&self) -> std::io::Result<()> {
        self.sync_data()
    }
}

/// What a finished writer did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Step and epoch records that are in the file.
    pub records: u64,
    /// Records that found the queue full.
    pub dropped: u64,
}

impl Written {
    /// A sentence for the summary's warnings, if records are missing.
    pub fn warning(&self) -> Option<String> {
        (self.dropped > 0).then(|| {
            format!(
                "{} step records were dropped because the disk could not keep up; the curves of steps have gaps, the \
                 training has not. Raise record.every",
                self.dropped
            )
        })
    }
}

#[derive(Clone, Copy)]
enum Item {
    Step(StepRecord),
    Epoch(EpochRecord),
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    failed: AtomicBool,
    dropped: AtomicU64,
    records: AtomicU64,
    error: Mutex<Option<(Kind, String)>>,
    notes: Mutex<Vec<String>>,
    /// How often [`StepWriter::flush`] was asked for.
    asked: AtomicU64,
    /// How many of these are answered, and whether the thread has ended.
    answered: Mutex<(u64, bool)>,
    answer: Condvar,
}

/// The one writer of a run's `steps.jsonl`. It can be shared by reference between threads.
pub struct StepWriter {
    queue: SyncSender<Item>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    attempt: u32,
}

impl StepWriter {
    /// Writes the header at once, so that a folder that cannot be written is known before training, then starts.
    pub(crate) fn start(file: Box<dyn SyncWrite>, path: PathBuf, header: Header) -> Result<Self> {
        let mut out = BufWriter::with_capacity(64 * 1024, file);
        write_line(&mut out, &Line::Steps(header))
            .and_then(|()| out.flush())
            .map_err(|e| Error::io("write", &path, &e))?;
        let (queue, received) = sync_channel(QUEUE);
        let shared = Arc::new(Shared::default());
        let thread = thread::Builder::new()
            .name("paceline-record".into())
            .spawn({
                let shared = Arc::clone(&shared);
                move || drain(&received, out, &path, &shared)
            })
            .map_err(|e| Error::failure(format!("cannot start the thread that writes records: {e}")))?;
        Ok(Self { queue, shared, thread: Some(thread), attempt: header.attempt })
    }

    /// The attempt that this writer records.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Hands over a record; neither allocates nor blocks. The attempt number is filled in.
    pub fn push(&self, mut record: StepRecord) {
        record.attempt = self.attempt;
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.queue.try_send(Item::Step(record)) {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Hands over the record of an epoch. These are few and are never dropped: it waits for a place in the queue.
    pub fn push_epoch(&self, mut record: EpochRecord) {
        record.attempt = self.attempt;
        if self.queue.send(Item::Epoch(record)).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all that was handed over before is in the file, where a killed process cannot lose it. Call it before
    /// a checkpoint: what came before the checkpoint will not be done, and so not be recorded, again.
    pub fn flush(&self) {
        let ticket = self.shared.asked.fetch_add(1, Ordering::AcqRel) + 1;
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
        let mut answered = self.shared.answered.lock().unwrap_or_else(PoisonError::into_inner);
        while answered.0 < ticket && !answered.1 {
            answered = self.shared.answer.wait(answered).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Adds a remark that readers show.
    pub(crate) fn note(&self, text: impl Into<String>) {
        self.shared.notes.lock().unwrap_or_else(PoisonError::into_inner).push(text.into());
    }

    /// The first error of writing, if there was one. Cheap enough for every step.
    pub fn check(&self) -> Result<()> {
        if !self.shared.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        match &*self.shared.error.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((kind, message)) => Err(Error::new(*kind, message.clone())),
            None => Err(Error::internal("the record writer failed without a reason")),
        }
    }

    /// Writes all that is queued, syncs, and ends.
    pub fn finish(mut self) -> Result<Written> {
        self.join();
        self.check()?;
        Ok(Written {
            records: self.shared.records.load(Ordering::Relaxed),
            dropped: self.shared.dropped.load(Ordering::Relaxed),
        })
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.shared.stop.store(true, Ordering::Release);
            thread.thread().unpark();
            let _ = thread.join(); // a panic is kept as the error by `EndGuard`
        }
    }
}

impl Drop for StepWriter {
    fn drop(&mut self) {
        self.join();
    }
}

fn keep(shared: &Shared, kind: Kind, message: String) {
    let mut error = shared.error.lock().unwrap_or_else(PoisonError::into_inner);
    error.get_or_insert((kind, message));
    shared.failed.store(true, Ordering::Release);
}

/// Tells all who wait in [`StepWriter::flush`] that the thread is gone, also when it panics.
struct EndGuard<'a>(&'a Shared);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            keep(
                self.0,
                Kind::Internal,
                "the thread that writes steps.jsonl panicked; later steps were not recorded".into(),
            );
        }
        self.0.answered.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.0.answer.notify_all();
    }
}

/// The background thread.
fn drain(queue: &Receiver<Item>, mut out: BufWriter<Box<dyn SyncWrite>>, path: &std::path::Path, shared: &Shared) {
    let _end = EndGuard(shared);
    let mut flushed = Instant::now();
    let (mut dirty, mut answered) = (false, 0);
    loop {
        // Read before draining, so that all that was pushed before the stop is still written.
        let (stop, asked) = (shared.stop.load(Ordering::Acquire), shared.asked.load(Ordering::Acquire));
        let mut result = Ok(());
        while let Ok(item) = queue.try_recv() {
            // After an error the queue is still emptied: an epoch must not wait for ever.
            if shared.failed.load(Ordering::Relaxed) || result.is_err() {
                continue;
            }
            let line = match item {
                Item::Step(record) => Line::Step(record),
                Item::Epoch(record) => Line::Epoch(record),
            };
            result = write_line(&mut out, &line);
            if result.is_ok() {
                shared.records.fetch_add(1, Ordering::Relaxed);
                dirty = true;
            }
        }
        let mut notes = std::mem::take(&mut *shared.notes.lock().unwrap_or_else(PoisonError::into_inner));
        let dropped = shared.dropped.load(Ordering::Relaxed);
        if stop && dropped > 0 {
            notes.extend(Written { records: 0, dropped }.warning());
        }
        if !shared.failed.load(Ordering::Relaxed) {
            for text in notes {
                result = result.and_then(|()| write_line(&mut out, &Line::Note { text }));
                dirty = true;
            }
            if stop || (dirty && (asked > answered || flushed.elapsed() >= FLUSH)) {
                result = result.and_then(|()| out.flush());
                (flushed, dirty) = (Instant::now(), false);
            }
            if stop && result.is_ok() {
                result = out.get_ref().sync();
            }
        }
        if let Err(error) = result {
            let error = Error::io("write", path, &error);
            keep(shared, error.kind(), error.message().to_string());
        }
        if asked > answered {
            answered = asked;
            shared.answered.lock().unwrap_or_else(PoisonError::into_inner).0 = asked;
            shared.answer.notify_all();
        }
        if stop {
            break;
        }
        thread::park_timeout(LOOK);
    }
    if shared.failed.load(Ordering::Relaxed) {
        // Dropping the buffer would try the failed write once more.
        let _ = out.into_parts();
    }
}

fn write_line(out: &mut impl Write, line: &Line) -> std::io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header { format: 1, attempt: 3, start_step: 0, started: 0 }
    }

    /// A disk that fills up after so many bytes.
    struct Filling(usize);

    impl Write for Filling {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.0 < bytes.len() {
                return Err(std::io::ErrorKind::StorageFull.into());
            }
            self.0 -= bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl SyncWrite for Filling {
        fn sync(&self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_said_before_training_begins() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device that is always full");
        let error = StepWriter::start(Box::new(full), "/dev/full".into(), header()).err().unwrap();
        assert_eq!(error.kind(), Kind::Failure);
        assert!(error.message().contains("/dev/full: the disk is full; free some space"), "{error}");
    }

    #[test]
    fn a_disk_that_fills_up_is_said_while_training() {
        let writer = StepWriter::start(Box::new(Filling(500)), "steps.jsonl".into(), header()).unwrap();
        writer.check().unwrap();
        let start = Instant::now();
        while writer.check().is_ok() && start.elapsed() < Duration::from_secs(600) {
            writer.push(StepRecord::default());
            thread::sleep(Duration::from_millis(1));
        }
        assert!(writer.check().unwrap_err().message().contains("the disk is full"));
        // Nothing blocks afterwards, however much is pushed.
        (0..3 * QUEUE).for_each(|_| writer.push_epoch(EpochRecord::default()));
        assert!(writer.finish().unwrap_err().message().contains("steps.jsonl"));
    }

    #[test]
    fn what_is_flushed_is_in_the_file() {
        let path = std::env::temp_dir().join(format!("paceline-flush-{}", std::process::id()));
        let writer =
            StepWriter::start(Box::new(std::fs::File::create(&path).unwrap()), path.clone(), header()).unwrap();
        for epoch in 1..50 {
            writer.push_epoch(EpochRecord { epoch, ..EpochRecord::default() });
            writer.flush();
            assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count() as u64, 1 + epoch);
        }
        writer.finish().unwrap();
        std::fs::remove_file(path).unwrap();
        // A failed writer does not hold anybody up.
        let failing = StepWriter::start(Box::new(Filling(200)), "steps.jsonl".into(), header()).unwrap();
        (0..9).for_each(|_| failing.push_epoch(EpochRecord::default()));
        failing.flush();
        failing.flush();
        assert!(failing.check().is_err());
    }

    #[test]
    fn a_panic_of_the_thread_is_an_error_at_once_and_holds_nobody_up() {
        struct Panicking(bool);
        impl Write for Panicking {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                assert!(!std::mem::replace(&mut self.0, true), "injected");
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        impl SyncWrite for Panicking {
            fn sync(&self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let writer = StepWriter::start(Box::new(Panicking(false)), "steps.jsonl".into(), header()).unwrap();
        writer.push(StepRecord::default());
        writer.flush();
        let error = writer.check().unwrap_err();
        assert!(error.kind() == Kind::Internal && error.message().contains("panicked"), "{error}");
        (0..3 * QUEUE).for_each(|_| writer.push_epoch(EpochRecord::default()));
        writer.flush();
        assert!(writer.finish().unwrap_err().message().contains("panicked"));
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        /// A disk that takes its time.
        struct Slow(std::sync::mpsc::Receiver<()>, bool);
        impl Write for Slow {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                if std::mem::replace(&mut self.1, true) {
                    let _ = self.0.recv();
                }
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        impl SyncWrite for Slow {
            fn sync(&self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let (release, gate) = std::sync::mpsc::channel();
        let writer = StepWriter::start(Box::new(Slow(gate, false)), "slow".into(), header()).unwrap();
        // More than queue, buffer and the writer's hands can hold.
        let pushed = 3 * QUEUE as u64;
        // The disk stands still until it is released below: if pushing waited for it, this would never end.
        (0..pushed).for_each(|step| writer.push(StepRecord { step, ..StepRecord::default() }));
        assert!(writer.shared.dropped.load(Ordering::Relaxed) > 0);
        drop(release);
        let written = writer.finish().unwrap();
        assert_eq!(written.records + written.dropped, pushed);
        assert!(written.warning().unwrap().contains("dropped"));
    }
}
