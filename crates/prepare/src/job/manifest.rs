//! The job on disk: what is to be made, for this process, for a later one that continues it, and for Spark's tasks.
//!
//! `job.json` has the settings, the classes and the shards; `files` has the images of every shard one after another, so
//! that the list of a million files never lies in memory while images are worked on: each is read when it is due.

use super::setting::JobError;
use super::{SettingError, Settings, assign};
use paceline_base::{Error, Result};
use paceline_data::Role;
use paceline_data::photos::{Listing, Photos};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Format of `job.json`.
const FORMAT: u32 = 1;
pub(super) const MANIFEST: &str = "job.json";
pub(super) const FILES: &str = "files";

/// `job.json`: what a job is to make, read by every process that makes shards of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Format of the file.
    pub format: u32,
    /// How shards are made.
    pub settings: Settings,
    /// Where the images came from.
    pub source: PathBuf,
    /// SHA-256 over the names, classes, sizes and times of the images.
    pub digest: String,
    /// Names of the classes.
    pub classes: Vec<String>,
    /// All shards of the job, made or not.
    pub shards: Vec<PlannedShard>,
    /// What a person should know of the images: their parts, files that were passed over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A shard to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedShard {
    /// Its file name.
    pub file: String,
    /// `train`, `validation` or `test`.
    pub part: String,
    /// How many images go into it, before bad ones are left out.
    pub images: usize,
    /// Where its images begin in `files`.
    pub offset: u64,
}

/// One image to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// Where it is.
    pub path: PathBuf,
    pub class: u32,
}

impl Manifest {
    /// Lists the source, spreads it over shards and writes both files into `folder`.
    pub(super) fn write(source: &Path, settings: &Settings, one_class: bool, folder: &Path) -> Result<Self, JobError> {
        settings.check()?;
        // `photos`, `photos/` and a link to it are one source.
        let source = &std::fs::canonicalize(source).map_err(|e| Error::io("read", source, &e))?;
        let listing = Listing::of(source)?;
        let classes = listing.train.class_names();
        if classes.len() < 2 && !one_class {
            return Err(SettingError::OneClass { source: source.clone(), class: classes.first().cloned() }.into());
        }
        let parts: Vec<(Role, &Photos)> = listing.parts().collect();
        // The parts one after another.
        let find = |mut index: usize| {
            let mut at = 0;
            while index >= parts[at].1.len() {
                index -= parts[at].1.len();
                at += 1;
            }
            (parts[at].1, index)
        };
        let given: Vec<(Role, usize)> = parts.iter().map(|(role, photos)| (*role, photos.len())).collect();
        let class_of = |index: usize| find(index).0.label(find(index).1) as usize;
        let wanted = assign(&given, classes.len(), &class_of, settings)?;
        let path = folder.join(FILES);
        let failed = |e: std::io::Error| Error::io("write", &path, &e);
        let mut out = BufWriter::new(File::create(&path).map_err(failed)?);
        let mut digest = Sha256::new();
        let (mut offset, mut shards) = (0u64, Vec::with_capacity(wanted.len()));
        for shard in &wanted {
            shards.push(PlannedShard {
                file: shard.file.clone(),
                part: shard.part.into(),
                images: shard.images.len(),
                offset,
            });
            if listing.is_split() {
                digest.update(shard.part);
            }
            for &index in &shard.images {
                let (photos, index) = find(index as usize);
                let image = photos.path(index);
                let image = std::path::absolute(&image).unwrap_or(image);
                let name = image.as_os_str().as_bytes();
                let class = photos.label(index);
                out.write_all(&class.to_le_bytes())
                    .and_then(|()| out.write_all(&(name.len() as u32).to_le_bytes()))
                    .and_then(|()| out.write_all(name))
                    .map_err(failed)?;
                offset += 8 + name.len() as u64;
                // A file that cannot be looked at is met again, and answered, when it is read.
                let (size, time, nanos) =
                    std::fs::metadata(&image).map_or((0, 0, 0), |m| (m.size(), m.mtime(), m.mtime_nsec()));
                for part in [name, &class.to_le_bytes(), &size.to_le_bytes(), &time.to_le_bytes(), &nanos.to_le_bytes()]
                {
                    digest.update((part.len() as u64).to_le_bytes());
                    digest.update(part);
                }
            }
        }
        out.into_inner().map_err(|e| e.into_error()).and_then(|f| f.sync_all()).map_err(failed)?;
        let manifest = Self {
            format: FORMAT,
            settings: settings.clone(),
            source: source.clone(),
            digest: paceline_system::hex(&digest.finalize()),
            classes: classes.to_vec(),
            shards,
            notes: listing.notes(),
        };
        let text = serde_json::to_vec_pretty(&manifest).map_err(|e| Error::internal(e.to_string()))?;
        paceline_system::atomic::write(&folder.join(MANIFEST), &text)?;
        Ok(manifest)
    }

    /// Reads what [`Manifest::write`] wrote.
    pub(super) fn read(folder: &Path) -> Result<Self, JobError> {
        let path = folder.join(MANIFEST);
        let text = std::fs::read(&path).map_err(|e| Error::io("read", &path, &e))?;
        let again = "it is damaged; remove the folder that it is in and run again";
        let manifest: Self =
            serde_json::from_slice(&text).map_err(|e| Error::user(format!("{}: {e}; {again}", path.display())))?;
        if manifest.format != FORMAT {
            let text = format!(
                "{}: format {}, and this version of Paceline knows {FORMAT}; continue with the version that began it",
                path.display(),
                manifest.format
            );
            return Err(Error::user(text).into());
        }
        manifest.settings.check()?;
        Ok(manifest)
    }

    /// Images in all.
    pub fn images(&self) -> usize {
        self.shards.iter().map(|s| s.images).sum()
    }

    /// Tells in which settings `self` (what is there) differs from `other` (what is wanted), in words.
    pub(crate) fn differences(&self, other: &Self) -> Option<String> {
        let (mine, theirs) = (self.settings.table(), other.settings.table());
        let differs: Vec<String> = mine
            .iter()
            .filter(|(key, value)| theirs.get(*key) != Some(value))
            .map(|(key, value)| {
                format!("{key} {value} instead of {}", theirs.get(key).unwrap_or(&serde_json::Value::Null))
            })
            .collect();
        if !differs.is_empty() {
            return Some(differs.join(", "));
        }
        if self.source != other.source {
            return Some(format!("from {} instead of {}", self.source.display(), other.source.display()));
        }
        (self.digest != other.digest || self.shards != other.shards || self.classes != other.classes)
            .then(|| "the images have changed since (other names, sizes or times)".into())
    }
}

/// Reads the images of some shards, one after another.
pub(super) struct Items {
    input: BufReader<File>,
    path: PathBuf,
}

impl Items {
    /// Opens the list of a job.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(FILES);
        let input = File::open(&path).map_err(|e| Error::io("open", &path, &e))?;
        Ok(Self { input: BufReader::new(input), path })
    }

    /// Goes to the first image of a shard.
    pub(crate) fn seek(&mut self, shard: &PlannedShard) -> Result<()> {
        let moved = self.input.seek(SeekFrom::Start(shard.offset));
        moved.map(|_| ()).map_err(|e| Error::io("read", &self.path, &e))
    }

    /// The next image.
    pub(super) fn next(&mut self) -> Result<Item> {
        let mut head = [0; 8];
        let failed = |e: std::io::Error| Error::io("read", &self.path, &e);
        self.input.read_exact(&mut head).map_err(failed)?;
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (class, len) = (number(0), number(4));
        if len > 1 << 16 {
            return Err(Error::failure(format!(
                "{}: a name of {len} bytes; the file is damaged: run again",
                self.path.display()
            )));
        }
        let mut name = vec![0; len as usize];
        self.input.read_exact(&mut name).map_err(failed)?;
        Ok(Item { path: PathBuf::from(OsString::from_vec(name)), class })
    }
}
