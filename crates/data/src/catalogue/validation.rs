//! A validation set of its own: a folder, a table or shards beside the training set, under the training set's classes; beside a
//! csv of values another one with the same columns.

use super::{Catalogue, DataSet, Options, SetLocation};
use crate::csv::CsvKind;
use crate::photos::Listing;
use crate::samples::Relabelled;
use crate::shards::{Index, ShardOptions, by_part, record_files};
use crate::tfrecord::Memory;
use crate::{DataError, DataPart, FileImages, RecordImages, Result, Role, Source};
use std::path::Path;
use std::sync::Arc;

/// What was opened to validate on.
pub struct ValidationSet {
    /// The samples, of the shape and under the classes of the training set.
    pub part: DataPart,
    /// What a person should know of them.
    pub notes: Vec<String>,
    /// Records that were left out, with what is wrong with them.
    pub skipped: Vec<String>,
}

impl Catalogue {
    /// Opens what a set is to be validated on: a folder of class folders, a `csv` or `tsv`, or record shards; for a csv of
    /// values another one. All of it is validated on, and its classes must be among those of the set.
    ///
    /// # Errors
    /// [`DataError::ValidationSet`], and everything that can be wrong with its files.
    pub fn open_validation(&self, path: &Path, options: &Options, set: &DataSet) -> Result<ValidationSet> {
        let wrong = |reason: String| DataError::ValidationSet { path: path.display().to_string(), reason };
        let same = |a: &Path, b: &Path| std::fs::canonicalize(a).ok().zip(std::fs::canonicalize(b).ok());
        if same(path, Path::new(&set.name)).is_some_and(|(a, b)| a == b) {
            return Err(wrong("it is the training set itself; give other samples, or a fraction such as 0.1".into()));
        }
        if let Some(columns) = &set.columns {
            if !path.is_file() {
                return Err(wrong("the training set is a csv; give the path of another one, or a fraction".into()));
            }
            let kind = CsvKind { columns: columns.clone(), features: set.train.feature_kind() };
            options.has_room(&path.to_string_lossy(), || crate::csv::bytes(path))?;
            return Ok(ValidationSet { part: kind.open_part(path)?, notes: Vec::new(), skipped: Vec::new() });
        }
        let (DataPart::Stream(_), &[height, width, channels]) = (&set.train, set.train.shape()) else {
            let what = "it can only go with training images in files or records, or with a csv of values";
            return Err(wrong(format!("{what}, and {} is in memory; give a fraction or \"test\"", set.name)));
        };
        if !path.exists() {
            return Err(wrong("there is no such folder or file; give a path, a fraction, \"own\" or \"test\"".into()));
        }
        let shape = [height, width, channels];
        let fit = options.size.map(|_| options.fit);
        let (source, notes, skipped): (Arc<dyn Source>, _, _) = match self.resolve(&path.to_string_lossy())? {
            SetLocation::Photos(path) => {
                let listing = Listing::of(&path)?;
                if listing.is_split() {
                    return Err(wrong("it has parts of its own; give the folder of one part".into()));
                }
                let notes = listing.notes();
                (Arc::new(FileImages::shaped(listing.train, shape, fit)), notes, Vec::new())
            }
            SetLocation::Shards(path) => {
                one_part(&path).map_err(|parts| match parts {
                    PartsError::Several(names) => {
                        wrong(format!("it has the parts {names}; give shards of one part alone"))
                    }
                    PartsError::Wrong(error) => error,
                })?;
                let memory = Arc::new(Memory::up_to(options.records_memory()));
                let (skip_bad, names) = (options.skip_bad, options.names.clone());
                let open = ShardOptions { verify: options.verify, skip_bad, memory, names, ..ShardOptions::default() };
                let records = open.records(&path)?;
                let skipped = records.skipped().list().to_vec();
                let stored = records.encoding().shape().or(records.index().map(|index| index.shape));
                if let (Some(stored), None) = (stored, fit)
                    && stored != shape
                {
                    let (expected, found) = (shape.to_vec(), stored.to_vec());
                    return Err(DataError::ShapeMismatch { file: path.display().to_string(), expected, found });
                }
                (Arc::new(RecordImages::shaped(records, shape, fit)), Vec::new(), skipped)
            }
            _ => {
                return Err(wrong(
                    "give a folder of class folders, a csv or tsv of path,label, or record shards".into(),
                ));
            }
        };
        let relabelled = Relabelled::new(source, set.train.class_names()).map_err(|class| {
            wrong(format!("it has a class `{class}` that {} does not have; take it out, or train on it too", set.name))
        })?;
        let notes = notes.into_iter().map(|note| format!("data.validation: {note}")).collect();
        Ok(ValidationSet { part: DataPart::Stream(Arc::new(relabelled)), notes, skipped })
    }
}

enum PartsError {
    Several(String),
    Wrong(DataError),
}

impl From<DataError> for PartsError {
    fn from(error: DataError) -> Self {
        Self::Wrong(error)
    }
}

/// Refuses shards of several parts.
fn one_part(path: &Path) -> Result<(), PartsError> {
    if !path.is_dir() {
        return Ok(());
    }
    let mut names: Vec<String> = match Index::read(path)? {
        Some(index) => index.parts().into_iter().map(String::from).collect(),
        None => {
            let files = by_part(path, record_files(path)?)?;
            files.iter().map(|(role, _)| role.unwrap_or(Role::Train).to_string()).collect()
        }
    };
    names.dedup();
    if names.len() > 1 { Err(PartsError::Several(names.join(", "))) } else { Ok(()) }
}
