//! Which columns of a csv are features and which are targets.

use super::text::Text;
use crate::error::{CsvError, Result};
use paceline_base::text::did_you_mean;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

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

/// Where each column of a file stands.
fn by_name(text: &Text) -> HashMap<&str, usize> {
    text.header.iter().enumerate().map(|(place, name)| (name.as_str(), place)).collect()
}

impl Places {
    /// In a file of training data, with the targets of these names; the last column if none.
    pub(super) fn choose(text: &Text, targets: &[String]) -> Result<Self> {
        let file = || text.file.clone();
        let known = by_name(text);
        let mut is_target = vec![false; text.header.len()];
        let mut places = Vec::with_capacity(targets.len());
        for name in targets {
            let Some(&place) = known.get(name.as_str()) else {
                let hint = did_you_mean(name, text.header.iter().map(String::as_str));
                let (name, known) = (name.clone(), text.header.join(", "));
                return Err(CsvError::UnknownTarget { file: file(), name, hint, known }.into());
            };
            if std::mem::replace(&mut is_target[place], true) {
                return Err(CsvError::TargetTwice { file: file(), name: name.clone() }.into());
            }
            places.push(place);
        }
        if places.is_empty() {
            let last = text.header.len() - 1;
            is_target[last] = true;
            places.push(last);
        }
        let features: Vec<usize> = (0..text.header.len()).filter(|&place| !is_target[place]).collect();
        match features.is_empty() {
            true => Err(CsvError::NoFeatures { file: file(), targets: places.len() }.into()),
            false => Ok(Self { features, targets: places }),
        }
    }

    /// In another file, by the names of the first; with the columns of it that are not used.
    pub(super) fn find(text: &Text, columns: &Columns, how: Match) -> Result<(Self, Vec<String>)> {
        let known = by_name(text);
        let place = |name: &str| known.get(name).copied();
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
        let used: HashSet<usize> = features.iter().chain(&targets).copied().collect();
        let unused = (0..text.header.len()).filter(|place| !used.contains(place));
        let unused: Vec<String> = unused.map(|place| text.header[place].clone()).collect();
        match unused.first() {
            Some(name) if how == Match::All => {
                Err(CsvError::ExtraColumn { file: text.file.clone(), name: name.clone() }.into())
            }
            _ => Ok((Self { features, targets }, unused)),
        }
    }
}
