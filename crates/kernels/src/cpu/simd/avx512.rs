//! AVX-512F: sixteen lanes, thirty-two registers.

#![allow(clippy::needless_range_loop)] // indexed loops read as the formula, and unroll into registers

use super::{Simd, Tiles};
use crate::cpu::isa::Body;
use std::arch::x86_64::*;

/// Proof that the processor has AVX-512F.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// # Safety
    /// The processor must have AVX-512F.
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
            // SAFETY: a value of this type exists only where AVX-512F was detected.
            unsafe { $body }
        }
    )*};
}

/// Lane numbers for `fold`: lane l takes the partner l ^ d of the first vector, or of the second (16 + …) where bit d is set.
const fn partners(d: usize) -> [i32; 16] {
    let mut index = [0; 16];
    let mut lane = 0;
    while lane < 16 {
        index[lane] = (lane ^ d) as i32 + if lane & d == 0 { 0 } else { 16 };
        lane += 1;
    }
    index
}

/// The lanes in which bit d is set.
const fn second(d: usize) -> u16 {
    let (mut mask, mut lane) = (0, 0);
    while lane < 16 {
        if lane & d != 0 {
            mask |= 1 << lane;
        }
        lane += 1;
    }
    mask
}

static PARTNERS: [[i32; 16]; 4] = [partners(1), partners(2), partners(4), partners(8)];

impl Simd for Avx512 {
    type V = __m512;
    type M = __mmask16;
    const LANES: usize = 16;
    const TILES: Tiles = Tiles { dot: (4, 6), dot_wide: 10, outer: (6, 4) };

    #[inline(always)]
    unsafe fn apart<B: Body>(self, body: B) -> B::Out {
        #[target_feature(enable = "avx512f")]
        #[inline(never)]
        unsafe fn entry<B: Body>(s: Avx512, body: B) -> B::Out {
            // SAFETY: passed on to the caller of `apart`.
            unsafe { body.run(s) }
        }
        // SAFETY: AVX-512F by the type, the rest by the contract.
        unsafe { entry(self, body) }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m512 {
        // SAFETY: AVX-512F by the type, readable by the contract.
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, v: __m512) {
        // SAFETY: AVX-512F by the type, writable by the contract.
        unsafe { _mm512_storeu_ps(to, v) }
    }
    #[inline(always)]
    unsafe fn load_head(self, from: *const f32, mask: __mmask16) -> __m512 {
        // SAFETY: AVX-512F by the type, readable by the contract; masked lanes are not touched.
        unsafe { _mm512_maskz_loadu_ps(mask, from) }
    }
    #[inline(always)]
    unsafe fn store_head(self, to: *mut f32, mask: __mmask16, v: __m512) {
        // SAFETY: AVX-512F by the type, writable by the contract; masked lanes are not touched.
        unsafe { _mm512_mask_storeu_ps(to, mask, v) }
    }
    #[inline(always)]
    fn head(self, n: usize) -> __mmask16 {
        if n >= 16 { u16::MAX } else { (1 << n) - 1 }
    }
    #[inline(always)]
    fn bits(self, mask: __mmask16) -> u32 {
        u32::from(mask)
    }

    methods! {
        splat(x: f32) -> __m512 { _mm512_set1_ps(x) }
        add(a: __m512, b: __m512) -> __m512 { _mm512_add_ps(a, b) }
        sub(a: __m512, b: __m512) -> __m512 { _mm512_sub_ps(a, b) }
        mul(a: __m512, b: __m512) -> __m512 { _mm512_mul_ps(a, b) }
        div(a: __m512, b: __m512) -> __m512 { _mm512_div_ps(a, b) }
        sqrt(a: __m512) -> __m512 { _mm512_sqrt_ps(a) }
        fma(a: __m512, b: __m512, c: __m512) -> __m512 { _mm512_fmadd_ps(a, b, c) }
        sub_mul(a: __m512, b: __m512, c: __m512) -> __m512 { _mm512_fnmadd_ps(a, b, c) }
        max(a: __m512, b: __m512) -> __m512 { _mm512_max_ps(a, b) }
        min(a: __m512, b: __m512) -> __m512 { _mm512_min_ps(a, b) }
        round(a: __m512) -> __m512 { _mm512_roundscale_ps::<0x08>(a) }
        scale_by_power(a: __m512, n: __m512) -> __m512 { _mm512_scalef_ps(a, n) }
        le(a: __m512, b: __m512) -> __mmask16 { _mm512_cmp_ps_mask::<_CMP_LE_OQ>(a, b) }
        lt(a: __m512, b: __m512) -> __mmask16 { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b) }
        eq(a: __m512, b: __m512) -> __mmask16 { _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b) }
        beats(a: __m512, b: __m512) -> __mmask16 {
            _mm512_mask_cmp_ps_mask::<_CMP_NLE_UQ>(_mm512_cmp_ps_mask::<_CMP_ORD_Q>(b, b), a, b)
        }
        widen(bytes: u128) -> __m512 {
            _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(std::mem::transmute::<u128, __m128i>(bytes)))
        }
        narrow(v: __m512) -> u128 {
            std::mem::transmute::<__m128i, u128>(_mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)))
        }
        select(mask: __mmask16, yes: __m512, no: __m512) -> __m512 { _mm512_mask_blend_ps(mask, no, yes) }
        first(v: __m512) -> f32 { _mm512_cvtss_f32(v) }
        spread_largest(v: __m512) -> __m512 {{
            let v = _mm512_max_ps(v, _mm512_shuffle_f32x4::<0x4E>(v, v));
            let v = _mm512_max_ps(v, _mm512_shuffle_f32x4::<0xB1>(v, v));
            let v = _mm512_max_ps(v, _mm512_permute_ps::<0x4E>(v));
            _mm512_max_ps(v, _mm512_permute_ps::<0xB1>(v))
        }}
        copy_sign(a: __m512, sign: __m512) -> __m512 {{
            // 0xCA: where the mask bit is set take the first operand (b), else the second.
            let mask = _mm512_set1_epi32(i32::MAX);
            _mm512_castsi512_ps(_mm512_ternarylogic_epi32::<0xCA>(mask, _mm512_castps_si512(a), _mm512_castps_si512(sign)))
        }}
    }

    #[inline(always)]
    fn over_root<const N: usize>(self, a: [__m512; N], b: [__m512; N], s: __m512, e: __m512) -> [__m512; N] {
        macro_rules! each {
            ($i:ident => $value:expr) => {{
                let mut out = a;
                for $i in 0..N {
                    out[$i] = $value;
                }
                out
            }};
        }
        // The divider gives one vector in 16 cycles and the root one in 19; two estimates of 14 bits with a Newton step each need about
        // 8. Zero is lifted to the least normal number, whose root 1e-19 vanishes against any eps; `max` keeps NaN.
        //
        // SAFETY: AVX-512F by the type.
        unsafe {
            let (half, one) = (_mm512_set1_ps(0.5), _mm512_set1_ps(1.0));
            let b = each!(i => _mm512_max_ps(_mm512_set1_ps(f32::MIN_POSITIVE), b[i]));
            let y = each!(i => _mm512_rsqrt14_ps(b[i]));
            let g = each!(i => _mm512_mul_ps(b[i], y[i])); // ≈ √b
            let y = each!(i => _mm512_mul_ps(y[i], half));
            let lacks = each!(i => _mm512_fnmadd_ps(g[i], g[i], b[i]));
            let root = each!(i => _mm512_fmadd_ps(lacks[i], y[i], g[i]));
            let d = each!(i => _mm512_fmadd_ps(root[i], s, e));
            let r = each!(i => _mm512_rcp14_ps(d[i]));
            let lacks = each!(i => _mm512_fnmadd_ps(d[i], r[i], one));
            let r = each!(i => _mm512_fmadd_ps(lacks[i], r[i], r[i]));
            each!(i => _mm512_mul_ps(a[i], r[i]))
        }
    }

    #[inline(always)]
    fn fold<const D: usize>(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: AVX-512F by the type; the table's rows are 64 bytes.
        unsafe {
            let index = _mm512_loadu_si512(PARTNERS[D.trailing_zeros() as usize].as_ptr().cast());
            _mm512_add_ps(_mm512_mask_blend_ps(second(D), a, b), _mm512_permutex2var_ps(a, index, b))
        }
    }
}
