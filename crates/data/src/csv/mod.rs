//! A csv of values: a line for each sample, features that are numbers or a list of indices, and one or several targets.
//!
//! The first line names the columns. `data.target` says which are targets (the last one, if nothing is said); all others are
//! features. Either all of them are numbers, or there is one alone, whose cells are lists of indices such as `3 17 9`, possibly
//! empty. Parts are the files `train.csv`, `validation.csv` and `test.csv` of a folder: what the columns hold is decided by the
//! training part, and the others are read accordingly.
//!
//! Rooms: `text` reads lines and knows where they stand, `columns` finds columns by name, `decide` says what they hold and why,
//! `convert` makes samples of them.

mod columns;
mod convert;
mod decide;
mod text;

pub use columns::{Columns, TargetColumn};
pub use decide::TargetsAre;

use crate::photos::{is_image_name, table};
use crate::{CsvError, DataError, DataPart, Result, Role};
use columns::{Match, Places};
use convert::{Extent, Reading};
use decide::{FeaturesAre, TargetIs};
use paceline_base::sample::FeatureKind;
use std::path::{Path, PathBuf};
use text::Text;

/// What a user says of the targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetOptions {
    /// Names of the target columns; the last column if there are none.
    pub columns: Vec<String>,
    /// What they are.
    pub are: TargetsAre,
}

/// A csv, or a folder of them, as samples.
pub(crate) struct CsvSet {
    pub train: DataPart,
    pub validation: Option<DataPart>,
    pub test: Option<DataPart>,
    pub columns: Columns,
    /// What the columns were taken for, and why.
    pub notes: Vec<String>,
}

/// Bytes that samples take at most for each byte of text, the text included: `1 ` is two bytes, and its index eight where one of all needs 64 bits.
const BYTES: u64 = 5;

/// Bytes of memory that the files take at most while they are read.
pub(crate) fn bytes(path: &Path) -> Result<u64> {
    let mut all = 0u64;
    for (_, file) in files(path) {
        all += std::fs::metadata(&file).map_err(DataError::io("read", &file))?.len();
    }
    Ok(all.saturating_mul(BYTES))
}

/// The files of a folder by what they are for, or the file itself; those that are there.
pub(crate) fn files(path: &Path) -> Vec<(Role, PathBuf)> {
    if !path.is_dir() {
        return vec![(Role::Train, path.to_path_buf())];
    }
    let mut found: Vec<(Role, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        let file = entry.path();
        let role = file.file_stem().and_then(|stem| stem.to_str()).and_then(Role::of_word);
        if let (Some(role), true) = (role, is_csv_name(&file)) {
            found.push((role, file));
        }
    }
    found.sort();
    found
}

/// Whether a path is a csv by its name.
fn is_csv_name(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"))
}

/// Whether a path is a csv of values, or a folder of them. One that lists images is a table of photos: its first line names a
/// column of paths, or begins with an image.
pub(crate) fn is_values(path: &Path) -> Result<bool> {
    if path.is_dir() {
        return files(path).first().map_or(Ok(false), |(_, first)| is_values(first));
    }
    if !is_csv_name(path) {
        return Ok(false);
    }
    let first = table::first_line(path)?;
    let begins_with_image = first.first().is_some_and(|cell| {
        let name = table::file_name(cell);
        is_image_name(&name) || !cell.is_empty() && path.parent().is_some_and(|root| root.join(&name).is_file())
    });
    Ok(!begins_with_image && !table::names_paths(&first))
}

/// Opens a csv, or a folder of them.
pub(crate) fn open(path: &Path, options: &TargetOptions) -> Result<CsvSet> {
    let files = files(path);
    for pair in files.windows(2) {
        if pair[0].0 == pair[1].0 {
            let [first, second] = [&pair[0].1, &pair[1].1].map(|file| file.display().to_string());
            return Err(CsvError::TwoFiles { first, second, part: pair[0].0.name() }.into());
        }
    }
    if files.first().is_none_or(|(role, _)| *role != Role::Train) {
        return Err(CsvError::NoTraining { folder: path.display().to_string() }.into());
    }
    let text = Text::read(&files[0].1)?;
    let others = files[1..].iter().map(|(role, file)| Ok((*role, Text::read(file)?))).collect::<Result<_>>()?;
    of_texts(text, others, options)
}

/// The samples of a csv to train on, and of others that go with it: all texts are needed before the first becomes samples,
/// because indices are below one bound in all parts.
fn of_texts(text: Text, others: Vec<(Role, Text)>, options: &TargetOptions) -> Result<CsvSet> {
    let places = Places::choose(&text, &options.columns)?;
    let decided = decide::decide(&text, &places, options.are)?;
    let names = |places: &[usize]| places.iter().map(|&place| text.header[place].clone()).collect::<Vec<_>>();
    let mut targets = Vec::new();
    for (&place, is) in places.targets.iter().zip(&decided.targets) {
        let classes = match is {
            TargetIs::Numbers => Vec::new(),
            TargetIs::WholeNumbers(classes) => (0..*classes).map(|class| class.to_string()).collect(),
            TargetIs::Names => convert::class_names(&text, place)?,
        };
        targets.push(TargetColumn { name: text.header[place].clone(), classes });
    }
    let columns = Columns { features: names(&places.features), targets };
    let whose = Match::All.whose();

    let mut parts = vec![(Role::Train, text, places)];
    for (role, text) in others {
        let (places, _) = Places::find(&text, &columns, Match::All)?;
        parts.push((role, text, places));
    }
    let mut extents: Vec<Option<Extent>> = vec![None; parts.len()];
    if decided.features == FeaturesAre::Lists {
        for (extent, (_, text, places)) in extents.iter_mut().zip(&parts) {
            *extent = Some(Reading { text, places, columns: &columns, whose }.extent(None)?);
        }
        let bound = extents.iter().flatten().map(|extent| extent.bound).max().unwrap_or_default();
        extents.iter_mut().flatten().for_each(|extent| extent.bound = bound);
    }
    let mut opened = Vec::with_capacity(parts.len());
    for ((role, text, places), extent) in parts.into_iter().zip(extents) {
        opened.push((role, Reading { text: &text, places: &places, columns: &columns, whose }.samples(extent)?));
    }
    let part = |wanted: Role| opened.iter().find(|(role, _)| *role == wanted).map(|(_, part)| part.clone());
    let mut notes = decided.reasons;
    if options.columns.is_empty() {
        notes.push(format!(
            "`{}` is the target because it is the last column; data.target names others",
            columns.targets[0].name
        ));
    }
    if opened.len() > 1 {
        let counts: Vec<String> = opened.iter().map(|(role, part)| format!("{} {role}", part.len())).collect();
        notes.push(format!("the samples are in parts by the names of the files: {}", counts.join(", ")));
    }
    let (validation, test) = (part(Role::Validation), part(Role::Test));
    Ok(CsvSet { train: opened.swap_remove(0).1, validation, test, columns, notes })
}

/// What a csv must be like to go with other data: the columns, and what the features are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvKind {
    /// Columns that it must have.
    pub columns: Columns,
    /// What the features are; indices must be below the bound.
    pub features: FeatureKind,
}

/// A csv that goes with other data.
pub(crate) struct CsvInput {
    pub part: DataPart,
    /// Whether it has targets; zeros stand for them if not.
    pub has_targets: bool,
    pub notes: Vec<String>,
}

impl CsvKind {
    /// Opens samples to validate on beside training data of this kind.
    pub(crate) fn open_part(&self, file: &Path) -> Result<DataPart> {
        self.open(file, Match::All).map(|input| input.part)
    }

    /// Opens inputs for a model of this kind; targets need not be there unless they are asked for.
    pub(crate) fn open_input(&self, file: &Path, targets: bool) -> Result<CsvInput> {
        self.open(file, if targets { Match::Labelled } else { Match::Features })
    }

    fn open(&self, file: &Path, how: Match) -> Result<CsvInput> {
        let text = Text::read(file)?;
        let (places, unused) = Places::find(&text, &self.columns, how)?;
        let reading = Reading { text: &text, places: &places, columns: &self.columns, whose: how.whose() };
        let extent = match self.features {
            FeatureKind::Dense => None,
            FeatureKind::Lists { bound, .. } => Some(Extent { bound, ..reading.extent(Some(bound))? }),
        };
        let part = reading.samples(extent)?;
        let mut notes = Vec::new();
        if !unused.is_empty() {
            let columns: Vec<String> = unused.iter().map(|name| format!("`{name}`")).collect();
            notes.push(format!("{}: not used: {}", text.file, columns.join(", ")));
        }
        Ok(CsvInput { part, has_targets: !places.targets.is_empty(), notes })
    }
}

/// The samples of a text, for fuzzing.
#[cfg(test)]
pub(crate) fn of_bytes(bytes: &[u8], options: &TargetOptions) -> Result<CsvSet> {
    of_texts(Text::of("f".into(), bytes.to_vec())?, Vec::new(), options)
}

#[cfg(test)]
mod tests;
