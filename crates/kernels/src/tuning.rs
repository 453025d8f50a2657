//! Kernel choices as a value: what a run resolved once, saves, and reuses on resume.
//!
//! The default is a function of the kind of processor alone. Algorithms of convolutions are then measured once, by a clock, and
//! put into `convs`: what was measured differs from machine to machine and from day to day, so that a run saves the value and a
//! resume takes it as it is. Given the value, bits repeat: `isa`, `blocks.dot_length` and `convs` change them (they change the
//! order of a sum), the other fields change speed only, and so does the number of threads.

use crate::cpu::{Algorithm, ConvCase, Isa};
use serde::{Deserialize, Serialize};

/// The kernel choices of one `Cpu`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuning {
    /// The instruction set.
    pub isa: Isa,
    /// Cache blocking of the dense kernels.
    pub blocks: Blocks,
    /// Kernels below so many floating-point operations run on the driving thread alone.
    pub parallel_flops: usize,
    /// Element-wise kernels below so many elements run on the driving thread alone.
    pub parallel_elements: usize,
    /// The algorithm of each convolution that was measured, for any number of samples; the likely one for others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub convs: Vec<ConvChoice>,
}

/// The algorithm of one convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConvChoice {
    /// The convolution, without its number of samples.
    #[serde(flatten)]
    pub case: ConvCase,
    /// How it is computed.
    pub algorithm: Algorithm,
}

/// Sizes of the blocks that the dense kernels keep in caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocks {
    /// Forward: longest dot product taken in one go; a tile's rows of this length stay in the first-level cache.
    pub dot_length: usize,
    /// Forward: elements of samples that stay in the second-level cache while all weights pass by.
    pub sample_elements: usize,
    /// Backward: terms per pass over a strip of columns.
    pub term_block: usize,
    /// Backward: rows of the result that share a strip.
    pub row_block: usize,
    /// Backward: a strip is packed if at least so many rows read it …
    pub pack_rows: usize,
    /// … and it has at least so many terms.
    pub pack_terms: usize,
    /// Backward: elements of the packed first factor, which stays in the second-level cache while all strips pass by.
    pub factor_elements: usize,
}

impl Blocks {
    /// Elements of scratch that a thread needs. Backward: a packed panel and the partial sums of a block of rows, 64 columns each, and
    /// the packed first factor with room for a last vector. Forward: packed samples, at least one row.
    pub(crate) fn scratch(&self) -> usize {
        let backward = 64 * (self.term_block + self.row_block) + self.factor_elements + 64;
        backward.max(self.sample_elements).max(self.dot_length + 64).next_multiple_of(64)
    }
}

impl Tuning {
    /// The choices for an instruction set.
    pub fn heuristic(isa: Isa) -> Self {
        let blocks = Blocks {
            dot_length: 1024,
            sample_elements: 128 << 10,
            term_block: 256,
            row_block: 256,
            pack_rows: 96,
            pack_terms: 64,
            factor_elements: 160 << 10,
        };
        Self { isa, blocks, parallel_flops: 400_000, parallel_elements: 32_768, convs: Vec::new() }
    }

    /// The algorithm for a convolution.
    pub fn conv(&self, case: &ConvCase) -> Algorithm {
        let shape = case.shape();
        self.convs.iter().find(|c| c.case == shape).map_or_else(|| case.likely(), |c| c.algorithm)
    }

    /// What is wrong with imported choices, if anything.
    pub(crate) fn problem(&self) -> Option<String> {
        let Blocks { dot_length, sample_elements, term_block, row_block, factor_elements, .. } = self.blocks;
        if !self.isa.is_available() {
            return Some(format!("this processor has no {}; leave the tuning out to choose anew", self.isa));
        }
        let sizes = [dot_length, sample_elements, term_block, row_block, factor_elements];
        if sizes.iter().any(|size| !(1..1 << 22).contains(size)) {
            return Some("the tuning's block sizes must be positive and below four million".into());
        }
        if let Some(bad) = self.convs.iter().find(|c| !c.case.candidates().contains(&c.algorithm)) {
            return Some(format!("the tuning wants {} for {:?}, which it cannot do", bad.algorithm, bad.case.dims));
        }
        None
    }
}
