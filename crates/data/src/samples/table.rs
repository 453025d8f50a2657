//! Samples of floats that the caller already has: a spiral, a toy problem of a test, a table from elsewhere.

use super::{Features, Labelled, Samples, as_bytes, fingerprint_of};
use crate::{DataError, Result};
use std::sync::Arc;

/// Values and labels. Cloning shares them.
#[derive(Clone, Debug)]
pub struct Table(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shape: Vec<usize>,
    size: usize,
    values: Vec<f32>,
    labels: Vec<u32>,
    class_names: Vec<String>,
}

impl Table {
    /// Samples of `shape`, one after the other in `values`, with classes named by their numbers.
    ///
    /// # Errors
    /// [`DataError::LengthMismatch`] or [`DataError::LabelOutOfRange`].
    pub fn new(shape: Vec<usize>, values: Vec<f32>, labels: Vec<u32>, classes: usize) -> Result<Self> {
        let size: usize = shape.iter().product();
        let expected = size.saturating_mul(labels.len());
        if expected != values.len() {
            return Err(DataError::LengthMismatch { what: "table of samples", expected, found: values.len() });
        }
        if let Some(index) = labels.iter().position(|&label| label as usize >= classes) {
            let label = labels[index];
            return Err(DataError::LabelOutOfRange { file: "table of samples".into(), index, label, classes });
        }
        let class_names = (0..classes).map(|c| c.to_string()).collect();
        Ok(Self(Arc::new(Inner { shape, size, values, labels, class_names })))
    }
}

impl Labelled for Table {
    fn len(&self) -> usize {
        self.0.labels.len()
    }

    fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    fn class_names(&self) -> &[String] {
        &self.0.class_names
    }

    #[inline]
    fn label(&self, index: usize) -> u32 {
        self.0.labels[index]
    }

    fn fingerprint(&self) -> String {
        let values: Vec<u8> = self.0.values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let labels: Vec<u8> = self.0.labels.iter().flat_map(|l| l.to_le_bytes()).collect();
        fingerprint_of([b"table" as &[u8], &as_bytes(&self.0.shape), &values, &labels])
    }
}

impl Samples for Table {
    #[inline]
    fn features(&self, index: usize) -> Features<'_> {
        Features::F32(&self.0.values[index * self.0.size..][..self.0.size])
    }
}
