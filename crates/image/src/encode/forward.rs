//! Forward transform and quantisation of a block: libjpeg's accurate integer transform (see [`crate::cosine`]), and a
//! division that rounds halves away from zero.

use crate::cosine::{BASIS, COLUMN, CONST_BITS, ORDER, PASS_BITS};
use crate::simd::Simd;

/// A quantisation table, ready for use. In the order of [`ORDER`].
#[derive(Clone, Debug)]
pub(super) struct Quantiser {
    /// As the file states it, in zigzag order.
    pub(super) stated: [u8; 64],
    /// Eight times that: the transform's outcome is eight times too large.
    divisors: [u16; 64],
    /// Division by multiplication: ⌈2^(16+s)/divisor⌉, and 2^(16−s).
    reciprocals: [u16; 64],
    scales: [u16; 64],
}

impl Quantiser {
    /// From a table in zigzag order.
    pub(super) fn new(stated: &[u8; 64]) -> Self {
        let mut of = Self { stated: *stated, divisors: [0; 64], reciprocals: [0; 64], scales: [0; 64] };
        for (&at, &stated) in ORDER.iter().zip(stated) {
            let divisor = u32::from(stated) * 8;
            // The largest s with 2^s < divisor: the reciprocal then fits 16 bits and is exact for all dividends below
            // 2^15 (its error times the dividend stays below one unit).
            let s = 31 - (divisor - 1).leading_zeros();
            let at = usize::from(at);
            of.divisors[at] = divisor as u16;
            of.reciprocals[at] = (1u32 << (16 + s)).div_ceil(divisor) as u16;
            of.scales[at] = 1 << (16 - s);
        }
        of
    }

    /// Transforms and quantises 8 × 8 samples.
    #[inline(always)]
    pub(super) fn block(&self, simd: Simd, samples: &[u8], stride: usize, out: &mut [i16; 64]) {
        match simd {
            Simd::Portable => self.portable(samples, stride, out),
            #[cfg(target_arch = "x86_64")]
            Simd::Avx2 => {
                // SAFETY: `Simd::Avx2` is made only where these instructions were found.
                unsafe { avx2::block(self, samples, stride, out) }
            }
        }
    }

    fn portable(&self, samples: &[u8], stride: usize, out: &mut [i16; 64]) {
        let mut between = [[0i32; 8]; 8];
        for (row, samples) in between.iter_mut().zip(samples.chunks(stride)) {
            let x: [i32; 8] = std::array::from_fn(|i| i32::from(samples[i]) - 128);
            let transformed = points(&x, CONST_BITS - PASS_BITS);
            for (k, value) in transformed.into_iter().enumerate() {
                row[COLUMN[k]] = value;
            }
        }
        for column in 0..8 {
            let x = between.map(|row| row[column]);
            for (k, value) in points(&x, CONST_BITS + PASS_BITS).into_iter().enumerate() {
                let at = k * 8 + column;
                let divisor = i32::from(self.divisors[at] as i16);
                let quotient = (value.abs() + divisor / 2) / divisor;
                out[at] = (quotient * value.signum()) as i16;
            }
        }
    }
}

/// Eight points, rounded to a right shift.
fn points(x: &[i32; 8], shift: u32) -> [i32; 8] {
    std::array::from_fn(|k| {
        let mut sum = 1 << (shift - 1);
        for i in 0..4 {
            let folded = if k % 2 == 0 { x[i] + x[7 - i] } else { x[i] - x[7 - i] };
            sum += folded * i32::from(BASIS[8][i][k]);
        }
        sum >> shift
    })
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{BASIS, CONST_BITS, PASS_BITS, Quantiser};
    use bytemuck::cast;
    use std::arch::x86_64::*;

    /// The weights of samples `i` and `i + 1` at frequency `k`, side by side.
    const fn pair(i: usize, k: usize) -> i32 {
        (BASIS[8][i][k] as u16 as u32 | (BASIS[8][i + 1][k] as u16 as u32) << 16) as i32
    }

    const fn every_second(i: usize, k: usize) -> [i32; 4] {
        [pair(i, k), pair(i, k + 2), pair(i, k + 4), pair(i, k + 6)]
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn block(q: &Quantiser, samples: &[u8], stride: usize, out: &mut [i16; 64]) {
        // Along the rows, two at once.
        let samples = &samples[..7 * stride + 8];
        let row = |y: usize| -> u64 {
            u64::from_le_bytes(samples[y * stride..y * stride + 8].try_into().expect("eight bytes"))
        };
        const REVERSE: [u8; 16] = [14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1];
        let reverse = _mm256_broadcastsi128_si256(cast(REVERSE));
        let weights = const { [every_second(0, 0), every_second(2, 0), every_second(0, 1), every_second(2, 1)] };
        let across: [__m256i; 4] = [
            _mm256_broadcastsi128_si256(cast(weights[0])),
            _mm256_broadcastsi128_si256(cast(weights[1])),
            _mm256_broadcastsi128_si256(cast(weights[2])),
            _mm256_broadcastsi128_si256(cast(weights[3])),
        ];
        let round = _mm256_set1_epi32(1 << (CONST_BITS - PASS_BITS - 1));
        const FIRST: i32 = (CONST_BITS - PASS_BITS) as i32;
        let two_rows = |y: usize| {
            let x = _mm256_cvtepu8_epi16(cast([row(y), row(y + 1)]));
            let x = _mm256_sub_epi16(x, _mm256_set1_epi16(128));
            let mirrored = _mm256_shuffle_epi8(x, reverse);
            let folded = _mm256_unpacklo_epi64(_mm256_add_epi16(x, mirrored), _mm256_sub_epi16(x, mirrored));
            let even = _mm256_add_epi32(
                _mm256_madd_epi16(_mm256_shuffle_epi32::<0x00>(folded), across[0]),
                _mm256_madd_epi16(_mm256_shuffle_epi32::<0x55>(folded), across[1]),
            );
            let odd = _mm256_add_epi32(
                _mm256_madd_epi16(_mm256_shuffle_epi32::<0xAA>(folded), across[2]),
                _mm256_madd_epi16(_mm256_shuffle_epi32::<0xFF>(folded), across[3]),
            );
            _mm256_packs_epi32(
                _mm256_srai_epi32::<FIRST>(_mm256_add_epi32(even, round)),
                _mm256_srai_epi32::<FIRST>(_mm256_add_epi32(odd, round)),
            )
        };
        let (a, b, c, d) = (two_rows(0), two_rows(2), two_rows(4), two_rows(6));

        // Down the columns, all eight at once.
        let swap = |v: __m256i| _mm256_permute2x128_si256::<0x01>(v, v);
        let beside = |v: __m256i| {
            let (x, y) = (_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
            _mm256_set_m128i(_mm_unpackhi_epi16(x, y), _mm_unpacklo_epi16(x, y))
        };
        let (c, d) = (swap(c), swap(d));
        let even = [beside(_mm256_add_epi16(a, d)), beside(_mm256_add_epi16(b, c))];
        let odd = [beside(_mm256_sub_epi16(a, d)), beside(_mm256_sub_epi16(b, c))];
        let round = _mm256_set1_epi32(1 << (CONST_BITS + PASS_BITS - 1));
        const SECOND: i32 = (CONST_BITS + PASS_BITS) as i32;
        let divisors: &[[u16; 16]; 4] = bytemuck::cast_ref(&q.divisors);
        let reciprocals: &[[u16; 16]; 4] = bytemuck::cast_ref(&q.reciprocals);
        let scales: &[[u16; 16]; 4] = bytemuck::cast_ref(&q.scales);
        let out: &mut [[i16; 16]; 4] = bytemuck::cast_mut(out);
        for (i, out) in out.iter_mut().enumerate() {
            let k = 2 * i;
            let sum = |x: [__m256i; 2], k: usize| {
                let sum = _mm256_add_epi32(
                    _mm256_madd_epi16(x[0], _mm256_set1_epi32(pair(0, k))),
                    _mm256_madd_epi16(x[1], _mm256_set1_epi32(pair(2, k))),
                );
                _mm256_srai_epi32::<SECOND>(_mm256_add_epi32(sum, round))
            };
            let two = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(sum(even, k), sum(odd, k + 1)));
            let half = _mm256_srli_epi16::<1>(cast(divisors[i]));
            let dividend = _mm256_add_epi16(_mm256_abs_epi16(two), half);
            let quotient = _mm256_mulhi_epu16(_mm256_mulhi_epu16(dividend, cast(reciprocals[i])), cast(scales[i]));
            *out = cast(_mm256_sign_epi16(quotient, two));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn vectors_and_portable_give_the_same_bits(
            samples in proptest::collection::vec(any::<u8>(), 80),
            extreme: bool,
            table in proptest::collection::vec(1u8..=255, 64),
        ) {
            let samples: Vec<u8> = samples.into_iter().map(|s| if extreme { if s > 127 { 255 } else { 0 } } else { s }).collect();
            let quantiser = Quantiser::new(&table.try_into().unwrap());
            let (mut a, mut b) = ([0; 64], [0; 64]);
            quantiser.block(Simd::Portable, &samples, 10, &mut a);
            quantiser.block(Simd::detect(), &samples, 10, &mut b);
            prop_assert_eq!(a, b);
        }
    }

    #[test]
    fn reciprocals_are_exact() {
        for stated in 1..=255u8 {
            let q = Quantiser::new(&[stated; 64]);
            for dividend in 0..(1u32 << 15) {
                let high = (dividend * u32::from(q.reciprocals[0])) >> 16;
                assert_eq!((high * u32::from(q.scales[0])) >> 16, dividend / (8 * u32::from(stated)));
            }
        }
    }
}
