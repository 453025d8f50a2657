//! Shards: many TFRecord files that are one set, with or without the `index.json` that `paceline prepare` writes.

use crate::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The name of the index.
pub const INDEX: &str = "index.json";

/// `index.json`: what is in a folder of shards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Index {
    /// Format of the file.
    pub format: u32,
    /// What the records hold: `jpeg` or `raw`.
    pub encoding: String,
    /// Height, width, channels of every image.
    pub shape: [usize; 3],
    /// Names of the classes; `class` of a record is a place in this list.
    pub classes: Vec<String>,
    /// The shards, training before validation.
    pub shards: Vec<Shard>,
    /// The settings of the command that wrote it, by flag.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// What was left out, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
}

/// One shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// File name within the folder.
    pub file: String,
    /// `train` or `validation`.
    pub part: String,
    /// Records.
    pub records: usize,
    /// Bytes of the file.
    pub bytes: u64,
    /// SHA-256 of the file.
    pub sha256: String,
    /// Records of each class.
    pub per_class: Vec<usize>,
}

/// The records of a folder of shards (or of one file), in the order of file names.
pub struct Records {}

impl Records {
    /// Opens every shard of one part (`train`, `validation`), or all where the folder has no index. Without an index
    /// classes and labels come from the features `class`, `label`.
    pub fn open(path: &Path, part: Option<&str>, verify: bool) -> Result<Self> {
        let _ = (path, part, verify);
        todo!()
    }

    /// The index, if there is one.
    pub fn index(&self) -> Option<&Index> {
        todo!()
    }

    /// How many records.
    pub fn len(&self) -> usize {
        todo!()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The Example of a record, as stored.
    pub fn get(&self, index: usize) -> &[u8] {
        let _ = index;
        todo!()
    }

    /// The image of a record (feature `image`).
    pub fn image(&self, index: usize) -> &[u8] {
        let _ = index;
        todo!()
    }

    /// The class of a record.
    pub fn label(&self, index: usize) -> u32 {
        let _ = index;
        todo!()
    }

    /// Names of the classes.
    pub fn classes(&self) -> &[String] {
        todo!()
    }

    /// For errors: file and record number.
    pub fn place(&self, index: usize) -> String {
        let _ = index;
        todo!()
    }
}
