//! What a path holds: image files or shards of records, listed once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use paceline_base::random::{Stream, Use};
use paceline_base::{Error, Result, text};
use paceline_data::photos::Photos;
use paceline_data::shards::{self, Index};
use paceline_data::tfrecord::Reader;
use paceline_record::Form;

use super::{StudySetting, StudySettingNames};

/// One image: a file, or a record of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Sample {
    pub file: u32,
    pub record: u32,
}

/// A listed source.
#[derive(Debug)]
pub struct ListedSource {
    /// Where it is.
    pub path: PathBuf,
    /// What it holds.
    pub form: Form,
    /// Image files in the order in which they are taken (shuffled by the seed, so that a part of them is like the whole),
    /// or shards by name.
    pub(super) files: Vec<PathBuf>,
    /// How many records each shard has, once its end was seen; `u32::MAX` before.
    ends: Vec<AtomicU32>,
    /// Images that are left out.
    bad: BTreeSet<Sample>,
    skip_bad: usize,
    /// What was left out, in words.
    pub(super) skipped: Vec<String>,
}

/// Whether a path holds files of photos or shards of records.
///
/// # Errors
/// A path that does not exist, or a file that is neither a table nor a shard.
pub fn recognise(path: &Path) -> Result<Form> {
    if path.is_dir() {
        let shards = path.join(shards::INDEX).is_file() || shards::record_files(path).is_ok();
        return Ok(if shards { Form::Records } else { Form::Files });
    }
    if path.is_file() {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if shards::is_record_name(&name) {
            return Ok(Form::Records);
        }
        if name.ends_with(".csv") || name.ends_with(".tsv") {
            return Ok(Form::Files);
        }
        return Err(Error::user(format!(
            "{}: neither a folder, nor a table of photos (.csv, .tsv), nor a shard of records (.tfrec, .tfrecord)",
            path.display()
        )));
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let names: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into())
        .collect();
    let wanted = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let hint = text::did_you_mean(&wanted, names.iter().map(String::as_str));
    let hint = if hint.is_empty() { "; give a folder of photos or of shards".into() } else { hint };
    Err(Error::user(format!("{}: there is no such file or folder{hint}", path.display())))
}

impl ListedSource {
    /// Lists what is at `path`.
    ///
    /// # Errors
    /// A path without images, or one that cannot be read.
    pub fn open(path: &Path, form: Form, seed: u64, skip_bad: usize) -> Result<Self> {
        let files = match form {
            Form::Files => shuffled(&Photos::list(path)?, seed),
            Form::Records => shards_of(path)?,
        };
        if files.is_empty() {
            return Err(Error::user(format!(
                "{}: there are no images; give a folder of photos or of shards",
                path.display()
            )));
        }
        let ends = files.iter().map(|_| AtomicU32::new(u32::MAX)).collect();
        Ok(Self { path: path.to_path_buf(), form, files, ends, bad: BTreeSet::new(), skip_bad, skipped: Vec::new() })
    }

    /// How many images there are, counted up to `most`.
    ///
    /// # Errors
    /// A shard that cannot be read.
    pub fn count(&self, most: usize) -> Result<usize> {
        if self.form == Form::Files {
            return Ok(self.files.len().min(most));
        }
        if let Some(index) = Index::read(&self.path)? {
            return Ok(index.shards.iter().map(|shard| shard.records).sum::<usize>().min(most));
        }
        let mut found = 0;
        let mut record = Vec::new();
        for path in &self.files {
            let file = paceline_data::open_regular(path).map_err(|e| Error::io("read", path, &e))?;
            let mut reader = Reader::new(file, &path.display().to_string(), false)?;
            while found < most {
                match reader.next(&mut record) {
                    Ok(Some(_)) => found += 1,
                    Ok(None) => break,
                    Err(_) if self.skip_bad > 0 => break, // measuring counts it
                    Err(error) => return Err(error.into()),
                }
            }
        }
        if found == 0 {
            return Err(Error::user(format!("{}: the shards hold no records", self.path.display())));
        }
        Ok(found)
    }

    /// The files, for the page cache.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Leaves an image out.
    ///
    /// # Errors
    /// The reason itself, when no more may be left out.
    pub(super) fn skip(&mut self, sample: Sample, why: String, names: StudySettingNames) -> Result<()> {
        if self.bad.len() >= self.skip_bad {
            let more = if self.skip_bad == 0 { "" } else { " more" };
            return Err(Error::user(format!(
                "{why}; remove it, or let{more} bad images be left out with {} N",
                names.of(StudySetting::SkipBad)
            )));
        }
        if self.bad.insert(sample) {
            self.skipped.push(why);
        }
        Ok(())
    }

    pub(super) fn is_bad(&self, sample: Sample) -> bool {
        self.bad.contains(&sample)
    }

    /// The number of records of a shard, if its end was seen.
    pub(super) fn end(&self, file: u32) -> u32 {
        self.ends[file as usize].load(Ordering::Relaxed)
    }

    /// Notes the end of a shard.
    pub(super) fn set_end(&self, file: u32, records: u32) {
        self.ends[file as usize].store(records, Ordering::Relaxed);
    }
}

fn shards_of(path: &Path) -> Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.to_path_buf()]);
    }
    match Index::read(path)? {
        Some(index) => Ok(index.shards.iter().map(|shard| path.join(&shard.file)).collect()),
        None => Ok(shards::record_files(path)?),
    }
}

fn shuffled(photos: &Photos, seed: u64) -> Vec<PathBuf> {
    let random = Stream::new(seed, Use::Data, 0xf11e, 0);
    let mut order: Vec<usize> = (0..photos.len()).collect();
    for last in (1..order.len()).rev() {
        let bits = u64::from(random.bits(last as u64));
        order.swap(last, ((bits * (last as u64 + 1)) >> 32) as usize);
    }
    order.into_iter().map(|index| photos.path(index)).collect()
}
