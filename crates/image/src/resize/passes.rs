//! The two passes over samples: down the columns to one row, and along it. Each has a vector form with the same bits.

use super::taps::{Taps, WEIGHT_BITS};
use crate::simd::Simd;

/// Fraction bits of the samples between the passes: overshoot of a factor of almost two fits into 16 bits.
const ROW_BITS: u32 = 6;
const DOWN: u32 = WEIGHT_BITS - ROW_BITS;
const ACROSS: u32 = WEIGHT_BITS + ROW_BITS;

/// Sums rows by their weights; each begins `stride` after the one before.
pub(super) fn down(simd: Simd, rows: &[u8], stride: usize, weights: &[i16], out: &mut [i16]) {
    match simd {
        Simd::Portable => down_from(0, rows, stride, weights, out),
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 => {
            // SAFETY: `Simd::Avx2` is made only where these instructions were found.
            let done = unsafe { avx2::down(rows, stride, weights, out) };
            down_from(done, rows, stride, weights, out);
        }
    }
}

/// From a position on.
fn down_from(start: usize, rows: &[u8], stride: usize, weights: &[i16], out: &mut [i16]) {
    const STEP: usize = 256;
    let mut at = start;
    for out in out[start..].chunks_mut(STEP) {
        let mut sums = [1i32 << (DOWN - 1); STEP];
        for (row, &weight) in weights.iter().enumerate() {
            let row = &rows[row * stride + at..][..out.len()];
            for (sum, &sample) in sums.iter_mut().zip(row) {
                *sum += i32::from(sample) * i32::from(weight);
            }
        }
        for (to, sum) in out.iter_mut().zip(sums) {
            *to = (sum >> DOWN).clamp(-32768, 32767) as i16;
        }
        at += STEP;
    }
}

/// Sums pixels of a row by their weights; the row begins with the taps' first pixel.
pub(super) fn across(simd: Simd, row: &[i16], taps: &Taps, channels: usize, out: &mut [u8]) {
    match (simd, channels) {
        #[cfg(target_arch = "x86_64")]
        (Simd::Avx2, 3) => {
            // SAFETY: `Simd::Avx2` is made only where these instructions were found.
            unsafe { avx2::across(row, taps, out) }
        }
        _ => across_portable(row, taps, channels, out),
    }
}

fn across_portable(row: &[i16], taps: &Taps, channels: usize, out: &mut [u8]) {
    let origin = taps.first();
    for ((start, groups), pixel) in taps.groups().zip(out.chunks_exact_mut(channels)) {
        let from = &row[(start - origin) * channels..];
        for (c, to) in pixel.iter_mut().enumerate() {
            let mut sum = 1i32 << (ACROSS - 1);
            for (&weight, at) in groups.as_flattened().iter().zip((c..from.len()).step_by(channels)) {
                sum = sum.wrapping_add(i32::from(from[at]) * i32::from(weight));
            }
            *to = (sum >> ACROSS).clamp(0, 255) as u8;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{ACROSS, DOWN};
    use crate::resize::taps::Taps;
    use bytemuck::cast;
    use std::arch::x86_64::*;

    /// All columns, if there are 32 or more; else none. Returns how many. The last ones are done twice where they do not
    /// fill a vector.
    #[target_feature(enable = "avx2")]
    pub(super) fn down(rows: &[u8], stride: usize, weights: &[i16], out: &mut [i16]) -> usize {
        let Some(last) = out.len().checked_sub(32) else { return 0 };
        let round = _mm256_set1_epi32(1 << (DOWN - 1));
        for step in 0..=last.div_ceil(32) {
            let at = (32 * step).min(last);
            let mut sums = [round; 4];
            let load =
                |row: usize| -> __m256i { cast(*rows[row * stride + at..].first_chunk::<32>().expect("32 bytes")) };
            // Two rows at once: their samples side by side, times their weights side by side.
            let mut add = |a: __m256i, b: __m256i, weight: i32| {
                let weight = _mm256_set1_epi32(weight);
                let zero = _mm256_setzero_si256();
                let (low, high) = (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
                let parts = [
                    _mm256_unpacklo_epi8(low, zero),
                    _mm256_unpackhi_epi8(low, zero),
                    _mm256_unpacklo_epi8(high, zero),
                    _mm256_unpackhi_epi8(high, zero),
                ];
                for (sum, part) in sums.iter_mut().zip(parts) {
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(part, weight));
                }
            };
            let (pairs, rest) = weights.as_chunks::<2>();
            for (i, pair) in pairs.iter().enumerate() {
                add(load(2 * i), load(2 * i + 1), cast(*pair));
            }
            if let [one] = rest {
                add(load(2 * pairs.len()), _mm256_setzero_si256(), cast([*one, 0]));
            }
            let s = sums.map(|sum| _mm256_srai_epi32::<{ DOWN as i32 }>(sum));
            // Samples 0–7 and 16–23, 8–15 and 24–31.
            let (a, b) = (_mm256_packs_epi32(s[0], s[1]), _mm256_packs_epi32(s[2], s[3]));
            let samples: [i16; 32] =
                cast([_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x31>(a, b)]);
            out[at..at + 32].copy_from_slice(&samples);
        }
        out.len()
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn across(row: &[i16], taps: &Taps, out: &mut [u8]) {
        match taps.spread().1 {
            1 => across_groups::<1>(row, taps, out),
            2 => across_groups::<2>(row, taps, out),
            3 => across_groups::<3>(row, taps, out),
            _ => across_groups::<0>(row, taps, out),
        }
    }

    /// Four taps at once: two pixels in each half of a vector, their channels side by side. `GROUPS` of them, if not 0.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn across_groups<const GROUPS: usize>(row: &[i16], taps: &Taps, out: &mut [u8]) {
        const BESIDE: [u8; 16] = [0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, 0x80, 0x80, 0x80, 0x80];
        let beside = _mm256_broadcastsi128_si256(cast(BESIDE));
        let round = _mm256_set1_epi32(1 << (ACROSS - 1));
        let origin = taps.first();
        let (spread, stated) = taps.spread();
        let groups = if GROUPS == 0 { stated } else { GROUPS };
        let sum_of = |start: usize, spread: &[[i16; 16]]| {
            let from = &row[(start - origin) * 3..][..groups * 12 + 2];
            let mut sum = _mm256_setzero_si256();
            for (i, &weights) in spread.iter().enumerate() {
                let low: [i16; 8] = from[i * 12..i * 12 + 8].try_into().expect("eight samples");
                let high: [i16; 8] = from[i * 12 + 6..i * 12 + 14].try_into().expect("eight samples");
                let pixels = _mm256_shuffle_epi8(_mm256_set_m128i(cast(high), cast(low)), beside);
                sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pixels, cast(weights)));
            }
            sum
        };
        // The halves of two pixels' sums are added and rounded together.
        let pixels_of = |a: __m256i, b: __m256i| -> [[u8; 4]; 2] {
            let (low, high) = (_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x31>(a, b));
            let sum = _mm256_add_epi32(_mm256_add_epi32(low, high), round);
            let sum = _mm256_srai_epi32::<{ ACROSS as i32 }>(sum);
            let both = _mm_packs_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
            cast(_mm_cvtsi128_si64(_mm_packus_epi16(both, both)))
        };
        let (starts, alone) = taps.starts().as_chunks::<2>();
        let mut outs = out.chunks_exact_mut(6);
        let mut spreads = spread.chunks_exact(2 * groups);
        for (&[first, second], (spread, out)) in starts.iter().zip(spreads.by_ref().zip(outs.by_ref())) {
            let (a, b) = spread.split_at(groups);
            let [a, b] = pixels_of(sum_of(first, a), sum_of(second, b));
            out.copy_from_slice(&[a[0], a[1], a[2], b[0], b[1], b[2]]);
        }
        if let [last] = alone {
            let sum = sum_of(*last, spreads.remainder());
            outs.into_remainder().copy_from_slice(&pixels_of(sum, sum)[0][..3]);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::simd::Simd;
    use crate::{Fit, Pixels, Resizer, Target, Window};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn vectors_and_portable_give_the_same_bits(
            (w, h) in (1usize..90, 1usize..60),
            (tw, th) in (1usize..70, 1usize..50),
            part in (0.0..0.4f64, 0.0..0.4f64, 0.2..0.6f64, 0.2..0.6f64),
            grey: bool,
            seed: u32,
        ) {
            let channels = if grey { 1 } else { 3 };
            let noise = |i: u32| (i.wrapping_mul(2654435761).wrapping_add(seed) >> 13) as u8;
            let data = (0..(w * h * channels) as u32).map(|i| if noise(i / 7) > 128 { 255 } else { noise(i) & 7 }).collect();
            let from = Pixels { width: w, height: h, channels, data };
            let (fw, fh) = (w as f64, h as f64);
            let window = Window { left: part.0 * fw, top: part.1 * fh, width: part.2 * fw, height: part.3 * fh };
            let target = Target { width: tw, height: th, fit: Fit::Stretch, full: true };
            let (mut a, mut b) = (Pixels::default(), Pixels::default());
            Resizer { simd: Simd::Portable, ..Resizer::default() }.resize(&from, &window, &target, &mut a);
            Resizer::default().resize(&from, &window, &target, &mut b);
            prop_assert_eq!(a, b);
        }
    }
}
