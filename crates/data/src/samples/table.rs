//! Samples of floats that the caller already has: a spiral, a toy problem of a test, a table from elsewhere.

use super::in_memory::InMemory;
use super::{Features, Labelled, Samples, as_bytes, fingerprint_of};
use crate::{DataError, Result, forward_to};
use std::sync::Arc;

/// Values and labels. Cloning shares them.
#[derive(Clone, Debug)]
pub struct Table(Arc<InMemory<f32, u32>>);

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
        Ok(Self(Arc::new(InMemory::new(shape, values, labels, class_names))))
    }
}

impl Labelled for Table {
    forward_to!(0: len, shape, class_names, label);

    fn fingerprint(&self) -> String {
        let values: Vec<u8> = self.0.values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let labels: Vec<u8> = self.0.labels.iter().flat_map(|l| l.to_le_bytes()).collect();
        fingerprint_of([b"table" as &[u8], &as_bytes(self.shape()), &values, &labels])
    }
}

impl Samples for Table {
    #[inline]
    fn features(&self, index: usize) -> Features<'_> {
        Features::F32(self.0.row(index))
    }
}
