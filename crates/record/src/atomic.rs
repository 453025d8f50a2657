//! Whole files that are either the old one or the new one, never half of either.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use paceline_base::{Error, Result};

/// Replaces the file at `path`: writes to a temporary name beside it, syncs, renames, and syncs the folder.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let name = path
        .file_name()
        .ok_or_else(|| Error::user(format!("cannot write {}: it does not end in a file name", path.display())))?;
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // The process id keeps two writers from sharing one temporary file.
    let mut temporary_name = std::ffi::OsString::from(".");
    temporary_name.push(name);
    temporary_name.push(format!(".{}.tmp", std::process::id()));
    let temporary = folder.join(temporary_name);
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let renamed = written.and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = renamed {
        let _ = fs::remove_file(&temporary);
        return Err(Error::io("write", path, &error));
    }
    // The rename itself must survive a power cut; file systems that cannot sync a folder do not need it.
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
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
    fn a_missing_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("absent").join("summary.json");
        let error = write(&path, b"one").unwrap_err();
        assert!(error.message().contains("absent"), "{error}");
    }
}
