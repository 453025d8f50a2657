//! Which files are shards, by their names.

use crate::{DataError, Result, Role, ShardError};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Whether a file is named like a file of records: `.tfrec`, `.tfrecord`, `.tfrecords`, with `.gz` or `.zlib` behind it
/// or not, or TensorFlow's `name-00000-of-00008`.
pub fn is_record_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = [".gz", ".zlib"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
    let numbered = || {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let (first, count) = name.rsplit_once("-of-")?;
        let (_, number) = first.rsplit_once('-')?;
        Some(digits(count) && digits(number))
    };
    [".tfrec", ".tfrecord", ".tfrecords"].iter().any(|end| name.ends_with(end)) || numbered() == Some(true)
}

/// The files of records in a folder, sorted; hidden ones are left out.
///
/// # Errors
/// [`ShardError::NoShards`] without one, [`DataError::Io`].
pub fn record_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(DataError::io("read", folder))? {
        let name = entry.map_err(DataError::io("read", folder))?.file_name();
        let text = name.to_string_lossy();
        if !text.starts_with('.') && is_record_name(&text) {
            let path = folder.join(&name);
            if path.is_file() {
                files.push(path);
            }
        }
    }
    if files.is_empty() {
        return Err(ShardError::NoShards { path: folder.display().to_string() }.into());
    }
    files.sort();
    Ok(files)
}

/// What the name of a shard says that it is for.
pub(super) fn role_of(name: &OsStr) -> Option<Role> {
    Role::of_shard(&name.to_string_lossy()).ok().flatten()
}

/// Shards in the order of their parts, as their names say: training, validation, test; or as they are, where none says.
///
/// # Errors
/// [`ShardError::TwoParts`] for a name that says two, [`ShardError::NoPartName`] for one that says nothing among others
/// that do.
pub(crate) fn by_part(folder: &Path, files: Vec<PathBuf>) -> Result<Vec<(Option<Role>, PathBuf)>> {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let place = || folder.display().to_string();
    let mut by_part = Vec::with_capacity(files.len());
    for file in files {
        let role = Role::of_shard(&name(&file)).map_err(|(first, second)| ShardError::TwoParts {
            path: place(),
            file: name(&file),
            first: first.name(),
            second: second.name(),
        })?;
        by_part.push((role, file));
    }
    if let (Some((_, without)), Some((_, with))) =
        (by_part.iter().find(|(role, _)| role.is_none()), by_part.iter().find(|(role, _)| role.is_some()))
    {
        return Err(ShardError::NoPartName { path: place(), file: name(without), other: name(with) }.into());
    }
    by_part.sort_by_key(|(role, _)| *role); // stable: sorted by name within a part
    Ok(by_part)
}
