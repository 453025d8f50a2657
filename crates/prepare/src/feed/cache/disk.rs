//! Decoded samples in a file that later runs use again.
//!
//! The file is written under a temporary name while the first epoch is read, and gets its own name when the last sample
//! is in it, synced: a run that is killed leaves nothing that could be taken for a whole cache. The owner of a temporary
//! file holds a lock on it, so that the next run can tell a dead one and remove it.

use super::file::Head;
use super::{Turns, as_within};
use paceline_base::{Error, text};
use paceline_data::{DataError, Result, Scratch, Source, Stage};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A source whose samples are decoded once and kept in a file.
pub struct DiskCache {
    of: Arc<dyn Source>,
    head: Head,
    path: PathBuf,
    file: File,
    sums: Vec<AtomicU32>,
    /// Whether a sample is in the file, and right as far as this run has seen.
    state: Vec<AtomicState>,
    /// Samples that are still missing; 0 once the file has its own name.
    missing: AtomicUsize,
    temporary: Mutex<Option<PathBuf>>,
    repaired: AtomicUsize,
    failed: AtomicBool,
    note: Option<String>,
    turns: Turns,
}

type AtomicState = std::sync::atomic::AtomicU8;
const ABSENT: u8 = 0;
const UNCHECKED: u8 = 1;
const GOOD: u8 = 2;
/// It cannot be decoded: the file goes without it, and whoever asks for it gets the error again.
const BAD: u8 = 3;

impl DiskCache {
    /// Around a source, with its file in `folder`; an earlier run's file is used if it is whole.
    ///
    /// # Errors
    /// If the folder or the file cannot be made, or the disk is too small.
    pub fn new(of: Arc<dyn Source>, folder: &Path) -> paceline_base::Result<Self> {
        fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, &e))?;
        let shape: Vec<String> = of.shape().iter().map(usize::to_string).collect();
        let key = format!("{} {}", of.fingerprint(), shape.join("x"));
        let path = folder.join(format!("{}.decoded", key.replace(' ', "-")));
        let head = Head { key, samples: of.len(), size: of.shape().iter().product() };
        remove_dead(folder, &path);
        let mut note = None;
        let opened = OpenOptions::new().read(true).write(true).open(&path).or_else(|_| File::open(&path));
        if let Ok(file) = opened {
            match head.read(&file).map_err(|e| Error::io("read", &path, &e))? {
                Ok(sums) => {
                    return Ok(Self {
                        state: sums.iter().map(|_| AtomicState::new(UNCHECKED)).collect(),
                        sums: sums.into_iter().map(AtomicU32::new).collect(),
                        missing: AtomicUsize::new(0),
                        temporary: Mutex::new(None),
                        repaired: AtomicUsize::new(0),
                        failed: AtomicBool::new(false),
                        turns: Turns::new(),
                        note: Some(format!("decoded samples are read from {}", path.display())),
                        of,
                        head,
                        path,
                        file,
                    });
                }
                Err(why) => note = Some(format!("the cache {} is made anew: {why}", path.display())),
            }
        }
        let (file, temporary) = begin(&path, &head)?;
        Ok(Self {
            sums: (0..head.samples).map(|_| AtomicU32::new(0)).collect(),
            state: (0..head.samples).map(|_| AtomicState::new(ABSENT)).collect(),
            missing: AtomicUsize::new(head.samples),
            temporary: Mutex::new(Some(temporary)),
            repaired: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            turns: Turns::new(),
            note,
            of,
            head,
            path,
            file,
        })
    }

    /// What a person should know: an earlier file that is used, or that is made anew.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// What became of the file: samples that were damaged and are right again, or why it is not kept.
    pub fn outcome(&self) -> Option<String> {
        let place = self.path.display();
        let repaired = self.repaired.load(SeqCst);
        if repaired > 0 {
            return Some(format!("{repaired} damaged samples in the cache {place} were decoded again"));
        }
        if self.failed.load(SeqCst) {
            return Some(format!(
                "the cache {place} could not be written (is the disk full?): samples were decoded again"
            ));
        }
        let missing = self.missing.load(SeqCst);
        (missing > 0).then(|| format!("the cache {place} is not kept: {missing} samples were not read in this run"))
    }

    /// Puts a decoded sample into the file; the last one gives the file its name.
    fn keep(&self, index: usize, bytes: &[u8]) {
        if self.failed.load(SeqCst) || self.state[index].load(SeqCst) != ABSENT {
            return;
        }
        if self.file.write_all_at(bytes, self.head.at(index)).is_err() {
            self.failed.store(true, SeqCst);
            return;
        }
        self.sums[index].store(crc32c::crc32c(bytes), SeqCst);
        self.settle(index, GOOD);
    }

    /// Leaves a hole in the file whose checksum never fits, so that a later run tries to decode the sample and fails too.
    fn keep_hole(&self, index: usize) {
        self.sums[index].store(!crc32c::crc32c(&vec![0; self.head.size]), SeqCst);
        self.settle(index, BAD);
    }

    fn settle(&self, index: usize, state: u8) {
        if self.state[index].compare_exchange(ABSENT, state, SeqCst, SeqCst).is_ok()
            && self.missing.fetch_sub(1, SeqCst) == 1
            && self.publish().is_err()
        {
            self.failed.store(true, SeqCst);
        }
    }

    fn publish(&self) -> std::io::Result<()> {
        let Some(temporary) = self.lock().take() else { return Ok(()) };
        let sums: Vec<u32> = self.sums.iter().map(|sum| sum.load(SeqCst)).collect();
        let written = self
            .file
            .write_all_at(&self.head.bytes(&sums), 0)
            .and_then(|()| self.file.sync_all())
            .and_then(|()| fs::rename(&temporary, &self.path));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written?;
        if let Some(folder) = self.path.parent() {
            File::open(folder)?.sync_all()?;
        }
        self.file.unlock()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<PathBuf>> {
        self.temporary.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Reads a sample back; false if it is not what was written.
    fn read(&self, index: usize, out: &mut [u8]) -> Result<bool> {
        let io = |source| DataError::Io { doing: "read", path: self.path.clone(), source };
        self.file.read_exact_at(out, self.head.at(index)).map_err(io)?;
        if self.state[index].load(SeqCst) == GOOD {
            return Ok(true);
        }
        let right = crc32c::crc32c(out) == self.sums[index].load(SeqCst);
        if right {
            self.state[index].store(GOOD, SeqCst);
        }
        Ok(right)
    }
}

/// A new file under a temporary name, locked.
fn begin(path: &Path, head: &Head) -> paceline_base::Result<(File, PathBuf)> {
    let temporary = path.with_extension(format!("{}.part", std::process::id()));
    let open = || {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&temporary)?;
        file.lock()?;
        file.set_len(head.file_len())?;
        Ok(file)
    };
    let size = text::bytes(head.file_len());
    let file =
        open().map_err(|e| Error::io("make room for the cache", &temporary, &e).context(format!("{size} needed")))?;
    Ok((file, temporary))
}

/// Removes temporary files of this cache whose writers are gone.
fn remove_dead(folder: &Path, path: &Path) {
    let stem = path.file_stem().unwrap_or_default();
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten().map(|entry| entry.path()) {
        let ours = entry.extension().is_some_and(|e| e == "part")
            && entry.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(stem.as_encoded_bytes()));
        if ours && File::open(&entry).is_ok_and(|file| !matches!(file.try_lock(), Err(TryLockError::WouldBlock))) {
            let _ = fs::remove_file(&entry);
        }
    }
}

impl Drop for DiskCache {
    fn drop(&mut self) {
        if let Some(temporary) = self.lock().take() {
            let _ = fs::remove_file(temporary);
        }
    }
}

as_within!(DiskCache);

impl Source for DiskCache {
    fn place(&self, index: usize) -> String {
        self.of.place(index)
    }

    fn stored(&self) -> &'static str {
        self.of.stored()
    }

    fn fetch(&self, index: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<()> {
        let present = || matches!(self.state[index].load(SeqCst), UNCHECKED | GOOD);
        // Only what is missing has to wait for its turn.
        let turn = if present() { None } else { Some(self.turns.take(index)) };
        if present() {
            drop(turn);
            let begin = Instant::now();
            let right = self.read(index, out)?;
            scratch.effort.add(Stage::Cache, begin);
            if right {
                return Ok(());
            }
            // Damaged since it was written: decode it, and put it right where the file may be written.
            self.of.fetch(index, scratch, out)?;
            self.repaired.fetch_add(1, SeqCst);
            if crc32c::crc32c(out) == self.sums[index].load(SeqCst)
                && self.file.write_all_at(out, self.head.at(index)).is_ok()
            {
                self.state[index].store(GOOD, SeqCst);
            }
            return Ok(());
        }
        if let Err(error) = self.of.fetch(index, scratch, out) {
            self.keep_hole(index);
            return Err(error);
        }
        let begin = Instant::now();
        self.keep(index, out);
        scratch.effort.add(Stage::Cache, begin);
        Ok(())
    }
}
