//! Maxima of windows with the places where they were, and the way back.

use super::spread::Share;
use super::{Outputs, Window, outputs};
use crate::cpu::Cpu;
use crate::cpu::isa::Body;
use crate::cpu::simd::{Simd, vectors};
use crate::cpu::submit::{Arguments, Shared};
use paceline_base::kernel::BufferId;
use paceline_base::window::{DEAD, PoolDims};

/// Some output lines.
#[derive(Clone, Copy)]
struct Maxima {
    dims: PoolDims,
    x: *const f32,
    y: *mut f32,
    /// Null if they are not kept.
    codes: *mut u8,
    lines: (usize, usize),
}

/// The same on an instruction set, with or without codes.
struct Maximum<S, const CODES: bool> {
    s: S,
    of: Maxima,
}

impl<S: Simd, const CODES: bool> Outputs for Maximum<S, CODES> {
    #[inline(always)]
    unsafe fn window(&mut self, window: Window) {
        let (s, Maxima { dims: d, x, y, codes, .. }) = (self.s, self.of);
        let empty = window.rows.is_empty() || window.columns.is_empty();
        let first = if empty { (0, 0) } else { (window.rows.start, window.columns.start) };
        let corner = window.input(&d, first.0, first.1).wrapping_mul(d.channels);
        let to = window.output * d.channels;
        vectors!(s, S, d.channels, |c, lanes, mask| {
            // SAFETY: rows and columns lie within the image, and the caller vouches for the pointers.
            unsafe {
                let (mut best, mut code) = if empty {
                    (s.splat(f32::NEG_INFINITY), s.splat(f32::from(DEAD)))
                } else {
                    (s.take(x.add(corner + c), mask), s.splat((first.0 * d.window[1] + first.1) as f32))
                };
                for wy in window.rows.clone() {
                    let mut from = x.wrapping_add(window.input(&d, wy, first.1).wrapping_mul(d.channels) + c);
                    let mut place = (wy * d.window[1] + first.1) as f32;
                    for _ in window.columns.clone() {
                        let v = s.take(from, mask);
                        let better = s.beats(v, best);
                        best = s.select(better, v, best);
                        if CODES {
                            code = s.select(better, s.splat(place), code);
                            place += 1.0;
                        }
                        from = from.wrapping_add(d.channels);
                    }
                }
                s.put(y.add(to + c), mask, best);
                if CODES {
                    s.store_bytes(codes.add(to + c), lanes, code);
                }
            }
        });
    }
}

// SAFETY: numbers and pointers into device memory.
unsafe impl Arguments for Maxima {}

impl Body for Maxima {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let lines = self.lines.0..self.lines.1;
        // SAFETY: passed on to the caller.
        unsafe {
            if self.codes.is_null() {
                outputs(&self.dims, lines, &mut Maximum::<S, false> { s, of: self });
            } else {
                outputs(&self.dims, lines, &mut Maximum::<S, true> { s, of: self });
            }
        }
    }
}

/// The element that was the largest gets a window's gradient.
#[derive(Clone, Copy)]
struct Winner {
    dy: *const f32,
    codes: *const u8,
}

// SAFETY: numbers and pointers into device memory.
unsafe impl Arguments for Winner {}

impl Share for Winner {
    #[inline(always)]
    unsafe fn of<S: Simd>(&self, s: S, from: usize, place: usize, lanes: usize, mask: Option<S::M>) -> S::V {
        // SAFETY: passed on to the caller; there is a code for every output.
        unsafe {
            let code = s.load_bytes(self.codes.add(from), lanes);
            s.select(s.eq(code, s.splat(place as f32)), s.take(self.dy.add(from), mask), s.zero())
        }
    }
}

impl Cpu {
    pub(in crate::cpu) fn max_pool(&mut self, dims: &PoolDims, codes: bool, a: &[BufferId]) {
        let codes = if codes { self.at(a[2]).cast() } else { std::ptr::null_mut() };
        let whole = Shared(Maxima { dims: *dims, x: self.at(a[0]), y: self.at(a[1]), codes, lines: (0, 0) });
        let (isa, worth) = (self.isa, dims.input_len() >= self.tuning.parallel_elements);
        self.divide(worth, dims.samples * dims.out_height, |_, first, end| {
            // SAFETY: the contract was checked; parts have their own lines.
            unsafe { isa.run(Maxima { lines: (first, end), ..whole.get() }) }
        });
    }

    pub(in crate::cpu) fn max_pool_backward(&mut self, dims: &PoolDims, a: &[BufferId]) {
        let winner = Winner { dy: self.at(a[0]), codes: self.at(a[1]).cast_const().cast() };
        self.spread(dims, winner, self.at(a[2]));
    }
}
