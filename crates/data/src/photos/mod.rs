//! Labelled image files: a folder with one folder per class, or a table (`csv`, `tsv`) of path and label.

use crate::Result;
use std::path::{Path, PathBuf};

/// The files of a set of photos, sorted by class and name; a few bytes for each beyond its name.
#[derive(Debug, Default)]
pub struct Photos {}

impl Photos {
    /// Lists `path`: a folder of class folders (searched in depth), or a `csv`/`tsv` file.
    pub fn list(path: &Path) -> Result<Self> {
        let _ = path;
        todo!()
    }

    /// How many files.
    pub fn len(&self) -> usize {
        todo!()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Names of the classes, sorted.
    pub fn classes(&self) -> &[String] {
        todo!()
    }

    /// The path of a file.
    pub fn path(&self, index: usize) -> PathBuf {
        let _ = index;
        todo!()
    }

    /// The class of a file.
    pub fn class(&self, index: usize) -> usize {
        let _ = index;
        todo!()
    }
}
