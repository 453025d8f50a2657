//! The components of an image at the scale and in the region that are wanted, one row of MCUs at a time: samples are
//! put into strips that stay in the cache, and leave them as finished rows of pixels.

use super::colour::{self, Model};
use super::idct;
use super::markers::Frame;
use super::upsample::{self, Upsample};
use crate::simd::Simd;
use std::ops::Range;

/// A rectangle in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) left: usize,
    pub(crate) top: usize,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// Memory that is kept from image to image.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    strips: [Vec<u8>; 4],
    rows: [Vec<u8>; 4],
    sums: Vec<u16>,
    pixels: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(super) struct Plane {
    /// Sampling factors.
    pub(super) h: usize,
    pub(super) v: usize,
    /// Samples per block and side: 1 to 8.
    m: usize,
    upsample: Upsample,
    /// Blocks that hold pixels (what a scan of this component alone has), and with what fills up the last MCUs.
    pub(super) blocks: (usize, usize),
    pub(super) padded: (usize, usize),
    /// Size in samples.
    samples: (usize, usize),
    /// Blocks that are wanted; empty if the component is not.
    pub(super) columns: Range<usize>,
    pub(super) rows: Range<usize>,
    stride: usize,
    pub(super) quantisation: [i16; 64],
}

impl Plane {
    /// Whether the block's samples are wanted.
    #[inline(always)]
    pub(super) fn wants(&self, column: usize, row: usize) -> bool {
        self.columns.contains(&column) && self.rows.contains(&row)
    }
}

/// The size of a frame at a scale of `m`/8.
pub(crate) fn scaled(size: usize, m: usize) -> usize {
    (size * m).div_ceil(8)
}

/// All components, and where their pixels go.
pub(super) struct Planes<'a> {
    simd: Simd,
    pub(super) planes: Vec<Plane>,
    /// MCUs across and down.
    pub(super) mcus: (usize, usize),
    /// Pixel rows of a row of MCUs at this scale.
    mcu_height: usize,
    height: usize,
    /// Some component needs the row below to finish a row.
    lag: usize,
    next: usize,
    model: Model,
    region: Region,
    channels: usize,
    buffers: &'a mut Buffers,
    out: &'a mut [u8],
}

impl<'a> Planes<'a> {
    /// For a frame at a scale of `m`/8; `out` holds the region's pixels.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn new(
        simd: Simd,
        frame: &Frame,
        model: Model,
        m: usize,
        region: Region,
        channels: usize,
        buffers: &'a mut Buffers,
        out: &'a mut [u8],
    ) -> Self {
        let hmax = frame.components().iter().map(|c| c.h).max().unwrap_or(1);
        let vmax = frame.components().iter().map(|c| c.v).max().unwrap_or(1);
        let mcus = (frame.width.div_ceil(8 * hmax), frame.height.div_ceil(8 * vmax));
        let needed = model.needed(channels);
        let mut planes = Vec::with_capacity(4);
        for (i, c) in frame.components().iter().enumerate() {
            // A subsampled component is shrunk less, as long as its blocks have the samples.
            let mut own = m;
            while own * 2 <= 8 && (hmax * m).is_multiple_of(c.h * own * 2) && (vmax * m).is_multiple_of(c.v * own * 2) {
                own *= 2;
            }
            let samples = |size: usize, factor: usize, max: usize| (size * factor * own).div_ceil(max * 8);
            let blocks = |size: usize, factor: usize, max: usize| (size * factor).div_ceil(max).div_ceil(8);
            let mut plane = Plane {
                h: c.h,
                v: c.v,
                m: own,
                upsample: Upsample::None,
                blocks: (blocks(frame.width, c.h, hmax), blocks(frame.height, c.v, vmax)),
                padded: (mcus.0 * c.h, mcus.1 * c.v),
                samples: (samples(frame.width, c.h, hmax), samples(frame.height, c.v, vmax)),
                columns: 0..0,
                rows: 0..0,
                stride: 0,
                quantisation: [0; 64],
            };
            let across = (c.h * own, hmax * m);
            let down = (c.v * own, vmax * m);
            let twice = |(a, b): (usize, usize)| a * 2 == b;
            let same = |(a, b): (usize, usize)| a == b;
            plane.upsample = if same(across) && same(down) {
                Upsample::None
            } else if m > 1 && same(across) && twice(down) {
                Upsample::High
            } else if m > 1 && twice(across) && same(down) && plane.samples.0 > 2 {
                Upsample::Wide
            } else if m > 1 && twice(across) && twice(down) && plane.samples.0 > 2 {
                Upsample::Both
            } else {
                Upsample::Repeat { across, down }
            };
            if i < needed {
                // The filter looks one sample further.
                let around = usize::from(plane.upsample != Upsample::None);
                let cover = |from: usize, length: usize, (a, b): (usize, usize), samples: usize| {
                    let first = (from * a / b).saturating_sub(around);
                    let last = (((from + length) * a).div_ceil(b) + around).min(samples);
                    first / own..last.div_ceil(own)
                };
                plane.columns = cover(region.left, region.width, across, plane.samples.0);
                plane.rows = cover(region.top, region.height, down, plane.samples.1);
                // Blocks are written eight bytes wide, whatever counts of them.
                plane.stride = plane.columns.len() * own + 8;
                // The strip: the last row of the one before, then its own.
                let size = (1 + c.v * own) * plane.stride;
                if buffers.strips[i].len() < size {
                    buffers.strips[i].resize(size, 0);
                }
            }
            planes.push(plane);
        }
        let lag = usize::from(planes[..needed].iter().any(|p| p.upsample.looks_around()));
        let height = scaled(frame.height, m);
        Self { simd, planes, mcus, mcu_height: vmax * m, height, lag, next: 0, model, region, channels, buffers, out }
    }

    /// Puts a block's samples into its strip, in the row of MCUs at hand. `flat`: nothing but the mean.
    #[inline(always)]
    pub(super) fn put(
        &mut self,
        index: usize,
        column: usize,
        row: usize,
        mcu_row: usize,
        flat: bool,
        block: &[i16; 64],
    ) {
        let plane = &self.planes[index];
        let y = 1 + (row - mcu_row * plane.v) * plane.m;
        let x = (column - plane.columns.start) * plane.m;
        let out = &mut self.buffers.strips[index][y * plane.stride + x..];
        if flat {
            idct::flat(plane.m, block[0], plane.quantisation[0], out, plane.stride);
        } else {
            idct::block(self.simd, plane.m, block, &plane.quantisation, out, plane.stride);
        }
    }

    /// After all blocks of a row of MCUs: writes the pixel rows that are finished.
    pub(super) fn finish(&mut self, mcu_row: usize) {
        let last = mcu_row + 1 == self.mcus.1;
        let end = if last { self.height } else { (mcu_row + 1) * self.mcu_height - self.lag };
        for y in self.next..end {
            if y >= self.region.top && y < self.region.top + self.region.height {
                self.row(mcu_row, y);
            }
        }
        self.next = end;
        for (plane, strip) in self.planes.iter().zip(&mut self.buffers.strips) {
            if !plane.columns.is_empty() {
                let from = plane.v * plane.m * plane.stride;
                strip.copy_within(from..from + plane.stride, 0);
            }
        }
    }

    /// One row of pixels.
    fn row(&mut self, mcu_row: usize, y: usize) {
        let region = self.region;
        let Buffers { strips, rows, sums, pixels } = &mut *self.buffers;
        let mut sources: [&[u8]; 4] = [&[]; 4];
        for (((plane, strip), wide), source) in self.planes.iter().zip(strips).zip(rows).zip(&mut sources) {
            if plane.columns.is_empty() {
                continue;
            }
            let start = plane.columns.start * plane.m;
            let length = (plane.columns.end * plane.m).min(plane.samples.0) - start;
            let top = mcu_row * plane.v * plane.m;
            let at = |sample_row: usize| &strip[(sample_row + 1 - top) * plane.stride..][..length];
            // The nearer of the rows around this one, and the other, which at the edges is the same.
            let near = y / 2;
            let far = if y.is_multiple_of(2) { near.saturating_sub(1) } else { (near + 1).min(plane.samples.1 - 1) };
            let mut room = |length: usize| {
                if wide.len() < length {
                    wide.resize(length, 0);
                }
            };
            *source = match plane.upsample {
                Upsample::None => &at(y)[region.left - start..],
                Upsample::Wide => {
                    room(2 * length);
                    upsample::wide(self.simd, at(y), wide);
                    &wide[region.left - 2 * start..]
                }
                Upsample::High => {
                    room(length);
                    upsample::high(self.simd, at(near), at(far), y % 2 == 1, wide);
                    &wide[region.left - start..]
                }
                Upsample::Both => {
                    room(2 * length);
                    upsample::both(self.simd, at(near), at(far), sums, wide);
                    &wide[region.left - 2 * start..]
                }
                Upsample::Repeat { across, down } => {
                    room(region.width);
                    let row = at((y * down.0 / down.1).min(plane.samples.1 - 1));
                    upsample::repeat(row, start, across, region.left, &mut wide[..region.width]);
                    wide
                }
            };
        }
        let line = region.width * self.channels;
        let out = &mut self.out[(y - region.top) * line..][..line];
        colour::convert(self.simd, self.model, sources, self.channels, pixels, out);
    }
}
