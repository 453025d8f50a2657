//! Whole files that are either the old one or the new one, never half of either.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use paceline_base::{Error, Result};

/// Replaces the file at `path`: writes to a temporary name beside it, syncs, renames, and syncs the folder.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let (folder, temporary) = (folder_of(path), temporary_name(path)?);
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let renamed = written.and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = renamed {
        let _ = fs::remove_file(&temporary);
        return Err(Error::io("write", path, &error));
    }
    sync_folder(folder)
}

/// A file that replaces another when it is finished, and not before; dropped unfinished, it leaves no trace.
#[derive(Debug)]
pub struct Replacing {
    path: PathBuf,
    temporary: PathBuf,
    file: Option<BufWriter<File>>,
}

impl Replacing {
    /// Begins a file beside `path`, under a temporary name.
    pub fn create(path: &Path) -> Result<Self> {
        let temporary = temporary_name(path)?;
        let file = File::create(&temporary).map_err(|e| Error::io("write", path, &e))?;
        Ok(Self { path: path.into(), temporary, file: Some(BufWriter::new(file)) })
    }

    /// Where it will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts it in its place, synced.
    pub fn finish(mut self) -> Result<()> {
        let fail = |e: &std::io::Error| Error::io("write", &self.path, e);
        let Some(file) = self.file.take() else { return Ok(()) };
        let renamed = file
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)
            .and_then(|file| file.sync_all())
            .and_then(|()| fs::rename(&self.temporary, &self.path));
        if let Err(error) = renamed {
            let _ = fs::remove_file(&self.temporary);
            return Err(fail(&error));
        }
        sync_folder(folder_of(&self.path))
    }
}

impl Write for Replacing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.as_mut().map_or(Ok(0), |file| file.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for Replacing {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A name beside `path`; the process id keeps two writers from sharing one temporary file.
fn temporary_name(path: &Path) -> Result<PathBuf> {
    let name = path
        .file_name()
        .ok_or_else(|| Error::user(format!("cannot write {}: it does not end in a file name", path.display())))?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.tmp", std::process::id()));
    Ok(folder_of(path).join(temporary))
}

/// Makes a rename in a folder survive a power cut. File systems that cannot sync a folder are taken as not needing it; a
/// disk that is full or broken is an error.
pub fn sync_folder(path: &Path) -> Result<()> {
    match File::open(path).and_then(|folder| folder.sync_all()) {
        Err(error) if !cannot_be_synced(&error) => Err(Error::io("sync", path, &error)),
        _ => Ok(()),
    }
}

/// What file systems answer that know no sync of folders, or do not let one be opened.
fn cannot_be_synced(error: &std::io::Error) -> bool {
    use std::io::ErrorKind as K;
    const EBADF: i32 = 9;
    matches!(error.kind(), K::InvalidInput | K::Unsupported | K::PermissionDenied | K::IsADirectory)
        || error.raw_os_error() == Some(EBADF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("summary.json");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_not_finished_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        write(&path, b"old").unwrap();
        let mut file = Replacing::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let mut file = Replacing::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        file.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_cannot_be_synced_is_no_error_and_a_broken_disk_is() {
        let answer = |errno| cannot_be_synced(&std::io::Error::from_raw_os_error(errno));
        // EACCES, EPERM, EBADF, EISDIR, EINVAL, ENOSYS, EOPNOTSUPP
        assert!([13, 1, 9, 21, 22, 38, 95].into_iter().all(answer));
        // EIO, ENOSPC, EDQUOT, EROFS, ENOENT, ESTALE
        assert!(![5, 28, 122, 30, 2, 116].into_iter().any(answer));
        let folder = tempfile::tempdir().unwrap();
        sync_folder(folder.path()).unwrap();
        assert!(sync_folder(&folder.path().join("absent")).is_err());
    }

    #[test]
    fn a_missing_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("absent").join("summary.json");
        let error = write(&path, b"one").unwrap_err();
        assert!(error.message().contains("absent"), "{error}");
    }
}
