//! The weight gradient: strips of the image with strips of the gradient.

use super::geometry::{Geometry, SLACK};
use crate::cpu::conv::source::{Content, Rectangle, Source};
use crate::cpu::conv::tile::{Product, Start, most_vectors, product};
use crate::cpu::dense::Pieces;
use crate::cpu::isa::Body;
use crate::cpu::simd::Simd;

/// The weight gradient over some strips, packed as `[group][run][term][output]`, and the sums of the gradient.
pub(in crate::cpu::conv) struct Weights<'a> {
    /// Of the forward pass.
    pub geometry: &'a Geometry,
    /// From one output row's strip to the next, for every row of a strip.
    pub rows: &'a [usize],
    pub samples: usize,
    pub x: Source,
    pub dy: Source,
    /// [`Geometry::gradient_len`] elements.
    pub dw: *mut f32,
    /// As many whole vectors as outputs need.
    pub db: *mut f32,
    pub strips: (usize, usize),
    /// Vectors of outputs to do, counted through the groups; whoever does the first also sums `db`.
    pub vectors: (usize, usize),
    /// Room for the strips of all samples that are taken together, of the images and of the gradient.
    pub scratch: *mut f32,
}

impl Body for Weights<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let g = self.geometry;
        let phase = &g.phases[0];
        let outputs = g.outputs / g.groups;
        let wide = outputs.next_multiple_of(S::LANES);
        let all = g.outputs.next_multiple_of(S::LANES);
        // SAFETY: `dw` and `db` are writable for these sizes; strips lie within the problem; scratch has room for them.
        unsafe {
            let sums_bias = self.vectors.0 == 0;
            if sums_bias {
                std::ptr::write_bytes(self.db, 0, all);
            }
            let mut start = Start::Zero;
            for strip in self.strips.0..self.strips.1 {
                let (samples, first, rows) = g.place(0, strip, self.samples);
                let own = self.scratch.wrapping_add(g.together * g.strip.next_multiple_of(16));
                let gradient = |sample: usize| Rectangle {
                    sample,
                    top: first as isize,
                    left: 0,
                    rows,
                    columns: phase.count.1,
                    channels: (0, g.outputs),
                };
                let in_place = matches!(self.dy.content, Content::Plain(_)) && outputs == wide;
                let mut x = self.scratch.cast_const();
                for (k, sample) in samples.clone().enumerate() {
                    if g.together > 1 {
                        // Rows of several samples are counted through, so that all of them lie in scratch.
                        let to = self.scratch.add(k * g.strip);
                        let cut = phase.cut(s, &self.x, sample, first, rows, g.channels, to);
                        if cut != to.cast_const() {
                            std::ptr::copy_nonoverlapping(cut, to, g.strip - SLACK);
                        }
                    } else {
                        x = phase.cut(s, &self.x, sample, first, rows, g.channels, self.scratch);
                    }
                    if !in_place {
                        // Spread, or in memory of our own, because vectors reach beyond the last channel.
                        let to = own.add(k * rows * phase.count.1 * g.outputs);
                        self.dy.copy(s, &gradient(sample), 0..rows, 0..phase.count.1, to);
                    }
                }
                // In place, whole images follow one another.
                let dy = if in_place { self.dy.cut(s, &gradient(samples.start), own).at } else { own.cast_const() };
                let rows = samples.len() * rows;
                for o in (0..if sums_bias { g.outputs } else { 0 }).step_by(S::LANES) {
                    let mask = s.head(g.outputs - o);
                    let mut sum = s.load(self.db.add(o));
                    for pixel in 0..rows * phase.count.1 {
                        sum = s.add(sum, s.load_head(dy.add(pixel * g.outputs + o), mask));
                    }
                    s.store(self.db.add(o), sum);
                }
                for group in 0..g.groups {
                    let own = |vector: usize| vector.saturating_sub(group * wide / S::LANES).min(wide / S::LANES);
                    let (first, end) = (own(self.vectors.0), own(self.vectors.1));
                    for (run, &offset) in phase.offsets.iter().enumerate() {
                        for (panel, vectors) in Pieces::new(first, end, most_vectors(S::LANES)) {
                            let p = Product {
                                a: x.add(offset + group * g.channels / g.groups),
                                a_row: 1,
                                a_term: phase.stride.1 * g.channels,
                                offsets: self.rows.as_ptr(),
                                runs: rows,
                                terms: phase.count.1,
                                b: dy.add(group * outputs + panel * S::LANES),
                                b_run: phase.count.1 * g.outputs,
                                b_term: g.outputs,
                                c: self
                                    .dw
                                    .add((group * phase.offsets.len() + run) * phase.run * wide + panel * S::LANES),
                                c_row: wide,
                                start,
                                relu: false,
                            };
                            product(s, phase.run, vectors * S::LANES, &p);
                        }
                    }
                }
                start = Start::Add;
            }
        }
    }
}
