//! What a sample is made of: the kinds of its features and of its targets.

use crate::units::DType;
use serde::{Deserialize, Serialize};

/// What the features of every sample of a set are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeatureKind {
    /// As many numbers as the shape says.
    Dense,
    /// A list of indices, of which every sample has its own number, possibly none.
    Lists {
        /// What an index is stored as.
        width: IndexWidth,
        /// Every index is below.
        bound: u64,
    },
}

/// What an index is stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum IndexWidth {
    /// 32 bits.
    #[serde(rename = "32")]
    Bits32,
    /// 64 bits.
    #[serde(rename = "64")]
    Bits64,
}

impl IndexWidth {
    /// The narrowest that holds all indices below `bound`.
    pub fn below(bound: u64) -> Self {
        if bound <= 1 << 32 { Self::Bits32 } else { Self::Bits64 }
    }

    /// Its type on a device.
    pub fn dtype(self) -> DType {
        match self {
            Self::Bits32 => DType::U32,
            Self::Bits64 => DType::U64,
        }
    }
}

/// What the targets of every sample of a set are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetKind {
    /// Numbers of classes.
    Classes {
        /// Every number is below.
        classes: usize,
        /// How many numbers a sample has.
        each: usize,
    },
    /// Numbers to be met.
    Numbers {
        /// How many numbers a sample has.
        each: usize,
    },
}

impl TargetKind {
    /// How many targets a sample has.
    pub fn each(self) -> usize {
        match self {
            Self::Classes { each, .. } | Self::Numbers { each } => each,
        }
    }

    /// How many outputs of a model are compared with them.
    pub fn outputs(self) -> usize {
        match self {
            Self::Classes { classes, each } => classes * each,
            Self::Numbers { each } => each,
        }
    }
}

/// What every sample of a set is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleKind {
    /// The shape of dense features, such as `[28, 28]`; empty for lists.
    pub shape: Vec<usize>,
    /// What the features are.
    pub features: FeatureKind,
    /// What the targets are.
    pub targets: TargetKind,
}

impl SampleKind {
    /// Dense features of this shape, and one of so many classes.
    pub fn classified(shape: &[usize], classes: usize) -> Self {
        Self { shape: shape.to_vec(), features: FeatureKind::Dense, targets: TargetKind::Classes { classes, each: 1 } }
    }
}
