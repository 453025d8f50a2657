//! Lists of indices as a buffer holds them: offsets, then indices ([`EmbeddingDims`] says how).

use paceline_base::kernel::EmbeddingDims;
use paceline_base::{Error, Result};

/// What an index is stored as.
pub(crate) trait Index: Copy + Send + Sync {
    /// As a place in memory; what no place can be becomes the largest.
    fn place(self) -> usize;
}

impl Index for u32 {
    #[inline(always)]
    fn place(self) -> usize {
        self as usize
    }
}

impl Index for u64 {
    #[inline(always)]
    fn place(self) -> usize {
        usize::try_from(self).unwrap_or(usize::MAX)
    }
}

/// Lists that were looked at: every offset and every index can be followed.
#[derive(Clone, Copy)]
pub(crate) struct Lists<'a, I> {
    offsets: &'a [I],
    indices: &'a [I],
}

impl<'a, I: Index> Lists<'a, I> {
    /// The lists that a buffer holds, with whatever was in it.
    ///
    /// # Errors
    /// If an index is beyond the table. If offsets are none, which only a program can have made.
    pub(crate) fn new(elements: &'a [I], dims: &EmbeddingDims) -> Result<Self> {
        let broken =
            || Error::internal(format!("a buffer of {} elements holds no {} lists", elements.len(), dims.rows));
        let (offsets, rest) = elements.split_at_checked(dims.rows + 1).ok_or_else(broken)?;
        let indices = rest.get(..offsets[dims.rows].place()).ok_or_else(broken)?;
        if offsets[0].place() != 0 || offsets.windows(2).any(|pair| pair[0].place() > pair[1].place()) {
            return Err(broken());
        }
        if let Some(index) = indices.iter().map(|index| index.place()).find(|index| *index >= dims.table) {
            return Err(Error::user(format!(
                "a list holds index {index}, but the embedding's table has {} rows; give it rows = {} or more, or mend the data",
                dims.table,
                index.saturating_add(1)
            )));
        }
        Ok(Self { offsets, indices })
    }

    /// The indices of all lists together.
    pub(crate) fn entries(&self) -> usize {
        self.indices.len()
    }

    /// The indices of a list.
    #[inline(always)]
    pub(crate) fn list(&self, row: usize) -> &'a [I] {
        &self.indices[self.offsets[row].place()..self.offsets[row + 1].place()]
    }
}

/// What the sum over a list is multiplied by.
#[inline(always)]
pub(crate) fn share(mean: bool, entries: usize) -> f64 {
    if mean { 1.0 / entries.max(1) as f64 } else { 1.0 }
}
