//! Which columns of a csv are features and which are targets.

use super::text::Text;
use crate::error::{CsvError, Result};
use paceline_base::text::did_you_mean;
use serde::{Deserialize, Serialize};

/// Columns of a csv by name, in the order in which a model takes and gives their values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Columns {
    /// Columns of features.
    pub features: Vec<String>,
    /// Columns of targets.
    pub targets: Vec<TargetColumn>,
}

/// A column of targets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetColumn {
    /// Its name.
    pub name: String,
    /// Names of its classes, by number; empty for a column of numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
}

/// Where the columns stand in a file.
pub(super) struct Places {
    pub features: Vec<usize>,
    /// Empty where a file to be predicted has none.
    pub targets: Vec<usize>,
}

/// How closely the columns of another file must be those of the first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Match {
    /// The same columns in any order: a part of the training data.
    All,
    /// All that the model takes and its targets, among others.
    Labelled,
    /// All that the model takes, among others; targets if all are there.
    Features,
}

impl Match {
    /// Who has the columns.
    pub(super) fn whose(self) -> &'static str {
        match self {
            Self::All => "the training data",
            Self::Labelled | Self::Features => "the model",
        }
    }
}

impl Places {
    /// In a file of training data, with the targets of these names; the last column if none.
    pub(super) fn choose(text: &Text, targets: &[String]) -> Result<Self> {
        let file = || text.file.clone();
        let mut places = Vec::with_capacity(targets.len());
        for name in targets {
            let place =
                text.header.iter().position(|column| column == name).ok_or_else(|| CsvError::UnknownTarget {
                    file: file(),
                    name: name.clone(),
                    hint: did_you_mean(name, text.header.iter().map(String::as_str)),
                    known: text.header.join(", "),
                })?;
            if places.contains(&place) {
                return Err(CsvError::TargetTwice { file: file(), name: name.clone() }.into());
            }
            places.push(place);
        }
        if places.is_empty() {
            places.push(text.header.len() - 1);
        }
        let features: Vec<usize> = (0..text.header.len()).filter(|place| !places.contains(place)).collect();
        match features.is_empty() {
            true => Err(CsvError::NoFeatures { file: file(), targets: places.len() }.into()),
            false => Ok(Self { features, targets: places }),
        }
    }

    /// In another file, by the names of the first; with the columns of it that are not used.
    pub(super) fn find(text: &Text, columns: &Columns, how: Match) -> Result<(Self, Vec<String>)> {
        let place = |name: &str| text.header.iter().position(|column| column == name);
        let find = |name: &str| {
            place(name).ok_or_else(|| CsvError::MissingColumn {
                file: text.file.clone(),
                name: name.into(),
                whose: how.whose(),
                hint: did_you_mean(name, text.header.iter().map(String::as_str)),
            })
        };
        let features: Vec<usize> = columns.features.iter().map(|name| find(name)).collect::<Result<_, _>>()?;
        let names = columns.targets.iter().map(|target| target.name.as_str());
        let targets = match how {
            Match::Features => names.map(place).collect::<Option<Vec<_>>>().unwrap_or_default(),
            Match::All | Match::Labelled => names.map(find).collect::<Result<_, _>>()?,
        };
        let used = |place: &usize| features.contains(place) || targets.contains(place);
        let unused = (0..text.header.len()).filter(|place| !used(place)).map(|place| text.header[place].clone());
        let unused: Vec<String> = unused.collect();
        match unused.first() {
            Some(name) if how == Match::All => {
                Err(CsvError::ExtraColumn { file: text.file.clone(), name: name.clone() }.into())
            }
            _ => Ok((Self { features, targets }, unused)),
        }
    }
}
