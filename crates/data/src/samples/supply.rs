//! Rows of batches that others make ready ahead of time: what an engine reads when samples must be decoded first.

use super::{Features, Target};
use std::ops::Range;

/// A stream of samples in the order of training, made ready ahead of those who read it.
///
/// A *position* counts samples over all passes: position `p` is the sample at `p % len` of pass `p / len`. Several ranks
/// read one supply; each says how far it has come, and what all have read makes room for what follows.
pub trait Supply: Send + Sync {
    /// Waits until the samples at these positions are ready.
    ///
    /// # Errors
    /// If one of them cannot be read or decoded, or the supply was stopped.
    fn wait(&self, rank: usize, positions: Range<u64>) -> paceline_base::Result<()>;

    /// Shows the values of a sample that was waited for.
    fn look(&self, position: u64, at: &mut dyn FnMut(Features<'_>));

    /// The class of a sample.
    fn label(&self, position: u64) -> u32;

    /// The targets of a sample.
    fn target(&self, position: u64) -> Target<'_> {
        Target::Class(self.label(position))
    }

    /// Says that a rank needs nothing before this position any more.
    fn release(&self, rank: usize, position: u64);
}
