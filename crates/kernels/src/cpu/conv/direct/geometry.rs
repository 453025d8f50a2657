//! What a direct convolution reads: taps, runs of contiguous values, phases of the stride, and strips that fit into a cache.

use paceline_base::window::{ConvDims, PoolDims};

/// Elements that may be read behind the end of a strip: a last vector.
pub(super) const SLACK: usize = 16;

/// One tap: which row and column of the kernel, and which row and column of the strip it reads, from a pixel's own place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tap {
    pub(super) kernel: (usize, usize),
    pub(super) at: (usize, usize),
}

/// A set of pixels that read the same taps: all of them in the forward pass, one phase of the stride in the data gradient.
#[derive(Debug)]
pub(in crate::cpu::conv) struct Phase {
    pub(super) taps: Vec<Tap>,
    /// Where each run of contiguous values begins in the strip, from a pixel's own place.
    pub(super) offsets: Vec<usize>,
    /// Values of a run.
    pub(super) run: usize,
    /// First element of its packed weights.
    pub(super) weights: usize,
    /// First output row and column, steps between them, and their number.
    pub(super) first: (usize, usize),
    pub(super) step: (usize, usize),
    pub count: (usize, usize),
    /// Row and column of the input that the strip begins with, for the first pixel; steps for each further one.
    pub(super) origin: (isize, isize),
    pub(super) stride: (usize, usize),
    /// Columns of a strip, and rows of one for one output row.
    pub(super) width: usize,
    pub(super) reach: usize,
}

/// The sizes of a direct convolution.
#[derive(Debug)]
pub(in crate::cpu::conv) struct Geometry {
    /// Channels of a pixel of the input and of the output.
    pub(super) channels: usize,
    pub(super) outputs: usize,
    pub(super) groups: usize,
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
pub(super) const MOST_TOGETHER: usize = 16;

/// Elements that the strips of several samples should have at most.
const GROUP: usize = 160 << 10;

/// Elements that a strip should have at most.
const STRIP: usize = 48 << 10;

impl Geometry {
    /// Of the forward pass. Strips are of whole windows of the pool, if there is one.
    pub(in crate::cpu::conv) fn forward(d: &ConvDims, lanes: usize, pool: Option<&PoolDims>) -> Self {
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
    pub(in crate::cpu::conv) fn weights(d: &ConvDims, lanes: usize) -> Self {
        let mut all = Self::forward(d, lanes, None);
        let phases = std::mem::take(&mut all.phases);
        Self::new(d.channels, d.out_channels, d.groups, phases, lanes, 1, d.out_width * d.out_channels)
    }

    /// Of the data gradient: images are gradients of the output, outputs those of the input.
    pub(in crate::cpu::conv) fn backward(d: &ConvDims, lanes: usize) -> Self {
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
    pub(in crate::cpu::conv) fn group(mut self, samples: usize) -> Self {
        if self.phases.iter().all(|p| p.count.0 <= self.rows) {
            let beside = self.phases.iter().map(|p| p.count.0 * p.count.1).max().unwrap_or(0) * self.outputs;
            self.together = (GROUP / (self.strip + beside)).clamp(1, MOST_TOGETHER.min(samples.max(1)));
        }
        self
    }

    /// Strips of a phase over all samples.
    pub(in crate::cpu::conv) fn strips(&self, phase: usize, samples: usize) -> usize {
        if self.together > 1 {
            samples.div_ceil(self.together)
        } else {
            samples * self.phases[phase].count.0.div_ceil(self.rows)
        }
    }

    /// The samples of a strip, its first output row, and how many.
    #[inline(always)]
    pub(super) fn place(&self, phase: usize, strip: usize, samples: usize) -> (std::ops::Range<usize>, usize, usize) {
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
    pub(in crate::cpu::conv) fn gradient_len(&self, lanes: usize) -> usize {
        let phase = &self.phases[0];
        self.groups * phase.offsets.len() * phase.run * (self.outputs / self.groups).next_multiple_of(lanes)
    }

    /// Elements of a strip of the gradient, with whole vectors behind it.
    pub(in crate::cpu::conv) fn gradient_strip(&self) -> usize {
        self.together * self.rows.min(self.phases[0].count.0) * self.phases[0].count.1 * self.outputs + SLACK
    }
}

/// Where each output row's strip begins within a strip.
pub(in crate::cpu::conv) fn row_offsets(geometry: &Geometry) -> Vec<usize> {
    let phase = &geometry.phases[0];
    let rows = if geometry.together > 1 { phase.count.0 } else { geometry.rows };
    let row = phase.stride.0 * phase.width * geometry.channels;
    (0..geometry.together).flat_map(|k| (0..rows).map(move |r| k * geometry.strip + r * row)).collect()
}
