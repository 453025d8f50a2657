//! Rows of a csv to samples in memory, once it is known what its columns hold.

use super::columns::{Columns, Places, TargetColumn};
use super::text::{Row, Text, shown};
use crate::error::{CsvError, Result};
use crate::samples::PackedLists;
use crate::{DataPart, Lists, Table, Targets};
use paceline_base::text::did_you_mean;
use std::collections::{HashMap, HashSet};

/// What a file is read by.
pub(super) struct Reading<'a> {
    pub text: &'a Text,
    pub places: &'a Places,
    pub columns: &'a Columns,
    /// Who said what the columns hold: the training data or the model.
    pub whose: &'static str,
}

/// How much the lists of a file hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    pub entries: usize,
    /// Every index is below.
    pub bound: u64,
}

/// The names in a column of classes: by their values if all are numbers, else by the alphabet.
pub(super) fn class_names(text: &Text, place: usize) -> Result<Vec<String>> {
    let mut found: HashSet<String> = HashSet::new();
    text.rows(|row| {
        let name = utf8(text, &row, place)?;
        if !found.contains(name) {
            found.insert(name.to_string());
        }
        Ok(())
    })?;
    let mut names: Vec<String> = found.into_iter().collect();
    names.sort_unstable();
    let number = |name: &String| name.parse::<f64>().ok().filter(|number| number.is_finite());
    if let Some(numbers) = names.iter().map(number).collect::<Option<Vec<f64>>>() {
        let mut by_value: Vec<(f64, String)> = numbers.into_iter().zip(names).collect();
        by_value.sort_by(|a, b| a.0.total_cmp(&b.0));
        return Ok(by_value.into_iter().map(|(_, name)| name).collect());
    }
    Ok(names)
}

fn utf8<'a>(text: &Text, row: &'a Row<'_>, place: usize) -> Result<&'a str> {
    std::str::from_utf8(row.cell(place)).map_err(|_| {
        let (file, line, column) = (text.file.clone(), text.line(row.at), text.header[place].clone());
        CsvError::NotUtf8 { file, line, column }.into()
    })
}

impl Reading<'_> {
    /// What names a cell in an error: file, line and column.
    fn place(&self, row: &Row<'_>, place: usize) -> (String, usize, String) {
        (self.text.file.clone(), self.text.line(row.at), self.text.header[place].clone())
    }

    /// Looks at all lists; an index that is none, or not below `limit`, is an error.
    pub(super) fn extent(&self, limit: Option<u64>) -> Result<Extent> {
        let place = self.places.features[0];
        let mut extent = Extent::default();
        self.text.rows(|row| {
            for entry in entries(row.cell(place)) {
                let Some(index) = index(entry) else {
                    let ((file, line, column), value) = (self.place(&row, place), shown(entry));
                    return Err(CsvError::NotAnIndex { file, line, column, value }.into());
                };
                if let Some(bound) = limit.filter(|&limit| index >= limit) {
                    let ((file, line, column), whose) = (self.place(&row, place), self.whose);
                    return Err(CsvError::IndexBeyond { file, line, column, index, bound, whose }.into());
                }
                extent.entries += 1;
                extent.bound = extent.bound.max(index + 1);
            }
            Ok(())
        })?;
        Ok(extent)
    }

    /// The samples, with features that are numbers, or lists of so many indices below a bound.
    pub(super) fn samples(&self, lists: Option<Extent>) -> Result<DataPart> {
        let mut rows = 0;
        self.text.rows(|_| {
            rows += 1;
            Ok(())
        })?;
        if rows == 0 {
            return Err(CsvError::NoRows { file: self.text.file.clone() }.into());
        }
        let mut coders: Vec<Coder<'_>> = self.columns.targets.iter().map(Coder::new).collect();
        if self.places.targets.is_empty() {
            coders.clear();
        }
        let mut targets = Coded::with_room(rows * coders.len(), self.columns.targets[0].classes.is_empty());
        let targets_of = |row: &Row<'_>, targets: &mut Coded| -> Result<()> {
            for (coder, &place) in coders.iter().zip(&self.places.targets) {
                match targets {
                    Coded::Numbers(numbers) => numbers.push(self.number(row, place, TARGET_ADVICE)?),
                    Coded::Classes(classes) => classes.push(self.class(row, place, coder)?),
                }
            }
            Ok(())
        };
        if let Some(Extent { entries: count, bound }) = lists {
            let place = self.places.features[0];
            let mut packed = PackedLists::with_room(bound, count, rows);
            self.text.rows(|row| {
                entries(row.cell(place)).filter_map(index).for_each(|index| packed.push(index));
                packed.end_list();
                targets_of(&row, &mut targets)
            })?;
            return Ok(Lists::of(packed, bound, self.finish(targets, rows)?)?.into());
        }
        let shape = vec![self.places.features.len()];
        let mut values = Vec::with_capacity(rows * shape[0]);
        self.text.rows(|row| {
            for &place in &self.places.features {
                values.push(self.number(&row, place, FEATURE_ADVICE)?);
            }
            targets_of(&row, &mut targets)
        })?;
        Ok(Table::with_targets(shape, values, self.finish(targets, rows)?)?.into())
    }

    /// The targets of all rows. Where the file has none, zeros stand for them, which nobody may compare with.
    fn finish(&self, targets: Coded, rows: usize) -> Result<Targets> {
        let columns = &self.columns.targets;
        let each = columns.len();
        let all = rows * each;
        match targets {
            Coded::Numbers(numbers) => {
                Targets::numbers(if numbers.is_empty() { vec![0.0; all] } else { numbers }, each)
            }
            Coded::Classes(classes) => {
                let classes = if classes.is_empty() { vec![0; all] } else { classes };
                match &columns[..] {
                    [only] => Targets::named(classes, only.classes.clone()),
                    several => {
                        let most = several.iter().map(|column| column.classes.len()).max().unwrap_or_default();
                        Targets::several(classes, each, most)
                    }
                }
            }
        }
    }

    fn number(&self, row: &Row<'_>, place: usize, advice: &'static str) -> Result<f32> {
        let cell = row.cell(place);
        let number = std::str::from_utf8(cell).ok().and_then(|text| text.parse::<f32>().ok());
        if let Some(number) = number.filter(|number| number.is_finite()) {
            return Ok(number);
        }
        let ((file, line, column), value) = (self.place(row, place), shown(cell));
        Err(match number {
            _ if cell.is_empty() => CsvError::EmptyCell { file, line, column },
            Some(_) => CsvError::NotFinite { file, line, column, value },
            None => CsvError::NotANumber { file, line, column, value, advice },
        }
        .into())
    }

    fn class(&self, row: &Row<'_>, place: usize, coder: &Coder<'_>) -> Result<u32> {
        let name = utf8(self.text, row, place)?;
        coder.class(name).ok_or_else(|| {
            let (file, line, column) = self.place(row, place);
            if name.is_empty() {
                return CsvError::EmptyCell { file, line, column }.into();
            }
            let hint = did_you_mean(name, coder.names.iter().map(String::as_str)).into();
            let (value, whose) = (shown(name.as_bytes()), self.whose);
            CsvError::UnknownClass { file, line, column, value, whose, hint }.into()
        })
    }
}

const FEATURE_ADVICE: &str =
    "columns that are not in data.target are features, which are numbers; correct the cell, or remove the column";
const TARGET_ADVICE: &str = "correct it";

/// Entries of a list.
fn entries(cell: &[u8]) -> impl Iterator<Item = &[u8]> {
    cell.split(u8::is_ascii_whitespace).filter(|entry| !entry.is_empty())
}

/// An index: digits that 64 bits hold, and of which one more can be counted.
fn index(entry: &[u8]) -> Option<u64> {
    let mut index = 0u64;
    for byte in entry {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        index = index.checked_mul(10)?.checked_add(digit)?;
    }
    Some(index).filter(|&index| index < u64::MAX)
}

/// Targets as they are found.
enum Coded {
    Numbers(Vec<f32>),
    Classes(Vec<u32>),
}

impl Coded {
    fn with_room(values: usize, numbers: bool) -> Self {
        match numbers {
            true => Self::Numbers(Vec::with_capacity(values)),
            false => Self::Classes(Vec::with_capacity(values)),
        }
    }
}

/// From names of classes to their numbers.
struct Coder<'a> {
    names: &'a [String],
    numbers: HashMap<&'a str, u32>,
}

impl<'a> Coder<'a> {
    fn new(column: &'a TargetColumn) -> Self {
        let numbers = column.classes.iter().enumerate().map(|(number, name)| (name.as_str(), number as u32));
        Self { names: &column.classes, numbers: numbers.collect() }
    }

    /// By name; a whole number may be written otherwise than its class is, as `1.0`.
    fn class(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied().or_else(|| {
            let number = name.parse::<f64>().ok().filter(|number| number.fract() == 0.0 && *number >= 0.0)?;
            self.numbers.get((number as u64).to_string().as_str()).copied()
        })
    }
}
