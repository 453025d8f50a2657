//! The epilogue of a convolution, what becomes of finished pixels: bias, activation, the derivative of the activation before, and maxima over windows.

#![allow(clippy::needless_range_loop)] // indexed loops unroll into registers

use crate::cpu::simd::Simd;
use paceline_base::window::{DEAD, PoolDims};

/// What is done to finished pixels before they are stored, and where.
#[derive(Clone, Copy)]
pub(super) struct Epilogue {
    /// Added to each output channel, if not null.
    pub bias: *const f32,
    pub relu: bool,
    pub y: *mut f32,
    /// Results become zero where this is not above zero, if not null: the derivative of the activation that made it.
    pub saved: *const f32,
    /// The maximum over windows of 2×2, and where it was, if not null.
    pub pool: Option<(PoolDims, *mut u8)>,
}

/// The largest of values in the order of their places, and its place; [`DEAD`] if `relu` lets nothing through.
#[inline(always)]
pub(super) fn maximum<S: Simd, const N: usize>(s: S, values: [S::V; N], relu: bool) -> (S::V, S::V) {
    let (mut best, mut code) = (values[0], s.zero());
    for k in 1..N {
        let keep = s.le(values[k], best);
        best = s.select(keep, best, values[k]);
        code = s.select(keep, code, s.splat(k as f32));
    }
    passed(s, best, code, relu)
}

/// What passes a relu: the value, and [`DEAD`] in place of the code where nothing does.
#[inline(always)]
pub(super) fn passed<S: Simd>(s: S, best: S::V, code: S::V, relu: bool) -> (S::V, S::V) {
    if relu {
        let code = s.select(s.le(best, s.zero()), s.splat(f32::from(DEAD)), code);
        (s.max(s.zero(), best), code)
    } else {
        (best, code)
    }
}
