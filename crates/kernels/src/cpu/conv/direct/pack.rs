//! Weights on their way in and out: packed for the products, and gradients put back in their order.

use super::geometry::{Geometry, Tap};
use crate::cpu::conv::tile::most_vectors;
use crate::cpu::dense::Pieces;
use crate::cpu::isa::Body;
use crate::cpu::simd::Simd;

/// Terms whose weights are packed together.
const TERMS: usize = 16;

/// Outputs whose gradients are put in their order together; whole vectors of any instruction set.
const COLUMNS: usize = 64;

/// Where a weight lies in [outputs, channels / groups, kernel, kernel]: of which layer output, channel within the group, and tap.
#[derive(Clone, Copy)]
pub(in crate::cpu::conv) struct Weight {
    /// Channels within a group of the layer.
    pub channels: usize,
    pub kernel: (usize, usize),
}

impl Weight {
    #[inline(always)]
    fn at(&self, output: usize, channel: usize, tap: &Tap) -> usize {
        ((output * self.channels + channel) * self.kernel.0 + tap.kernel.0) * self.kernel.1 + tap.kernel.1
    }
}

/// Packs weights for all phases: `[group][panel][run][term][output]`, outputs in whole vectors with zeros.
pub(in crate::cpu::conv) struct Pack<'a> {
    pub geometry: &'a Geometry,
    pub w: *const f32,
    pub weight: Weight,
    /// For the data gradient: terms are the layer's outputs.
    pub turned: bool,
    pub to: *mut f32,
}

impl Body for Pack<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, _: S) {
        let g = self.geometry;
        let (terms, outputs) = (g.channels / g.groups, g.outputs / g.groups);
        let vectors = outputs.div_ceil(S::LANES);
        for phase in &g.phases {
            let mut to = self.to.wrapping_add(phase.weights);
            for group in 0..g.groups {
                for (panel, wide) in Pieces::new(0, vectors, most_vectors(S::LANES)) {
                    let wide = wide * S::LANES;
                    // A few terms at a time: their weights for all taps lie side by side, and stay in the first-level cache.
                    for (first, count) in Pieces::new(0, terms, TERMS) {
                        for (t, tap) in phase.taps.iter().enumerate() {
                            for term in first..first + count {
                                for lane in 0..wide {
                                    let o = panel * S::LANES + lane;
                                    // SAFETY: existing weights; `to` has room for all of them in whole vectors.
                                    unsafe {
                                        *to.add((t * terms + term) * wide + lane) = match (o < outputs, self.turned) {
                                            (false, _) => 0.0,
                                            (true, false) => {
                                                *self.w.add(self.weight.at(group * outputs + o, term, tap))
                                            }
                                            (true, true) => *self.w.add(self.weight.at(group * terms + term, o, tap)),
                                        };
                                    }
                                }
                            }
                        }
                    }
                    to = to.wrapping_add(phase.taps.len() * terms * wide);
                }
            }
        }
    }
}

/// Adds up the partial sums of the gradient and puts them in their order.
pub(in crate::cpu::conv) struct Gather<'a> {
    pub geometry: &'a Geometry,
    pub weight: Weight,
    /// The first partial sum, their number, and how far they are apart.
    pub from: *const f32,
    pub sums: usize,
    pub stride: usize,
    pub dw: *mut f32,
    /// Pieces of terms to do, counted through the groups; of [`Gather::pieces`].
    pub range: (usize, usize),
}

impl Gather<'_> {
    /// Into how many pieces the work can be cut.
    pub(crate) fn pieces(geometry: &Geometry) -> usize {
        geometry.groups * (geometry.channels / geometry.groups).div_ceil(TERMS)
    }
}

impl Body for Gather<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let g = self.geometry;
        let phase = &g.phases[0];
        let (terms, outputs) = (g.channels / g.groups, g.outputs / g.groups);
        let wide = outputs.next_multiple_of(S::LANES);
        let per_group = terms.div_ceil(TERMS);
        for piece in self.range.0..self.range.1 {
            let (group, first) = (piece / per_group, piece % per_group * TERMS);
            // A few terms and outputs at a time, so that what is written lies in the first-level cache until it is whole.
            for column in (0..outputs).step_by(COLUMNS) {
                let columns = (outputs - column).min(COLUMNS);
                for (t, tap) in phase.taps.iter().enumerate() {
                    for term in first..(first + TERMS).min(terms) {
                        let at = ((group * phase.taps.len() + t) * terms + term) * wide + column;
                        let mut total = [0.0f32; COLUMNS];
                        // SAFETY: existing weights; rows of a sum are whole vectors, and `total` has room for them.
                        unsafe {
                            for o in (0..columns).step_by(S::LANES) {
                                let mut sum = s.load(self.from.add(at + o));
                                for k in 1..self.sums {
                                    sum = s.add(sum, s.load(self.from.add(k * self.stride + at + o)));
                                }
                                s.store(total.as_mut_ptr().add(o), sum);
                            }
                            for (o, &sum) in total[..columns].iter().enumerate() {
                                *self.dw.add(self.weight.at(group * outputs + column + o, term, tap)) = sum;
                            }
                        }
                    }
                }
            }
        }
    }
}
