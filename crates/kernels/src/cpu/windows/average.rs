//! Averages of windows, from 2 × 2 to whole images, and the way back.

#![allow(clippy::needless_range_loop)] // indexed loops read as the formula, and unroll into registers

use super::spread::Share;
use super::{Outputs, Window, outputs};
use crate::cpu::Cpu;
use crate::cpu::isa::Body;
use crate::cpu::simd::{Simd, vectors};
use crate::cpu::submit::{Arguments, Shared};
use paceline_base::kernel::BufferId;
use paceline_base::window::PoolDims;

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
        window: &Window,
        mask: Option<S::M>,
    ) -> [S::V; N] {
        let d = &self.dims;
        let mut sums = [s.zero(); N];
        for wy in window.rows.clone() {
            let mut row = [s.zero(); N];
            for wx in window.columns.clone() {
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

/// The same on an instruction set.
struct AverageOn<S> {
    s: S,
    of: Averages,
}

impl<S: Simd> Outputs for AverageOn<S> {
    #[inline(always)]
    unsafe fn window(&mut self, window: Window) {
        let (s, of, d) = (self.s, self.of, self.of.dims);
        let (x, share) = (of.x.wrapping_add(window.corner.wrapping_mul(d.channels)), s.splat(of.share));
        // Four vectors at a time: large windows then read whole lines of memory in a row.
        let wide = d.channels / (4 * S::LANES) * (4 * S::LANES);
        // SAFETY: rows and columns lie within the image, and the caller vouches for the pointers.
        unsafe {
            let y = of.y.add(window.output * d.channels);
            let mut c = 0;
            while c < wide {
                let sums = of.sums::<S, 4>(s, x.wrapping_add(c), &window, None);
                for v in 0..4 {
                    s.store(y.add(c + v * S::LANES), s.mul(sums[v], share));
                }
                c += 4 * S::LANES;
            }
            vectors!(s, S, d.channels - wide, |c, n, mask| {
                let [sum] = of.sums::<S, 1>(s, x.wrapping_add(wide + c), &window, mask);
                s.put(y.add(wide + c), mask, s.mul(sum, share));
            });
        }
    }
}

// SAFETY: numbers and pointers into device memory.
unsafe impl Arguments for Averages {}

impl Body for Averages {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        // SAFETY: passed on to the caller.
        unsafe { outputs(&self.dims, self.lines.0..self.lines.1, &mut AverageOn { s, of: self }) }
    }
}

/// Every element of a window gets the same share of its gradient.
#[derive(Clone, Copy)]
struct Even {
    dy: *const f32,
    share: f32,
}

// SAFETY: numbers and pointers into device memory.
unsafe impl Arguments for Even {}

impl Share for Even {
    #[inline(always)]
    unsafe fn of<S: Simd>(&self, s: S, from: usize, _: usize, _: usize, mask: Option<S::M>) -> S::V {
        // SAFETY: passed on to the caller.
        s.mul(unsafe { s.take(self.dy.add(from), mask) }, s.splat(self.share))
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
        let even = Even { dy: self.at(a[0]), share: 1.0 / divisor as f32 };
        self.spread(dims, even, self.at(a[1]));
    }
}
