//! Targets of samples in memory: numbers of classes or numbers to be met, one or several for each sample.

use super::{Target, UNLABELLED};
use crate::{DataError, Result};
use paceline_base::sample::TargetKind;

/// The targets of all samples of a set, one sample after another.
#[derive(Clone, Debug, PartialEq)]
pub struct Targets {
    values: Values,
    /// How many a sample has; at least one.
    each: usize,
    class_names: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Values {
    Classes(Vec<u32>),
    Numbers(Vec<f32>),
}

/// What these are called in errors.
const WHAT: &str = "targets";

impl Targets {
    /// One of `classes` for each sample; classes are named by their numbers.
    ///
    /// # Errors
    /// [`DataError::LabelOutOfRange`].
    pub fn classes(numbers: Vec<u32>, classes: usize) -> Result<Self> {
        Self::several(numbers, 1, classes)
    }

    /// One of the named classes for each sample.
    ///
    /// # Errors
    /// [`DataError::LabelOutOfRange`].
    pub fn named(numbers: Vec<u32>, class_names: Vec<String>) -> Result<Self> {
        let targets = Self::classes(numbers, class_names.len())?;
        Ok(Self { class_names, ..targets })
    }

    /// `each` numbers of classes for each sample, all below `classes`.
    ///
    /// # Errors
    /// [`DataError::LabelOutOfRange`] or [`DataError::LengthMismatch`].
    pub fn several(numbers: Vec<u32>, each: usize, classes: usize) -> Result<Self> {
        whole(numbers.len(), each)?;
        if let Some(index) = numbers.iter().position(|&number| number as usize >= classes) {
            let label = numbers[index];
            return Err(DataError::LabelOutOfRange { file: WHAT.into(), index: index / each, label, classes });
        }
        Ok(Self { values: Values::Classes(numbers), each, class_names: (0..classes).map(|c| c.to_string()).collect() })
    }

    /// `each` numbers to be met for each sample.
    ///
    /// # Errors
    /// [`DataError::NotFinite`] or [`DataError::LengthMismatch`].
    pub fn numbers(numbers: Vec<f32>, each: usize) -> Result<Self> {
        whole(numbers.len(), each)?;
        if let Some(index) = numbers.iter().position(|number| !number.is_finite()) {
            return Err(DataError::NotFinite { what: WHAT, index: index / each, value: numbers[index] });
        }
        Ok(Self { values: Values::Numbers(numbers), each, class_names: Vec::new() })
    }

    /// How many samples have them.
    pub fn len(&self) -> usize {
        let values = match &self.values {
            Values::Classes(numbers) => numbers.len(),
            Values::Numbers(numbers) => numbers.len(),
        };
        values / self.each
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What they are.
    pub fn kind(&self) -> TargetKind {
        let each = self.each;
        match self.values {
            Values::Classes(_) => TargetKind::Classes { classes: self.class_names.len(), each },
            Values::Numbers(_) => TargetKind::Numbers { each },
        }
    }

    /// Names of the classes; of several targets and of numbers see [`Labelled::class_names`](crate::Labelled::class_names).
    pub fn class_names(&self) -> &[String] {
        &self.class_names
    }

    /// The targets of a sample.
    #[inline]
    pub fn target(&self, index: usize) -> Target<'_> {
        let range = index * self.each..(index + 1) * self.each;
        match &self.values {
            Values::Classes(numbers) if self.each == 1 => Target::Class(numbers[index]),
            Values::Classes(numbers) => Target::Classes(&numbers[range]),
            Values::Numbers(numbers) => Target::Numbers(&numbers[range]),
        }
    }

    /// The first class of a sample; [`UNLABELLED`] where targets are numbers.
    #[inline]
    pub(super) fn label(&self, index: usize) -> u32 {
        match &self.values {
            Values::Classes(numbers) => numbers[index * self.each],
            Values::Numbers(_) => UNLABELLED,
        }
    }

    /// What a fingerprint is made of. One class for each sample, named by its number, is the numbers alone, as it was before
    /// there were other targets.
    pub(super) fn fingerprint_parts(&self) -> Vec<Vec<u8>> {
        let each = (self.each as u64).to_le_bytes().to_vec();
        match &self.values {
            Values::Classes(numbers) => {
                let mut parts = vec![numbers.iter().flat_map(|number| number.to_le_bytes()).collect()];
                let plain = self.class_names.iter().enumerate().all(|(number, name)| *name == number.to_string());
                if self.each > 1 || !plain {
                    parts.extend([b"classes".to_vec(), each]);
                    parts.extend(self.class_names.iter().map(|name| name.as_bytes().to_vec()));
                }
                parts
            }
            Values::Numbers(numbers) => {
                let values = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
                vec![values, b"numbers".to_vec(), each]
            }
        }
    }
}

/// Targets must be those of whole samples.
fn whole(values: usize, each: usize) -> Result<()> {
    match each {
        0 => Err(DataError::LengthMismatch { what: "targets of a sample", expected: 1, found: 0 }),
        _ if values.is_multiple_of(each) => Ok(()),
        _ => Err(DataError::LengthMismatch { what: WHAT, expected: values.next_multiple_of(each), found: values }),
    }
}
