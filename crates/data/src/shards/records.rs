//! The records of a set, for access in any order: 20 bytes for each beside the mapped files.

use super::files::role_of;
use super::numbers::Scale;
use super::{Encoding, Index, Layout};
use crate::example::Example;
use crate::tfrecord::File;
use crate::{Result, Role, ShardError, Skipped};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// The records of a folder of shards (or of one file), in the order of file names (of the index, if there is one).
pub(crate) struct Records {
    pub(super) index: Option<Index>,
    pub(super) layout: Layout,
    pub(super) files: Vec<ShardFile>,
    pub(super) classes: Vec<String>,
    pub(super) skipped: Skipped,
    pub(super) verified: bool,
    /// SHA-256 that the index states of each file, in their order; empty without an index.
    pub(super) digests: Vec<String>,
    /// What the numbers of images mean, where images are lists of numbers.
    pub(super) scale: Option<Scale>,
    /// What is wrong with records that were kept though they are bad, by number.
    pub(super) bad: BTreeMap<usize, String>,
}

/// A file and what is known of its records.
pub(super) struct ShardFile {
    /// The number of its first record.
    pub first: usize,
    pub file: File,
    /// Where in the record the image lies.
    pub images: Vec<(u32, u32)>,
    pub labels: Vec<u32>,
}

impl Records {
    /// The index, if there is one.
    pub(crate) fn index(&self) -> Option<&Index> {
        self.index.as_ref()
    }

    /// Which features are used, and how images are stored.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// How images are stored.
    pub(crate) fn encoding(&self) -> Encoding {
        self.layout.encoding
    }

    /// How many records.
    pub(crate) fn len(&self) -> usize {
        self.files.last().map_or(0, |shelf| shelf.first + shelf.labels.len())
    }

    /// The Example of a record, as stored.
    pub(crate) fn get(&self, index: usize) -> &[u8] {
        let (shelf, local) = self.find(index);
        shelf.file.get(local)
    }

    /// The image of a record: an image file, or pixels (see [`Records::encoding`]); of an image that is a list of numbers the
    /// whole record, see [`Records::pixels`].
    pub(crate) fn image(&self, index: usize) -> &[u8] {
        let (shelf, local) = self.find(index);
        let (start, length) = shelf.images[local];
        // A mapped file that somebody writes to gives an empty image here, rather than a panic.
        shelf.file.get(local).get(start as usize..start as usize + length as usize).unwrap_or_default()
    }

    /// Replaces `out` by the pixels of an image that is a list of numbers.
    ///
    /// # Errors
    /// If the file was changed since it was opened.
    pub(crate) fn pixels(&self, index: usize, out: &mut Vec<u8>) -> Result<()> {
        let missing = || ShardError::MissingImage { place: self.place(index), feature: self.layout.image.clone() };
        let scale = self.scale.ok_or_else(missing)?;
        let example = Example::parse(self.get(index)).map_err(|error| error.at(self.place(index)))?;
        scale.bytes(&example.feature(&self.layout.image).ok_or_else(missing)?, out);
        Ok(())
    }

    /// The length of a record and the checksum that its file has of it; see [`Records::is_verified`].
    pub(crate) fn frame(&self, index: usize) -> (u64, u32) {
        let (shelf, local) = self.find(index);
        shelf.file.frame(local)
    }

    /// Whether the checksums of all records were compared with their data.
    pub(crate) fn is_verified(&self) -> bool {
        self.verified
    }

    /// The digests that the index states of the files, in their order; empty without an index. They are not compared with
    /// the files here (see [`ShardOptions::digests`]).
    pub(crate) fn digests(&self) -> &[String] {
        &self.digests
    }

    /// The class of a record; [`UNLABELLED`] if it has none and was opened leniently.
    pub(crate) fn label(&self, index: usize) -> u32 {
        let (shelf, local) = self.find(index);
        shelf.labels[local]
    }

    /// Names of the classes.
    pub(crate) fn class_names(&self) -> &[String] {
        &self.classes
    }

    /// How many files.
    pub(crate) fn shards(&self) -> usize {
        self.files.len()
    }

    /// The records of each part, where the names of the files say which they are for: by number, training first. Empty
    /// where they do not, and for shards with an index, which are opened part by part.
    pub(crate) fn parts(&self) -> Vec<(Role, Range<usize>)> {
        let mut parts: Vec<(Role, Range<usize>)> = Vec::new();
        for shelf in &self.files {
            let role = Path::new(shelf.file.contents().name()).file_name().and_then(role_of);
            let (Some(role), None) = (role, &self.index) else { return Vec::new() };
            let end = shelf.first + shelf.labels.len();
            match parts.last_mut() {
                Some((last, range)) if *last == role => range.end = end,
                _ => parts.push((role, shelf.first..end)),
            }
        }
        parts
    }

    /// A file with its records, and the number of the first of them.
    pub(crate) fn shard(&self, shard: usize) -> (&File, usize) {
        (&self.files[shard].file, self.files[shard].first)
    }

    /// What was left out.
    pub(crate) fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    /// What is wrong with a record, if it is bad and was kept: see [`ShardOptions::lenient`].
    pub(crate) fn bad(&self, index: usize) -> Option<&str> {
        self.bad.get(&index).map(String::as_str)
    }

    /// The file of a record and its number there.
    pub(crate) fn within(&self, index: usize) -> (&str, usize) {
        let (shelf, local) = self.find(index);
        (shelf.file.contents().name(), local)
    }

    /// For errors: file and record number.
    pub(crate) fn place(&self, index: usize) -> String {
        let (shelf, local) = self.find(index);
        place(&shelf.file, local)
    }

    fn find(&self, index: usize) -> (&ShardFile, usize) {
        let shelf = self.files.partition_point(|shelf| shelf.first <= index) - 1;
        (&self.files[shelf], index - self.files[shelf].first)
    }
}

/// File, record number, and the byte where the record begins.
pub(super) fn place(file: &File, local: usize) -> String {
    format!("{} record {local} (byte {})", file.contents().name(), file.offset(local))
}
