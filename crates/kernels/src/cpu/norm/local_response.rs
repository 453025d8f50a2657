//! Local response normalisation: block by block of a row's channels, with the halo that the windows need in a buffer padded with zeros.
//!
//! Windows are then plain loads one element apart. Windows too wide for the buffer (nobody's, so far) take an obvious loop instead.

#![allow(clippy::needless_range_loop)] // indexed loops read as the formula

use crate::cpu::Cpu;
use crate::cpu::isa::Body;
use crate::cpu::simd::{Simd, vectors};
use crate::cpu::submit::{Arguments, Shared};
use paceline_base::kernel::{BufferId, LocalResponse};

/// Channels that are made at once.
const BLOCK: usize = 256;
/// Widest window that the buffers have room for on both sides of a block.
const REACH: usize = 64;
/// A block with two halos (of the sums and of what is summed), rounded up to vectors.
const ROOM: usize = BLOCK + 2 * REACH + 32;

/// Zeros to begin with, so that what lies outside a row adds nothing.
#[repr(align(64))]
struct Padded([f32; ROOM]);

/// `d^−β` and `1 / d`; in roots for AlexNet's ¾, lane by lane for others.
#[inline(always)]
fn power<S: Simd>(s: S, d: S::V, beta: f32) -> (S::V, S::V) {
    let inverse = s.div(s.splat(1.0), d);
    if beta == 0.75 {
        return (s.mul(s.sqrt(s.sqrt(d)), inverse), inverse);
    }
    let mut lanes = [0.0_f32; 16];
    // SAFETY: a vector has at most sixteen lanes.
    unsafe {
        s.store(lanes.as_mut_ptr(), d);
        for d in &mut lanes[..S::LANES] {
            *d = d.powf(-beta);
        }
        (s.load(lanes.as_ptr()), inverse)
    }
}

/// Some rows, forward or backward.
#[derive(Clone, Copy)]
struct Rows {
    l: LocalResponse,
    x: *const f32,
    /// Backward only.
    dy: *const f32,
    out: *mut f32,
    rows: (usize, usize),
}

impl Rows {
    /// Channels of a window before and behind its own.
    fn halo(&self) -> (usize, usize) {
        (self.l.size / 2, (self.l.size - 1) / 2)
    }

    /// Writes `d` of the channels from `first` on, `count` of them, rounded up to vectors.
    ///
    /// # Safety
    /// `x` must be a row, the channels must lie in it, and there may be `BLOCK + REACH` of them.
    #[inline(always)]
    unsafe fn denominators<S: Simd>(&self, s: S, x: *const f32, first: usize, count: usize, out: &mut Padded) {
        let (before, behind) = self.halo();
        let mut squares = Padded([0.0; ROOM]);
        // The window of the first channel begins at squares[0]; those outside the row stay zero.
        let from = first.saturating_sub(before);
        let (shift, end) = (from + before - first, (first + count + behind).min(self.l.channels));
        let (k, share) = (s.splat(self.l.k as f32), s.splat((self.l.alpha / self.l.size as f64) as f32));
        // SAFETY: channels of the row; the buffers have room for a block, both halos and a vector.
        unsafe {
            for i in 0..end - from {
                let x = *x.add(from + i);
                squares.0[shift + i] = x * x;
            }
            let mut i = 0;
            while i < count {
                let mut sum = s.zero();
                for o in 0..self.l.size {
                    sum = s.add(sum, s.load(squares.0.as_ptr().add(i + o)));
                }
                s.store(out.0.as_mut_ptr().add(i), s.fma(sum, share, k));
                i += S::LANES;
            }
        }
    }

    /// # Safety
    /// As for [`Body::run`].
    #[inline(always)]
    unsafe fn forward<S: Simd>(&self, s: S, row: usize) {
        let l = &self.l;
        let mut d = Padded([0.0; ROOM]);
        // SAFETY: the caller vouches for the row.
        unsafe {
            let (x, y) = (self.x.add(row * l.channels), self.out.add(row * l.out_channels));
            for block in (0..l.out_channels).step_by(BLOCK) {
                let (count, first) = (BLOCK.min(l.out_channels - block), l.first + block);
                self.denominators(s, x, first, count, &mut d);
                vectors!(s, S, count, |i, n, mask| {
                    let (p, _) = power(s, s.load(d.0.as_ptr().add(i)), l.beta as f32);
                    s.put(y.add(block + i), mask, s.mul(s.take(x.add(first + i), mask), p));
                });
            }
        }
    }

    /// # Safety
    /// As for [`Body::run`].
    #[inline(always)]
    unsafe fn backward<S: Simd>(&self, s: S, row: usize) {
        let l = &self.l;
        let (before, behind) = self.halo();
        let made = l.first..l.first + l.out_channels;
        let slope = s.splat((-2.0 * l.alpha * l.beta / l.size as f64) as f32);
        let mut d = Padded([0.0; ROOM]);
        // SAFETY: the caller vouches for the row; the buffers have room for a block, both halos and a vector.
        unsafe {
            let (x, dx) = (self.x.add(row * l.channels), self.out.add(row * l.channels));
            let dy = self.dy.add(row * l.out_channels);
            for block in (0..l.channels).step_by(BLOCK) {
                let count = BLOCK.min(l.channels - block);
                // The channels whose windows hold one of the block; the first of them is at index 0 of both buffers …
                let start = block as isize - behind as isize;
                let (mut own, mut shared) = (Padded([0.0; ROOM]), Padded([0.0; ROOM]));
                let from = (start.max(made.start as isize)) as usize;
                let end = (block + count + before).min(made.end);
                let shift = (from as isize - start) as usize;
                if from < end {
                    let many = end - from;
                    self.denominators(s, x, from, many, &mut d);
                    vectors!(s, S, many, |i, n, mask| {
                        let (p, inverse) = power(s, s.load(d.0.as_ptr().add(i)), l.beta as f32);
                        let g = s.mul(s.take(dy.add(from - l.first + i), mask), p);
                        s.put(own.0.as_mut_ptr().add(shift + i), mask, g);
                        let t = s.mul(s.mul(g, s.take(x.add(from + i), mask)), inverse);
                        s.put(shared.0.as_mut_ptr().add(shift + i), mask, t);
                    });
                }
                // … so that channel `block + i` is at `behind + i`, and the windows that hold it begin at `i`.
                vectors!(s, S, count, |i, n, mask| {
                    let mut sum = s.zero();
                    for o in 0..l.size {
                        sum = s.add(sum, s.load(shared.0.as_ptr().add(i + o)));
                    }
                    let own = s.load(own.0.as_ptr().add(behind + i));
                    let x = s.take(x.add(block + i), mask);
                    s.put(dx.add(block + i), mask, s.fma(s.mul(slope, x), sum, own));
                });
            }
        }
    }

    /// The same for windows of any width, channel by channel.
    ///
    /// # Safety
    /// As for [`Body::run`].
    unsafe fn wide(&self, row: usize) {
        let l = &self.l;
        let (before, behind) = self.halo();
        let around = |c: usize| c.saturating_sub(before)..(c + behind + 1).min(l.channels);
        // SAFETY: the caller vouches for the row.
        unsafe {
            let x = std::slice::from_raw_parts(self.x.add(row * l.channels), l.channels);
            let denominator = |c: usize| {
                let sum: f64 = x[around(c)].iter().map(|x| f64::from(*x).powi(2)).sum();
                l.k + l.alpha / l.size as f64 * sum
            };
            if self.dy.is_null() {
                for made in 0..l.out_channels {
                    let c = l.first + made;
                    let y = f64::from(x[c]) * denominator(c).powf(-l.beta);
                    *self.out.add(row * l.out_channels + made) = y as f32;
                }
                return;
            }
            let dx = std::slice::from_raw_parts_mut(self.out.add(row * l.channels), l.channels);
            dx.fill(0.0);
            for made in 0..l.out_channels {
                let (c, dy) = (l.first + made, f64::from(*self.dy.add(row * l.out_channels + made)));
                let d = denominator(c);
                let own = dy * d.powf(-l.beta);
                let t = 2.0 * l.alpha * l.beta / l.size as f64 * own * f64::from(x[c]) / d;
                for i in around(c) {
                    let own = if i == c { own } else { 0.0 };
                    dx[i] += (own - t * f64::from(x[i])) as f32;
                }
            }
        }
    }
}

// SAFETY: numbers and pointers into device memory.
unsafe impl Arguments for Rows {}

impl Body for Rows {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        for row in self.rows.0..self.rows.1 {
            // SAFETY: passed on to the caller.
            unsafe {
                if self.l.size > REACH {
                    self.wide(row);
                } else if self.dy.is_null() {
                    self.forward(s, row);
                } else {
                    self.backward(s, row);
                }
            }
        }
    }
}

impl Cpu {
    pub(in crate::cpu) fn local_response(&mut self, l: &LocalResponse, a: &[BufferId]) {
        let (x, out) = (self.at(a[0]), self.at(a[1]));
        self.response_rows(Rows { l: *l, x, dy: std::ptr::null(), out, rows: (0, l.rows) });
    }

    pub(in crate::cpu) fn local_response_backward(&mut self, l: &LocalResponse, a: &[BufferId]) {
        let (dy, x, out) = (self.at(a[0]), self.at(a[1]), self.at(a[2]));
        self.response_rows(Rows { l: *l, x, dy, out, rows: (0, l.rows) });
    }

    fn response_rows(&mut self, whole: Rows) {
        let (isa, l) = (self.isa, whole.l);
        let whole = Shared(whole);
        self.divide(4 * l.rows * l.channels >= self.tuning.parallel_elements, l.rows, |_, first, end| {
            // SAFETY: the contract was checked; parts have their own rows.
            unsafe { isa.run(Rows { rows: (first, end), ..whole.get() }) }
        });
    }
}
