//! A part of a set: in memory, or a stream that is decoded as it is read.

use super::{Labelled, Samples, Source, Subset};
use crate::Result;
use std::ops::Deref;
use std::sync::Arc;

/// A part of a set. What does not need the values (length, shape, labels) is asked of either kind alike.
#[derive(Clone)]
pub enum DataPart {
    /// All values are in memory.
    Memory(Arc<dyn Samples>),
    /// Values are fetched and decoded when they are needed.
    Stream(Arc<dyn Source>),
}

impl DataPart {
    /// The samples, if they are in memory.
    pub fn memory(&self) -> Option<&Arc<dyn Samples>> {
        match self {
            Self::Memory(samples) => Some(samples),
            Self::Stream(_) => None,
        }
    }

    /// The samples of the given indices, in that order; an index may occur more than once.
    ///
    /// # Errors
    /// [`DataError::IndexOutOfRange`](crate::DataError::IndexOutOfRange).
    pub fn subset(&self, indices: Vec<usize>) -> Result<Self> {
        Ok(match self {
            Self::Memory(samples) => Self::Memory(Arc::new(Subset::new(samples.clone(), indices)?)),
            Self::Stream(source) => Self::Stream(Arc::new(Subset::new(source.clone(), indices)?)),
        })
    }
}

impl Deref for DataPart {
    type Target = dyn Labelled;

    fn deref(&self) -> &(dyn Labelled + 'static) {
        match self {
            Self::Memory(samples) => &**samples,
            Self::Stream(source) => &**source,
        }
    }
}

impl<S: Samples + 'static> From<S> for DataPart {
    fn from(samples: S) -> Self {
        Self::Memory(Arc::new(samples))
    }
}
