//! The file of a product that many processes write: under a temporary name until it is complete and right.
//!
//! The temporary file lies beside it as `.NAME.PROCESS.tmp`, and process 0 holds a lock on it. What a killed job left, whose
//! lock nobody holds, is removed by the next one with the same `--out`.

use crate::{MatmulOptions, MatmulSetting, MatmulSettingNames, Npy};
use paceline_base::{Error, Result};
use paceline_comm::World;
use paceline_comm::agree;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

/// The file of the product, under a temporary name until it is complete.
pub(crate) struct Output {
    /// To be written to by all ranks.
    pub npy: Npy,
    temporary: PathBuf,
    path: PathBuf,
    done: bool,
    /// Of process 0; held as long as it lives.
    _lock: Option<File>,
}

impl Output {
    /// Process 0 makes it, and all open it.
    pub(crate) fn prepare(options: &MatmulOptions, n: usize, world: &mut World) -> Result<Option<Self>> {
        let Some(path) = &options.out else { return Ok(None) };
        let made = if world.process() == 0 { Self::create(path, n, options.names).map(Some) } else { Ok(None) };
        let made = agree(world, made)?;
        let (temporary, lock) = made.map_or((PathBuf::new(), None), |(temporary, lock)| (temporary, Some(lock)));
        let told = world.broadcast(temporary.to_string_lossy().into_owned().into_bytes())?;
        let temporary = PathBuf::from(String::from_utf8_lossy(&told).into_owned());
        let npy = Npy::open_to_write(&temporary)
            .map_err(|e| e.context(format!("the folder of {} must be the same on all hosts", path.display())));
        let opened = agree(world, npy);
        if opened.is_err() && world.process() == 0 {
            let _ = std::fs::remove_file(&temporary);
        }
        Ok(Some(Self { npy: opened?, temporary, path: path.clone(), done: world.process() != 0, _lock: lock }))
    }

    fn create(path: &Path, n: usize, names: MatmulSettingNames) -> Result<(PathBuf, File)> {
        if path.exists() {
            return Err(Error::user(format!(
                "{} exists; give another {}, or move it away",
                path.display(),
                names.of(MatmulSetting::Out)
            )));
        }
        let name = path
            .file_name()
            .ok_or_else(|| Error::user(format!("cannot write {}: it does not end in a file name", path.display())))?;
        let name = name.to_string_lossy();
        sweep(path, &name, names)?;
        let temporary = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
        Npy::create(&temporary, (n, n))?;
        let lock = File::open(&temporary).map_err(|e| Error::io("open", &temporary, &e))?;
        let _ = lock.try_lock(); // where there are no locks, nothing is swept either
        Ok((temporary, lock))
    }

    /// Gives it its name.
    pub(crate) fn finish(mut self, world: &mut World) -> Result<()> {
        let renamed = if world.process() == 0 {
            std::fs::rename(&self.temporary, &self.path).map_err(|e| Error::io("write", &self.path, &e))
        } else {
            Ok(())
        };
        self.done |= renamed.is_ok();
        agree(world, renamed)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.done {
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// Whether a file is a temporary one for the output of this name.
fn is_temporary(file: &str, name: &str) -> bool {
    let process = file.strip_prefix('.').and_then(|f| f.strip_prefix(name)).and_then(|f| f.strip_prefix('.'));
    let process = process.and_then(|f| f.strip_suffix(".tmp"));
    process.is_some_and(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))
}

/// Removes what jobs that were killed left of the same output.
///
/// # Errors
/// If one is still being written.
fn sweep(path: &Path, name: &str, names: MatmulSettingNames) -> Result<()> {
    let folder = path.parent().filter(|p| *p != Path::new("")).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).map_err(|e| Error::io("write to", folder, &e))?;
    for entry in entries.flatten().filter(|e| is_temporary(&e.file_name().to_string_lossy(), name)) {
        let left = entry.path();
        let Ok(file) = File::open(&left) else { continue };
        match file.try_lock() {
            Ok(()) => {
                tracing::info!("removing {}, which a job that was killed has left", left.display());
                std::fs::remove_file(&left).map_err(|e| Error::io("remove", &left, &e))?;
            }
            Err(TryLockError::WouldBlock) => {
                return Err(Error::user(format!(
                    "another job is writing {}, as {}; let it end, or give another {}",
                    path.display(),
                    left.display(),
                    names.of(MatmulSetting::Out)
                )));
            }
            Err(TryLockError::Error(_)) => {} // no locks here: nobody can tell whether it is in use
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_temporary_files_of_the_same_output_are_swept() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let files = [".c.npy.17.tmp", ".c.npy.18.tmp", ".cc.npy.17.tmp", ".c.npy.x.tmp", "c.npy.17.tmp", ".c.npy.tmp"];
        files.iter().for_each(|f| std::fs::write(path(f), "").unwrap());
        sweep(&path("c.npy"), "c.npy", MatmulSettingNames::default()).unwrap();
        let left: Vec<bool> = files.iter().map(|f| path(f).exists()).collect();
        assert_eq!(left, [false, false, true, true, true, true]);
        // One that is in use is left, and said.
        std::fs::write(path(files[0]), "").unwrap();
        let held = File::open(path(files[0])).unwrap();
        held.try_lock().unwrap();
        let error = sweep(&path("c.npy"), "c.npy", MatmulSettingNames::default()).unwrap_err();
        assert!(error.message().contains("another job is writing"), "{error}");
        assert!(path(files[0]).exists());
    }
}
