//! Maxima of windows with the places where they were, and the way back.

use super::{Holder, channels, inputs, outputs};
use crate::cpu::Cpu;
use crate::cpu::isa::Body;
use crate::cpu::simd::Simd;
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

impl Maxima {
    /// # Safety
    /// As for [`Body::run`]; `codes` must not be null if `CODES`.
    #[inline(always)]
    unsafe fn go<S: Simd, const CODES: bool>(self, s: S) {
        let Self { dims: d, x, y, codes, lines } = self;
        outputs(&d, lines.0..lines.1, |output, corner, rows, columns| {
            channels(s, d.channels, |c, lanes, mask| {
                let (mut best, mut code) = (s.splat(f32::NEG_INFINITY), s.splat(f32::from(DEAD)));
                // SAFETY: rows and columns lie within the image, and the caller vouches for the pointers.
                unsafe {
                    if !rows.is_empty() && !columns.is_empty() {
                        let at = |wy: usize, wx: usize| {
                            let place = corner.wrapping_add(wy * d.width + wx);
                            s.take(x.add(place * d.channels + c), mask)
                        };
                        best = at(rows.start, columns.start);
                        code = s.splat((rows.start * d.window[1] + columns.start) as f32);
                        for wy in rows.clone() {
                            for wx in columns.clone() {
                                let v = at(wy, wx);
                                let better = s.beats(v, best);
                                best = s.select(better, v, best);
                                if CODES {
                                    code = s.select(better, s.splat((wy * d.window[1] + wx) as f32), code);
                                }
                            }
                        }
                    }
                    let to = output * d.channels + c;
                    s.put(y.add(to), mask, best);
                    if CODES {
                        s.store_bytes(codes.add(to), lanes, code);
                    }
                }
            });
        });
    }
}

impl Body for Maxima {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        // SAFETY: passed on to the caller.
        unsafe {
            if self.codes.is_null() {
                self.go::<S, false>(s);
            } else {
                self.go::<S, true>(s);
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

impl Body for Spread {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let Self { dims: d, dy, codes, dx, lines } = self;
        inputs(&d, lines.0..lines.1, |input, holder| {
            // SAFETY: elements of this image; the caller vouches for the pointers.
            unsafe {
                let dx = dx.add(input * d.channels);
                let Some(Holder { output, place, first }) = holder else {
                    return dx.write_bytes(0, d.channels);
                };
                let (place, from) = (s.splat(place as f32), output * d.channels);
                channels(s, d.channels, |c, lanes, mask| {
                    let code = s.load_bytes(codes.add(from + c), lanes);
                    let own = s.select(s.eq(code, place), s.take(dy.add(from + c), mask), s.zero());
                    let sum = if first { own } else { s.add(s.take(dx.add(c), mask), own) };
                    s.put(dx.add(c), mask, sum);
                });
            }
        });
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
