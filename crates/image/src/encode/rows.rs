//! Rows of pixels to rows of samples: RGB to YCbCr with libjpeg's fixed-point constants, chroma halved, edges repeated
//! to whole blocks.

use crate::Pixels;
use crate::simd::Simd;

/// The samples of a row of MCUs.
#[derive(Debug, Default)]
pub(super) struct Strips {
    luma: Vec<u8>,
    chroma: [Vec<u8>; 2],
    /// Chroma of two rows of pixels before it is halved.
    wide: [[Vec<u8>; 2]; 2],
    /// Samples from one row to the next.
    strides: [usize; 2],
}

impl Strips {
    /// The block at a column, in one of the rows of blocks of an MCU.
    #[inline(always)]
    pub(super) fn block(&self, component: usize, column: usize, row: usize) -> (&[u8], usize) {
        let stride = self.strides[usize::from(component > 0)];
        let strip = if component == 0 { &self.luma } else { &self.chroma[component - 1] };
        (&strip[row * 8 * stride + column * 8..], stride)
    }

    /// Takes in the rows of pixels from `top` on.
    pub(super) fn fill(&mut self, simd: Simd, pixels: &Pixels, top: usize, factor: usize) {
        let Pixels { width, height, channels, .. } = *pixels;
        let side = 8 * factor;
        let stride = width.next_multiple_of(side);
        self.strides = [stride, stride / factor];
        let line = width * channels;
        let rows = (height - top).min(side);
        resize(&mut self.luma, stride * side);
        for plane in &mut self.chroma {
            resize(plane, stride / factor * 8);
        }
        for plane in self.wide.iter_mut().flatten() {
            resize(plane, stride);
        }
        for y in 0..rows {
            let from = &pixels.data[(top + y) * line..][..line];
            let luma = &mut self.luma[y * stride..(y + 1) * stride];
            if channels == 1 {
                luma[..width].copy_from_slice(from);
                extend_row(luma, width);
                continue;
            }
            let [cb, cr] = &mut self.chroma;
            let at = y * stride..(y + 1) * stride;
            let (cb, cr) = if factor == 1 {
                (&mut cb[at.clone()], &mut cr[at])
            } else {
                let [cb, cr] = &mut self.wide;
                (&mut cb[y % 2][..stride], &mut cr[y % 2][..stride])
            };
            rgb_to_ycc(simd, from, &mut luma[..width], &mut cb[..width], &mut cr[..width]);
            extend_row(luma, width);
            extend_row(cb, width);
            extend_row(cr, width);
            if factor == 2 && (y % 2 == 1 || y + 1 == rows) {
                // A last row without a partner is its own.
                let lower = y % 2;
                for (plane, wide) in self.chroma.iter_mut().zip(&self.wide) {
                    let half = stride / 2;
                    halve(simd, &wide[0][..stride], &wide[lower][..stride], &mut plane[y / 2 * half..][..half]);
                }
            }
        }
        repeat_last(&mut self.luma, stride, rows, side);
        if channels == 3 {
            for plane in &mut self.chroma {
                repeat_last(plane, stride / factor, rows.div_ceil(factor), 8);
            }
        }
    }
}

fn resize(plane: &mut Vec<u8>, length: usize) {
    if plane.len() < length {
        plane.resize(length, 0);
    }
}

/// Repeats the last sample to the end.
fn extend_row(row: &mut [u8], width: usize) {
    let last = row[width - 1];
    row[width..].fill(last);
}

/// Repeats the last of `rows` to the last of `wanted`.
fn repeat_last(plane: &mut [u8], stride: usize, rows: usize, wanted: usize) {
    for y in rows..wanted {
        plane.copy_within((rows - 1) * stride..rows * stride, y * stride);
    }
}

/// Means of two by two samples; halves are rounded down and up in turn, so that no drift remains.
fn halve(simd: Simd, upper: &[u8], lower: &[u8], out: &mut [u8]) {
    #[inline(always)]
    fn body(upper: &[u8], lower: &[u8], out: &mut [u8]) {
        let sum = |a: &[u8; 2], b: &[u8; 2]| u16::from(a[0]) + u16::from(a[1]) + u16::from(b[0]) + u16::from(b[1]);
        let (upper, lower) = (upper.as_chunks::<4>().0, lower.as_chunks::<4>().0);
        for ((a, b), to) in upper.iter().zip(lower).zip(out.as_chunks_mut::<2>().0) {
            let (left, right) = (sum(&[a[0], a[1]], &[b[0], b[1]]), sum(&[a[2], a[3]], &[b[2], b[3]]));
            *to = [((left + 1) >> 2) as u8, ((right + 2) >> 2) as u8];
        }
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn avx2(upper: &[u8], lower: &[u8], out: &mut [u8]) {
        body(upper, lower, out)
    }
    match simd {
        Simd::Portable => body(upper, lower, out),
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 => {
            // SAFETY: `Simd::Avx2` is made only where these instructions were found.
            unsafe { avx2(upper, lower, out) }
        }
    }
}

/// 16.16 fixed point: 0.299, 0.587, 0.114; 0.16874, 0.33126; 0.41869, 0.08131.
const Y: [i32; 3] = [19595, 38470, 7471];
const CB: [i32; 2] = [11059, 21709];
const CR: [i32; 2] = [27439, 5329];
const CENTRE: i32 = (128 << 16) + 32767;

fn rgb_to_ycc(simd: Simd, rgb: &[u8], y: &mut [u8], cb: &mut [u8], cr: &mut [u8]) {
    match simd {
        Simd::Portable => portable(rgb, y, cb, cr),
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 => {
            // SAFETY: `Simd::Avx2` is made only where these instructions were found.
            unsafe { avx2::rgb_to_ycc(rgb, y, cb, cr) }
        }
    }
}

fn portable(rgb: &[u8], y: &mut [u8], cb: &mut [u8], cr: &mut [u8]) {
    for (((pixel, y), cb), cr) in rgb.chunks_exact(3).zip(y).zip(cb).zip(cr) {
        let (r, g, b) = (i32::from(pixel[0]), i32::from(pixel[1]), i32::from(pixel[2]));
        *y = ((Y[0] * r + Y[1] * g + Y[2] * b + 32768) >> 16) as u8;
        *cb = ((-CB[0] * r - CB[1] * g + 32768 * b + CENTRE) >> 16) as u8;
        *cr = ((32768 * r - CR[0] * g - CR[1] * b + CENTRE) >> 16) as u8;
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{CB, CENTRE, CR, Y};
    use crate::interleave::avx2::split;
    use bytemuck::cast;
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx2")]
    pub(super) fn rgb_to_ycc(rgb: &[u8], y: &mut [u8], cb: &mut [u8], cr: &mut [u8]) {
        let width = y.len();
        let whole = width / 32 * 32;
        let outputs =
            y.as_chunks_mut::<32>().0.iter_mut().zip(cb.as_chunks_mut::<32>().0).zip(cr.as_chunks_mut::<32>().0);
        for (pixels, ((y, cb), cr)) in rgb.as_chunks::<96>().0.iter().zip(outputs) {
            [*y, *cb, *cr] = cast(samples(pixels));
        }
        if whole < width {
            let mut rest = [0u8; 96];
            rest[..(width - whole) * 3].copy_from_slice(&rgb[whole * 3..width * 3]);
            let planes: [[u8; 32]; 3] = cast(samples(&rest));
            for (to, from) in [y, cb, cr].into_iter().zip(planes) {
                to[whole..].copy_from_slice(&from[..width - whole]);
            }
        }
    }

    const fn pair(a: i32, b: i32) -> i32 {
        a & 0xFFFF | b << 16
    }

    /// 0.587 does not fit 16 signed bits: it is split in two. Neither does 0.5: that one is a shift.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn samples(pixels: &[u8; 96]) -> [__m256i; 3] {
        const QUARTER: i32 = 16384;
        let [r, g, b] = split(pixels);
        let zero = _mm256_setzero_si256();
        let sixteen = |high: bool| {
            let wide = |v: __m256i| if high { _mm256_unpackhi_epi8(v, zero) } else { _mm256_unpacklo_epi8(v, zero) };
            let (r, g, b) = (wide(r), wide(g), wide(b));
            let eight = |high: bool| {
                let beside = |a: __m256i, b: __m256i| {
                    if high { _mm256_unpackhi_epi16(a, b) } else { _mm256_unpacklo_epi16(a, b) }
                };
                let times = |v: __m256i, by: i32| _mm256_madd_epi16(v, _mm256_set1_epi32(by));
                let half = |v: __m256i| _mm256_srli_epi32::<1>(beside(zero, v));
                let (rg, bg, gb) = (beside(r, g), beside(b, g), beside(g, b));
                let y = _mm256_add_epi32(times(rg, pair(Y[0], Y[1] - QUARTER)), times(bg, pair(Y[2], QUARTER)));
                let y = _mm256_add_epi32(y, _mm256_set1_epi32(32768));
                let centre = _mm256_set1_epi32(CENTRE);
                let cb = _mm256_add_epi32(_mm256_add_epi32(times(rg, pair(-CB[0], -CB[1])), half(b)), centre);
                let cr = _mm256_add_epi32(_mm256_add_epi32(times(gb, pair(-CR[0], -CR[1])), half(r)), centre);
                [y, cb, cr].map(|v| _mm256_srai_epi32::<16>(v))
            };
            let (low, high) = (eight(false), eight(true));
            [0, 1, 2].map(|i| _mm256_packs_epi32(low[i], high[i]))
        };
        let (low, high) = (sixteen(false), sixteen(true));
        [0, 1, 2].map(|i| _mm256_packus_epi16(low[i], high[i]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_and_portable_give_the_same_bits_for_all_kinds_of_colours() {
        let pixels: Vec<u8> = (0..52 * 52 * 52usize)
            .flat_map(|i| [i % 52, i / 52 % 52, i / 2704].map(|c| (c * 5) as u8))
            .chain([255, 255, 255, 1, 2, 3, 0, 255, 254])
            .collect();
        let n = pixels.len() / 3;
        let run = |simd| {
            let mut of = [vec![0; n], vec![0; n], vec![0; n]];
            let [y, cb, cr] = &mut of;
            rgb_to_ycc(simd, &pixels, y, cb, cr);
            let mut half = vec![0; n / 2];
            halve(simd, y, cb, &mut half);
            (of, half)
        };
        assert!(run(Simd::Portable) == run(Simd::detect()));
    }
}
