//! A folder of class folders, or of `train`, `val` and `test` folders with class folders in each.
//!
//! The first level below the root (or below a part) is the class; what lies deeper belongs to it. Links are followed; a
//! folder is entered once for each class, so a link to a folder above ends there. Hidden names are left out, also as
//! folders. A class folder without an image is refused: the class would vanish without a word.

use super::{LeftOut, Listing, MAX_CLASSES, Photos, begins_like_image, is_image_name};
use crate::{DataError, PhotoError, Result, Role, UNLABELLED, regular};
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Folders that archives and tools leave behind.
const BYCATCH: [&str; 3] = ["__MACOSX", "__pycache__", "@eaDir"];

/// Lists a folder.
pub(super) fn list(root: &Path) -> Result<Listing> {
    let (lists, walk) = parts(root)?;
    let mut listing = Listing::join(root, lists)?;
    if listing.train.is_empty() {
        return Err(PhotoError::NoImages { folder: root.display().to_string(), held: held(&walk.left_out) }.into());
    }
    (listing.left_out, listing.empty) = (walk.left_out, walk.empty);
    Ok(listing)
}

/// The images of a folder by part, each with the classes that it has.
pub(crate) fn labelled(root: &Path) -> Result<([Option<Photos>; 3], LeftOut)> {
    let (lists, walk) = parts(root)?;
    if lists.iter().flatten().all(Photos::is_empty) {
        return Err(PhotoError::NoImages { folder: root.display().to_string(), held: held(&walk.left_out) }.into());
    }
    Ok((lists, walk.left_out))
}

/// All images below a folder, whatever folder they lie in, without classes.
pub(crate) fn unlabelled(root: &Path) -> Result<Photos> {
    let walk = Walk { root, here: PathBuf::new(), left_out: LeftOut::default(), empty: Vec::new() };
    let (mut photos, mut left_out) = (Photos { root: root.to_path_buf(), ..Photos::default() }, LeftOut::default());
    walk.below(Path::new(""), UNLABELLED as usize, &mut photos, &mut left_out)?;
    if photos.is_empty() {
        return Err(PhotoError::NoImages { folder: root.display().to_string(), held: held(&left_out) }.into());
    }
    photos.left_out = left_out;
    Ok(photos)
}

/// Whether images lie directly in a folder, and so have no class.
pub(crate) fn has_images(root: &Path) -> Result<bool> {
    Ok(!read(root, Path::new(""), &mut LeftOut::default())?.1.is_empty())
}

fn parts(root: &Path) -> Result<([Option<Photos>; 3], Walk<'_>)> {
    let mut walk = Walk { root, here: canonical(root)?, left_out: LeftOut::default(), empty: Vec::new() };
    let folders = walk.only_folders(Path::new(""))?;
    let role = |name: &OsString| name.to_str().and_then(Role::of_word);
    let (parts, others): (Vec<OsString>, Vec<OsString>) = folders.into_iter().partition(|name| role(name).is_some());
    let mut lists = [None, None, None];
    if parts.is_empty() {
        lists[0] = Some(walk.classes(Path::new(""), others, Role::Train)?);
    } else {
        let text = |names: &[OsString]| {
            let more = if names.len() > 3 { ", …" } else { "" };
            names.iter().take(3).map(|name| name.to_string_lossy()).collect::<Vec<_>>().join(", ") + more
        };
        let folder = || root.display().to_string();
        if !others.is_empty() {
            return Err(PhotoError::Mixed { folder: folder(), parts: text(&parts), others: text(&others) }.into());
        }
        for name in parts {
            let Some(role) = role(&name) else { continue };
            let part = Path::new(&name);
            let classes = walk.only_folders(part)?;
            if classes.is_empty() {
                return Err(PhotoError::PartWithoutClasses { folder: root.join(part).display().to_string() }.into());
            }
            let list = walk.classes(part, classes, role)?;
            if lists[role as usize].replace(list).is_some() {
                return Err(PhotoError::TwoFolders { folder: folder(), part: role.name() }.into());
            }
        }
    }
    Ok((lists, walk))
}

fn canonical(path: &Path) -> Result<PathBuf> {
    std::fs::canonicalize(path).map_err(DataError::io("read", path))
}

/// What lies in a folder that has no images.
fn held(left_out: &LeftOut) -> String {
    if left_out.is_empty() { "nothing".into() } else { left_out.words() }
}

struct Walk<'a> {
    root: &'a Path,
    /// The root without links.
    here: PathBuf,
    left_out: LeftOut,
    empty: Vec<String>,
}

impl Walk<'_> {
    /// The folders of a folder in which no images may lie.
    fn only_folders(&mut self, below: &Path) -> Result<Vec<OsString>> {
        let path = self.root.join(below);
        let (folders, images) = read(&path, below, &mut self.left_out)?;
        match images.first() {
            None => Ok(folders),
            Some(first) => {
                let (folder, count) = (path.display().to_string(), images.len());
                let first = first.to_string_lossy().into_owned();
                Err(PhotoError::NoClass { folder, count, first }.into())
            }
        }
    }

    /// The images of these class folders of a part.
    fn classes(&mut self, part: &Path, folders: Vec<OsString>, role: Role) -> Result<Photos> {
        let folder = self.root.join(part);
        let shown = || folder.display().to_string();
        let mut photos = Photos { root: self.root.to_path_buf(), ..Photos::default() };
        for name in folders {
            let (before, class) = (photos.len(), photos.classes.len());
            if class == MAX_CLASSES {
                return Err(PhotoError::TooManyClasses { folder: shown(), limit: MAX_CLASSES }.into());
            }
            let place = part.join(&name);
            let mut left_out = LeftOut::default();
            self.below(&place, class, &mut photos, &mut left_out)?;
            if photos.len() == before {
                // Programs that split a set make a folder for every class in every part, also for one with nothing in it.
                if left_out.is_empty() && role != Role::Train {
                    self.empty.push(place.display().to_string());
                    continue;
                }
                let class = self.root.join(&place).display().to_string();
                return Err(PhotoError::ClassWithoutImages { class, held: held(&left_out) }.into());
            }
            self.left_out.merge(left_out);
            let name = name
                .into_string()
                .map_err(|name| PhotoError::ClassName { folder: shown(), name: format!("{name:?}") })?;
            photos.classes.push(name);
        }
        photos.sort();
        if photos.is_empty() && role != Role::Train {
            return Err(PhotoError::NoImages { folder: shown(), held: "nothing".into() }.into());
        }
        Ok(photos)
    }

    /// Adds all images below a class folder.
    fn below(&self, place: &Path, class: usize, photos: &mut Photos, left_out: &mut LeftOut) -> Result<()> {
        let mut entered = HashSet::from([self.here.clone()]);
        let mut waiting = vec![place.to_path_buf()];
        while let Some(folder) = waiting.pop() {
            let path = self.root.join(&folder);
            if !entered.insert(canonical(&path)?) {
                continue;
            }
            let (folders, images) = read(&path, &folder, left_out)?;
            for image in images {
                photos.push(folder.join(image).as_os_str().as_encoded_bytes(), class);
            }
            // The last is taken first: reversed, so that folders are entered in the order of their names.
            waiting.extend(folders.into_iter().rev().map(|name| folder.join(name)));
        }
        Ok(())
    }
}

/// The folders and the images in a folder, each sorted; notes what is neither. `place` is the folder as it is shown.
fn read(folder: &Path, place: &Path, left_out: &mut LeftOut) -> Result<(Vec<OsString>, Vec<OsString>)> {
    let (mut folders, mut images, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for entry in std::fs::read_dir(folder).map_err(DataError::io("read", folder))? {
        let entry = entry.map_err(DataError::io("read", folder))?;
        let (name, path) = (entry.file_name(), entry.path());
        let mut kind = entry.file_type().map_err(DataError::io("read", &path))?;
        // A link to nowhere counts as the file it is named like, so that its error is not lost.
        let mut lost = false;
        if kind.is_symlink() {
            match std::fs::metadata(&path) {
                Ok(meta) => kind = meta.file_type(),
                Err(_) => lost = true,
            }
        }
        let hidden = name.as_encoded_bytes().starts_with(b".");
        match () {
            () if kind.is_dir() && (hidden || BYCATCH.iter().any(|known| name == *known)) => {
                // A folder that tools keep for themselves is not worth a word where it is hidden.
                if !hidden {
                    others.push((name, "folder of a tool"));
                }
            }
            () if kind.is_dir() => folders.push(name),
            () if hidden => others.push((name, "hidden")),
            () if !kind.is_file() && !lost => others.push((name, regular::words(kind))),
            () if is_image_name(&name) || path.extension().is_none() && begins_like_image(&path) => images.push(name),
            () => others.push((name, "")),
        }
    }
    folders.sort_unstable();
    images.sort_unstable();
    others.sort_unstable();
    for (name, kind) in others {
        let place = place.join(name);
        if kind.is_empty() { left_out.add_file(&place) } else { left_out.add(kind, &place) }
    }
    Ok((folders, images))
}
