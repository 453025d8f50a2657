//! What is in a csv of values, or in a folder of them.

use super::{ClassCount, DiskFile, InfoOptions, Stats, Sums, disk_file};
use crate::csv::{self, Columns};
use crate::{Features, Result, Role, Samples, Target};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A csv of values, or a folder of them.
#[derive(Clone, Debug, Serialize)]
pub struct CsvInfo {
    /// The file or folder.
    pub path: PathBuf,
    /// The files it was read from.
    pub files: Vec<DiskFile>,
    /// Its columns.
    pub columns: Columns,
    /// What the columns were taken for, and why.
    pub notes: Vec<String>,
    /// Its parts; one alone is for training.
    pub parts: Vec<CsvPart>,
}

/// A part of it.
#[derive(Clone, Debug, Serialize)]
pub struct CsvPart {
    /// What it is for.
    pub role: Role,
    /// Number of samples.
    pub rows: usize,
    /// Its features.
    pub features: CsvFeatures,
    /// Its targets, by column.
    pub targets: Vec<CsvTarget>,
    /// See [`Labelled::fingerprint`](crate::Labelled::fingerprint).
    pub fingerprint: String,
}

/// Features of a csv.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum CsvFeatures {
    /// Numbers, as many for each sample as there are columns.
    Dense {
        /// How many.
        columns: usize,
        /// Over all of them.
        values: Stats,
    },
    /// A list of indices for each sample.
    Lists {
        /// Indices of the shortest list.
        shortest: usize,
        /// Indices of a list, on average.
        mean: f64,
        /// Indices of the longest list.
        longest: usize,
        /// The largest index; none if all lists are empty.
        largest: Option<u64>,
    },
}

/// A column of targets.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum CsvTarget {
    /// Classes.
    Classes {
        /// Its name.
        name: String,
        /// How often each class occurs.
        classes: Vec<ClassCount>,
    },
    /// Numbers to be met.
    Numbers {
        /// Its name.
        name: String,
        /// Over all samples.
        values: Stats,
    },
}

/// Reads all of it.
pub(super) fn look(path: &Path, look: &InfoOptions) -> Result<CsvInfo> {
    let set = csv::open(path, &look.targets)?;
    let parts =
        [(Role::Train, Some(&set.train)), (Role::Validation, set.validation.as_ref()), (Role::Test, set.test.as_ref())];
    let parts = parts.into_iter().filter_map(|(role, part)| Some((role, part?.memory()?)));
    let parts = parts.map(|(role, samples)| part(role, samples, &set.columns)).collect();
    let files = csv::files(path).into_iter().map(|(_, file)| disk_file(file)).collect::<Result<_>>()?;
    Ok(CsvInfo { path: path.to_path_buf(), files, columns: set.columns, notes: set.notes, parts })
}

fn part(role: Role, samples: &Arc<dyn Samples>, columns: &Columns) -> CsvPart {
    let targets = columns.targets.iter().enumerate().map(|(number, column)| {
        let name = column.name.clone();
        match column.classes.is_empty() {
            true => CsvTarget::Numbers { name, values: number_stats(samples, number) },
            false => CsvTarget::Classes { name, classes: class_counts(samples, number, &column.classes) },
        }
    });
    CsvPart {
        role,
        rows: samples.len(),
        features: features(samples),
        targets: targets.collect(),
        fingerprint: samples.fingerprint(),
    }
}

fn features(samples: &Arc<dyn Samples>) -> CsvFeatures {
    let (mut sums, mut lists) = (Sums::default(), false);
    let (mut shortest, mut longest, mut all, mut largest) = (usize::MAX, 0, 0, None);
    for index in 0..samples.len() {
        let features = samples.features(index);
        let most = match features {
            Features::U8 { .. } | Features::F32(_) => {
                sums.add(features);
                continue;
            }
            Features::U32(indices) => indices.iter().max().map(|&index| u64::from(index)),
            Features::U64(indices) => indices.iter().max().copied(),
        };
        lists = true;
        shortest = shortest.min(features.len());
        longest = longest.max(features.len());
        all += features.len();
        largest = largest.max(most);
    }
    match lists {
        true => CsvFeatures::Lists { shortest, mean: all as f64 / samples.len() as f64, longest, largest },
        false => CsvFeatures::Dense { columns: samples.shape().iter().product(), values: sums.stats() },
    }
}

fn number_stats(samples: &Arc<dyn Samples>, column: usize) -> Stats {
    let mut sums = Sums::default();
    for index in 0..samples.len() {
        if let Target::Numbers(numbers) = samples.target(index) {
            sums.add(Features::F32(&numbers[column..=column]));
        }
    }
    sums.stats()
}

fn class_counts(samples: &Arc<dyn Samples>, column: usize, names: &[String]) -> Vec<ClassCount> {
    let mut classes: Vec<ClassCount> = names.iter().map(|name| ClassCount { name: name.clone(), count: 0 }).collect();
    for index in 0..samples.len() {
        match samples.target(index) {
            Target::Class(class) => classes[class as usize].count += 1,
            Target::Classes(several) => classes[several[column] as usize].count += 1,
            Target::Numbers(_) => {}
        }
    }
    classes
}
