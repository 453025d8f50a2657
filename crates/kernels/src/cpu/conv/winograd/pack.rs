//! Weights on their way in and out: transformed for the products, and gradients turned back and put in their order.

#![allow(clippy::needless_range_loop)] // indexed loops read as the formula, and unroll into registers

use super::padded;
use crate::cpu::conv::scheme::{Scheme, WIDEST};
use crate::cpu::conv::tile::most_vectors;
use crate::cpu::dense::Pieces;
use crate::cpu::isa::Body;
use crate::cpu::simd::Simd;
use crate::cpu::submit::Arguments;
use std::marker::PhantomData;

/// Transforms weights: `u[place][panel][term][output]`, each panel as wide as a tile of registers.
#[derive(Clone, Copy)]
pub(in crate::cpu::conv) struct Pack<C> {
    /// [outputs, channels, kernel, kernel] of the layer.
    pub w: *const f32,
    /// Channels of the layer.
    pub channels: usize,
    pub terms: usize,
    pub outputs: usize,
    /// For the data gradient: terms are the layer's outputs, outputs its channels, and the kernel is turned round.
    pub turned: bool,
    pub u: *mut f32,
    /// Vectors of outputs to do.
    pub vectors: (usize, usize),
    pub scheme: PhantomData<C>,
}

// SAFETY: numbers and pointers into device memory.
unsafe impl<C: Scheme> Arguments for Pack<C> {}

impl<C: Scheme> Body for Pack<C> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let kernel = C::KERNEL;
        let size = kernel * kernel;
        let all = self.outputs.div_ceil(S::LANES);
        let place = self.terms * all * S::LANES;
        let (term_step, output_step) =
            if self.turned { (self.channels * size, size) } else { (size, self.channels * size) };
        for (panel, wide) in Pieces::new(0, all, most_vectors(S::LANES)) {
            for vector in panel.max(self.vectors.0)..(panel + wide).min(self.vectors.1) {
                let first = vector * S::LANES;
                let lanes = (self.outputs - first).min(S::LANES);
                for term in 0..self.terms {
                    let mut taps = [[0.0f32; 16]; 25];
                    // SAFETY: weights of existing terms and outputs; `u` has room for all vectors.
                    unsafe {
                        let from = self.w.add(term * term_step + first * output_step);
                        for lane in 0..lanes {
                            let from = from.add(lane * output_step);
                            for k in 0..size {
                                let tap = if self.turned { size - 1 - k } else { k };
                                taps[tap][lane] = *from.add(k);
                            }
                        }
                        let mut half = [[s.zero(); WIDEST]; WIDEST];
                        for j in 0..kernel {
                            let mut column = [s.zero(); WIDEST];
                            for i in 0..kernel {
                                column[i] = s.load(taps[i * kernel + j].as_ptr());
                            }
                            let column = C::kernel(s, column);
                            for i in 0..C::PATCH {
                                half[i][j] = column[i];
                            }
                        }
                        let to = panel * S::LANES * self.terms + term * wide * S::LANES + (vector - panel) * S::LANES;
                        for i in 0..C::PATCH {
                            let row = C::kernel(s, half[i]);
                            for j in 0..C::PATCH {
                                s.store(self.u.add((i * C::PATCH + j) * place + to), row[j]);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Adds up the partial sums of the transformed gradient, turns them back and puts them in their order.
#[derive(Clone, Copy)]
pub(in crate::cpu::conv) struct Gather<C> {
    /// The first partial sum, their number, and how far they are apart.
    pub du: *const f32,
    pub sums: usize,
    pub stride: usize,
    /// Channels of the layer.
    pub channels: usize,
    pub outputs: usize,
    pub dw: *mut f32,
    /// Channels to do.
    pub range: (usize, usize),
    pub scheme: PhantomData<C>,
}

// SAFETY: numbers and pointers into device memory.
unsafe impl<C: Scheme> Arguments for Gather<C> {}

impl<C: Scheme> Body for Gather<C> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let count = self.outputs;
        let wide = padded(count, S::LANES);
        let place = self.channels * wide;
        let size = C::KERNEL * C::KERNEL;
        for o in (0..count).step_by(S::LANES) {
            let lanes = (count - o).min(S::LANES);
            for c in self.range.0..self.range.1 {
                // SAFETY: within the gradients of these channels and outputs.
                unsafe {
                    let from = self.du.add(c * wide + o);
                    let mut half = [[s.zero(); WIDEST]; WIDEST];
                    for j in 0..C::PATCH {
                        let mut column = [s.zero(); WIDEST];
                        for i in 0..C::PATCH {
                            let from = from.add((i * C::PATCH + j) * place);
                            column[i] = s.load(from);
                            for sum in 1..self.sums {
                                column[i] = s.add(column[i], s.load(from.add(sum * self.stride)));
                            }
                        }
                        let column = C::gather(s, column);
                        for i in 0..C::KERNEL {
                            half[i][j] = column[i];
                        }
                    }
                    let mut taps = [[0.0f32; 16]; 25];
                    for i in 0..C::KERNEL {
                        let row = C::gather(s, half[i]);
                        for j in 0..C::KERNEL {
                            s.store(taps[i * C::KERNEL + j].as_mut_ptr(), row[j]);
                        }
                    }
                    for lane in 0..lanes {
                        let to = self.dw.add(((o + lane) * self.channels + c) * size);
                        for k in 0..size {
                            *to.add(k) = taps[k][lane];
                        }
                    }
                }
            }
        }
    }
}
