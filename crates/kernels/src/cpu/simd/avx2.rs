//! AVX2 with FMA: eight lanes, sixteen registers.

use super::{Simd, Tiles};
use crate::cpu::isa::Body;
use std::arch::x86_64::*;

/// Proof that the processor has AVX2 and FMA.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// # Safety
    /// The processor must have AVX2 and FMA.
    #[inline(always)]
    pub(crate) unsafe fn new() -> Self {
        Self(())
    }
}

/// Methods that are one expression over safe-but-for-the-feature intrinsics.
macro_rules! methods {
    ($($name:ident($($arg:ident: $type:ty),*) -> $out:ty { $body:expr })*) => {$(
        #[inline(always)]
        fn $name(self, $($arg: $type),*) -> $out {
            // SAFETY: a value of this type exists only where AVX2 and FMA were detected.
            unsafe { $body }
        }
    )*};
}

/// Eight set lanes, then eight clear ones: a window into it is a mask of the first n lanes.
static HEADS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

impl Simd for Avx2 {
    type V = __m256;
    type M = __m256;
    const LANES: usize = 8;
    const TILES: Tiles = Tiles { dot: (3, 4), dot_wide: 0, outer: (6, 2) };

    #[inline(always)]
    unsafe fn apart<B: Body>(self, body: B) -> B::Out {
        #[target_feature(enable = "avx2,fma")]
        #[inline(never)]
        unsafe fn entry<B: Body>(s: Avx2, body: B) -> B::Out {
            // SAFETY: passed on to the caller of `apart`.
            unsafe { body.run(s) }
        }
        // SAFETY: AVX2 and FMA by the type, the rest by the contract.
        unsafe { entry(self, body) }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m256 {
        // SAFETY: AVX2 by the type, readable by the contract.
        unsafe { _mm256_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, v: __m256) {
        // SAFETY: AVX2 by the type, writable by the contract.
        unsafe { _mm256_storeu_ps(to, v) }
    }
    #[inline(always)]
    unsafe fn load_head(self, from: *const f32, mask: __m256) -> __m256 {
        // SAFETY: AVX2 by the type, readable by the contract; masked lanes are not touched.
        unsafe { _mm256_maskload_ps(from, _mm256_castps_si256(mask)) }
    }
    #[inline(always)]
    unsafe fn store_head(self, to: *mut f32, mask: __m256, v: __m256) {
        // SAFETY: AVX2 by the type, writable by the contract; masked lanes are not touched.
        unsafe { _mm256_maskstore_ps(to, _mm256_castps_si256(mask), v) }
    }
    #[inline(always)]
    fn head(self, n: usize) -> __m256 {
        // SAFETY: AVX2 by the type; the window of 8 begins at 0 … 8 in a table of 16.
        unsafe { _mm256_loadu_ps(HEADS.as_ptr().add(8 - n.min(8)).cast()) }
    }

    methods! {
        splat(x: f32) -> __m256 { _mm256_set1_ps(x) }
        add(a: __m256, b: __m256) -> __m256 { _mm256_add_ps(a, b) }
        sub(a: __m256, b: __m256) -> __m256 { _mm256_sub_ps(a, b) }
        mul(a: __m256, b: __m256) -> __m256 { _mm256_mul_ps(a, b) }
        div(a: __m256, b: __m256) -> __m256 { _mm256_div_ps(a, b) }
        sqrt(a: __m256) -> __m256 { _mm256_sqrt_ps(a) }
        fma(a: __m256, b: __m256, c: __m256) -> __m256 { _mm256_fmadd_ps(a, b, c) }
        sub_mul(a: __m256, b: __m256, c: __m256) -> __m256 { _mm256_fnmadd_ps(a, b, c) }
        max(a: __m256, b: __m256) -> __m256 { _mm256_max_ps(a, b) }
        min(a: __m256, b: __m256) -> __m256 { _mm256_min_ps(a, b) }
        round(a: __m256) -> __m256 { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
        le(a: __m256, b: __m256) -> __m256 { _mm256_cmp_ps::<_CMP_LE_OQ>(a, b) }
        lt(a: __m256, b: __m256) -> __m256 { _mm256_cmp_ps::<_CMP_LT_OQ>(a, b) }
        eq(a: __m256, b: __m256) -> __m256 { _mm256_cmp_ps::<_CMP_EQ_OQ>(a, b) }
        beats(a: __m256, b: __m256) -> __m256 {
            _mm256_and_ps(_mm256_cmp_ps::<_CMP_NLE_UQ>(a, b), _mm256_cmp_ps::<_CMP_ORD_Q>(b, b))
        }
        widen(bytes: u128) -> __m256 {
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(bytes as i64)))
        }
        narrow(v: __m256) -> u128 {{
            let n = _mm256_cvtps_epi32(v);
            let words = _mm_packus_epi32(_mm256_castsi256_si128(n), _mm256_extracti128_si256::<1>(n));
            u128::from(_mm_cvtsi128_si64(_mm_packus_epi16(words, words)) as u64)
        }}
        select(mask: __m256, yes: __m256, no: __m256) -> __m256 { _mm256_blendv_ps(no, yes, mask) }
        bits(mask: __m256) -> u32 { _mm256_movemask_ps(mask) as u32 }
        first(v: __m256) -> f32 { _mm256_cvtss_f32(v) }
        spread_largest(v: __m256) -> __m256 {{
            let v = _mm256_max_ps(v, _mm256_permute2f128_ps::<1>(v, v));
            let v = _mm256_max_ps(v, _mm256_permute_ps::<0x4E>(v));
            _mm256_max_ps(v, _mm256_permute_ps::<0xB1>(v))
        }}
        copy_sign(a: __m256, sign: __m256) -> __m256 {{
            let bit = _mm256_set1_ps(-0.0);
            _mm256_or_ps(_mm256_andnot_ps(bit, a), _mm256_and_ps(bit, sign))
        }}
        scale_by_power(a: __m256, n: __m256) -> __m256 {{
            // In two halves, so that neither factor leaves the range of exponents.
            let n = _mm256_cvtps_epi32(n);
            let half = _mm256_srai_epi32::<1>(n);
            let bias = _mm256_set1_epi32(127);
            let one = _mm256_slli_epi32::<23>(_mm256_add_epi32(half, bias));
            let two = _mm256_slli_epi32::<23>(_mm256_add_epi32(_mm256_sub_epi32(n, half), bias));
            _mm256_mul_ps(_mm256_mul_ps(a, _mm256_castsi256_ps(one)), _mm256_castsi256_ps(two))
        }}
    }

    #[inline(always)]
    fn fold<const D: usize>(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: AVX2 by the type.
        unsafe {
            // `own` holds each lane's own part, `other` its partner's, to be moved D lanes.
            let (own, other) = match D {
                4 => (_mm256_blend_ps::<0xF0>(a, b), _mm256_blend_ps::<0x0F>(a, b)),
                2 => (_mm256_blend_ps::<0xCC>(a, b), _mm256_blend_ps::<0x33>(a, b)),
                _ => (_mm256_blend_ps::<0xAA>(a, b), _mm256_blend_ps::<0x55>(a, b)),
            };
            let moved = match D {
                4 => _mm256_permute2f128_ps::<1>(other, other),
                2 => _mm256_permute_ps::<0x4E>(other),
                _ => _mm256_permute_ps::<0xB1>(other),
            };
            _mm256_add_ps(own, moved)
        }
    }
}
