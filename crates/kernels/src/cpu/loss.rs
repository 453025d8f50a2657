//! Losses with their metrics and gradients, row by row.
//!
//! Rows are taken in chunks whose size depends on the number of rows alone, and the chunks' sums are added in order: the loss has the same
//! bits for any number of threads.

use super::isa::Body;
use super::math;
use super::simd::{Simd, vectors};
use super::submit::Arguments;
use crate::contract::class_of;
use paceline_base::op::Loss;

static LANE_NUMBERS: [f32; 16] = [0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14., 15.];

/// What a chunk of rows adds to the metrics, in f64.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sums {
    pub loss: f64,
    /// Rows whose class was met, or distances from numbers: the loss's second metric.
    pub second_metric: f64,
}

/// What rows are compared with.
#[derive(Clone, Copy)]
pub(crate) enum Targets {
    /// A class for each.
    Classes(*const u32),
    /// A number for each; a row is then one output.
    Numbers(*const f32),
}

impl Targets {
    /// Those from a row on.
    ///
    /// # Safety
    /// There are so many.
    pub(crate) unsafe fn add(self, rows: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Classes(first) => Self::Classes(first.add(rows)),
                Self::Numbers(first) => Self::Numbers(first.add(rows)),
            }
        }
    }
}

/// One chunk of rows.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    pub loss: Loss,
    pub rows: usize,
    pub classes: usize,
    pub outputs: *const f32,
    pub targets: Targets,
    /// Null if no gradient is wanted.
    pub gradient: *mut f32,
    pub scale: f32,
}

// SAFETY: numbers and pointers into device memory.
unsafe impl Arguments for Rows {}

impl Body for Rows {
    type Out = Sums;
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) -> Sums {
        // SAFETY: the caller vouches for the pointers.
        unsafe {
            match (self.loss, self.targets) {
                (Loss::SoftmaxCrossEntropy, Targets::Classes(labels)) if self.classes <= S::LANES => {
                    self.softmax_in_one_vector(s, labels)
                }
                (Loss::SoftmaxCrossEntropy, Targets::Classes(labels)) => self.softmax(s, labels),
                (Loss::MeanSquaredError, Targets::Classes(labels)) => self.squares(s, labels),
                (_, Targets::Numbers(numbers)) => self.distances(s, numbers),
            }
        }
    }
}

/// Calls `$body` with (`$at`, `$load`, `$mask`) for each vector of a row: whole ones, then the masked rest.
macro_rules! over_row {
    ($s:ident, $S:ident, $len:expr, $row:expr, |$at:ident, $v:ident, $mask:ident| $body:expr) => {{
        let full = $len / $S::LANES * $S::LANES;
        let mut $at = 0;
        let $mask = $s.head($S::LANES);
        while $at < full {
            let $v = $s.load($row.add($at));
            $body;
            $at += $S::LANES;
        }
        if full < $len {
            let $mask = $s.head($len - full);
            let $v = $s.load_head($row.add($at), $mask);
            $body;
        }
    }};
}

impl Rows {
    /// Loss −log softmax, by log-sum-exp.
    ///
    /// # Safety
    /// As for `run`.
    #[inline(always)]
    unsafe fn softmax<S: Simd>(self, s: S, labels: *const u32) -> Sums {
        let mut sums = Sums::default();
        // Σ log = log Π: one multiplication per row, one logarithm per chunk (each factor is in 1 … classes).
        let mut product = 1.0_f64;
        // SAFETY: rows lie within the buffers by the caller's promise; vectors within their row, by `over_row`.
        unsafe {
            for r in 0..self.rows {
                let row = self.outputs.add(r * self.classes);
                let label = class_of(*labels.add(r), self.classes);
                let (max, first) = largest(s, row, self.classes);
                let top = s.splat(max);
                let mut total = s.zero();
                over_row!(s, S, self.classes, row, |at, v, mask| {
                    let e = s.select(mask, math::exp(s, s.sub(v, top)), s.zero());
                    if !self.gradient.is_null() {
                        s.store_head(self.gradient.add(r * self.classes + at), mask, e);
                    }
                    total = s.add(total, e);
                });
                let total = s.sum(total);
                product *= f64::from(total);
                if !(1e-200..1e200).contains(&product) {
                    sums.loss += product.ln();
                    product = 1.0;
                }
                sums.loss += label.map_or(f64::NAN, |label| f64::from(max) - f64::from(*row.add(label)));
                // A NaN anywhere in the row has made the total NaN.
                sums.second_metric += f64::from(u8::from(!total.is_nan() && label == Some(first)));
                if !self.gradient.is_null() {
                    let gradient = self.gradient.add(r * self.classes);
                    let factor = s.splat(self.scale / total);
                    over_row!(s, S, self.classes, gradient, |at, v, mask| {
                        s.store_head(gradient.add(at), mask, s.mul(v, factor));
                    });
                    if let Some(label) = label {
                        *gradient.add(label) -= self.scale;
                    }
                }
            }
        }
        sums.loss += product.ln();
        sums
    }

    /// The same for rows that fit one vector: nothing but the gradient goes through memory.
    ///
    /// # Safety
    /// As for `run`.
    #[inline(always)]
    unsafe fn softmax_in_one_vector<S: Simd>(self, s: S, labels: *const u32) -> Sums {
        let mut sums = Sums::default();
        let mut product = 1.0_f64;
        let mask = s.head(self.classes);
        let (low, scale) = (s.splat(f32::NEG_INFINITY), s.splat(self.scale));
        // SAFETY: rows lie within the buffers by the caller's promise, masked lanes are not touched; the table has 16 lanes.
        unsafe {
            let lanes = s.load(LANE_NUMBERS.as_ptr());
            for r in 0..self.rows {
                let row = self.outputs.add(r * self.classes);
                let label = *labels.add(r) as f32;
                let v = s.select(mask, s.load_head(row, mask), low);
                let top = s.spread_largest(v);
                let e = s.select(mask, math::exp(s, s.sub(v, top)), s.zero());
                let total = s.spread_sum(e);
                let sum = s.first(total);
                product *= f64::from(sum);
                if !(1e-200..1e200).contains(&product) {
                    sums.loss += product.ln();
                    product = 1.0;
                }
                let hot = s.eq(lanes, s.splat(label));
                let place = s.bits(hot) & s.bits(mask);
                sums.loss += if place == 0 {
                    f64::NAN
                } else {
                    f64::from(s.first(top)) - f64::from(*row.add(place.trailing_zeros() as usize))
                };
                // The first lane that holds the largest value; a NaN anywhere in the row has made the sum NaN.
                let best = s.bits(s.eq(v, top));
                let right = best & best.wrapping_neg() == place && place != 0 && !sum.is_nan();
                sums.second_metric += f64::from(u8::from(right));
                if !self.gradient.is_null() {
                    let share = s.mul(e, s.splat(1.0 / sum)); // a vector's division takes as long as all the rest
                    let rest = s.sub(share, s.select(hot, s.splat(1.0), s.zero()));
                    s.store_head(self.gradient.add(r * self.classes), mask, s.mul(rest, scale));
                }
            }
        }
        sums.loss += product.ln();
        sums
    }

    /// Loss Σ (y − one_hot)² / classes.
    ///
    /// # Safety
    /// As for `run`.
    #[inline(always)]
    unsafe fn squares<S: Simd>(self, s: S, labels: *const u32) -> Sums {
        let mut sums = Sums::default();
        let factor = (2.0 / self.classes as f64 * f64::from(self.scale)) as f32;
        // SAFETY: rows lie within the buffers by the caller's promise; vectors within their row, by `over_row`.
        unsafe {
            for r in 0..self.rows {
                let row = self.outputs.add(r * self.classes);
                let label = class_of(*labels.add(r), self.classes);
                let (_, first) = largest(s, row, self.classes);
                let target = s.splat(label.map_or(f32::NAN, |label| label as f32));
                let mut squares = s.zero();
                over_row!(s, S, self.classes, row, |at, v, mask| {
                    let lane = s.add(s.load(LANE_NUMBERS.as_ptr()), s.splat(at as f32));
                    let distance = s.sub(v, s.select(s.eq(lane, target), s.splat(1.0), s.zero()));
                    squares = s.fma(distance, distance, squares);
                    if !self.gradient.is_null() {
                        s.store_head(self.gradient.add(r * self.classes + at), mask, s.mul(distance, s.splat(factor)));
                    }
                });
                let squares = f64::from(s.sum(squares));
                sums.second_metric += f64::from(u8::from(!squares.is_nan() && label == Some(first)));
                sums.loss += if label.is_some() { squares / self.classes as f64 } else { f64::NAN };
            }
        }
        sums
    }
}

impl Rows {
    /// Loss (y − number)², with one output for each row: all rows are one run.
    ///
    /// # Safety
    /// As for `run`.
    #[inline(always)]
    unsafe fn distances<S: Simd>(self, s: S, numbers: *const f32) -> Sums {
        let factor = s.splat((2.0 * f64::from(self.scale)) as f32);
        let (mut squares, mut absolute) = (s.zero(), s.zero());
        // SAFETY: rows lie within the buffers by the caller's promise; vectors within them, by `vectors`.
        unsafe {
            vectors!(s, S, self.rows, |i, n, mask| {
                let distance = s.sub(s.take(self.outputs.add(i), mask), s.take(numbers.add(i), mask));
                squares = s.fma(distance, distance, squares);
                absolute = s.add(absolute, s.max(distance, s.sub(s.zero(), distance)));
                if !self.gradient.is_null() {
                    s.put(self.gradient.add(i), mask, s.mul(distance, factor));
                }
            });
        }
        Sums { loss: f64::from(s.sum(squares)), second_metric: f64::from(s.sum(absolute)) }
    }
}

/// The largest value of a row and its first place; of no use if the row holds a NaN.
///
/// # Safety
/// `row` must be readable for `len` elements.
#[inline(always)]
unsafe fn largest<S: Simd>(s: S, row: *const f32, len: usize) -> (f32, usize) {
    let low = s.splat(f32::NEG_INFINITY);
    let mut best = low;
    // SAFETY: `over_row` stays below `len`.
    unsafe {
        over_row!(s, S, len, row, |at, v, mask| best = s.max(best, s.select(mask, v, low)));
        let max = s.largest(best);
        let top = s.splat(max);
        let mut first = usize::MAX;
        over_row!(s, S, len, row, |at, v, mask| {
            let bits = s.bits(s.eq(v, top)) & s.bits(mask);
            if bits != 0 && first == usize::MAX {
                first = at + bits.trailing_zeros() as usize;
            }
        });
        (max, first)
    }
}
