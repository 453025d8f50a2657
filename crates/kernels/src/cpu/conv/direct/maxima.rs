//! Maxima over windows of finished rows, and where they were.

use crate::cpu::conv::epilogue::{maximum, passed};
use crate::cpu::isa::Body;
use crate::cpu::simd::Simd;
use paceline_base::window::PoolDims;

/// The maxima of one row of windows.
#[derive(Clone, Copy)]
pub(super) struct Maxima<'a> {
    pub pool: &'a PoolDims,
    /// The finished rows that the windows cover.
    pub rows: *const f32,
    pub y: *mut f32,
    pub codes: *mut u8,
    pub relu: bool,
}

impl Maxima<'_> {
    /// For this row of this sample's output.
    #[inline(always)]
    pub(super) fn row(mut self, sample: usize, y: usize) -> Self {
        let at = (sample * self.pool.out_height + y) * self.pool.out_width * self.pool.channels;
        self.y = self.y.wrapping_add(at);
        if !self.codes.is_null() {
            self.codes = self.codes.wrapping_add(at);
        }
        self
    }
}

impl Body for Maxima<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let PoolDims { width, channels, out_width, window, stride, .. } = *self.pool;
        for x in 0..out_width {
            for c in (0..channels).step_by(S::LANES) {
                let lanes = (channels - c).min(S::LANES);
                let mask = s.head(lanes);
                // SAFETY: windows lie within the finished rows, the output within the pool's.
                unsafe {
                    let first = self.rows.add(x * stride[1] * channels + c);
                    let (best, code) = if window == [2, 2] {
                        let below = first.add(width * channels);
                        let above = [head(s, first, lanes), head(s, first.add(channels), lanes)];
                        let under = [head(s, below, lanes), head(s, below.add(channels), lanes)];
                        maximum(s, [above[0], above[1], under[0], under[1]], self.relu)
                    } else {
                        let (mut best, mut code) = (head(s, first, lanes), s.zero());
                        for i in 0..window[0] {
                            for j in 0..window[1] {
                                let value = head(s, first.add((i * width + j) * channels), lanes);
                                let keep = s.le(value, best);
                                best = s.select(keep, best, value);
                                code = s.select(keep, code, s.splat((i * window[1] + j) as f32));
                            }
                        }
                        passed(s, best, code, self.relu)
                    };
                    let to = x * channels + c;
                    s.store_head(self.y.add(to), mask, best);
                    if !self.codes.is_null() {
                        s.store_bytes(self.codes.add(to), lanes, code);
                    }
                }
            }
        }
    }
}

/// The first `lanes` channels of a pixel.
///
/// # Safety
/// They must be readable.
#[inline(always)]
unsafe fn head<S: Simd>(s: S, from: *const f32, lanes: usize) -> S::V {
    // SAFETY: the caller's promise.
    unsafe { if lanes == S::LANES { s.load(from) } else { s.load_head(from, s.head(lanes)) } }
}
