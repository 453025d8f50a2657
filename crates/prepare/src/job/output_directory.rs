//! The destination: one writer at a time, finished shards that are kept, temporary files that nobody sees.
//!
//! ```text
//! shards/
//!   train-00000-of-00016.tfrec    complete, from the moment it can be seen
//!   index.json                    written last
//!   .prepare/                     gone when the index is there
//!     lock                        held by the process that writes
//!     job.json, files             what is to be made
//!     done/<shard>.json           what is known of a finished shard
//!     tmp/                        shards that are being written
//! ```

use super::manifest::{FILES, MANIFEST, Manifest};
use super::setting::JobError;
use paceline_base::{Error, Result};
use paceline_data::shards::{INDEX, Index, Shard};
use paceline_system::atomic;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

/// The folder of a job that is under way; its path is what all processes of the job are told.
const WORK: &str = ".prepare";
const LOCK: &str = "lock";
const DONE: &str = "done";
const TEMPORARY: &str = "tmp";
/// Where a new manifest lies until it is known to be of the job that was begun.
const NEW: &str = "new";

/// What is known of a finished shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FinishedShard {
    /// The entry of the index.
    pub shard: Shard,
    /// Images that were left out, with the reason.
    pub skipped: Vec<String>,
    /// Bytes of the image files that were read.
    pub bytes_read: u64,
}

/// A destination that this process alone writes to.
#[derive(Debug)]
pub(super) struct OutputDirectory {
    folder: PathBuf,
    _lock: File,
}

impl OutputDirectory {
    /// Takes the folder, making it if need be.
    pub(crate) fn take(folder: &Path) -> Result<Self> {
        if folder.is_file() {
            return Err(Error::user(format!("{} is a file; give a folder for the shards", folder.display())));
        }
        let fresh = !folder.join(WORK).exists();
        if fresh
            && !folder.join(INDEX).exists()
            && let Some(other) = first_entry(folder)
        {
            return Err(Error::user(format!(
                "{} holds other files ({other}); give an empty or new folder, so that nothing of yours is mixed with shards",
                folder.display()
            )));
        }
        let work = folder.join(WORK);
        for path in [work.join(DONE), work.join(TEMPORARY)] {
            fs::create_dir_all(&path).map_err(|e| Error::io("create", &path, &e))?;
        }
        let path = work.join(LOCK);
        let failed = |e: std::io::Error| Error::io("lock", &path, &e);
        let mut lock =
            File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let mut owner = String::new();
                let _ = lock.read_to_string(&mut owner);
                return Err(Error::user(format!(
                    "another `paceline prepare` is writing into {} ({}); wait for it, or give another folder",
                    folder.display(),
                    owner.trim()
                )));
            }
            Err(fs::TryLockError::Error(e)) => return Err(failed(e)),
        }
        // The process may differ from one attempt to the next: say who it is now.
        let _ = lock.set_len(0).and_then(|()| lock.rewind());
        let _ = writeln!(lock, "process {}", std::process::id()).and_then(|()| lock.flush());
        let output = Self { folder: folder.to_path_buf(), _lock: lock };
        output.sweep();
        Ok(output)
    }

    /// The folder of the shards.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the job and the temporary files are.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.join(WORK)
    }

    /// Where a new manifest is written, beside the one that may be there.
    pub(crate) fn new_manifest(&self) -> PathBuf {
        self.work().join(NEW)
    }

    /// Puts the new manifest in the place of the old one.
    pub(crate) fn accept_manifest(&self) -> Result<()> {
        let (new, work) = (self.new_manifest(), self.work());
        for file in [FILES, MANIFEST] {
            publish(&new.join(file), &work.join(file)).map_err(|e| Error::io("write", &work.join(file), &e))?;
        }
        let _ = fs::remove_dir_all(&new);
        Ok(())
    }

    /// Removes temporary files of processes that are no more.
    fn sweep(&self) {
        for entry in fs::read_dir(self.work().join(TEMPORARY)).into_iter().flatten().flatten() {
            let _ = fs::remove_file(entry.path());
        }
    }

    /// The job that was begun here earlier, if any: of an unfinished run, or of a finished one.
    pub(crate) fn begun(&self) -> Result<Option<Manifest>, JobError> {
        if self.work().join(MANIFEST).exists() { Manifest::read(&self.work()).map(Some) } else { Ok(None) }
    }

    /// The index, if the folder is complete.
    pub(crate) fn index(&self) -> Result<Option<Index>> {
        Ok(Index::read(&self.folder)?)
    }

    /// Writes the index and removes what was only needed on the way.
    pub(super) fn finish(self, index: &Index) -> Result<()> {
        index.write(&self.folder)?;
        let work = self.work();
        fs::remove_dir_all(&work).map_err(|e| Error::io("remove", &work, &e))
    }

    /// Gives the folder back as it was found, if nothing has been made in it.
    pub(crate) fn leave_untouched(self) {
        let work = self.work();
        let nothing = first_entry(&self.folder).is_none() && first_entry(&work.join(DONE)).is_none();
        if nothing || self.folder.join(INDEX).exists() {
            let _ = fs::remove_dir_all(&work);
        }
        if nothing {
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

/// The first file of a folder that is not ours, by name.
fn first_entry(folder: &Path) -> Option<String> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    names.map(|e| e.file_name().to_string_lossy().into_owned()).filter(|name| name != WORK).min()
}

/// Where a shard lies until it is whole; `owner` tells processes that make the same shard apart.
pub(crate) fn temporary_path(work: &Path, file: &str, owner: &str) -> PathBuf {
    work.join(TEMPORARY).join(format!("{file}.{owner}"))
}

/// Where a whole shard lies.
pub(crate) fn shard_path(work: &Path, file: &str) -> PathBuf {
    work.parent().unwrap_or(Path::new(".")).join(file)
}

/// What is known of a finished shard, if its file is as it was made: `work` is the folder of the job.
pub(crate) fn finished(work: &Path, file: &str) -> Option<FinishedShard> {
    let note: FinishedShard = serde_json::from_slice(&fs::read(note_path(work, file)).ok()?).ok()?;
    note.shard.check_digest(work.parent()?).ok()?;
    Some(note)
}

/// Notes that a shard is finished.
pub(crate) fn note_finished(work: &Path, done: &FinishedShard) -> Result<()> {
    let text = serde_json::to_vec(done).map_err(|e| Error::internal(e.to_string()))?;
    atomic::write(&note_path(work, &done.shard.file), &text)
}

/// Whether a shard was noted as finished; whether its file is whole, only [`finished`] looks.
pub(crate) fn is_noted(work: &Path, file: &str) -> bool {
    note_path(work, file).exists()
}

fn note_path(work: &Path, file: &str) -> PathBuf {
    work.join(DONE).join(format!("{file}.json"))
}

/// Gives a synced file its real name, so that the name survives a power cut.
pub(crate) fn publish(temporary: &Path, path: &Path) -> std::io::Result<()> {
    fs::rename(temporary, path)?;
    // File systems that cannot sync a folder do not need it.
    if let Some(Ok(folder)) = path.parent().map(File::open) {
        let _ = folder.sync_all();
    }
    Ok(())
}
