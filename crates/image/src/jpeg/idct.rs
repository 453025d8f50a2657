//! Inverse transform of a block to m × m samples, m from 1 to 8, straight from its m × m lowest frequencies: at m = 8
//! the bits of libjpeg's accurate transform, below that the image at m/8 of its size.
//!
//! Two passes: down the columns, all eight at once, then along the rows, two at once. Even and odd frequencies are
//! summed apart, since sample i and its mirror image share both sums. The portable form wraps and saturates where the
//! vectors do, so that even nonsense gives the same bits.

use crate::cosine::{BASIS, COLUMN, CONST_BITS, PASS_BITS};
use crate::simd::Simd;

/// Writes the samples of a block, `m` rows of eight bytes (of which the first `m` count) that are `stride` apart.
/// Coefficients and quantisation are in the order of [`crate::cosine::ORDER`].
#[inline(always)]
pub(super) fn block(simd: Simd, m: usize, c: &[i16; 64], q: &[i16; 64], out: &mut [u8], stride: usize) {
    match simd {
        Simd::Portable => portable(m, c, q, out, stride),
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 => {
            // SAFETY: `Simd::Avx2` is made only where these instructions were found.
            unsafe {
                match m {
                    8 => avx2::block::<8>(c, q, out, stride),
                    7 => avx2::block::<7>(c, q, out, stride),
                    6 => avx2::block::<6>(c, q, out, stride),
                    5 => avx2::block::<5>(c, q, out, stride),
                    4 => avx2::block::<4>(c, q, out, stride),
                    3 => avx2::block::<3>(c, q, out, stride),
                    2 => avx2::block::<2>(c, q, out, stride),
                    _ => flat(1, c[0], q[0], out, stride),
                }
            }
        }
    }
}

/// The samples of a block that has nothing but its mean. The same bits as [`block`].
#[inline(always)]
pub(super) fn flat(m: usize, dc: i16, q: i16, out: &mut [u8], stride: usize) {
    let first = (i32::from(dc.wrapping_mul(q)) << PASS_BITS).clamp(-32768, 32767);
    let round = 1 << (PASS_BITS + 2);
    let sample = (((first + round) >> (PASS_BITS + 3)).clamp(-128, 127) + 128) as u8;
    for row in out.chunks_mut(stride).take(m) {
        row[..8].fill(sample);
    }
}

fn portable(m: usize, c: &[i16; 64], q: &[i16; 64], out: &mut [u8], stride: usize) {
    let basis = &BASIS[m];
    let mut between = [[0i32; 8]; 8];
    let mut rows = [[0i32; 8]; 8];
    for (k, row) in rows.iter_mut().enumerate().take(m) {
        for (x, value) in row.iter_mut().enumerate() {
            *value = i32::from(c[k * 8 + x].wrapping_mul(q[k * 8 + x]));
        }
    }
    let round = 1 << (CONST_BITS - PASS_BITS - 1);
    for i in 0..m.div_ceil(2) {
        for x in 0..8 {
            let (mut even, mut odd) = (round, 0i32);
            for k in 0..m {
                let product = rows[k][x].wrapping_mul(i32::from(basis[i][k]));
                let sum = if k % 2 == 0 { &mut even } else { &mut odd };
                *sum = sum.wrapping_add(product);
            }
            let scaled = |v: i32| (v >> (CONST_BITS - PASS_BITS)).clamp(-32768, 32767);
            between[m - 1 - i][x] = scaled(even.wrapping_sub(odd));
            if i != m - 1 - i {
                between[i][x] = scaled(even.wrapping_add(odd));
            }
        }
    }
    let round = 1 << (CONST_BITS + PASS_BITS + 2);
    for (row, to) in between.iter().zip(out.chunks_mut(stride)).take(m) {
        let mut samples = [0u8; 8];
        for i in 0..m.div_ceil(2) {
            let (mut even, mut odd) = (round, 0i32);
            for k in 0..m {
                let product = row[COLUMN[k]].wrapping_mul(i32::from(basis[i][k]));
                let sum = if k % 2 == 0 { &mut even } else { &mut odd };
                *sum = sum.wrapping_add(product);
            }
            let sample = |v: i32| ((v >> (CONST_BITS + PASS_BITS + 3)).clamp(-128, 127) + 128) as u8;
            samples[m - 1 - i] = sample(even.wrapping_sub(odd));
            if i != m - 1 - i {
                samples[i] = sample(even.wrapping_add(odd));
            }
        }
        to[..8].copy_from_slice(&samples);
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{BASIS, CONST_BITS, PASS_BITS};
    use bytemuck::cast;
    use std::arch::x86_64::*;

    /// Two weights, side by side, in each of the eight places.
    const fn pairs(m: usize, first: usize) -> [[i32; 4]; 1] {
        let mut of = [0; 4];
        let mut i = 0;
        while i < 4 {
            let (a, b) = (BASIS[m][i][first], BASIS[m][i][first + 2]);
            of[i] = (a as u16 as u32 | (b as u16 as u32) << 16) as i32;
            i += 1;
        }
        [of]
    }

    /// Puts the samples of two rows, given as first half and mirrored second half, in their order.
    const fn places(m: usize) -> [u8; 16] {
        let mut of = [0x80; 16];
        let mut i = 0;
        while i < m {
            let from = if i < m.div_ceil(2) { i } else { 4 + (m - 1 - i) };
            of[i] = from as u8;
            of[8 + i] = 8 + from as u8;
            i += 1;
        }
        of
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn block<const M: usize>(c: &[i16; 64], q: &[i16; 64], out: &mut [u8], stride: usize) {
        let weights = const { [pairs(M, 0)[0], pairs(M, 4)[0], pairs(M, 1)[0], pairs(M, 5)[0]] };
        let c: &[[i16; 8]; 8] = bytemuck::cast_ref(c);
        let q: &[[i16; 8]; 8] = bytemuck::cast_ref(q);
        let row =
            |k: usize| -> __m128i { if k < M { _mm_mullo_epi16(cast(c[k]), cast(q[k])) } else { _mm_setzero_si128() } };
        let beside = |a: __m128i, b: __m128i| _mm256_set_m128i(_mm_unpackhi_epi16(a, b), _mm_unpacklo_epi16(a, b));
        let inputs = [beside(row(0), row(2)), beside(row(4), row(6)), beside(row(1), row(3)), beside(row(5), row(7))];

        // Down the columns.
        let round = _mm256_set1_epi32(1 << (CONST_BITS - PASS_BITS - 1));
        let mut sums = [_mm256_setzero_si256(); 8];
        for i in 0..M.div_ceil(2) {
            let times = |p: usize| _mm256_madd_epi16(inputs[p], _mm256_set1_epi32(weights[p][i]));
            let (mut even, mut odd) = (_mm256_add_epi32(times(0), round), times(2));
            if M > 4 {
                even = _mm256_add_epi32(even, times(1));
            }
            if M > 5 {
                odd = _mm256_add_epi32(odd, times(3));
            }
            const SHIFT: i32 = (CONST_BITS - PASS_BITS) as i32;
            sums[i] = _mm256_srai_epi32::<SHIFT>(_mm256_add_epi32(even, odd));
            sums[M - 1 - i] = _mm256_srai_epi32::<SHIFT>(_mm256_sub_epi32(even, odd));
        }

        // Along the rows, two at once: one in each half of a vector.
        let twice = |p: usize| -> __m256i { _mm256_broadcastsi128_si256(cast(weights[p])) };
        let across = [twice(0), twice(1), twice(2), twice(3)];
        let round = _mm256_set1_epi32(1 << (CONST_BITS + PASS_BITS + 2));
        let halves = |a: __m256i, b: __m256i| {
            let x = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(a, b));
            let mut even = _mm256_add_epi32(_mm256_madd_epi16(_mm256_shuffle_epi32::<0x00>(x), across[0]), round);
            let mut odd = _mm256_madd_epi16(_mm256_shuffle_epi32::<0xAA>(x), across[2]);
            if M > 4 {
                even = _mm256_add_epi32(even, _mm256_madd_epi16(_mm256_shuffle_epi32::<0x55>(x), across[1]));
            }
            if M > 5 {
                odd = _mm256_add_epi32(odd, _mm256_madd_epi16(_mm256_shuffle_epi32::<0xFF>(x), across[3]));
            }
            const SHIFT: i32 = (CONST_BITS + PASS_BITS + 3) as i32;
            let first = _mm256_srai_epi32::<SHIFT>(_mm256_add_epi32(even, odd));
            let second = _mm256_srai_epi32::<SHIFT>(_mm256_sub_epi32(even, odd));
            _mm256_packs_epi32(first, second)
        };
        let order = _mm256_broadcastsi128_si256(cast(const { places(M) }));
        let samples = |a: __m256i, b: __m256i| -> [[u8; 8]; 4] {
            let centred = _mm256_packs_epi16(a, b);
            let bytes = _mm256_xor_si256(centred, _mm256_set1_epi8(-128));
            cast(_mm256_shuffle_epi8(bytes, order))
        };
        let mut rows = [[0u8; 8]; 8];
        let top = samples(halves(sums[0], sums[1]), halves(sums[2], sums[3]));
        [rows[0], rows[2], rows[1], rows[3]] = top;
        if M > 4 {
            let bottom = samples(halves(sums[4], sums[5]), halves(sums[6], sums[7]));
            [rows[4], rows[6], rows[5], rows[7]] = bottom;
        }
        let out = &mut out[..(M - 1) * stride + 8];
        for (i, row) in rows.iter().enumerate().take(M) {
            out[i * stride..i * stride + 8].copy_from_slice(row);
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
            c in proptest::collection::vec(any::<i16>(), 64),
            small in proptest::collection::vec(-60i16..60, 64),
            q in proptest::collection::vec(1i16..120, 64),
            tame: bool,
            m in 1usize..=8,
        ) {
            let c: [i16; 64] = if tame { small } else { c }.try_into().unwrap();
            let q: [i16; 64] = q.try_into().unwrap();
            let (mut a, mut b) = ([0; 80], [0; 80]);
            block(Simd::detect(), m, &c, &q, &mut a, 10);
            block(Simd::Portable, m, &c, &q, &mut b, 10);
            for y in 0..m {
                prop_assert_eq!(&a[y * 10..y * 10 + m], &b[y * 10..y * 10 + m]);
            }
            let mut mean = [0; 64];
            mean[0] = c[0];
            block(Simd::Portable, m, &mean, &q, &mut a, 10);
            flat(m, c[0], q[0], &mut b, 10);
            for y in 0..m {
                prop_assert_eq!(&a[y * 10..y * 10 + m], &b[y * 10..y * 10 + m]);
            }
        }

        /// Against the definition in floating point.
        #[test]
        fn it_is_the_inverse_cosine_transform(c in proptest::collection::vec(-40i16..40, 64), dc in -900i16..900, m in 1usize..=8) {
            let mut block_ = [0i16; 64];
            for v in 0..8 {
                for u in 0..8 {
                    block_[v * 8 + COLUMN[u]] = c[v * 8 + u] / (1 + (u + v) as i16);
                }
            }
            block_[0] = dc;
            let mut out = [0; 80];
            block(Simd::detect(), m, &block_, &[1; 64], &mut out, 10);
            for y in 0..m {
                for x in 0..m {
                    let cosine = |i: usize, k: usize| {
                        let angle = ((2 * i + 1) * k) as f64 * std::f64::consts::PI / (2 * m) as f64;
                        if k == 0 { 1.0 } else { 2f64.sqrt() * angle.cos() }
                    };
                    let mut sum = 0.0;
                    for v in 0..m {
                        for u in 0..m {
                            sum += f64::from(block_[v * 8 + COLUMN[u]]) * cosine(y, v) * cosine(x, u);
                        }
                    }
                    let exact = (sum / 8.0 + 128.0).clamp(0.0, 255.0);
                    prop_assert!((exact - f64::from(out[y * 10 + x])).abs() < 0.6, "{} {}", exact, out[y * 10 + x]);
                }
            }
        }
    }
}
