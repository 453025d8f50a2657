//! Units, so that a batch is not a step and a global batch is not a worker's share.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroUsize;

/// Samples per step over all workers together. Configuration always states this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GlobalBatch(NonZeroUsize);

impl GlobalBatch {
    /// A batch of `samples`; zero is refused.
    pub fn new(samples: usize) -> Result<Self> {
        NonZeroUsize::new(samples).map(Self).ok_or_else(|| Error::user("train.batch is 0: give at least 1"))
    }

    /// Samples per step.
    pub fn samples(self) -> usize {
        self.0.get()
    }

    /// Steps in one epoch over `samples`, the last partial batch included.
    pub fn steps_per_epoch(self, samples: usize) -> usize {
        samples.div_ceil(self.0.get())
    }
}

impl fmt::Display for GlobalBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Type of a buffer's elements. Sizes are asked for, never assumed, so that 16-bit floats (bf16, f16) are variants to add.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// 32-bit float, what `Cpu` computes in.
    F32,
    /// 64-bit float, what `Reference` computes in.
    F64,
    /// A byte: codes of maxima.
    U8,
    /// A 32-bit index: numbers of classes, rows of a table.
    U32,
    /// A 64-bit index.
    U64,
}

impl DType {
    /// Bytes per element.
    pub fn size(self) -> usize {
        match self {
            DType::U8 => 1,
            DType::F32 | DType::U32 => 4,
            DType::F64 | DType::U64 => 8,
        }
    }

    /// Whether a device can compute in it; others are only read and moved.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64)
    }
}
