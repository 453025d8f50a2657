//! Setting samples aside for validation.
//!
//! A fraction is taken class by class (stratified; samples without classes are all of one), so that a small validation part still has the mixture of the whole,
//! and by a keyed order of each class, so that it depends on the seed alone. How many of each class is settled by the
//! largest remainder: the parts add up to the rounded whole, and no class is off by more than one.

use crate::{DataError, DataPart, DataSet, Labelled, Order, Result};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The fraction that is held out where nothing else is said.
const TENTH: f64 = 0.1;

/// Where validation samples come from. Its text form is a fraction (`0.1`), `test`, `own`, `auto`, or a path, which has a
/// `/` or a `.` in it.
#[derive(Clone, Debug, PartialEq)]
pub enum Split {
    /// The set's own validation part if it has one, else a tenth of the training samples.
    Auto,
    /// The set's own validation part; all training samples are trained on.
    Own,
    /// This part of the training samples, more than 0 and less than 1; the others are trained on.
    Fraction(f64),
    /// The set's own test part; all training samples are trained on.
    Test,
    /// A folder, a table or shards, which stand in the set's validation part: see
    /// [`Catalogue::open_validation`](crate::Catalogue::open_validation).
    Path(PathBuf),
}

/// The indices of the two parts of a split, both ascending and disjoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indices {
    /// Indices of training samples to train on.
    pub train: Vec<usize>,
    /// Indices to validate on: of training samples for a fraction, else of the part that [`Split`] names.
    pub validation: Vec<usize>,
}

/// The two parts of a split, ready to use.
#[derive(Clone)]
pub struct Parts {
    /// What to train on.
    pub train: DataPart,
    /// What to validate on.
    pub validation: DataPart,
}

impl Split {
    /// What `auto` means for a set; the others are what they are.
    pub fn resolved(&self, set: &DataSet) -> Self {
        match self {
            Self::Auto if set.validation.is_some() => Self::Own,
            Self::Auto => Self::Fraction(TENTH),
            split => split.clone(),
        }
    }

    /// The part of its own that is validated on, if none of the training samples are.
    fn held_out<'a>(&self, set: &'a DataSet) -> Result<Option<&'a DataPart>> {
        let name = || set.name.clone();
        match self.resolved(set) {
            Self::Test => Ok(Some(set.test.as_ref().ok_or_else(|| DataError::NoTestPart { name: name() })?)),
            Self::Own | Self::Auto | Self::Path(_) => {
                Ok(Some(set.validation.as_ref().ok_or_else(|| DataError::NoValidationPart { name: name() })?))
            }
            Self::Fraction(_) => Ok(None),
        }
    }

    /// The indices of both parts.
    ///
    /// # Errors
    /// [`DataError::BadSplit`], [`DataError::EmptyPart`], [`DataError::NoTestPart`] or [`DataError::NoValidationPart`].
    pub(crate) fn indices(&self, set: &DataSet, seed: u64) -> Result<Indices> {
        match (self.held_out(set)?, self.resolved(set)) {
            (None, Self::Fraction(fraction)) => stratified(&*set.train, fraction, seed),
            (part, _) => Ok(Indices {
                train: (0..set.train.len()).collect(),
                validation: (0..part.map_or(0, |part| part.len())).collect(),
            }),
        }
    }

    /// Both parts as samples.
    ///
    /// # Errors
    /// [`DataError::BadSplit`], [`DataError::EmptyPart`], [`DataError::NoTestPart`] or [`DataError::NoValidationPart`].
    pub fn apply(&self, set: &DataSet, seed: u64) -> Result<Parts> {
        if let Some(part) = self.held_out(set)? {
            return Ok(Parts { train: set.train.clone(), validation: part.clone() });
        }
        let Indices { train, validation } = self.indices(set, seed)?;
        Ok(Parts { train: set.train.subset(train)?, validation: set.train.subset(validation)? })
    }
}

/// Takes `fraction` of the samples of each class for validation; of samples without classes a fraction of all.
///
/// # Errors
/// [`DataError::BadSplit`] or [`DataError::EmptyPart`].
pub(crate) fn stratified(samples: &dyn Labelled, fraction: f64, seed: u64) -> Result<Indices> {
    match samples.classes() {
        0 => stratified_by(samples.len(), 1, &|_| 0, fraction, seed),
        classes => stratified_by(samples.len(), classes, &|index| samples.label(index) as usize, fraction, seed),
    }
}

/// Takes `fraction` of the members of each class for validation; `class` says which of `classes` a member belongs to.
///
/// # Errors
/// [`DataError::BadSplit`] or [`DataError::EmptyPart`].
pub fn stratified_by(
    n: usize,
    classes: usize,
    class: &dyn Fn(usize) -> usize,
    fraction: f64,
    seed: u64,
) -> Result<Indices> {
    if !(fraction > 0.0 && fraction < 1.0) {
        return Err(DataError::BadSplit { text: fraction.to_string() });
    }
    let wanted = (fraction * n as f64).round() as usize;
    let empty = |part| Err(DataError::EmptyPart { part, fraction, samples: n });
    if wanted == 0 {
        return empty("validation");
    }
    if wanted >= n {
        return empty("training");
    }

    let mut by_class = vec![Vec::new(); classes];
    for index in 0..n {
        by_class[class(index)].push(index);
    }
    let counts: Vec<usize> = by_class.iter().map(Vec::len).collect();
    let mut is_validation = vec![false; n];
    for (class, (members, take)) in by_class.iter().zip(shares(&counts, wanted)).enumerate() {
        let order = Order::new(members.len(), seed);
        for position in 0..take {
            // Each class is an epoch of its own, so that classes of one size are not cut at the same places.
            is_validation[members[order.at(class as u64, position)]] = true;
        }
    }
    let (validation, train) = (0..n).partition(|&index| is_validation[index]);
    Ok(Indices { train, validation })
}

/// How many of each class make up `wanted`, by the largest remainder; ties go to the lower class.
fn shares(counts: &[usize], wanted: usize) -> Vec<usize> {
    let n: u128 = counts.iter().map(|&c| c as u128).sum();
    let exact = |class: usize| counts[class] as u128 * wanted as u128;
    let mut shares: Vec<usize> = (0..counts.len()).map(|class| (exact(class) / n) as usize).collect();
    let missing = wanted - shares.iter().sum::<usize>();
    let mut classes: Vec<usize> = (0..counts.len()).collect();
    classes.sort_by_key(|&class| std::cmp::Reverse(exact(class) % n));
    for &class in &classes[..missing] {
        shares[class] += 1;
    }
    shares
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fraction(fraction) => write!(f, "{fraction}"),
            Self::Test => f.write_str("test"),
            Self::Own => f.write_str("own"),
            Self::Auto => f.write_str("auto"),
            Self::Path(path) => path.display().fmt(f),
        }
    }
}

impl FromStr for Split {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self> {
        match text.parse::<f64>() {
            _ if text == "test" => Ok(Self::Test),
            _ if text == "own" => Ok(Self::Own),
            _ if text == "auto" => Ok(Self::Auto),
            Ok(fraction) if fraction > 0.0 && fraction < 1.0 => Ok(Self::Fraction(fraction)),
            Err(_) if text.contains(['/', '.']) => Ok(Self::Path(text.into())),
            _ => Err(DataError::BadSplit { text: text.into() }),
        }
    }
}
