//! A folder of class folders.
//!
//! The first level below the root is the class; what lies deeper belongs to it. Links are followed; a folder is entered
//! once for each class, so a link to a folder above ends there. Hidden names are left out, also as folders.

use super::{MAX_CLASSES, Photos, is_image_name};
use crate::{DataError, PhotoError, Result};
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Lists a folder.
pub(super) fn list(root: &Path) -> Result<Photos> {
    let mut photos = Photos { root: root.to_path_buf(), ..Photos::default() };
    let here = std::fs::canonicalize(root).map_err(DataError::io("read", root))?;
    let (folders, images) = read(root, &mut photos.ignored)?;
    if let Some(first) = images.first() {
        let first = first.to_string_lossy().into_owned();
        return Err(PhotoError::NoClass { folder: root.display().to_string(), count: images.len(), first }.into());
    }
    for name in folders {
        let before = photos.len();
        let class = photos.classes.len();
        below(root, &here, &name, class, &mut photos)?;
        // A folder without images is no class.
        if photos.len() > before {
            if class == MAX_CLASSES {
                let folder = root.display().to_string();
                return Err(PhotoError::TooManyClasses { folder, limit: MAX_CLASSES }.into());
            }
            let name = name.into_string().map_err(|name| PhotoError::ClassName {
                folder: root.display().to_string(),
                name: format!("{name:?}"),
            })?;
            photos.classes.push(name);
        }
    }
    if photos.is_empty() {
        return Err(PhotoError::NoImages { folder: root.display().to_string(), other: photos.ignored }.into());
    }
    photos.sort();
    Ok(photos)
}

/// Adds all images below a class folder.
fn below(root: &Path, here: &Path, class_name: &OsString, class: usize, photos: &mut Photos) -> Result<()> {
    let mut entered = HashSet::from([here.to_path_buf()]);
    let mut waiting = vec![PathBuf::from(class_name)];
    while let Some(folder) = waiting.pop() {
        let path = root.join(&folder);
        if !entered.insert(std::fs::canonicalize(&path).map_err(DataError::io("read", &path))?) {
            continue;
        }
        let (folders, images) = read(&path, &mut photos.ignored)?;
        for image in images {
            photos.push(folder.join(image).as_os_str().as_encoded_bytes(), class);
        }
        // The last is taken first: reversed, so that folders are entered in the order of their names.
        waiting.extend(folders.into_iter().rev().map(|name| folder.join(name)));
    }
    Ok(())
}

/// The folders and the images in a folder, each sorted; counts what is neither.
fn read(folder: &Path, ignored: &mut usize) -> Result<(Vec<OsString>, Vec<OsString>)> {
    let (mut folders, mut images) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(folder).map_err(DataError::io("read", folder))? {
        let entry = entry.map_err(DataError::io("read", folder))?;
        let kind = entry.file_type().map_err(DataError::io("read", &entry.path()))?;
        let name = entry.file_name();
        let hidden = name.as_encoded_bytes().starts_with(b".");
        // A link to nowhere counts as the file it is named like, so that its error is not lost.
        let is_folder = kind.is_dir() || kind.is_symlink() && entry.path().is_dir();
        match (hidden, is_folder) {
            (false, true) => folders.push(name),
            (false, false) if is_image_name(&name) => images.push(name),
            (true, true) => {}
            _ => *ignored += 1,
        }
    }
    folders.sort_unstable();
    images.sort_unstable();
    Ok((folders, images))
}
