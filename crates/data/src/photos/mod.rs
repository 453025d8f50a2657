//! Labelled image files: a folder with one folder per class, or a table (`csv`, `tsv`) of path and label; as one list, or
//! in parts ([`Listing`]) where folders `train`, `val` and `test` or a column `split` say so.
//!
//! The list is a function of the names alone, not of the order in which the system lists them: classes are sorted, and
//! within a class the paths, byte by byte. Names of files may be any bytes; names of classes are text. A file costs its
//! path and 16 bytes, so that a million of them fit easily.

pub(crate) mod folder;
mod left_out;
mod listing;
pub(crate) mod table;

pub use left_out::LeftOut;
pub use listing::Listing;
#[cfg(test)]
pub(crate) use table::parse_table;

use crate::Result;
use crate::regular::open_regular;
use paceline_image::Format;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};

/// More classes than that are folders that were meant otherwise.
const MAX_CLASSES: usize = 1 << 20;

/// The files of a set of photos, sorted by class and name; a few bytes for each beyond its name.
#[derive(Debug, Default)]
pub struct Photos {
    /// What the paths are relative to.
    root: PathBuf,
    /// All paths, one after another.
    paths: Vec<u8>,
    files: Vec<Entry>,
    classes: Vec<String>,
    left_out: LeftOut,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    length: u32,
    class: u32,
}

impl Photos {
    /// All photos of `path` in one list, also where they are in parts: see [`Listing::of`].
    ///
    /// # Errors
    /// As there.
    pub fn list(path: &Path) -> Result<Self> {
        Listing::of(path).map(Listing::into_one)
    }

    /// These files, in this order and without classes; whether they are there shows when they are read.
    pub(crate) fn of_files(files: &[PathBuf]) -> Self {
        let mut photos = Self::default();
        files.iter().for_each(|file| photos.push(file.as_os_str().as_encoded_bytes(), crate::UNLABELLED as usize));
        photos
    }

    /// How many files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Names of the classes, sorted. Whether one is enough is for the caller to decide.
    pub fn class_names(&self) -> &[String] {
        &self.classes
    }

    /// The path of a file.
    pub fn path(&self, index: usize) -> PathBuf {
        self.root.join(self.name(index))
    }

    /// The path of a file below the folder (or as the table has it).
    pub(crate) fn name(&self, index: usize) -> PathBuf {
        PathBuf::from(from_bytes(self.bytes(&self.files[index])))
    }

    /// The class of a file, by number; `u32::MAX` where none is known.
    pub fn label(&self, index: usize) -> u32 {
        self.files[index].class
    }

    /// How many files of each class.
    pub(crate) fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.classes.len()];
        self.files.iter().for_each(|file| counts[file.class as usize] += 1);
        counts
    }

    /// What was left out: hidden, not named like an image, or no regular file.
    pub(crate) fn left_out(&self) -> &LeftOut {
        &self.left_out
    }

    fn bytes(&self, file: &Entry) -> &[u8] {
        &self.paths[file.start as usize..][..file.length as usize]
    }

    fn push(&mut self, path: &[u8], class: usize) {
        // Paths are short (4 KiB on Linux) and classes few: both fit in 32 bits.
        let (start, length, class) = (self.paths.len() as u64, path.len() as u32, class as u32);
        self.paths.extend_from_slice(path);
        self.files.push(Entry { start, length, class });
    }

    /// Puts classes and files in order.
    fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.classes.len()).collect();
        order.sort_by(|&a, &b| self.classes[a].cmp(&self.classes[b]));
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(to, &from)| place[from] = to as u32);
        self.classes.sort();
        self.paths.shrink_to_fit();
        let mut files = std::mem::take(&mut self.files);
        files.iter_mut().for_each(|file| file.class = place[file.class as usize]);
        files.sort_unstable_by(|a, b| (a.class, self.bytes(a)).cmp(&(b.class, self.bytes(b))));
        files.shrink_to_fit();
        self.files = files;
    }
}

/// Whether a path is a table by its name, and then whether it is one with tabs.
pub(crate) fn table_kind(path: &Path) -> Option<bool> {
    let extension = path.extension()?;
    [("csv", false), ("tsv", true)]
        .into_iter()
        .find(|(name, _)| extension.eq_ignore_ascii_case(name))
        .map(|(_, tabs)| tabs)
}

/// Whether a file is named like an image of a format that is read.
pub(crate) fn is_image_name(name: &OsStr) -> bool {
    const KNOWN: [&str; 9] = ["jpg", "jpeg", "jpe", "jfif", "png", "webp", "bmp", "dib", "gif"];
    let extension = Path::new(name).extension();
    extension.is_some_and(|e| KNOWN.iter().any(|known| e.eq_ignore_ascii_case(known)))
}

/// Whether a folder may hold images: it has folders in it, or images.
pub(crate) fn has_images_or_folders(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| {
        entries.any(|entry| entry.is_ok_and(|e| is_image_name(&e.file_name()) || e.path().is_dir()))
    })
}

/// Whether a file begins like an image of a format that is read.
pub(crate) fn begins_like_image(path: &Path) -> bool {
    let mut first = Vec::with_capacity(Format::LOOK);
    let read = open_regular(path).and_then(|file| file.take(Format::LOOK as u64).read_to_end(&mut first));
    read.is_ok() && Format::of(&first).is_some()
}

#[cfg(unix)]
fn from_bytes(bytes: &[u8]) -> OsString {
    use std::os::unix::ffi::OsStrExt;
    OsStr::from_bytes(bytes).to_os_string()
}

/// Elsewhere names are no bytes: what is not UTF-8 cannot be opened, and says so then.
#[cfg(not(unix))]
fn from_bytes(bytes: &[u8]) -> OsString {
    OsString::from(String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(test)]
mod tests;
