//! What samples come from.

use paceline_data::{Samples, Supply, Visits};

/// Samples to train or to evaluate on.
#[derive(Clone, Copy)]
pub enum Input<'a> {
    /// Decoded and in memory, read at random.
    Memory {
        /// All samples of the set.
        samples: &'a dyn Samples,
        /// Which of them stands where.
        visits: &'a Visits,
    },
    /// Decoded ahead by others, pass after pass.
    Supply {
        /// Whoever decodes them; asked by position.
        supply: &'a dyn Supply,
        /// Samples of one pass, over all ranks.
        len: usize,
    },
}

impl Input<'_> {
    /// Samples of one pass, over all ranks.
    pub fn len(&self) -> usize {
        match self {
            Self::Memory { visits, .. } => visits.len(),
            Self::Supply { len, .. } => *len,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sample at a place of a pass; a supply is not asked, because it knows itself.
    pub(crate) fn sample(&self, pass: u64, place: usize) -> usize {
        match self {
            Self::Memory { visits, .. } => visits.at(pass, place as u64).1,
            Self::Supply { .. } => place,
        }
    }
}
