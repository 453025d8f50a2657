//! A view of some samples of another set: a validation part, the first thousand, one class.

use super::{Features, Labelled, Samples, Scratch, Source, Target, as_bytes, fingerprint_of};
use crate::{DataError, Result, forward_to};
use std::ops::Range;
use std::sync::Arc;

/// Some samples of another set, which it shares. It is what the other set is: [`Samples`] in memory, or a [`Source`].
pub(crate) struct Subset<S: ?Sized = dyn Samples> {
    of: Arc<S>,
    chosen: Chosen,
}

/// A range costs no memory; most subsets are ranges.
#[derive(Clone, Debug)]
enum Chosen {
    Range(Range<usize>),
    List(Arc<[usize]>),
}

impl<S: ?Sized> Clone for Subset<S> {
    fn clone(&self) -> Self {
        Self { of: self.of.clone(), chosen: self.chosen.clone() }
    }
}

impl<S: Labelled + ?Sized> Subset<S> {
    /// The samples of the given indices, in that order; an index may occur more than once.
    ///
    /// # Errors
    /// [`DataError::IndexOutOfRange`].
    pub(crate) fn new(of: Arc<S>, indices: impl Into<Arc<[usize]>>) -> Result<Self> {
        let indices = indices.into();
        let len = of.len();
        match indices.iter().find(|&&index| index >= len) {
            Some(&index) => Err(DataError::IndexOutOfRange { index, len }),
            None => Ok(Self { of, chosen: Chosen::List(indices) }),
        }
    }

    /// The samples of a range.
    ///
    /// # Errors
    /// [`DataError::IndexOutOfRange`].
    pub(crate) fn range(of: Arc<S>, range: Range<usize>) -> Result<Self> {
        let len = of.len();
        if range.end > len {
            return Err(DataError::IndexOutOfRange { index: range.end.saturating_sub(1), len });
        }
        let range = range.start.min(range.end)..range.end;
        Ok(Self { of, chosen: Chosen::Range(range) })
    }

    /// Where a sample of this view lies in the set behind it.
    ///
    /// # Panics
    /// If `index` is not below the number of samples.
    #[inline]
    pub(crate) fn origin(&self, index: usize) -> usize {
        match &self.chosen {
            Chosen::Range(range) => {
                assert!(index < range.len(), "index {index} of a subset of {} samples", range.len());
                range.start + index
            }
            Chosen::List(list) => list[index],
        }
    }

    /// What stands for the choice, where `whole` stands for the set behind it.
    fn chosen_of(&self, whole: &str) -> String {
        let indices: Vec<usize> = (0..self.len()).map(|i| self.origin(i)).collect();
        fingerprint_of([b"subset" as &[u8], whole.as_bytes(), &as_bytes(&indices)])
    }
}

impl<S: Labelled + ?Sized> Labelled for Subset<S> {
    fn len(&self) -> usize {
        match &self.chosen {
            Chosen::Range(range) => range.len(),
            Chosen::List(list) => list.len(),
        }
    }

    forward_to!(of: shape, class_names, feature_kind, target_kind);

    #[inline]
    fn label(&self, index: usize) -> u32 {
        self.of.label(self.origin(index))
    }

    #[inline]
    fn target(&self, index: usize) -> Target<'_> {
        self.of.target(self.origin(index))
    }

    /// Of the set behind it and the choice; a range and the list of the same indices agree.
    fn fingerprint(&self) -> String {
        self.chosen_of(&self.of.fingerprint())
    }
}

impl<S: Samples + ?Sized> Samples for Subset<S> {
    #[inline]
    fn features(&self, index: usize) -> Features<'_> {
        self.of.features(self.origin(index))
    }
}

impl<S: Source + ?Sized> Source for Subset<S> {
    fn place(&self, index: usize) -> String {
        self.of.place(self.origin(index))
    }

    forward_to!(of: stored);

    fn fetch(&self, index: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<()> {
        self.of.fetch(self.origin(index), scratch, out)
    }

    fn cache_key(&self) -> String {
        self.chosen_of(&self.of.cache_key())
    }
}
