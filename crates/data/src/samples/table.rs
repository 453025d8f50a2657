//! Samples of floats that the caller already has: a spiral, a toy problem of a test, a table from elsewhere.

use super::{Features, Labelled, Samples, Targets, as_bytes, fingerprint_of};
use crate::{DataError, Result};
use paceline_base::sample::TargetKind;
use std::sync::{Arc, OnceLock};

/// Values and targets. Cloning shares them.
#[derive(Clone, Debug)]
pub struct Table(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shape: Vec<usize>,
    /// Values of one sample.
    size: usize,
    values: Vec<f32>,
    targets: Targets,
    fingerprint: OnceLock<String>,
}

impl Table {
    /// Samples of `shape`, one after the other in `values`, with classes named by their numbers.
    ///
    /// # Errors
    /// [`DataError::LengthMismatch`] or [`DataError::LabelOutOfRange`].
    pub fn new(shape: Vec<usize>, values: Vec<f32>, labels: Vec<u32>, classes: usize) -> Result<Self> {
        fits(&shape, &values, labels.len())?;
        Self::with_targets(shape, values, Targets::classes(labels, classes)?)
    }

    /// Samples with `each` numbers to be met, one sample after another in `targets`.
    ///
    /// ```
    /// use paceline_data::{Labelled, Table, Target};
    /// let table = Table::with_numbers(vec![1], vec![0.0, 1.0], vec![0.5, 2.5], 1)?;
    /// assert_eq!((table.classes(), table.target(1)), (0, Target::Numbers(&[2.5])));
    /// # Ok::<(), paceline_data::DataError>(())
    /// ```
    ///
    /// # Errors
    /// [`DataError::LengthMismatch`] or [`DataError::NotFinite`].
    pub fn with_numbers(shape: Vec<usize>, values: Vec<f32>, targets: Vec<f32>, each: usize) -> Result<Self> {
        Self::with_targets(shape, values, Targets::numbers(targets, each)?)
    }

    /// Samples with targets of any kind.
    ///
    /// # Errors
    /// [`DataError::LengthMismatch`].
    pub fn with_targets(shape: Vec<usize>, values: Vec<f32>, targets: Targets) -> Result<Self> {
        fits(&shape, &values, targets.len())?;
        let size = shape.iter().product();
        Ok(Self(Arc::new(Inner { shape, size, values, targets, fingerprint: OnceLock::new() })))
    }
}

/// There must be as many values as so many samples have.
fn fits(shape: &[usize], values: &[f32], samples: usize) -> Result<()> {
    let expected = shape.iter().product::<usize>().saturating_mul(samples);
    match expected == values.len() {
        true => Ok(()),
        false => Err(DataError::LengthMismatch { what: "table of samples", expected, found: values.len() }),
    }
}

impl Labelled for Table {
    fn len(&self) -> usize {
        self.0.targets.len()
    }

    fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    fn class_names(&self) -> &[String] {
        self.0.targets.class_names()
    }

    #[inline]
    fn label(&self, index: usize) -> u32 {
        self.0.targets.label(index)
    }

    fn target_kind(&self) -> TargetKind {
        self.0.targets.kind()
    }

    #[inline]
    fn target(&self, index: usize) -> super::Target<'_> {
        self.0.targets.target(index)
    }

    /// Of shape, values and targets; taken once, at the first call.
    fn fingerprint(&self) -> String {
        let take = || {
            let values: Vec<u8> = self.0.values.iter().flat_map(|v| v.to_le_bytes()).collect();
            let targets = self.0.targets.fingerprint_parts();
            let parts = [b"table" as &[u8], &as_bytes(self.shape()), &values];
            fingerprint_of(parts.into_iter().chain(targets.iter().map(Vec::as_slice)))
        };
        self.0.fingerprint.get_or_init(take).clone()
    }
}

impl Samples for Table {
    #[inline]
    fn features(&self, index: usize) -> Features<'_> {
        Features::F32(&self.0.values[index * self.0.size..][..self.0.size])
    }
}
