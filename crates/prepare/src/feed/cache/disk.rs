//! Decoded samples in a file that later runs use again.
//!
//! The file is written under a temporary name of its own ([`owner`](super::owner)) while the first epoch is read, and gets
//! its final name when the last sample is in it, synced: a run that is killed leaves nothing that could be taken for a whole
//! cache. Two that fill the same cache at once both decode; the first to finish names its file.
//!
//! The name is made of what stands for the data ([`Source::cache_key`]). That is no proof: before a file is used some of its samples are
//! compared with the source, and if one differs the file is made anew. Whoever has a whole file open holds a shared lock on it, so that
//! `paceline data cache --clear` can tell.

use super::Turns;
use super::file::{Head, Unfit};
use super::owner::{self, SIGN};
use paceline_base::stage::Stage;
use paceline_base::{Error, text};
use paceline_data::{Labelled, Result, Scratch, Source, forward_to};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

/// What whole files end in.
pub(super) const WHOLE: &str = "decoded";
/// Samples that are compared with the source before a file is used.
const COMPARED: usize = 16;

/// A source whose samples are decoded once and kept in a file.
pub struct DiskCache {
    of: Arc<dyn Source>,
    head: Head,
    path: PathBuf,
    file: File,
    /// A file under the final name that this one is made in place of.
    rejected: Option<(u64, u64)>,
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
    opened: Instant,
    /// Seconds from `opened` to the last sign of life.
    signed: AtomicU64,
}

type AtomicState = std::sync::atomic::AtomicU8;
const ABSENT: u8 = 0;
const UNCHECKED: u8 = 1;
const GOOD: u8 = 2;
/// It cannot be decoded: the file goes without it, and whoever asks for it gets the error again.
const BAD: u8 = 3;

impl DiskCache {
    /// Around a source, with its file in `folder`; an earlier run's file is used if it is whole and holds the same samples.
    /// `what` says to people what data it is.
    ///
    /// # Errors
    /// If the folder or the file cannot be made, the disk is too small, or a newer version wrote the file.
    pub fn new(of: Arc<dyn Source>, folder: &Path, what: &str) -> paceline_base::Result<Self> {
        fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, &e))?;
        let shape: Vec<String> = of.shape().iter().map(usize::to_string).collect();
        let key = format!("{} {}", of.cache_key(), shape.join("x"));
        let name: String = key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let path = folder.join(format!("{name}.{WHOLE}"));
        let head = Head::new(key, of.len(), of.shape().iter().product(), what);
        owner::remove_dead(folder);
        let (mut note, mut rejected) = (None, None);
        if let Some(file) = open_whole(&path) {
            let io = |e| Error::io("read", &path, &e);
            let why = match head.read(&file).map_err(io)? {
                Ok((head, sums)) => match differs(&*of, &head, &sums, &file) {
                    None => {
                        let note = Some(format!("decoded samples are read from {}", path.display()));
                        // When it was last used; whose file it is may not let us.
                        let _ = file.set_modified(SystemTime::now());
                        return Ok(Self::around(of, head, path, (file, None), Some(sums), (note, None)));
                    }
                    Some(why) => why,
                },
                Err(why @ Unfit::Newer(_)) => {
                    return Err(Error::user(format!(
                        "the cache {} cannot be used: {why}; use that version, remove the file with paceline data cache \
                         --clear {name}, or train with data.cache=memory or none",
                        path.display()
                    )));
                }
                Err(why) => why.to_string(),
            };
            note = Some(format!("the cache {} is made anew: {why}", path.display()));
            rejected = Some(owner::number(&file.metadata().map_err(io)?));
        }
        let (file, temporary) = begin(&path, &head)?;
        Ok(Self::around(of, head, path, (file, Some(temporary)), None, (note, rejected)))
    }

    fn around(
        of: Arc<dyn Source>,
        head: Head,
        path: PathBuf,
        (file, temporary): (File, Option<PathBuf>),
        sums: Option<Vec<u32>>,
        (note, rejected): (Option<String>, Option<(u64, u64)>),
    ) -> Self {
        let (missing, state) = if sums.is_some() { (0, UNCHECKED) } else { (head.samples, ABSENT) };
        Self {
            state: (0..head.samples).map(|_| AtomicState::new(state)).collect(),
            sums: sums.unwrap_or_else(|| vec![0; head.samples]).into_iter().map(AtomicU32::new).collect(),
            missing: AtomicUsize::new(missing),
            temporary: Mutex::new(temporary),
            repaired: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            turns: Turns::new(),
            opened: Instant::now(),
            signed: AtomicU64::new(0),
            of,
            head,
            path,
            file,
            note,
            rejected,
        }
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
            return Some(format!("{repaired} damaged samples of the cache {place} were decoded again"));
        }
        if self.failed.load(SeqCst) {
            return Some(format!(
                "the cache {place} could not be written (is the disk full?): samples were decoded again"
            ));
        }
        let missing = self.missing.load(SeqCst);
        (missing > 0).then(|| {
            let (missing, were) = (text::counted(missing, "sample"), if missing == 1 { "was" } else { "were" });
            format!("the cache {place} is not kept: {missing} {were} not read in this run")
        })
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
        self.set_state(index, GOOD);
    }

    /// Leaves a hole in the file whose checksum never fits, so that a later run tries to decode the sample and fails too.
    fn keep_hole(&self, index: usize) {
        self.sums[index].store(!crc32c::crc32c(&vec![0; self.head.size]), SeqCst);
        self.set_state(index, BAD);
    }

    fn set_state(&self, index: usize, state: u8) {
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
        let write = || {
            self.file.write_all_at(&self.head.bytes(&sums), 0)?;
            self.file.sync_all()?;
            if self.is_published() {
                // Others may read that one already. Ours is read on without a name, and gone when it is closed.
                return fs::remove_file(&temporary).or(Ok(()));
            }
            // From now on it is one that is read. Where there are no locks, there are none to change.
            let _ = self.file.lock_shared();
            fs::rename(&temporary, &self.path)
        };
        let written = write();
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        // The name is safe when the folder is; file systems that cannot sync a folder do not need it.
        if let Some(folder) = self.path.parent().and_then(|folder| File::open(folder).ok()) {
            let _ = folder.sync_all();
        }
        written
    }

    /// Whether somebody else has finished the same cache meanwhile.
    fn is_published(&self) -> bool {
        File::open(&self.path).is_ok_and(|file| {
            file.metadata().is_ok_and(|meta| Some(owner::number(&meta)) != self.rejected)
                && matches!(self.head.read(&file), Ok(Ok(_)))
        })
    }

    /// Touches the file now and then, so that other hosts see that it is in use.
    fn sign(&self, now: Instant) {
        let (now, last) = (now.duration_since(self.opened).as_secs(), self.signed.load(SeqCst));
        if now >= last + SIGN.as_secs() && self.signed.compare_exchange(last, now, SeqCst, SeqCst).is_ok() {
            let _ = self.file.set_modified(SystemTime::now());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<PathBuf>> {
        self.temporary.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Reads a sample back; false if it is not what was written.
    fn read(&self, index: usize, out: &mut [u8]) -> std::io::Result<bool> {
        self.file.read_exact_at(out, self.head.at(index))?;
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

/// The file under the final name, with a shared lock; none if there is none.
fn open_whole(path: &Path) -> Option<File> {
    let file = OpenOptions::new().read(true).write(true).open(path).or_else(|_| File::open(path)).ok()?;
    // Somebody may just try whether it is in use, or remove it. Where there are no locks we go without.
    for _ in 0..50 {
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
            Ok(()) | Err(TryLockError::Error(_)) => break,
        }
    }
    owner::is_at(&file, path).then_some(file)
}

/// A new file under a temporary name, locked.
fn begin(path: &Path, head: &Head) -> paceline_base::Result<(File, PathBuf)> {
    let size = text::bytes(head.file_len());
    let failed = |place: &Path, e| Error::io("make room for the cache", place, &e).context(format!("{size} needed"));
    let (file, temporary) = owner::create(path).map_err(|e| failed(path, e))?;
    if let Err(e) = file.set_len(head.file_len()).and_then(|()| file.write_all_at(&head.front(), 0)) {
        let _ = fs::remove_file(&temporary);
        return Err(failed(&temporary, e));
    }
    Ok((file, temporary))
}

/// Compares some samples of a file with the source: what is wrong, if one differs.
fn differs(of: &dyn Source, head: &Head, sums: &[u32], file: &File) -> Option<String> {
    let (mut kept, mut fresh, mut scratch) = (vec![0; head.size], vec![0; head.size], Scratch::default());
    for index in compared(&head.key, head.samples) {
        if file.read_exact_at(&mut kept, head.at(index)).is_err() {
            return Some("it cannot be read".into());
        }
        if crc32c::crc32c(&kept) != sums[index] {
            continue; // damaged, or it could not be decoded: that is found when it is asked for
        }
        match of.fetch(index, &mut scratch, &mut fresh) {
            Ok(()) if fresh == kept => {}
            Ok(()) => return Some(format!("it holds other pixels than {}", of.place(index))),
            Err(error) => return Some(format!("it holds a sample that cannot be decoded now: {error}")),
        }
    }
    None
}

/// Which samples are compared: the first, the last, and others spread over the set by a hash of its key.
fn compared(key: &str, samples: usize) -> impl Iterator<Item = usize> {
    let parts = COMPARED.min(samples);
    let sum = crc32c::crc32c(key.as_bytes());
    (0..parts).map(move |part| {
        let (start, end) = (part * samples / parts, (part + 1) * samples / parts);
        match part {
            0 => 0,
            _ if part + 1 == parts => samples - 1,
            _ => start + crc32c::crc32c_append(sum, &part.to_le_bytes()) as usize % (end - start),
        }
    })
}

impl Drop for DiskCache {
    fn drop(&mut self) {
        if let Some(temporary) = self.lock().take() {
            let _ = fs::remove_file(temporary);
        }
    }
}

impl Labelled for DiskCache {
    forward_to!(of: len, shape, class_names, label, target_kind, target, fingerprint);
}

impl Source for DiskCache {
    forward_to!(of: place, stored);

    fn fetch(&self, index: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<()> {
        let present = || matches!(self.state[index].load(SeqCst), UNCHECKED | GOOD);
        // Only what is missing has to wait for its turn.
        let turn = if present() { None } else { Some(self.turns.take(index)) };
        if present() {
            drop(turn);
            let begin = Instant::now();
            self.sign(begin);
            // Also where another host removed the file: the source is still there.
            let right = self.read(index, out).unwrap_or(false);
            scratch.times.add(Stage::Cache, begin);
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
        self.sign(begin);
        self.keep(index, out);
        scratch.times.add(Stage::Cache, begin);
        Ok(())
    }

    fn cache_key(&self) -> String {
        self.of.cache_key()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_to_compare_are_spread_and_hold_both_ends() {
        for samples in [1, 2, 15, 16, 17, 1000, 1_281_167] {
            let chosen: Vec<usize> = compared("2-abc", samples).collect();
            assert_eq!(chosen.len(), samples.min(COMPARED));
            assert_eq!((chosen[0], chosen[chosen.len() - 1]), (0, samples - 1));
            assert!(chosen.windows(2).all(|pair| pair[0] < pair[1]), "{chosen:?}");
        }
        assert_ne!(compared("a", 1000).collect::<Vec<_>>(), compared("b", 1000).collect::<Vec<_>>());
        assert_eq!(compared("a", 0).count(), 0);
    }
}
