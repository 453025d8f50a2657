//! Averages of windows, from 2 × 2 to whole images, and the way back.

#![allow(clippy::needless_range_loop)] // indexed loops read as the formula, and unroll into registers

use super::{Holder, channels, inputs, outputs};
use crate::cpu::Cpu;
use crate::cpu::isa::Body;
use crate::cpu::simd::Simd;
use crate::cpu::submit::Shared;
use paceline_base::kernel::BufferId;
use paceline_base::window::PoolDims;
use std::ops::Range;

/// Some output lines.
#[derive(Clone, Copy)]
struct Averages {
    dims: PoolDims,
    x: *const f32,
    y: *mut f32,
    share: f32,
    lines: (usize, usize),
}

impl Averages {
    /// The sums of `N` vectors of channels over a window: each row by itself first, so that a sum over a whole image stays exact enough.
    ///
    /// # Safety
    /// `x` must point to the window's corner, and rows and columns must lie within the image.
    #[inline(always)]
    unsafe fn sums<S: Simd, const N: usize>(
        &self,
        s: S,
        x: *const f32,
        (rows, columns): (Range<usize>, Range<usize>),
        mask: Option<S::M>,
    ) -> [S::V; N] {
        let d = &self.dims;
        let mut sums = [s.zero(); N];
        for wy in rows {
            let mut row = [s.zero(); N];
            for wx in columns.clone() {
                for v in 0..N {
                    let at = (wy * d.width + wx) * d.channels + v * S::LANES;
                    // SAFETY: within the image by the contract.
                    row[v] = s.add(row[v], unsafe { s.take(x.wrapping_add(at), mask) });
                }
            }
            for v in 0..N {
                sums[v] = s.add(sums[v], row[v]);
            }
        }
        sums
    }
}

impl Body for Averages {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let (d, share) = (self.dims, s.splat(self.share));
        outputs(&d, self.lines.0..self.lines.1, |output, corner, rows, columns| {
            let x = self.x.wrapping_add(corner.wrapping_mul(d.channels));
            // Four vectors at a time: large windows then read whole lines of memory in a row.
            let wide = d.channels / (4 * S::LANES) * (4 * S::LANES);
            // SAFETY: rows and columns lie within the image, and the caller vouches for the pointers.
            unsafe {
                let y = self.y.add(output * d.channels);
                for c in (0..wide).step_by(4 * S::LANES) {
                    let window = (rows.clone(), columns.clone());
                    let sums = self.sums::<S, 4>(s, x.wrapping_add(c), window, None);
                    for v in 0..4 {
                        s.store(y.add(c + v * S::LANES), s.mul(sums[v], share));
                    }
                }
                channels(s, d.channels - wide, |c, _, mask| {
                    let window = (rows.clone(), columns.clone());
                    let [sum] = self.sums::<S, 1>(s, x.wrapping_add(wide + c), window, mask);
                    s.put(y.add(wide + c), mask, s.mul(sum, share));
                });
            }
        });
    }
}

/// Some input lines.
#[derive(Clone, Copy)]
struct Spread {
    dims: PoolDims,
    dy: *const f32,
    dx: *mut f32,
    share: f32,
    lines: (usize, usize),
}

impl Body for Spread {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let (d, share) = (self.dims, s.splat(self.share));
        inputs(&d, self.lines.0..self.lines.1, |input, holder| {
            // SAFETY: elements of this image; the caller vouches for the pointers.
            unsafe {
                let dx = self.dx.add(input * d.channels);
                let Some(Holder { output, first, .. }) = holder else {
                    return dx.write_bytes(0, d.channels);
                };
                let dy = self.dy.add(output * d.channels);
                channels(s, d.channels, |c, _, mask| {
                    let own = s.mul(s.take(dy.add(c), mask), share);
                    let sum = if first { own } else { s.add(s.take(dx.add(c), mask), own) };
                    s.put(dx.add(c), mask, sum);
                });
            }
        });
    }
}

impl Cpu {
    pub(in crate::cpu) fn average_pool(&mut self, dims: &PoolDims, divisor: usize, a: &[BufferId]) {
        let (x, y, share) = (self.at(a[0]), self.at(a[1]), 1.0 / divisor as f32);
        let whole = Shared(Averages { dims: *dims, x, y, share, lines: (0, 0) });
        let (isa, worth) = (self.isa, dims.input_len() >= self.tuning.parallel_elements);
        self.divide(worth, dims.samples * dims.out_height, |_, first, end| {
            // SAFETY: the contract was checked; parts have their own lines.
            unsafe { isa.run(Averages { lines: (first, end), ..whole.get() }) }
        });
    }

    pub(in crate::cpu) fn average_pool_backward(&mut self, dims: &PoolDims, divisor: usize, a: &[BufferId]) {
        let (dy, dx, share) = (self.at(a[0]), self.at(a[1]), 1.0 / divisor as f32);
        let whole = Shared(Spread { dims: *dims, dy, dx, share, lines: (0, 0) });
        let (isa, worth) = (self.isa, dims.input_len() >= self.tuning.parallel_elements);
        self.divide(worth, dims.samples * dims.height, |_, first, end| {
            // SAFETY: the contract was checked; parts have their own lines.
            unsafe { isa.run(Spread { lines: (first, end), ..whole.get() }) }
        });
    }
}
