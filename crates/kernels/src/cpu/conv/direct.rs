//! Convolutions by their definition: products of pixels with packed weights, straight out of the image (an implicit GEMM).
//!
//! A strip of the image, with zeros around where it ends, lies in the second-level cache; a window is then a few runs of
//! contiguous values (kernel rows, or single taps if taps are apart or channels are grouped), and an output row is a product
//! of pixels, overlapping in memory, with weights. The data gradient is the same for each phase of the stride: pixels of one
//! phase read a fixed set of taps, without gaps.

use super::source::{Content, Image, Rectangle, Source};
use super::tile::{Product, Start, most_vectors, product};
use super::winograd::{Sink, maximum, passed};
use crate::cpu::dense::Pieces;
use crate::cpu::isa::Body;
use crate::cpu::simd::Simd;
use paceline_base::window::{ConvDims, PoolDims};

/// Elements that may be read behind the end of a strip: a last vector.
const SLACK: usize = 16;

/// One tap: which row and column of the kernel, and which row and column of the strip it reads, from a pixel's own place.
#[derive(Clone, Copy, Debug)]
struct Tap {
    kernel: (usize, usize),
    at: (usize, usize),
}

/// A set of pixels that read the same taps: all of them in the forward pass, one phase of the stride in the data gradient.
#[derive(Debug)]
pub(super) struct Phase {
    taps: Vec<Tap>,
    /// Where each run of contiguous values begins in the strip, from a pixel's own place.
    offsets: Vec<usize>,
    /// Values of a run.
    run: usize,
    /// First element of its packed weights.
    weights: usize,
    /// First output row and column, steps between them, and their number.
    first: (usize, usize),
    step: (usize, usize),
    pub count: (usize, usize),
    /// Row and column of the input that the strip begins with, for the first pixel; steps for each further one.
    origin: (isize, isize),
    stride: (usize, usize),
    /// Columns of a strip, and rows of one for one output row.
    width: usize,
    reach: usize,
}

/// The sizes of a direct convolution.
#[derive(Debug)]
pub(super) struct Geometry {
    /// Channels of a pixel of the input and of the output.
    channels: usize,
    outputs: usize,
    groups: usize,
    pub phases: Vec<Phase>,
    /// Elements of all packed weights.
    pub packed: usize,
    /// Output rows of a strip, and elements of the largest.
    pub rows: usize,
    pub strip: usize,
    /// Samples of a strip: several if images are small, so that packed weights are read for many pixels at a time.
    pub together: usize,
}

/// Most samples of a strip.
const MOST_TOGETHER: usize = 16;

/// Elements that the strips of several samples should have at most.
const GROUP: usize = 160 << 10;

/// Elements that a strip should have at most.
const STRIP: usize = 48 << 10;

impl Geometry {
    /// Of the forward pass. Strips are of whole windows of the pool, if there is one.
    pub(super) fn forward(d: &ConvDims, lanes: usize, pool: Option<&PoolDims>) -> Self {
        let taps = (0..d.kernel[0])
            .flat_map(|i| (0..d.kernel[1]).map(move |j| (i, j)))
            .map(|(i, j)| Tap { kernel: (i, j), at: (i * d.dilation[0], j * d.dilation[1]) })
            .collect();
        let reach = ((d.kernel[0] - 1) * d.dilation[0] + 1, (d.kernel[1] - 1) * d.dilation[1] + 1);
        let phase = Phase {
            taps,
            offsets: Vec::new(),
            run: 0,
            weights: 0,
            first: (0, 0),
            step: (1, 1),
            count: (d.out_height, d.out_width),
            origin: (-(d.pad[0] as isize), -(d.pad[1] as isize)),
            stride: (d.stride[0], d.stride[1]),
            width: (d.out_width.max(1) - 1) * d.stride[1] + reach.1,
            reach: reach.0,
        };
        Self::new(d.channels, d.out_channels, d.groups, vec![phase], lanes, pool.map_or(1, |p| p.stride[0]), 0)
    }

    /// Of the weight gradient: as the forward pass, but a strip of the gradient lies in the cache too.
    pub(super) fn weights(d: &ConvDims, lanes: usize) -> Self {
        let mut all = Self::forward(d, lanes, None);
        let phases = std::mem::take(&mut all.phases);
        Self::new(d.channels, d.out_channels, d.groups, phases, lanes, 1, d.out_width * d.out_channels)
    }

    /// Of the data gradient: images are gradients of the output, outputs those of the input.
    pub(super) fn backward(d: &ConvDims, lanes: usize) -> Self {
        let mut phases = Vec::new();
        for a in 0..d.stride[0].min(d.height) {
            for b in 0..d.stride[1].min(d.width) {
                // Pixel a + stride·q reads row q + e of the gradient through tap i if a + pad − i·dilation = stride·e.
                let along = |start: usize, axis: usize| -> Vec<(usize, isize)> {
                    (0..d.kernel[axis])
                        .rev()
                        .filter_map(|tap| {
                            let offset = (start + d.pad[axis]) as isize - (tap * d.dilation[axis]) as isize;
                            (offset.rem_euclid(d.stride[axis] as isize) == 0)
                                .then(|| (tap, offset.div_euclid(d.stride[axis] as isize)))
                        })
                        .collect()
                };
                let (rows, columns) = (along(a, 0), along(b, 1));
                let low = |list: &[(usize, isize)]| list.iter().map(|t| t.1).min().unwrap_or(0);
                let high = |list: &[(usize, isize)]| list.iter().map(|t| t.1).max().unwrap_or(0);
                let origin = (low(&rows), low(&columns));
                let taps = rows
                    .iter()
                    .flat_map(|r| columns.iter().map(move |c| (*r, *c)))
                    .map(|(r, c)| Tap {
                        kernel: (r.0, c.0),
                        at: ((r.1 - origin.0) as usize, (c.1 - origin.1) as usize),
                    })
                    .collect();
                let count = ((d.height - a).div_ceil(d.stride[0]), (d.width - b).div_ceil(d.stride[1]));
                phases.push(Phase {
                    taps,
                    offsets: Vec::new(),
                    run: 0,
                    weights: 0,
                    first: (a, b),
                    step: (d.stride[0], d.stride[1]),
                    count,
                    origin,
                    stride: (1, 1),
                    width: count.1 - 1 + (high(&columns) - origin.1) as usize + 1,
                    reach: (high(&rows) - origin.0) as usize + 1,
                });
            }
        }
        Self::new(d.out_channels, d.channels, d.groups, phases, lanes, 1, 0)
    }

    /// `whole` rows stay together; `beside` elements a row share the cache with the strip.
    fn new(
        channels: usize,
        outputs: usize,
        groups: usize,
        phases: Vec<Phase>,
        lanes: usize,
        whole: usize,
        beside: usize,
    ) -> Self {
        let mut all = Self { channels, outputs, groups, phases, packed: 0, rows: whole, strip: 0, together: 1 };
        let wide = (outputs / groups).next_multiple_of(lanes);
        for phase in &mut all.phases {
            let along = |t: &Tap| (t.at.0 * phase.width + t.at.1) * channels;
            // Taps side by side make one run, if all channels are read.
            let joins = |w: &[Tap]| groups == 1 && w[1].at == (w[0].at.0, w[0].at.1 + 1);
            let columns = phase.taps.iter().take_while(|t| t.at.0 == phase.taps[0].at.0).count();
            let joined = columns > 0 && phase.taps.chunks(columns).all(|row| row.windows(2).all(joins));
            let step = if joined { columns } else { 1 };
            phase.offsets = phase.taps.iter().step_by(step).map(along).collect();
            phase.run = step * channels / groups;
            phase.weights = all.packed;
            all.packed += groups * phase.offsets.len() * phase.run * wide;
        }
        let size = |p: &Phase, rows: usize| ((rows - 1) * p.stride.0 + p.reach) * p.width * channels + SLACK;
        let largest = |rows: usize| all.phases.iter().map(|p| size(p, rows)).max().unwrap_or(0);
        let most = all.phases.iter().map(|p| p.count.0).max().unwrap_or(1).max(1);
        let mut rows = whole;
        while rows + whole <= most.next_multiple_of(whole) && largest(rows + whole) + beside * (rows + whole) <= STRIP {
            rows += whole;
        }
        (all.rows, all.strip) = (rows, largest(rows));
        all
    }

    /// Takes several of so many samples together, if whole images are small enough.
    pub(super) fn group(mut self, samples: usize) -> Self {
        if self.phases.iter().all(|p| p.count.0 <= self.rows) {
            let beside = self.phases.iter().map(|p| p.count.0 * p.count.1).max().unwrap_or(0) * self.outputs;
            self.together = (GROUP / (self.strip + beside)).clamp(1, MOST_TOGETHER.min(samples.max(1)));
        }
        self
    }

    /// Strips of a phase over all samples.
    pub(super) fn strips(&self, phase: usize, samples: usize) -> usize {
        if self.together > 1 {
            samples.div_ceil(self.together)
        } else {
            samples * self.phases[phase].count.0.div_ceil(self.rows)
        }
    }

    /// The samples of a strip, its first output row, and how many.
    #[inline(always)]
    fn place(&self, phase: usize, strip: usize, samples: usize) -> (std::ops::Range<usize>, usize, usize) {
        let count = self.phases[phase].count.0;
        if self.together > 1 {
            let first = strip * self.together;
            return (first..(first + self.together).min(samples), 0, count);
        }
        let per_sample = count.div_ceil(self.rows);
        let (sample, first) = (strip / per_sample, strip % per_sample * self.rows);
        (sample..sample + 1, first, (count - first).min(self.rows))
    }

    /// Elements of weights by thread while a weight gradient is summed.
    pub(super) fn gradient_len(&self, lanes: usize) -> usize {
        let phase = &self.phases[0];
        self.groups * phase.offsets.len() * phase.run * (self.outputs / self.groups).next_multiple_of(lanes)
    }

    /// Elements of a strip of the gradient, with whole vectors behind it.
    pub(super) fn gradient_strip(&self) -> usize {
        self.together * self.rows.min(self.phases[0].count.0) * self.phases[0].count.1 * self.outputs + SLACK
    }
}

/// Where a weight lies in [outputs, channels / groups, kernel, kernel]: of which layer output, channel within the group, and tap.
#[derive(Clone, Copy)]
pub(super) struct Weight {
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
pub(super) struct Pack<'a> {
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

/// Terms whose weights are packed together.
const TERMS: usize = 16;

/// Some strips of one phase.
#[derive(Clone, Copy)]
pub(super) struct Strips<'a> {
    pub geometry: &'a Geometry,
    pub phase: usize,
    pub source: Source,
    pub packed: *const f32,
    pub samples: usize,
    /// Size of the whole output image.
    pub output: Image,
    pub sink: Sink,
    /// Strips to do, counted over all samples.
    pub strips: (usize, usize),
    /// Room for the strips of all samples that are taken together and, with a pool, for the rows of a window.
    pub scratch: *mut f32,
}

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
                if self.sink.pool.is_some() {
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
        let Some((pool, codes)) = &self.sink.pool else { return };
        let g = self.geometry;
        let own = self.scratch.wrapping_add(g.strip);
        let maxima = Maxima { pool, rows: own, y: self.sink.y, codes: *codes, relu: self.sink.relu };
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
                        self.row(s, phase, panel, from, self.sink.y.add(to(sample, row)), pixel);
                    }
                }
            }
            if !self.sink.saved.is_null() {
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
    unsafe fn cut<S: Simd>(
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

impl Strips<'_> {
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
        let bias = self.sink.bias;
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
            relu: self.sink.relu && self.sink.pool.is_none(),
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
                    let saved = s.load_head(self.sink.saved.add(at + x * pixel + o), mask);
                    let dx = self.sink.y.add(at + x * pixel + o);
                    let value = s.load_head(dx, mask);
                    s.store_head(dx, mask, s.select(s.le(saved, s.zero()), s.zero(), value));
                }
            }
        }
    }
}

/// The maxima of one row of windows.
#[derive(Clone, Copy)]
struct Maxima<'a> {
    pool: &'a PoolDims,
    /// The finished rows that the windows cover.
    rows: *const f32,
    y: *mut f32,
    codes: *mut u8,
    relu: bool,
}

impl Maxima<'_> {
    /// For this row of this sample's output.
    #[inline(always)]
    fn row(mut self, sample: usize, y: usize) -> Self {
        let at = (sample * self.pool.out_height + y) * self.pool.out_width * self.pool.channels;
        self.y = self.y.wrapping_add(at);
        if !self.codes.is_null() {
            self.codes = self.codes.wrapping_add(at);
        }
        self
    }
}

impl Body for Maxima<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let PoolDims { width, channels, out_width, window, stride, .. } = *self.pool;
        for x in 0..out_width {
            for c in (0..channels).step_by(S::LANES) {
                let lanes = (channels - c).min(S::LANES);
                let mask = s.head(lanes);
                // SAFETY: windows lie within the finished rows, the output within the pool's.
                unsafe {
                    let at = |i: usize, j: usize| {
                        let from = self.rows.add((i * width + x * stride[1] + j) * channels + c);
                        if lanes == S::LANES { s.load(from) } else { s.load_head(from, mask) }
                    };
                    let (best, code) = if window == [2, 2] {
                        maximum(s, [at(0, 0), at(0, 1), at(1, 0), at(1, 1)], self.relu)
                    } else {
                        let (mut best, mut code) = (at(0, 0), s.zero());
                        for i in 0..window[0] {
                            for j in 0..window[1] {
                                let value = at(i, j);
                                let keep = s.le(value, best);
                                best = s.select(keep, best, value);
                                code = s.select(keep, code, s.splat((i * window[1] + j) as f32));
                            }
                        }
                        passed(s, best, code, self.relu)
                    };
                    let to = x * channels + c;
                    s.store_head(self.y.add(to), mask, best);
                    if !self.codes.is_null() {
                        s.store_bytes(self.codes.add(to), lanes, code);
                    }
                }
            }
        }
    }
}

/// The weight gradient over some strips, packed as `[group][run][term][output]`, and the sums of the gradient.
pub(super) struct Weights<'a> {
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
            std::ptr::write_bytes(self.dw, 0, g.gradient_len(S::LANES));
            std::ptr::write_bytes(self.db, 0, all);
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
                for o in (0..g.outputs).step_by(S::LANES) {
                    let mask = s.head(g.outputs - o);
                    let mut sum = s.load(self.db.add(o));
                    for pixel in 0..rows * phase.count.1 {
                        sum = s.add(sum, s.load_head(dy.add(pixel * g.outputs + o), mask));
                    }
                    s.store(self.db.add(o), sum);
                }
                for group in 0..g.groups {
                    for (run, &offset) in phase.offsets.iter().enumerate() {
                        for (panel, vectors) in Pieces::new(0, wide / S::LANES, most_vectors(S::LANES)) {
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
                                start: Start::Add,
                                relu: false,
                            };
                            product(s, phase.run, vectors * S::LANES, &p);
                        }
                    }
                }
            }
        }
    }
}

/// Adds up the threads' gradients and puts them in their order.
pub(super) struct Gather<'a> {
    pub geometry: &'a Geometry,
    pub weight: Weight,
    pub from: *const f32,
    pub parts: usize,
    pub stride: usize,
    pub dw: *mut f32,
}

impl Body for Gather<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, _: S) {
        let g = self.geometry;
        let phase = &g.phases[0];
        let (terms, outputs) = (g.channels / g.groups, g.outputs / g.groups);
        let wide = outputs.next_multiple_of(S::LANES);
        for group in 0..g.groups {
            // A few terms and outputs at a time, so that what is written lies in the first-level cache until it is whole.
            for (first, count) in Pieces::new(0, terms, TERMS) {
                for (column, columns) in Pieces::new(0, outputs, 4 * TERMS) {
                    for (t, tap) in phase.taps.iter().enumerate() {
                        for term in first..first + count {
                            let from = self.from.wrapping_add(((group * phase.taps.len() + t) * terms + term) * wide);
                            for o in column..column + columns {
                                // SAFETY: existing weights.
                                unsafe {
                                    let mut sum = *from.add(o);
                                    for part in 1..self.parts {
                                        sum += *from.add(part * self.stride + o);
                                    }
                                    *self.dw.add(self.weight.at(group * outputs + o, term, tap)) = sum;
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Where each output row's strip begins within a strip.
pub(super) fn row_offsets(geometry: &Geometry) -> Vec<usize> {
    let phase = &geometry.phases[0];
    let rows = if geometry.together > 1 { phase.count.0 } else { geometry.rows };
    let row = phase.stride.0 * phase.width * geometry.channels;
    (0..geometry.together).flat_map(|k| (0..rows).map(move |r| k * geometry.strip + r * row)).collect()
}
