//! `index.json`: read without believing it, written so that it is there whole or not at all.

use crate::regular::read_regular;
use crate::{DataError, Result, ShardError};
use paceline_system::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Component, Path};

/// The name of the index.
pub const INDEX: &str = "index.json";

/// The format that this program writes; newer ones are refused.
pub(crate) const FORMAT: u32 = 1;

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
    /// The shards, training before validation before test.
    pub shards: Vec<Shard>,
    /// The settings of the command that wrote it, by flag.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// What was left out, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
}

/// A file of records, as the index describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// File name within the folder.
    pub file: String,
    /// `train`, `validation` or `test`.
    pub part: String,
    /// How many records it holds.
    pub records: usize,
    /// Bytes of the file.
    pub bytes: u64,
    /// SHA-256 of the file.
    pub sha256: String,
    /// Records of each class.
    pub per_class: Vec<usize>,
}

/// What every format has; read first, so that a newer index is refused as such, whatever else is in it.
#[derive(Deserialize)]
struct Version {
    format: u32,
}

impl Index {
    /// The index of a folder; none if it has none.
    ///
    /// # Errors
    /// [`DataError::Io`], and [`ShardError`] for a file that is no index or a newer one.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(INDEX);
        match read_regular(&path) {
            Ok(bytes) => Self::parse(&bytes, &path.display().to_string()).map(Some),
            Err(DataError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The index in these bytes; `name` stands for the file in errors.
    ///
    /// # Errors
    /// As [`Index::read`].
    pub(crate) fn parse(bytes: &[u8], name: &str) -> Result<Self> {
        let wrong = |reason: String| ShardError::Index { path: name.into(), reason };
        let version: Version = serde_json::from_slice(bytes).map_err(|e| wrong(e.to_string()))?;
        if version.format > FORMAT {
            return Err(ShardError::NewerIndex { path: name.into(), found: version.format, known: FORMAT }.into());
        }
        let index: Self = serde_json::from_slice(bytes).map_err(|e| wrong(e.to_string()))?;
        for shard in &index.shards {
            // Only names: an index must not make us read files elsewhere.
            let mut parts = Path::new(&shard.file).components();
            if !matches!((parts.next(), parts.next()), (Some(Component::Normal(name)), None) if name == shard.file.as_str())
            {
                return Err(ShardError::FileName { path: name.into(), file: shard.file.clone() }.into());
            }
        }
        Ok(index)
    }

    /// Writes it into the folder: to a temporary name, synced, renamed.
    ///
    /// # Errors
    /// [`DataError::Io`].
    pub fn write(&self, folder: &Path) -> Result<()> {
        let (path, part) = (folder.join(INDEX), folder.join(format!("{INDEX}.part")));
        let mut text = serde_json::to_string_pretty(self)
            .map_err(|e| ShardError::Index { path: path.display().to_string(), reason: e.to_string() })?;
        text.push('\n');
        let write = || -> std::io::Result<()> {
            let mut file = std::fs::File::create(&part)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&part, &path)?;
            // The name is safe when the folder is.
            std::fs::File::open(folder)?.sync_all()
        };
        write().map_err(DataError::io("write", &path))
    }

    /// The parts that it has, in order.
    pub(crate) fn parts(&self) -> Vec<&str> {
        let mut parts: Vec<&str> = Vec::new();
        for shard in &self.shards {
            if !parts.contains(&shard.part.as_str()) {
                parts.push(&shard.part);
            }
        }
        parts
    }
}

impl Shard {
    /// Compares the content of the shard with its digest.
    ///
    /// # Errors
    /// [`DataError::WrongDigest`], [`DataError::Io`].
    pub fn check_digest(&self, folder: &Path) -> Result<()> {
        let path = folder.join(&self.file);
        let mut file = crate::open_regular(&path).map_err(DataError::io("read", &path))?;
        let (mut sha, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
        loop {
            match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => sha.update(&buffer[..n]),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(DataError::io("read", &path)(e)),
            }
        }
        let found = hex(&sha.finalize());
        if found != self.sha256 {
            let (file, expected) = (path.display().to_string(), self.sha256.clone());
            return Err(DataError::WrongDigest { file, expected, found });
        }
        Ok(())
    }
}
