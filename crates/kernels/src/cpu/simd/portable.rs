//! Plain Rust on arrays of eight: for processors without the others, and their readable twin.
//!
//! Multiplies and adds with two roundings: a fused multiply-add without hardware would be a library call per element.

#![allow(clippy::needless_range_loop)] // indexed loops read as the formula, and unroll into registers

use super::{Simd, Tiles};
use crate::cpu::isa::Body;

/// Needs nothing of the processor.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

type V = [f32; 8];

#[inline(always)]
fn each(a: V, b: V, f: impl Fn(f32, f32) -> f32) -> V {
    let mut out = a;
    for i in 0..8 {
        out[i] = f(a[i], b[i]);
    }
    out
}

#[inline(always)]
fn compare(a: V, b: V, f: impl Fn(f32, f32) -> bool) -> [bool; 8] {
    let mut out = [false; 8];
    for i in 0..8 {
        out[i] = f(a[i], b[i]);
    }
    out
}

impl Simd for Portable {
    type V = V;
    type M = [bool; 8];
    const LANES: usize = 8;
    const TILES: Tiles = Tiles { dot: (2, 2), dot_wide: 0, outer: (2, 2) };

    #[inline(always)]
    unsafe fn apart<B: Body>(self, body: B) -> B::Out {
        #[inline(never)]
        unsafe fn entry<B: Body>(body: B) -> B::Out {
            // SAFETY: passed on to the caller of `apart`.
            unsafe { body.run(Portable) }
        }
        // SAFETY: by the contract.
        unsafe { entry(body) }
    }
    #[inline(always)]
    fn splat(self, x: f32) -> V {
        [x; 8]
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> V {
        // SAFETY: readable by the contract.
        unsafe { from.cast::<V>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, v: V) {
        // SAFETY: writable by the contract.
        unsafe { to.cast::<V>().write_unaligned(v) }
    }
    #[inline(always)]
    fn head(self, n: usize) -> [bool; 8] {
        std::array::from_fn(|i| i < n)
    }
    #[inline(always)]
    unsafe fn load_head(self, from: *const f32, mask: [bool; 8]) -> V {
        let mut v = [0.0; 8];
        for i in 0..8 {
            if mask[i] {
                // SAFETY: readable by the contract.
                v[i] = unsafe { *from.add(i) };
            }
        }
        v
    }
    #[inline(always)]
    unsafe fn store_head(self, to: *mut f32, mask: [bool; 8], v: V) {
        for i in 0..8 {
            if mask[i] {
                // SAFETY: writable by the contract.
                unsafe { *to.add(i) = v[i] };
            }
        }
    }
    #[inline(always)]
    fn add(self, a: V, b: V) -> V {
        each(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: V, b: V) -> V {
        each(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: V, b: V) -> V {
        each(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: V, b: V) -> V {
        each(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn sqrt(self, a: V) -> V {
        a.map(f32::sqrt)
    }
    #[inline(always)]
    fn fma(self, a: V, b: V, c: V) -> V {
        each(each(a, b, |a, b| a * b), c, |ab, c| ab + c)
    }
    #[inline(always)]
    fn max(self, a: V, b: V) -> V {
        each(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn min(self, a: V, b: V) -> V {
        each(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn round(self, a: V) -> V {
        // Adding and taking away 1.5·2²³ rounds to the nearest integer for |a| < 2²²: all that exponents need.
        a.map(|a| (a + 12_582_912.0) - 12_582_912.0)
    }
    #[inline(always)]
    fn scale_by_power(self, a: V, n: V) -> V {
        each(a, n, |a, n| {
            let n = n as i32;
            let half = n >> 1;
            let power = |n: i32| f32::from_bits(((n + 127) as u32) << 23);
            a * power(half) * power(n - half)
        })
    }
    #[inline(always)]
    fn le(self, a: V, b: V) -> [bool; 8] {
        compare(a, b, |a, b| a <= b)
    }
    #[inline(always)]
    fn lt(self, a: V, b: V) -> [bool; 8] {
        compare(a, b, |a, b| a < b)
    }
    #[inline(always)]
    fn eq(self, a: V, b: V) -> [bool; 8] {
        compare(a, b, |a, b| a == b)
    }
    #[inline(always)]
    fn beats(self, a: V, b: V) -> [bool; 8] {
        compare(a, b, |a, b| a > b || a.is_nan() && !b.is_nan())
    }
    #[inline(always)]
    fn widen(self, bytes: u128) -> V {
        let bytes = bytes.to_le_bytes();
        std::array::from_fn(|i| f32::from(bytes[i]))
    }
    #[inline(always)]
    fn narrow(self, v: V) -> u128 {
        let mut bytes = [0; 16];
        for i in 0..8 {
            bytes[i] = v[i] as u8;
        }
        u128::from_le_bytes(bytes)
    }
    #[inline(always)]
    fn select(self, mask: [bool; 8], yes: V, no: V) -> V {
        std::array::from_fn(|i| if mask[i] { yes[i] } else { no[i] })
    }
    #[inline(always)]
    fn bits(self, mask: [bool; 8]) -> u32 {
        (0..8).map(|i| u32::from(mask[i]) << i).sum()
    }
    #[inline(always)]
    fn copy_sign(self, a: V, sign: V) -> V {
        each(a, sign, f32::copysign)
    }
    #[inline(always)]
    fn first(self, v: V) -> f32 {
        v[0]
    }
    #[inline(always)]
    fn spread_largest(self, v: V) -> V {
        [v.into_iter().fold(f32::NEG_INFINITY, f32::max); 8]
    }
    #[inline(always)]
    fn fold<const D: usize>(self, a: V, b: V) -> V {
        std::array::from_fn(|l| if l & D == 0 { a[l] + a[l ^ D] } else { b[l] + b[l ^ D] })
    }
}
