//! Layer normalisation: each row is read twice while it is near, and written once.

use crate::cpu::Cpu;
use crate::cpu::isa::Body;
use crate::cpu::simd::{Simd, vectors};
use crate::cpu::submit::{Arguments, Shared};
use crate::cpu::walk::{Terms, Walk};
use paceline_base::kernel::BufferId;

/// Some rows, forward.
#[derive(Clone, Copy)]
struct Forward {
    x: *const f32,
    gamma: *const f32,
    beta: *const f32,
    y: *mut f32,
    kept: *mut f32,
    rows: (usize, usize),
    channels: usize,
    eps: f32,
}

// SAFETY: numbers and pointers into device memory.
unsafe impl Arguments for Forward {}

impl Body for Forward {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let share = 1.0 / self.channels as f32;
        for row in self.rows.0..self.rows.1 {
            // SAFETY: the caller vouches for the rows; masked lanes are left out of the squares.
            unsafe {
                let (x, y) = (self.x.add(row * self.channels), self.y.add(row * self.channels));
                let mut sum = s.zero();
                vectors!(s, S, self.channels, |i, n, mask| {
                    sum = s.add(sum, s.take(x.add(i), mask));
                });
                let mean = s.mul(s.spread_sum(sum), s.splat(share));
                let mut squares = s.zero();
                vectors!(s, S, self.channels, |i, n, mask| {
                    let d = s.sub(s.take(x.add(i), mask), mean);
                    let d = if let Some(mask) = mask { s.select(mask, d, s.zero()) } else { d };
                    squares = s.fma(d, d, squares);
                });
                let scale = 1.0 / (s.sum(squares) * share + self.eps).sqrt();
                *self.kept.add(2 * row) = s.first(mean);
                *self.kept.add(2 * row + 1) = scale;
                let scale = s.splat(scale);
                vectors!(s, S, self.channels, |i, n, mask| {
                    let hat = s.mul(s.sub(s.take(x.add(i), mask), mean), scale);
                    s.put(y.add(i), mask, s.fma(hat, s.take(self.gamma.add(i), mask), s.take(self.beta.add(i), mask)));
                });
            }
        }
    }
}

/// Some rows, backward.
#[derive(Clone, Copy)]
struct Backward {
    dy: *const f32,
    x: *const f32,
    kept: *const f32,
    gamma: *const f32,
    dx: *mut f32,
    rows: (usize, usize),
    channels: usize,
}

// SAFETY: numbers and pointers into device memory.
unsafe impl Arguments for Backward {}

impl Body for Backward {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let share = s.splat(1.0 / self.channels as f32);
        for row in self.rows.0..self.rows.1 {
            // SAFETY: the caller vouches for the rows; masked lanes of dy are zero and add nothing.
            unsafe {
                let begin = row * self.channels;
                let (dy, x, dx) = (self.dy.add(begin), self.x.add(begin), self.dx.add(begin));
                let (mean, scale) = (s.splat(*self.kept.add(2 * row)), s.splat(*self.kept.add(2 * row + 1)));
                let (mut sum, mut product) = (s.zero(), s.zero());
                vectors!(s, S, self.channels, |i, n, mask| {
                    let g = s.mul(s.take(dy.add(i), mask), s.take(self.gamma.add(i), mask));
                    let hat = s.mul(s.sub(s.take(x.add(i), mask), mean), scale);
                    sum = s.add(sum, g);
                    product = s.fma(g, hat, product);
                });
                let (sum, product) = (s.mul(s.spread_sum(sum), share), s.mul(s.spread_sum(product), share));
                vectors!(s, S, self.channels, |i, n, mask| {
                    let g = s.mul(s.take(dy.add(i), mask), s.take(self.gamma.add(i), mask));
                    let hat = s.mul(s.sub(s.take(x.add(i), mask), mean), scale);
                    s.put(dx.add(i), mask, s.mul(scale, s.sub_mul(hat, product, s.sub(g, sum))));
                });
            }
        }
    }
}

/// `dy · x̂` and `dy`.
#[derive(Clone, Copy)]
struct Weights {
    dy: *const f32,
    x: *const f32,
    kept: *const f32,
}

// SAFETY: numbers and pointers into device memory.
unsafe impl Arguments for Weights {}

impl Terms for Weights {
    #[inline(always)]
    unsafe fn at<S: Simd>(self, s: S, row: usize, place: usize, _: usize, mask: Option<S::M>) -> (S::V, S::V) {
        // SAFETY: by the contract of `at`.
        unsafe {
            let (mean, scale) = (s.splat(*self.kept.add(2 * row)), s.splat(*self.kept.add(2 * row + 1)));
            let dy = s.take(self.dy.add(place), mask);
            (s.mul(dy, s.mul(s.sub(s.take(self.x.add(place), mask), mean), scale)), dy)
        }
    }
}

impl Cpu {
    pub(in crate::cpu) fn layer_norm(&mut self, rows: usize, channels: usize, eps: f64, a: &[BufferId]) {
        let whole = Shared(Forward {
            x: self.at(a[0]),
            gamma: self.at(a[1]),
            beta: self.at(a[2]),
            y: self.at(a[3]),
            kept: self.at(a[4]),
            rows: (0, rows),
            channels,
            eps: eps as f32,
        });
        let isa = self.isa;
        self.divide(rows * channels >= self.tuning.parallel_elements, rows, |_, first, end| {
            // SAFETY: the contract was checked; parts have their own rows.
            unsafe { isa.run(Forward { rows: (first, end), ..whole.get() }) }
        });
    }

    pub(in crate::cpu) fn layer_norm_backward_data(&mut self, rows: usize, channels: usize, a: &[BufferId]) {
        let whole = Shared(Backward {
            dy: self.at(a[0]),
            x: self.at(a[1]),
            kept: self.at(a[2]),
            gamma: self.at(a[3]),
            dx: self.at(a[4]),
            rows: (0, rows),
            channels,
        });
        let isa = self.isa;
        self.divide(rows * channels >= self.tuning.parallel_elements, rows, |_, first, end| {
            // SAFETY: the contract was checked; parts have their own rows.
            unsafe { isa.run(Backward { rows: (first, end), ..whole.get() }) }
        });
    }

    pub(in crate::cpu) fn layer_norm_backward_weights(&mut self, rows: usize, channels: usize, a: &[BufferId]) {
        let terms = Weights { dy: self.at(a[0]), x: self.at(a[1]), kept: self.at(a[2]) };
        let (gamma, beta) = (self.at(a[3]), self.at(a[4]));
        for walk in Walk::by_row(rows, channels) {
            // SAFETY: the contract was checked.
            unsafe {
                self.pair_sums(walk, terms, |c, product, sum| {
                    *gamma.add(c) = product as f32;
                    *beta.add(c) = sum as f32;
                });
            }
        }
    }
}
