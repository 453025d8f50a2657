//! The hidden folder in which a set is put together before it appears.

use crate::{DataError, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

/// A hidden folder older than this belongs to no living `get`.
const STALE: Duration = Duration::from_secs(24 * 3600);

/// Removed when dropped, unless it was published.
#[derive(Debug)]
pub(super) struct StagingFolder {
    path: PathBuf,
    parent: PathBuf,
}

impl StagingFolder {
    /// Makes the folder below `parent`, which is made as well.
    pub(super) fn new(parent: &Path, name: &str) -> Result<Self> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        fs::create_dir_all(parent).map_err(DataError::io("create", parent))?;
        remove_stale(parent, name);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!(".{name}.{}-{number}", std::process::id()));
        // Left over by a killed process that had the same number.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).map_err(DataError::io("create", &path))?;
        Ok(Self { path, parent: parent.into() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the folder its final name. What was there before is set aside first, and put back if that fails.
    pub(super) fn publish(self, destination: &Path) -> Result<()> {
        sync(&self.path)?;
        let aside = self.path.with_extension("old");
        let had_old = destination.exists();
        if had_old {
            fs::rename(destination, &aside).map_err(DataError::io("replace", destination))?;
        }
        if let Err(source) = fs::rename(&self.path, destination) {
            if had_old {
                let _ = fs::rename(&aside, destination);
            }
            return Err(DataError::Io { doing: "create", path: destination.into(), source });
        }
        if had_old {
            let _ = fs::remove_dir_all(&aside).or_else(|_| fs::remove_file(&aside));
        }
        sync(&self.parent)
    }
}

impl Drop for StagingFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path); // gone already if it was published
    }
}

/// Makes the names in a folder durable, not only the bytes of its files.
fn sync(dir: &Path) -> Result<()> {
    fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(DataError::io("sync", dir))
}

fn remove_stale(parent: &Path, name: &str) {
    let prefix = format!(".{name}.");
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let old = entry.metadata().and_then(|m| m.modified()).is_ok_and(|at| at < SystemTime::now() - STALE);
        if old && entry.file_name().to_string_lossy().starts_with(&prefix) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
