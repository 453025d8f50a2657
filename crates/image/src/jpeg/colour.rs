//! Rows of samples to rows of pixels: YCbCr to RGB with libjpeg's fixed-point constants, and the rarer colour models.

use crate::simd::Simd;

/// What the components of a file mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Model {
    Grey,
    YCbCr,
    Rgb,
    /// Ink, inverted (255 is none), as Adobe's programs write it and all others after them.
    Cmyk,
    /// Ink whose first three components are kept as YCbCr.
    Ycck,
}

impl Model {
    /// How many components have to be transformed for so many channels.
    pub(super) fn needed(self, channels: usize) -> usize {
        match (self, channels) {
            (Self::Grey, _) | (Self::YCbCr, 1) => 1,
            (Self::YCbCr | Self::Rgb, _) => 3,
            _ => 4,
        }
    }
}

/// Converts a row. `rows` are the components, each at least `width` long, where `width` pixels of `channels` fit `out`.
pub(super) fn convert(
    simd: Simd,
    model: Model,
    rows: [&[u8]; 4],
    channels: usize,
    scratch: &mut Vec<u8>,
    out: &mut [u8],
) {
    let width = out.len() / channels;
    match (model, channels) {
        (Model::Grey | Model::YCbCr, 1) => out.copy_from_slice(&rows[0][..width]),
        (Model::Grey, _) => {
            for (pixel, &y) in out.chunks_exact_mut(3).zip(rows[0]) {
                pixel.fill(y);
            }
        }
        (_, 1) => {
            let mut rgb = std::mem::take(scratch);
            rgb.resize(width * 3, 0);
            convert(simd, model, rows, 3, scratch, &mut rgb);
            luma(&rgb, out);
            *scratch = rgb;
        }
        (Model::YCbCr, _) => ycc_to_rgb(simd, rows[0], rows[1], rows[2], out),
        (Model::Rgb, _) => {
            for (i, pixel) in out.chunks_exact_mut(3).enumerate() {
                pixel.copy_from_slice(&[rows[0][i], rows[1][i], rows[2][i]]);
            }
        }
        (Model::Cmyk, _) => {
            for (i, pixel) in out.chunks_exact_mut(3).enumerate() {
                ink([rows[0][i], rows[1][i], rows[2][i]], rows[3][i], pixel);
            }
        }
        (Model::Ycck, _) => {
            ycc_to_rgb(simd, rows[0], rows[1], rows[2], out);
            for (i, pixel) in out.chunks_exact_mut(3).enumerate() {
                ink([255 - pixel[0], 255 - pixel[1], 255 - pixel[2]], rows[3][i], pixel);
            }
        }
    }
}

/// Luma of RGB pixels by the weights of ITU-R 601.
pub(crate) fn luma(rgb: &[u8], out: &mut [u8]) {
    for (pixel, y) in rgb.chunks_exact(3).zip(out) {
        let [r, g, b] = [pixel[0], pixel[1], pixel[2]].map(u32::from);
        *y = ((19595 * r + 38470 * g + 7471 * b + 32768) >> 16) as u8;
    }
}

/// Ink to light: each colour is what its ink and black leave over.
fn ink(colours: [u8; 3], black: u8, pixel: &mut [u8]) {
    let white = u32::from(black);
    for (to, colour) in pixel.iter_mut().zip(colours) {
        let product = u32::from(255 - colour) * white + 128;
        *to = (white - (((product >> 8) + product) >> 8)) as u8;
    }
}

/// 16.16 fixed point of libjpeg: 1.402, 0.71414, 0.34414, 1.772.
const CR_RED: i32 = 91881;
const CR_GREEN: i32 = 46802;
const CB_GREEN: i32 = 22554;
const CB_BLUE: i32 = 116130;

/// Rows of Y, Cb and Cr to RGB pixels.
pub(super) fn ycc_to_rgb(simd: Simd, y: &[u8], cb: &[u8], cr: &[u8], out: &mut [u8]) {
    match simd {
        Simd::Portable => ycc_to_rgb_portable(y, cb, cr, out),
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 => {
            // SAFETY: `Simd::Avx2` is made only where these instructions were found.
            unsafe { avx2::ycc_to_rgb(y, cb, cr, out) }
        }
    }
}

fn ycc_to_rgb_portable(y: &[u8], cb: &[u8], cr: &[u8], out: &mut [u8]) {
    for (((pixel, &y), &cb), &cr) in out.chunks_exact_mut(3).zip(y).zip(cb).zip(cr) {
        let (y, cb, cr) = (i32::from(y), i32::from(cb) - 128, i32::from(cr) - 128);
        let r = y + ((CR_RED * cr + 32768) >> 16);
        let g = y + ((-CB_GREEN * cb - CR_GREEN * cr + 32768) >> 16);
        let b = y + ((CB_BLUE * cb + 32768) >> 16);
        pixel.copy_from_slice(&[r, g, b].map(|v| v.clamp(0, 255) as u8));
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{CB_BLUE, CB_GREEN, CR_GREEN, CR_RED};
    use crate::interleave::avx2::interleave;
    use bytemuck::cast;
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx2")]
    pub(super) fn ycc_to_rgb(y: &[u8], cb: &[u8], cr: &[u8], out: &mut [u8]) {
        let width = out.len() / 3;
        let (y, cb, cr) = (&y[..width], &cb[..width], &cr[..width]);
        let whole = width / 32 * 32;
        let inputs = y.as_chunks::<32>().0.iter().zip(cb.as_chunks::<32>().0).zip(cr.as_chunks::<32>().0);
        for (((y, cb), cr), to) in inputs.zip(out.as_chunks_mut::<96>().0) {
            *to = pixels(cast(*y), cast(*cb), cast(*cr));
        }
        if whole < width {
            let rest = |from: &[u8]| {
                let mut of = [0u8; 32];
                of[..width - whole].copy_from_slice(&from[whole..]);
                of
            };
            let bytes = pixels(cast(rest(y)), cast(rest(cb)), cast(rest(cr)));
            out[whole * 3..width * 3].copy_from_slice(&bytes[..(width - whole) * 3]);
        }
    }

    /// Products of 17 bits do not fit 16-bit lanes: 1.402 is 1 + 0.402, 1.772 is 2 − 0.228, and 0.71414 is 1 − 0.28586,
    /// which changes no bit of the rounded result.
    #[target_feature(enable = "avx2")]
    fn pixels(y: __m256i, cb: __m256i, cr: __m256i) -> [u8; 96] {
        let zero = _mm256_setzero_si256();
        let centre = _mm256_set1_epi16(128);
        let half = |high: bool| {
            let wide = |v: __m256i| if high { _mm256_unpackhi_epi8(v, zero) } else { _mm256_unpacklo_epi8(v, zero) };
            let y = wide(y);
            let cb = _mm256_sub_epi16(wide(cb), centre);
            let cr = _mm256_sub_epi16(wide(cr), centre);
            let scaled = |v: __m256i, by: i32| {
                // (2·v·by / 2¹⁶ + 1) / 2: v·by rounded.
                let twice = _mm256_mulhi_epi16(_mm256_add_epi16(v, v), _mm256_set1_epi16(by as i16));
                _mm256_srai_epi16::<1>(_mm256_add_epi16(twice, _mm256_set1_epi16(1)))
            };
            let r = _mm256_add_epi16(y, _mm256_add_epi16(cr, scaled(cr, CR_RED - 65536)));
            let b = _mm256_add_epi16(y, _mm256_add_epi16(_mm256_add_epi16(cb, cb), scaled(cb, CB_BLUE - 131072)));
            let by = _mm256_set1_epi32(((65536 - CR_GREEN) << 16) | (-CB_GREEN & 0xFFFF));
            let round = _mm256_set1_epi32(32768);
            let sum = |v: __m256i| _mm256_srai_epi32::<16>(_mm256_add_epi32(_mm256_madd_epi16(v, by), round));
            let g = _mm256_packs_epi32(sum(_mm256_unpacklo_epi16(cb, cr)), sum(_mm256_unpackhi_epi16(cb, cr)));
            let g = _mm256_add_epi16(y, _mm256_sub_epi16(g, cr));
            (r, g, b)
        };
        let (low, high) = (half(false), half(true));
        interleave(
            _mm256_packus_epi16(low.0, high.0),
            _mm256_packus_epi16(low.1, high.1),
            _mm256_packus_epi16(low.2, high.2),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_and_portable_give_the_same_bits_for_every_colour() {
        let all: Vec<u8> = (0..=255).collect();
        for y in 0..=255u8 {
            for cb in (0..=255u8).step_by(3) {
                let (y, cb) = (vec![y; 256], vec![cb.wrapping_add(y); 256]);
                let (mut a, mut b) = (vec![0; 768], vec![0; 768]);
                ycc_to_rgb(Simd::detect(), &y, &cb, &all, &mut a);
                ycc_to_rgb(Simd::Portable, &y, &cb, &all, &mut b);
                assert_eq!(a, b);
            }
        }
        for width in 0..70 {
            let (mut a, mut b) = (vec![0; width * 3], vec![0; width * 3]);
            ycc_to_rgb(Simd::detect(), &all[3..], &all[50..], &all[90..], &mut a);
            ycc_to_rgb(Simd::Portable, &all[3..], &all[50..], &all[90..], &mut b);
            assert_eq!(a, b);
        }
    }
}
