//! Maxima of windows with the places where they were, and the way back.

use super::{Holder, Inputs, Outputs, Window, inputs, outputs};
use crate::cpu::Cpu;
use crate::cpu::isa::Body;
use crate::cpu::simd::{Simd, vectors};
use crate::cpu::submit::Shared;
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

/// Some input lines.
#[derive(Clone, Copy)]
struct Spread {
    dims: PoolDims,
    dy: *const f32,
    codes: *const u8,
    dx: *mut f32,
    lines: (usize, usize),
}

/// The same on an instruction set.
struct SpreadOn<S> {
    s: S,
    of: Spread,
}

impl<S: Simd> Inputs for SpreadOn<S> {
    #[inline(always)]
    unsafe fn held(&mut self, input: usize, by: Holder) {
        let (s, Spread { dims: d, dy, codes, dx, .. }) = (self.s, self.of);
        let (place, from, to) = (s.splat(by.place as f32), by.output * d.channels, input * d.channels);
        vectors!(s, S, d.channels, |c, lanes, mask| {
            // SAFETY: elements of this image; the caller vouches for the pointers.
            unsafe {
                let code = s.load_bytes(codes.add(from + c), lanes);
                let own = s.select(s.eq(code, place), s.take(dy.add(from + c), mask), s.zero());
                let sum = if by.first { own } else { s.add(s.take(dx.add(to + c), mask), own) };
                s.put(dx.add(to + c), mask, sum);
            }
        });
    }

    #[inline(always)]
    unsafe fn alone(&mut self, input: usize) {
        let d = &self.of.dims;
        // SAFETY: an element of this image; the caller vouches for the pointer.
        unsafe { self.of.dx.add(input * d.channels).write_bytes(0, d.channels) };
    }
}

impl Body for Spread {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        // SAFETY: passed on to the caller.
        unsafe { inputs(&self.dims, self.lines.0..self.lines.1, &mut SpreadOn { s, of: self }) }
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
        let codes = self.at(a[1]).cast_const().cast();
        let whole = Shared(Spread { dims: *dims, dy: self.at(a[0]), codes, dx: self.at(a[2]), lines: (0, 0) });
        let (isa, worth) = (self.isa, dims.input_len() >= self.tuning.parallel_elements);
        self.divide(worth, dims.samples * dims.height, |_, first, end| {
            // SAFETY: the contract was checked; parts have their own lines.
            unsafe { isa.run(Spread { lines: (first, end), ..whole.get() }) }
        });
    }
}
