//! Samples: what the engine trains from.
//!
//! What is known of samples without looking at their values is [`Labelled`]. Samples in memory answer [`Samples`], those
//! that must be fetched and decoded answer [`Source`], and a [`DataPart`] of a set is one of the two. Bytes stay bytes until they are copied into a batch: a quarter
//! of the memory and of the cache traffic of floats, and the scaling to 0…1 is free while the batch is written.

mod canvas;
mod data_part;
mod fake;
mod files;
mod forward;
mod identity;
mod image_set;
mod in_memory;
mod lists;
mod records;
mod relabelled;
mod scratch;
mod source;
mod subset;
mod supply;
mod table;
mod targets;

pub use data_part::DataPart;
pub(crate) use fake::{Fake, FakeSpec};
pub use files::EncodedImages;
pub(crate) use files::FileImages;
pub(crate) use identity::Stamp;
pub use identity::fingerprint_version;
pub(crate) use image_set::ImageSet;
pub use lists::Lists;
pub(crate) use lists::PackedLists;
pub(crate) use records::RecordImages;
pub(crate) use relabelled::Relabelled;
pub use scratch::{Scratch, StageTimes};
pub use source::{ImagesInMemory, Preview, Source};
pub(crate) use subset::Subset;
pub use supply::Supply;
pub use table::Table;
pub use targets::Targets;

use paceline_base::sample::{FeatureKind, SampleKind, TargetKind};
use paceline_system::hex;
use sha2::{Digest, Sha256};

/// The values of one sample, as they are stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Features<'a> {
    /// Bytes that stand for `byte · scale + offset`.
    U8 {
        /// The stored bytes.
        bytes: &'a [u8],
        /// What a byte is multiplied by.
        scale: f32,
        /// What is then added.
        offset: f32,
    },
    /// The values themselves.
    F32(&'a [f32]),
    /// A list of indices.
    U32(&'a [u32]),
    /// A list of indices, some of which 32 bits do not hold.
    U64(&'a [u64]),
}

/// The targets of one sample, as they are stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target<'a> {
    /// The number of a class.
    Class(u32),
    /// Several of them.
    Classes(&'a [u32]),
    /// Numbers to be met.
    Numbers(&'a [f32]),
}

impl<'a> Features<'a> {
    /// The bytes of an image, which stand for 0 to 1.
    #[inline]
    pub(crate) fn pixels(bytes: &'a [u8]) -> Self {
        Self::U8 { bytes, scale: 1.0 / 255.0, offset: 0.0 }
    }

    /// How many values.
    pub fn len(&self) -> usize {
        match self {
            Self::U8 { bytes, .. } => bytes.len(),
            Self::F32(values) => values.len(),
            Self::U32(indices) => indices.len(),
            Self::U64(indices) => indices.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the values.
    ///
    /// # Panics
    /// If `out` is not as long as the sample, or it is a list of indices.
    #[inline]
    pub fn copy_to(&self, out: &mut [f32]) {
        assert_eq!(out.len(), self.len(), "a sample needs a buffer of its own length");
        match *self {
            Self::U8 { bytes, scale, offset } => {
                for (value, &byte) in out.iter_mut().zip(bytes) {
                    *value = f32::from(byte) * scale + offset;
                }
            }
            Self::F32(values) => out.copy_from_slice(values),
            Self::U32(_) | Self::U64(_) => panic!("indices are no values"),
        }
    }
}

/// The label of a sample of which no class is known: some inputs to be predicted ([`Group`](crate::Group)), and samples whose
/// targets are numbers.
pub(crate) const UNLABELLED: u32 = u32::MAX;

/// A set of labelled samples of one shape. Indices at or above [`Labelled::len`] panic, as with a slice.
pub trait Labelled: Send + Sync {
    /// How many samples.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The shape of one sample, such as `[28, 28]`.
    fn shape(&self) -> &[usize];

    /// How many classes; every label is below.
    fn classes(&self) -> usize {
        self.class_names().len()
    }

    /// Names of the classes, by label.
    fn class_names(&self) -> &[String];

    /// The class of a sample; the first of several. A set whose targets are numbers has none.
    fn label(&self, index: usize) -> u32;

    /// What the features are.
    fn feature_kind(&self) -> FeatureKind {
        FeatureKind::Dense
    }

    /// What the targets are.
    fn target_kind(&self) -> TargetKind {
        TargetKind::Classes { classes: self.classes(), each: 1 }
    }

    /// The targets of a sample.
    fn target(&self, index: usize) -> Target<'_> {
        Target::Class(self.label(index))
    }

    /// What a sample is made of.
    fn sample_kind(&self) -> SampleKind {
        SampleKind { shape: self.shape().to_vec(), features: self.feature_kind(), targets: self.target_kind() }
    }

    /// Stands for the content, wherever it lies: the version of the rule and 128 bits of a SHA-256, as `2-<32 digits>`. A
    /// resume and processes that train together refuse other data by it.
    fn fingerprint(&self) -> String;
}

/// Samples in memory.
pub trait Samples: Labelled {
    /// The values of a sample.
    fn features(&self, index: usize) -> Features<'_>;
}

/// The fingerprint of some parts, each prefixed by its length so that they cannot run into each other.
pub fn fingerprint_of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    format!("{}-{}", identity::VERSION, hex(&hash.finalize()[..16]))
}

/// A list of numbers as bytes, for fingerprints.
pub(crate) fn as_bytes(numbers: &[usize]) -> Vec<u8> {
    numbers.iter().flat_map(|&n| (n as u64).to_le_bytes()).collect()
}

#[cfg(test)]
mod tests;
