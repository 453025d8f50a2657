//! The forward pass: `y = f(x·wᵀ + b)` by tiles of dot products, blocked for the caches.
//!
//! A block of samples stays in the second-level cache while the weights pass by, a few rows at a time; those rows and the current
//! samples stay in the first. Long rows are cut along `k`, and partial sums wait in `y`.

use super::dot::{Dot, PARTIAL_SUMS, tiles};
use super::tiles::Pieces;
use crate::cpu::activate::Activate;
use crate::cpu::isa::Body;
use crate::cpu::simd::Simd;
use crate::cpu::submit::Arguments;
use crate::tuning::Blocks;
use paceline_base::op::Activation;

/// A part of the forward pass: some samples by some outputs.
#[derive(Clone, Copy)]
pub(crate) struct Forward {
    pub x: *const f32,
    pub w: *const f32,
    pub y: *mut f32,
    /// Null if none.
    pub bias: *const f32,
    pub activation: Option<Activation>,
    pub inputs: usize,
    /// Outputs of the whole layer: the stride of `y`.
    pub outputs: usize,
    /// This part's samples, first and one past the last.
    pub rows: (usize, usize),
    /// This part's outputs.
    pub columns: (usize, usize),
    pub blocks: Blocks,
    /// This thread's scratch: `Blocks::scratch()` elements.
    pub scratch: *mut f32,
}

/// Samples are packed, if they lie badly, from so many outputs on.
const PACK_OUTPUTS: usize = 48;

/// On cache lines, so that no vector straddles two.
#[repr(align(64))]
struct Aligned([f32; PARTIAL_SUMS]);

// SAFETY: numbers and pointers into device memory.
unsafe impl Arguments for Forward {}

impl Body for Forward {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let wide = self.columns.1 - self.columns.0;
        // Few outputs: all of them at once, so that the samples pass by only once.
        let (rows_most, outputs_most) =
            if wide <= S::TILES.dot_wide && wide > S::TILES.dot.1 { (2, wide) } else { S::TILES.dot };
        let mut sums = Aligned([0.0; PARTIAL_SUMS]);
        let Blocks { dot_length, sample_elements, .. } = self.blocks;
        let longest = self.inputs.clamp(1, dot_length);
        // Packed rows are a cache line longer than they need be, so that they do not all begin in the same set.
        let packed_stride = longest.next_multiple_of(16) + 16;
        let row_block = (sample_elements / packed_stride).max(1);
        let pack = wide >= PACK_OUTPUTS
            && (self.inputs > dot_length || !self.inputs.is_multiple_of(16) || self.inputs.is_multiple_of(512));
        for (row, rows) in Pieces::new(self.rows.0, self.rows.1, row_block) {
            let mut k = 0;
            loop {
                let len = (self.inputs - k).min(dot_length);
                let last = k + len == self.inputs;
                // SAFETY: these rows lie within the part.
                let mut samples = (unsafe { self.x.add(row * self.inputs + k) }, self.inputs);
                if pack {
                    for r in 0..rows {
                        // SAFETY: as above; a block of packed rows fits the scratch.
                        unsafe {
                            let to = self.scratch.add(r * packed_stride);
                            std::ptr::copy_nonoverlapping(samples.0.add(r * self.inputs), to, len);
                        }
                    }
                    samples = (self.scratch.cast_const(), packed_stride);
                }
                for (o, outputs) in Pieces::new(self.columns.0, self.columns.1, outputs_most) {
                    for (r, tile_rows, count) in Pieces::new(row, row + rows, rows_most).runs() {
                        if count == 0 {
                            continue;
                        }
                        // SAFETY: the tiles lie within the part, and the caller vouches for the part's pointers.
                        unsafe {
                            let dot = Dot {
                                x: samples.0.add((r - row) * samples.1),
                                x_stride: samples.1,
                                w: self.w.add(o * self.inputs + k),
                                stride: self.inputs,
                                k: len,
                                y: self.y.add(r * self.outputs + o),
                                y_stride: self.outputs,
                                bias: if last && !self.bias.is_null() { self.bias.add(o) } else { std::ptr::null() },
                                add: k > 0,
                                count,
                                sums: sums.0.as_mut_ptr(),
                            };
                            tiles(s, tile_rows, outputs, &dot);
                        }
                    }
                }
                k += len;
                if last {
                    break;
                }
            }
            if let Some(f) = self.activation {
                // SAFETY: these elements of `y` belong to this part.
                unsafe { self.activate(s, f, row, rows) };
            }
        }
    }
}

impl Forward {
    /// Applies f to a finished block of rows, still in cache.
    ///
    /// # Safety
    /// As for `run`.
    #[inline(always)]
    unsafe fn activate<S: Simd>(&self, s: S, f: Activation, row: usize, rows: usize) {
        let (first, wide) = (self.columns.0, self.columns.1 - self.columns.0);
        // Whole rows are one run.
        let (runs, len) = if wide == self.outputs { (1, rows * wide) } else { (rows, wide) };
        for r in 0..runs {
            // SAFETY: within this part of `y`.
            unsafe {
                let y = self.y.add((row + r) * self.outputs + first);
                Activate { f, x: y, y, len }.run(s);
            }
        }
    }
}
