//! What the columns of a csv hold, and why: features that are numbers or lists, targets that are classes or numbers.
//!
//! Decisions are made once, by the training data, from what was seen of it; all other files are read accordingly.

use super::columns::Places;
use super::text::{Row, Text, shown};
use crate::error::{CsvError, MixedCell, Result};
use std::str::FromStr;

/// What a user says that targets are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetsAre {
    /// Classes if a value is no number, or if all are whole numbers below 1000 that begin at 0 without gaps; else numbers.
    #[default]
    Auto,
    /// Names or numbers of classes.
    Classes,
    /// Numbers to be met.
    Numbers,
}

impl FromStr for TargetsAre {
    type Err = &'static str;

    fn from_str(word: &str) -> std::result::Result<Self, Self::Err> {
        match word {
            "auto" => Ok(Self::Auto),
            "classes" => Ok(Self::Classes),
            "numbers" => Ok(Self::Numbers),
            _ => Err("give auto, classes or numbers"),
        }
    }
}

/// Whole numbers from 0 to below this may be classes.
const CLASSES: usize = 1000;

/// A cell that decides something: where its row begins, and its text.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    at: u64,
    text: String,
}

impl Cell {
    fn new(row: &Row<'_>, cell: &[u8]) -> Self {
        Self { at: row.at, text: shown(cell) }
    }
}

/// What was seen of the feature columns.
#[derive(Default)]
struct FeaturesSeen {
    /// The first cell with several entries.
    several: Option<Cell>,
    empty: Option<Cell>,
    /// Whether all that have one entry are whole numbers.
    other_than_digits: bool,
}

/// What was seen of a target column.
struct TargetSeen {
    word: Option<Cell>,
    /// A number that is not whole.
    decimal: Option<Cell>,
    /// A whole number that is below 0, or too large to be a class.
    outside: Option<Cell>,
    not_finite: Option<Cell>,
    empty: Option<Cell>,
    /// Which whole numbers occur.
    whole: Vec<bool>,
    /// The first cell of the column.
    first: Option<Cell>,
}

/// What the features are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FeaturesAre {
    Numbers,
    Lists,
}

/// What a target column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TargetIs {
    Numbers,
    /// Classes that are whole numbers from 0 to below this.
    WholeNumbers(usize),
    /// Classes by name.
    Names,
}

/// What the columns of the training data hold.
pub(super) struct Decided {
    pub features: FeaturesAre,
    /// By target column.
    pub targets: Vec<TargetIs>,
    /// Why, a line for features and one for targets.
    pub reasons: Vec<String>,
}

/// Looks at all rows of the training data.
pub(super) fn decide(text: &Text, places: &Places, are: TargetsAre) -> Result<Decided> {
    let mut features = FeaturesSeen::default();
    let mut targets: Vec<TargetSeen> = places.targets.iter().map(|_| TargetSeen::new()).collect();
    let mut rows = 0;
    text.rows(|row| {
        rows += 1;
        if let [only] = places.features[..] {
            features.see(&row, row.cell(only));
        }
        for (seen, &place) in targets.iter_mut().zip(&places.targets) {
            seen.see(&row, row.cell(place));
        }
        Ok(())
    })?;
    if rows == 0 {
        return Err(CsvError::NoRows { file: text.file.clone() }.into());
    }
    let (is, features) = features.decide(text, places);
    let (kinds, targets) = decide_targets(text, places, &targets, are)?;
    Ok(Decided { features: is, targets: kinds, reasons: vec![features, targets] })
}

impl FeaturesSeen {
    #[inline]
    fn see(&mut self, row: &Row<'_>, cell: &[u8]) {
        if cell.is_empty() {
            self.empty.get_or_insert_with(|| Cell::new(row, cell));
        } else if !cell.iter().all(u8::is_ascii_digit) {
            if cell.iter().any(u8::is_ascii_whitespace) {
                self.several.get_or_insert_with(|| Cell::new(row, cell));
            } else {
                self.other_than_digits = true;
            }
        }
    }

    fn decide(&self, text: &Text, places: &Places) -> (FeaturesAre, String) {
        let [only] = places.features[..] else {
            return (FeaturesAre::Numbers, format!("features are numbers in {} columns", places.features.len()));
        };
        let name = &text.header[only];
        match (&self.several, &self.empty) {
            (Some(cell), _) => {
                let line = text.line(cell.at);
                (FeaturesAre::Lists, format!("features are lists of indices in `{name}`: line {line} has several"))
            }
            // An empty cell among numbers with decimals is one that is missing.
            (None, Some(cell)) if !self.other_than_digits => {
                let line = text.line(cell.at);
                (FeaturesAre::Lists, format!("features are lists of indices in `{name}`: line {line} has none"))
            }
            _ => (FeaturesAre::Numbers, format!("features are numbers in the column `{name}`: no cell holds several")),
        }
    }
}

impl TargetSeen {
    fn new() -> Self {
        let (word, decimal, outside, not_finite, empty, first) = Default::default();
        Self { word, decimal, outside, not_finite, empty, first, whole: vec![false; CLASSES] }
    }

    fn see(&mut self, row: &Row<'_>, cell: &[u8]) {
        if self.first.is_none() {
            self.first = Some(Cell::new(row, cell));
        }
        let number = std::str::from_utf8(cell).ok().and_then(|text| text.parse::<f64>().ok());
        let kind = match number {
            _ if cell.is_empty() => &mut self.empty,
            None => &mut self.word,
            Some(number) if !number.is_finite() => &mut self.not_finite,
            Some(number) if number.fract() != 0.0 => &mut self.decimal,
            Some(number) if (0.0..CLASSES as f64).contains(&number) => {
                self.whole[number as usize] = true;
                return;
            }
            Some(_) => &mut self.outside,
        };
        kind.get_or_insert_with(|| Cell::new(row, cell));
    }

    /// One more than the largest, if all values are whole numbers that may be classes.
    fn classes(&self) -> Option<usize> {
        let others = [&self.word, &self.decimal, &self.outside, &self.not_finite];
        let classes = self.whole.iter().rposition(|&occurs| occurs)? + 1;
        (others.iter().all(|cell| cell.is_none()) && self.whole[..classes].iter().all(|&occurs| occurs))
            .then_some(classes)
    }

    /// What `auto` makes of the column; of a mixture the two cells that do not fit.
    fn auto(&self, text: &Text) -> Result<AutoKind<'_>, (&Cell, &Cell)> {
        let at = |cell: &Cell, why: &str| format!("`{}` {why} (line {})", cell.text, text.line(cell.at));
        let (is, cell, why) = match (&self.word, &self.decimal, self.classes(), &self.outside) {
            (Some(word), Some(decimal), _, _) => return Err((word, decimal)),
            (Some(word), None, _, _) => (TargetIs::Names, Some(word), at(word, "is no number")),
            (None, _, Some(classes), _) => {
                let why = format!("all are whole numbers from 0 to {} without gaps", classes - 1);
                (TargetIs::WholeNumbers(classes), self.first.as_ref(), why)
            }
            (None, Some(decimal), None, _) => (TargetIs::Numbers, Some(decimal), at(decimal, "is not whole")),
            (None, None, None, Some(outside)) => {
                (TargetIs::Numbers, Some(outside), at(outside, &format!("is not from 0 to {}", CLASSES - 1)))
            }
            (None, None, None, None) => {
                let missing = self.whole.iter().position(|&occurs| !occurs).unwrap_or_default();
                let why = format!("{missing} does not occur, so that they are no numbers of classes");
                (TargetIs::Numbers, self.first.as_ref(), why)
            }
        };
        Ok(AutoKind { is, cell, why })
    }
}

/// What `auto` makes of a column.
struct AutoKind<'a> {
    is: TargetIs,
    /// A cell that says so, or the first.
    cell: Option<&'a Cell>,
    why: String,
}

impl AutoKind<'_> {
    fn is_numbers(&self) -> bool {
        self.is == TargetIs::Numbers
    }

    /// What its cells are, in an error.
    fn words(&self) -> &'static str {
        match self.is {
            TargetIs::Numbers => "a number",
            TargetIs::WholeNumbers(_) => "the number of a class",
            TargetIs::Names => "a name",
        }
    }
}

/// The kinds of all target columns and why, or the two cells that do not fit together.
fn decide_targets(
    text: &Text,
    places: &Places,
    seen: &[TargetSeen],
    are: TargetsAre,
) -> Result<(Vec<TargetIs>, String)> {
    let column = |number: usize| text.header[places.targets[number]].clone();
    let file = || text.file.clone();
    for (number, seen) in seen.iter().enumerate() {
        if let Some(cell) = &seen.empty {
            let line = text.line(cell.at);
            return Err(CsvError::EmptyCell { file: file(), line, column: column(number) }.into());
        }
        if let (Some(cell), false) = (&seen.not_finite, are == TargetsAre::Classes) {
            let (line, value) = (text.line(cell.at), cell.text.clone());
            return Err(CsvError::NotFinite { file: file(), line, column: column(number), value }.into());
        }
        if let (Some(cell), TargetsAre::Numbers) = (&seen.word, are) {
            let advice = "correct it, or set data.targets = \"classes\"";
            let (line, value) = (text.line(cell.at), cell.text.clone());
            return Err(CsvError::NotANumber { file: file(), line, column: column(number), value, advice }.into());
        }
    }
    let names: Vec<String> = (0..seen.len()).map(|number| format!("`{}`", column(number))).collect();
    let names = names.join(", ");
    let (kinds, why): (Vec<TargetIs>, String) = match are {
        TargetsAre::Numbers => (vec![TargetIs::Numbers; seen.len()], "data.targets says so".into()),
        TargetsAre::Classes => {
            let kind = |seen: &TargetSeen| seen.classes().map_or(TargetIs::Names, TargetIs::WholeNumbers);
            (seen.iter().map(kind).collect(), "data.targets says so".into())
        }
        TargetsAre::Auto => {
            let mut kinds: Vec<AutoKind<'_>> = Vec::with_capacity(seen.len());
            for (number, seen) in seen.iter().enumerate() {
                kinds.push(seen.auto(text).map_err(|(word, decimal)| {
                    mixed(text, (column(number), (word, "a name")), (column(number), (decimal, "a number")))
                })?);
            }
            if let Some(other) = kinds.iter().position(|kind| kind.is_numbers() != kinds[0].is_numbers())
                && let [Some(first), Some(second)] = [0, other].map(|number| kinds[number].cell)
            {
                let first = (column(0), (first, kinds[0].words()));
                return Err(mixed(text, first, (column(other), (second, kinds[other].words()))).into());
            }
            let why = match &kinds[..] {
                [only] => only.why.clone(),
                several => {
                    let whys =
                        several.iter().enumerate().map(|(number, kind)| format!("{}: {}", column(number), kind.why));
                    whys.collect::<Vec<_>>().join("; ")
                }
            };
            (kinds.into_iter().map(|kind| kind.is).collect(), why)
        }
    };
    let what = if kinds[0] == TargetIs::Numbers { "numbers to be met" } else { "classes" };
    Ok((kinds, format!("targets in {names} are {what}: {why}")))
}

/// The error for two cells that do not fit together: column, cell and what it is.
fn mixed(text: &Text, first: (String, (&Cell, &'static str)), second: (String, (&Cell, &'static str))) -> CsvError {
    let [first, second] = [first, second].map(|(column, (cell, kind))| {
        Box::new(MixedCell { column, line: text.line(cell.at), value: cell.text.clone(), kind })
    });
    CsvError::MixedTargets { file: text.file.clone(), first, second }
}
