//! What a loss counts, by name, and how its sums become figures.

use serde::{Deserialize, Serialize};

/// Mean loss of a sample.
pub const LOSS: &str = "loss";
/// Share of samples classified rightly.
pub const ACCURACY: &str = "accuracy";
/// Mean distance of a number from its target.
pub const ABSOLUTE_ERROR: &str = "absolute error";
/// Samples that were counted.
pub const SAMPLES: &str = "samples";

/// What a metric's sum over all samples of all ranks stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reduction {
    /// The sum itself.
    Sum,
    /// The sum divided by the number of [`SAMPLES`].
    Mean,
}

/// One of the sums that a loss adds to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// What people call it.
    pub name: String,
    /// What its sum stands for.
    pub reduction: Reduction,
}

impl Metric {
    /// A metric of this name.
    pub fn new(name: &str, reduction: Reduction) -> Self {
        Self { name: name.into(), reduction }
    }
}
