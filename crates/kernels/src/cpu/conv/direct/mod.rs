//! Convolutions by their definition: products of pixels with packed weights, straight out of the image (an implicit GEMM).
//!
//! A strip of the image, with zeros around where it ends, lies in the second-level cache; a window is then a few runs of
//! contiguous values (kernel rows, or single taps if taps are apart or channels are grouped), and an output row is a product
//! of pixels, overlapping in memory, with weights. The data gradient is the same for each phase of the stride: pixels of one
//! phase read a fixed set of taps, without gaps.

mod geometry;
mod maxima;
mod pack;
mod strips;
mod weights;

pub(super) use geometry::{Geometry, row_offsets};
pub(super) use pack::{Gather, Pack, Weight};
pub(super) use strips::Strips;
pub(super) use weights::Weights;
