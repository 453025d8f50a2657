//! The products: strips of the image with packed weights, for the forward pass and the data gradient.

use super::geometry::{Geometry, MOST_TOGETHER, Phase};
use super::maxima::Maxima;
use crate::cpu::conv::epilogue::Epilogue;
use crate::cpu::conv::source::{Image, Rectangle, Source};
use crate::cpu::conv::tile::{Product, Start, most_vectors, product};
use crate::cpu::dense::Pieces;
use crate::cpu::isa::Body;
use crate::cpu::simd::Simd;
use crate::cpu::submit::Arguments;

/// Some strips of one phase.
#[derive(Clone, Copy)]
pub(in crate::cpu::conv) struct Strips<'a> {
    pub geometry: &'a Geometry,
    pub phase: usize,
    pub source: Source,
    pub packed: *const f32,
    pub samples: usize,
    /// Size of the whole output image.
    pub output: Image,
    pub epilogue: Epilogue,
    /// Strips to do, counted over all samples.
    pub strips: (usize, usize),
    /// Room for the strips of all samples that are taken together and, with a pool, for the rows of a window.
    pub scratch: *mut f32,
}

// SAFETY: numbers and pointers into device memory.
unsafe impl Arguments for Strips<'_> {}

impl Body for Strips<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let g = self.geometry;
        let phase = &g.phases[self.phase];
        for strip in self.strips.0..self.strips.1 {
            let (samples, first, rows) = g.place(self.phase, strip, self.samples);
            let mut cuts = [std::ptr::null(); MOST_TOGETHER];
            // SAFETY: the strip lies within this phase's rows, and scratch has room for it.
            unsafe {
                for (k, sample) in samples.clone().enumerate() {
                    let to = self.scratch.add(k * g.strip);
                    cuts[k] = phase.cut(s, &self.source, sample, first, rows, g.channels, to);
                }
                if self.epilogue.pool.is_some() {
                    self.pooled(s, phase, cuts[0], samples.start, first, rows);
                } else {
                    self.plain(s, phase, &cuts, samples, first, rows);
                }
            }
        }
    }
}

impl Strips<'_> {
    /// A strip whose windows' maxima are kept. Windows are a few rows high: these stay in the first-level cache until then.
    ///
    /// # Safety
    /// As for `run`.
    #[inline(always)]
    unsafe fn pooled<S: Simd>(&self, s: S, phase: &Phase, cut: *const f32, sample: usize, first: usize, rows: usize) {
        let Some((pool, codes)) = &self.epilogue.pool else { return };
        let g = self.geometry;
        let own = self.scratch.wrapping_add(g.strip);
        let maxima = Maxima { pool, rows: own, y: self.epilogue.y, codes: *codes, relu: self.epilogue.relu };
        for row in (0..rows).step_by(pool.stride[0]) {
            let y = (first + row) / pool.stride[0];
            if y >= pool.out_height {
                break;
            }
            // SAFETY: the caller's promise.
            unsafe {
                for i in 0..pool.window[0] {
                    let to = own.add(i * phase.count.1 * g.outputs);
                    for panel in self.panels::<S>() {
                        self.row(s, phase, panel, phase.row(cut, row + i, g.channels), to, g.outputs);
                    }
                }
                s.apart(maxima.row(sample, y));
            }
        }
    }

    /// Strips that go to memory as they are: a panel of weights at a time, for all of their rows.
    ///
    /// # Safety
    /// As for `run`.
    #[inline(always)]
    unsafe fn plain<S: Simd>(
        &self,
        s: S,
        phase: &Phase,
        cuts: &[*const f32; MOST_TOGETHER],
        samples: std::ops::Range<usize>,
        first: usize,
        rows: usize,
    ) {
        let g = self.geometry;
        let pixel = phase.step.1 * g.outputs;
        let to = |sample: usize, row: usize| {
            let y = phase.first.0 + (first + row) * phase.step.0;
            ((sample * self.output.height + y) * self.output.width + phase.first.1) * g.outputs
        };
        // SAFETY: the caller's promise.
        unsafe {
            for panel in self.panels::<S>() {
                for (k, sample) in samples.clone().enumerate() {
                    for row in 0..rows {
                        let from = phase.row(cuts[k], row, g.channels);
                        self.row(s, phase, panel, from, self.epilogue.y.add(to(sample, row)), pixel);
                    }
                }
            }
            if !self.epilogue.saved.is_null() {
                for sample in samples {
                    for row in 0..rows {
                        self.through(s, phase.count.1, pixel, to(sample, row));
                    }
                }
            }
        }
    }

    /// The panels of weights: group, first vector and vectors.
    #[inline(always)]
    fn panels<S: Simd>(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let vectors = (self.geometry.outputs / self.geometry.groups).div_ceil(S::LANES);
        (0..self.geometry.groups).flat_map(move |group| {
            Pieces::new(0, vectors, most_vectors(S::LANES)).map(move |(first, wide)| (group, first, wide))
        })
    }

    /// One panel of one output row of this phase.
    ///
    /// # Safety
    /// As for `run`.
    #[inline(always)]
    unsafe fn row<S: Simd>(
        &self,
        s: S,
        phase: &Phase,
        (group, first, wide): (usize, usize, usize),
        from: *const f32,
        to: *mut f32,
        pixel: usize,
    ) {
        let g = self.geometry;
        let outputs = g.outputs / g.groups;
        let terms = phase.offsets.len() * phase.run;
        let column = group * outputs + first * S::LANES;
        let columns = (outputs - first * S::LANES).min(wide * S::LANES);
        let packed = phase.weights + (group * outputs.next_multiple_of(S::LANES) + first * S::LANES) * terms;
        let bias = self.epilogue.bias;
        let p = Product {
            a: from.wrapping_add(group * g.channels / g.groups),
            a_row: phase.stride.1 * g.channels,
            a_term: 1,
            offsets: phase.offsets.as_ptr(),
            runs: phase.offsets.len(),
            terms: phase.run,
            b: self.packed.wrapping_add(packed),
            b_run: phase.run * wide * S::LANES,
            b_term: wide * S::LANES,
            c: to.wrapping_add(column),
            c_row: pixel,
            start: if bias.is_null() { Start::Zero } else { Start::Bias(bias.wrapping_add(column)) },
            relu: self.epilogue.relu && self.epilogue.pool.is_none(),
        };
        // SAFETY: the caller's promise: the strip holds all that these pixels read.
        unsafe { product(s, phase.count.1, columns, &p) };
    }

    /// Multiplies a finished row by the derivative of the activation before.
    ///
    /// # Safety
    /// As for `run`.
    #[inline(always)]
    unsafe fn through<S: Simd>(&self, s: S, pixels: usize, pixel: usize, at: usize) {
        let outputs = self.geometry.outputs;
        for x in 0..pixels {
            for o in (0..outputs).step_by(S::LANES) {
                let mask = s.head(outputs - o);
                // SAFETY: `saved` has the output's shape.
                unsafe {
                    let saved = s.load_head(self.epilogue.saved.add(at + x * pixel + o), mask);
                    let dx = self.epilogue.y.add(at + x * pixel + o);
                    let value = s.load_head(dx, mask);
                    s.store_head(dx, mask, s.select(s.le(saved, s.zero()), s.zero(), value));
                }
            }
        }
    }
}

impl Phase {
    /// Where an output row's strip begins within a strip.
    #[inline(always)]
    fn row(&self, strip: *const f32, row: usize, channels: usize) -> *const f32 {
        strip.wrapping_add(row * self.stride.0 * self.width * channels)
    }

    /// The rectangle that `rows` output rows from `first` on read.
    #[inline(always)]
    fn rectangle(&self, sample: usize, first: usize, rows: usize, channels: usize) -> Rectangle {
        Rectangle {
            sample,
            top: self.origin.0 + (first * self.stride.0) as isize,
            left: self.origin.1,
            rows: (rows - 1) * self.stride.0 + self.reach,
            columns: self.width,
            channels: (0, channels),
        }
    }

    /// The strip that `rows` output rows from `first` on read: always `width` columns apart, with zeros outside the image.
    ///
    /// # Safety
    /// The images readable, `to` writable for the strip.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // one place of the problem each
    pub(super) unsafe fn cut<S: Simd>(
        &self,
        s: S,
        source: &Source,
        sample: usize,
        first: usize,
        rows: usize,
        channels: usize,
        to: *mut f32,
    ) -> *const f32 {
        let rectangle = self.rectangle(sample, first, rows, channels);
        // SAFETY: the caller's promise.
        let cut = unsafe { source.cut(s, &rectangle, to) };
        if cut.row == self.width * channels {
            return cut.at;
        }
        // In place, but rows are further apart than the kernels count: copied after all.
        for row in 0..rectangle.rows {
            let len = self.width * channels;
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(cut.at.add(row * cut.row), to.add(row * len), len) };
        }
        to
    }
}
