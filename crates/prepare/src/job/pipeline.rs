//! The stages on threads: read → decode, resize, encode → write → seal, with bounded queues between them.
//!
//! Images are claimed in the order of the records, worked on in any order, and put back in order before they are
//! written: so the bytes of a shard do not depend on the number of threads. What is between claiming and writing is
//! bounded in number and in bytes, and the one that is due next always holds its permit: nothing can lock up.
//!
//! A panic on any of the threads ends the job with an error that names the stage and the image: nothing waits for a
//! thread that is gone, and what is not finished is removed.
//!
//! A worker takes an image through decode, resize and encode in one go, because the pixels are then still in its
//! caches; the three are timed apart.

use super::SettingError;
use super::bad_image::BadImage;
use super::manifest::{Items, Manifest};
use super::output_directory::FinishedShard;
use super::record_maker::{Clocks, RecordMaker};
use super::setting::JobError;
use super::shard_writer::ShardWriter;
use crate::panic::{self, caught, point};
use crate::queue::Queue;
use crate::stage::Clock;
use paceline_base::stage::{Stage, StageFigures};
use paceline_base::{Error, Result};
use paceline_data::LARGEST_IMAGE;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// Bytes of image files that may be under way at once (one file may always be).
const BYTES_UNDER_WAY: u64 = 64 << 20;
/// Images under way for each worker: enough to ride over a slow write, few enough to stay small.
const UNDER_WAY: usize = 32;

/// How the work is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// Threads that read files.
    pub readers: usize,
    /// Threads that decode, resize and encode.
    pub workers: usize,
}

/// What a watcher is told, some times a second.
#[derive(Clone, Debug, Default)]
pub struct JobProgress {
    /// Images handled, left out ones included; those of shards that were finished before are not counted.
    pub images: u64,
    /// Images to be handled.
    pub total: u64,
    /// Bytes of image files read.
    pub bytes_read: u64,
    /// Bytes of records written.
    pub bytes_written: u64,
    /// Seconds since the beginning.
    pub seconds: f64,
    /// Work and waiting of each stage since the beginning.
    pub stages: Vec<StageFigures>,
}

/// An image file, read.
struct ImageFile {
    number: u64,
    path: PathBuf,
    class: usize,
    permit: u64,
    bytes: Result<Vec<u8>, BadImage>,
}

/// An image, made.
struct MadeRecord {
    number: u64,
    class: usize,
    permit: u64,
    read: u64,
    record: Result<Vec<u8>, BadImage>,
}

/// How many images and bytes are under way.
struct Permits {
    held: Mutex<(usize, u64)>,
    given_back: Condvar,
    images: usize,
}

impl Permits {
    fn lock(&self) -> MutexGuard<'_, (usize, u64)> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until an image of so many bytes may be read.
    fn take(&self, bytes: u64, over: &AtomicBool) {
        let mut held = self.lock();
        while held.0 > 0 && (held.0 >= self.images || held.1 + bytes > BYTES_UNDER_WAY) && !over.load(Ordering::Relaxed)
        {
            // With a limit, so that an end that is announced between the two is noticed too.
            let waited = self.given_back.wait_timeout(held, Duration::from_millis(100));
            held = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *held = (held.0 + 1, held.1 + bytes);
    }

    fn give_back(&self, bytes: u64) {
        let mut held = self.lock();
        *held = (held.0 - 1, held.1 - bytes);
        drop(held);
        self.given_back.notify_all();
    }
}

/// The images of the shards that are still to be made, in order.
struct Claims {
    items: Items,
    shards: VecDeque<usize>,
    left: usize,
    number: u64,
}

struct Shared<'a> {
    manifest: &'a Manifest,
    claims: Mutex<Claims>,
    permits: Permits,
    raw: Queue<ImageFile>,
    made: Queue<MadeRecord>,
    read: Clock,
    clocks: Clocks,
    write: Clock,
    handled: AtomicU64,
    /// No more images are to be claimed: it is stopped, or has failed.
    over: AtomicBool,
    /// The first panic, as an error.
    panicked: Mutex<Option<Error>>,
}

/// Ends the pipeline when it goes, however that comes about: so no thread is left waiting for those that it held up.
struct Ending<'a, 'b>(&'a Shared<'b>);

impl Drop for Ending<'_, '_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Makes the `pending` shards of a job. `skip` more bad images may be left out.
pub(super) fn run(
    work: &Path,
    manifest: &Manifest,
    pending: &[usize],
    threads: Threads,
    skip: usize,
    watch: &mut dyn FnMut(&JobProgress),
    stop: &AtomicBool,
) -> Result<(Vec<FinishedShard>, JobProgress), JobError> {
    let begin = Instant::now();
    let total: usize = pending.iter().map(|&s| manifest.shards[s].images).sum();
    let shared = Shared {
        manifest,
        claims: Mutex::new(Claims {
            items: Items::open(work)?,
            shards: pending.iter().copied().collect(),
            left: 0,
            number: 0,
        }),
        permits: Permits {
            held: Mutex::new((0, 0)),
            given_back: Condvar::new(),
            images: UNDER_WAY * (threads.workers + 1),
        },
        raw: Queue::new(4 * threads.workers, threads.readers),
        made: Queue::new(4 * threads.workers, threads.workers),
        read: Clock::default(),
        clocks: Clocks::default(),
        write: Clock::default(),
        handled: AtomicU64::new(0),
        over: AtomicBool::new(false),
        panicked: Mutex::new(None),
    };
    let live = || JobProgress {
        images: shared.handled.load(Ordering::Relaxed),
        total: total as u64,
        bytes_read: shared.read.bytes(),
        bytes_written: shared.write.bytes(),
        seconds: begin.elapsed().as_secs_f64(),
        stages: vec![
            shared.read.figures(Stage::Read, threads.readers),
            shared.clocks.decode.figures(Stage::Decode, threads.workers),
            shared.clocks.resize.figures(Stage::Resize, threads.workers),
            shared.clocks.encode.figures(Stage::Encode, threads.workers),
            shared.write.figures(Stage::Write, 1),
        ],
    };
    let result = std::thread::scope(|scope| {
        // Also when `watch` panics, or a thread cannot be started.
        let _ending = Ending(&shared);
        let named = |stage: Stage| std::thread::Builder::new().name(stage.name().into());
        let refused = |e: std::io::Error| JobError::from(SettingError::Threads { why: e.to_string() });
        for _ in 0..threads.readers {
            named(Stage::Read)
                .spawn_scoped(scope, || shared.guard(Stage::Read, Shared::read_files))
                .map_err(refused)?;
        }
        for _ in 0..threads.workers {
            named(Stage::Decode)
                .spawn_scoped(scope, || shared.guard(Stage::Decode, Shared::make_records))
                .map_err(refused)?;
        }
        let (to_seal, sealing) = mpsc::sync_channel::<ShardWriter>(2);
        let shared = &shared;
        let seal = move || sealing.into_iter().map(|open| shared.seal(open)).collect::<Result<Vec<FinishedShard>>>();
        let sealer = named(Stage::Seal).spawn_scoped(scope, seal).map_err(refused)?;
        let write = move || {
            let _ending = Ending(shared);
            let at = Cell::new(Path::new(""));
            let written = caught(|| shared.write_shards(work, pending, skip, &to_seal, &at));
            written.unwrap_or_else(|why| Err(panic::error(Stage::Write.name(), at.get().display(), &why).into()))
        };
        let writer = named(Stage::Write).spawn_scoped(scope, write).map_err(refused)?;
        while !writer.is_finished() {
            std::thread::park_timeout(Duration::from_millis(50));
            if stop.load(Ordering::Relaxed) {
                shared.end();
            }
            watch(&live());
        }
        let gone = |stage: Stage| {
            move |panic: Box<dyn std::any::Any + Send>| {
                panic::error(stage.name(), work.display(), &panic::message(&*panic))
            }
        };
        let written = writer.join().map_err(gone(Stage::Write))?;
        let sealed = sealer.join().map_err(gone(Stage::Seal))?;
        written?;
        Ok(sealed?)
    });
    let live = live();
    watch(&live);
    if let Some(panicked) = shared.panicked.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(panicked.into());
    }
    result.map(|done| (done, live))
}

impl Shared<'_> {
    /// Ends everything: at the end, on request, or after a failure.
    fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.raw.close();
        self.made.close();
        self.permits.given_back.notify_all();
    }

    /// Ends everything because of a panic; the first one is told.
    fn fail(&self, error: Error) {
        self.panicked.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.end();
    }

    /// The whole life of a thread: a panic between items ends the job too.
    fn guard(&self, stage: Stage, life: impl FnOnce(&Self)) {
        if let Err(why) = caught(|| life(self)) {
            self.fail(panic::error(stage.name(), self.manifest.source.display(), &why));
        }
    }

    fn claim(&self) -> Option<ImageFile> {
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        if self.over.load(Ordering::Relaxed) {
            return None;
        }
        let mut damage = None;
        if claims.left == 0 {
            let shard = claims.shards.pop_front()?;
            claims.left = self.manifest.shards[shard].images;
            damage = claims.items.seek(&self.manifest.shards[shard]).err();
        }
        let item = match damage {
            Some(e) => Err(e),
            None => claims.items.next(),
        };
        let number = claims.number;
        claims.left -= 1;
        claims.number += 1;
        let raw = match item {
            Ok(item) => {
                // The true size is found out when it is read; this bounds what is under way.
                let size = std::fs::metadata(&item.path).map_or(0, |m| m.len()).min(LARGEST_IMAGE);
                ImageFile { number, path: item.path, class: item.class as usize, permit: size, bytes: Ok(Vec::new()) }
            }
            Err(e) => ImageFile {
                number,
                path: PathBuf::new(),
                class: 0,
                permit: 0,
                bytes: Err(BadImage::NotListed { why: e.message().to_string() }),
            },
        };
        // Still under the lock: permits go out in the order of the records.
        let begin = Instant::now();
        self.permits.take(raw.permit, &self.over);
        self.read.blocked(begin.elapsed());
        Some(raw)
    }

    fn read_files(&self) {
        while let Some(mut raw) = self.claim() {
            if raw.bytes.is_ok() {
                let begin = Instant::now();
                let read = caught(|| {
                    point(Stage::Read.name(), raw.path.display());
                    read_file(&raw.path, raw.permit)
                });
                match read {
                    Ok(bytes) => raw.bytes = bytes,
                    Err(why) => return self.fail(panic::error(Stage::Read.name(), raw.path.display(), &why)),
                }
                self.read.worked(raw.bytes.as_ref().map_or(0, Vec::len), begin.elapsed());
            }
            match self.raw.put(raw) {
                Some(waited) => self.read.blocked(waited),
                None => break,
            }
        }
        self.raw.leave();
    }

    fn make_records(&self) {
        let mut maker = RecordMaker::new(&self.manifest.settings, &self.manifest.classes, &self.clocks);
        while let Some((raw, starved)) = self.raw.take() {
            let read = raw.bytes.as_ref().map_or(0, Vec::len) as u64;
            let record = raw.bytes.map(|bytes| {
                let mut record = Vec::new();
                let made = caught(|| {
                    point(Stage::Decode.name(), raw.path.display());
                    maker.make(&bytes, raw.class, &mut record)
                });
                made.map(|made| made.map(|()| record).map_err(|e| BadImage::undecodable(&raw.path, e)))
            });
            // A panic is a bug, not a bad image: it is never one of those that may be left out.
            let record = match record {
                Ok(Ok(record)) => record,
                Ok(Err(why)) => return self.fail(panic::error(maker.stage().name(), raw.path.display(), &why)),
                Err(why) => Err(why),
            };
            let made = MadeRecord { number: raw.number, class: raw.class, permit: raw.permit, read, record };
            let Some(blocked) = self.made.put(made) else { break };
            maker.waited(starved, blocked);
        }
        self.made.leave();
    }

    /// Gives a shard its name; a panic leaves nothing of it.
    fn seal(&self, shard: ShardWriter) -> Result<FinishedShard> {
        let name = shard.name().to_string();
        let sealed = caught(|| {
            point(Stage::Seal.name(), &name);
            shard.seal()
        });
        sealed.unwrap_or_else(|why| Err(panic::error(Stage::Seal.name(), &name, &why)))
    }

    /// Puts records back in order and writes them. Which bad image is one too many is decided here, in order, so it is
    /// the same one whatever the number of threads. `at` is set to the shard at hand.
    fn write_shards<'a>(
        &'a self,
        work: &Path,
        pending: &[usize],
        mut skip: usize,
        to_seal: &mpsc::SyncSender<ShardWriter>,
        at: &Cell<&'a Path>,
    ) -> Result<(), JobError> {
        let mut early: BTreeMap<u64, MadeRecord> = BTreeMap::new();
        let mut due = 0u64;
        for &index in pending {
            let planned = &self.manifest.shards[index];
            at.set(Path::new(&planned.file));
            point(Stage::Write.name(), work.join(&planned.file).display());
            let mut shard =
                ShardWriter::begin(work, planned, self.manifest.classes.len(), self.manifest.settings.packing)?;
            for _ in 0..planned.images {
                let made = loop {
                    if let Some(made) = early.remove(&due) {
                        break made;
                    }
                    let Some((made, starved)) = self.made.take() else {
                        let words = "stopped; finished shards are kept: run the same command again and it continues";
                        return Err(Error::stopped(words).into());
                    };
                    self.write.starved(starved);
                    early.insert(made.number, made);
                };
                due += 1;
                let begin = Instant::now();
                match made.record {
                    Ok(record) => {
                        shard.push(&record, made.class, made.read)?;
                        self.write.worked(record.len() + 16, begin.elapsed());
                    }
                    Err(bad) if skip == 0 => return Err(SettingError::BadImage { why: bad.to_string() }.into()),
                    Err(bad) => {
                        skip -= 1;
                        shard.skip(bad.to_string());
                    }
                }
                self.permits.give_back(made.permit);
                self.handled.fetch_add(1, Ordering::Relaxed);
            }
            let begin = Instant::now();
            if to_seal.send(shard).is_err() {
                return Ok(()); // sealing failed: the sealer says why
            }
            self.write.blocked(begin.elapsed());
        }
        Ok(())
    }
}

/// Reads a file of the size that it was said to have, or a little more.
fn read_file(path: &Path, size: u64) -> Result<Vec<u8>, BadImage> {
    let failed = |e: std::io::Error| BadImage::unreadable(path, &e);
    let mut bytes = Vec::with_capacity(size as usize + 1);
    let file = paceline_data::open_regular(path).map_err(failed)?;
    file.take(LARGEST_IMAGE + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST_IMAGE {
        return Err(BadImage::too_large(path));
    }
    if bytes.is_empty() {
        return Err(BadImage::empty(path));
    }
    Ok(bytes)
}
