//! Samples whose features are lists of indices: words of a text, items of a basket. Every sample has its own number of them.

use super::{Features, Labelled, Samples, Target, Targets, fingerprint_of};
use crate::{DataError, Result};
use paceline_base::sample::{FeatureKind, IndexWidth, TargetKind};
use std::sync::{Arc, OnceLock};

/// Lists of indices and targets. Cloning shares them.
#[derive(Clone, Debug)]
pub struct Lists(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    packed: PackedLists,
    bound: u64,
    targets: Targets,
    fingerprint: OnceLock<String>,
}

/// All lists, one after another, and where each ends.
#[derive(Debug)]
pub(crate) struct PackedLists {
    indices: Stored,
    /// Where list `i` begins; one more than there are lists.
    offsets: Vec<usize>,
}

#[derive(Debug)]
enum Stored {
    U32(Vec<u32>),
    U64(Vec<u64>),
}

impl PackedLists {
    /// Nothing yet, with room for so many indices below `bound` in so many lists.
    pub(crate) fn with_room(bound: u64, indices: usize, lists: usize) -> Self {
        let indices = match IndexWidth::below(bound) {
            IndexWidth::Bits32 => Stored::U32(Vec::with_capacity(indices)),
            IndexWidth::Bits64 => Stored::U64(Vec::with_capacity(indices)),
        };
        let mut offsets = Vec::with_capacity(lists + 1);
        offsets.push(0);
        Self { indices, offsets }
    }

    /// Adds an index to the list that is not ended; it must be below the bound.
    #[inline]
    pub(crate) fn push(&mut self, index: u64) {
        match &mut self.indices {
            Stored::U32(indices) => indices.push(index as u32),
            Stored::U64(indices) => indices.push(index),
        }
    }

    /// Ends a list.
    pub(crate) fn end_list(&mut self) {
        self.offsets.push(match &self.indices {
            Stored::U32(indices) => indices.len(),
            Stored::U64(indices) => indices.len(),
        });
    }

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }
}

impl Lists {
    /// A list of indices below `bound` for each target.
    ///
    /// ```
    /// use paceline_data::{Features, Labelled, Lists, Samples, Targets};
    /// let lists = Lists::new([&[3, 17, 9][..], &[]], 18, Targets::classes(vec![0, 1], 2)?)?;
    /// assert_eq!((lists.len(), lists.features(0), lists.features(1).len()), (2, Features::U32(&[3, 17, 9]), 0));
    /// # Ok::<(), paceline_data::DataError>(())
    /// ```
    ///
    /// # Errors
    /// [`DataError::IndexBeyond`] or [`DataError::LengthMismatch`].
    pub fn new<L: AsRef<[u64]>>(lists: impl IntoIterator<Item = L>, bound: u64, targets: Targets) -> Result<Self> {
        let mut packed = PackedLists::with_room(bound, 0, targets.len());
        for (sample, list) in lists.into_iter().enumerate() {
            for &index in list.as_ref() {
                if index >= bound {
                    return Err(DataError::IndexBeyond { sample, index, bound });
                }
                packed.push(index);
            }
            packed.end_list();
        }
        Self::of(packed, bound, targets)
    }

    /// Lists whose indices are known to be below `bound`.
    pub(crate) fn of(packed: PackedLists, bound: u64, targets: Targets) -> Result<Self> {
        if packed.len() != targets.len() {
            let (expected, found) = (targets.len(), packed.len());
            return Err(DataError::LengthMismatch { what: "lists of indices", expected, found });
        }
        Ok(Self(Arc::new(Inner { packed, bound, targets, fingerprint: OnceLock::new() })))
    }
}

impl Labelled for Lists {
    fn len(&self) -> usize {
        self.0.packed.len()
    }

    /// Empty: lists have no shape.
    fn shape(&self) -> &[usize] {
        &[]
    }

    fn class_names(&self) -> &[String] {
        self.0.targets.class_names()
    }

    #[inline]
    fn label(&self, index: usize) -> u32 {
        self.0.targets.label(index)
    }

    fn feature_kind(&self) -> FeatureKind {
        FeatureKind::Lists { width: IndexWidth::below(self.0.bound), bound: self.0.bound }
    }

    fn target_kind(&self) -> TargetKind {
        self.0.targets.kind()
    }

    #[inline]
    fn target(&self, index: usize) -> Target<'_> {
        self.0.targets.target(index)
    }

    /// Of indices (whatever they are stored as), lengths, bound and targets; taken once, at the first call.
    fn fingerprint(&self) -> String {
        let take = || {
            let PackedLists { indices, offsets } = &self.0.packed;
            let indices: Vec<u8> = match indices {
                Stored::U32(indices) => indices.iter().flat_map(|&index| u64::from(index).to_le_bytes()).collect(),
                Stored::U64(indices) => indices.iter().flat_map(|index| index.to_le_bytes()).collect(),
            };
            let (offsets, bound) = (super::as_bytes(offsets), self.0.bound.to_le_bytes());
            let targets = self.0.targets.fingerprint_parts();
            let parts = [b"lists" as &[u8], &offsets, &indices, &bound];
            fingerprint_of(parts.into_iter().chain(targets.iter().map(Vec::as_slice)))
        };
        self.0.fingerprint.get_or_init(take).clone()
    }
}

impl Samples for Lists {
    #[inline]
    fn features(&self, index: usize) -> Features<'_> {
        let PackedLists { indices, offsets } = &self.0.packed;
        let range = offsets[index]..offsets[index + 1];
        match indices {
            Stored::U32(indices) => Features::U32(&indices[range]),
            Stored::U64(indices) => Features::U64(&indices[range]),
        }
    }
}
