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

/// Element type of tensors on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// 32-bit float, what `Cpu` computes in.
    F32,
    /// 64-bit float, what `Reference` computes in.
    F64,
}

impl DType {
    /// Bytes per element.
    pub fn size(self) -> usize {
        match self {
            DType::F32 => 4,
            DType::F64 => 8,
        }
    }
}
