//! Tensors as rows of channels: one formula for every element, and sums by channel over all rows.
//!
//! A tensor [rows, channels] is walked in rows of at most [`WIDTH`] columns, wider ones strip by strip. Few channels would leave most lanes of a
//! vector empty, so several of their rows are walked as one, with the factors of each channel repeated.
//!
//! Sums are taken over fixed pieces of the rows: a piece in f32 by at most [`CHUNK`] rows and then in f64, the pieces in their order. So the bits
//! do not depend on the threads.

#![allow(clippy::needless_range_loop)] // indexed loops read as the formula, and unroll into registers

use super::Cpu;
use super::isa::Body;
use super::simd::{Simd, vectors};
use super::submit::{Arguments, Shared};

/// Most columns of a walk.
pub(crate) const WIDTH: usize = 512;
/// Up to so many channels, rows are joined.
const FEW: usize = 32;
/// Most pieces that rows are divided into for a sum …
pub(crate) const PIECES: usize = 64;
/// … and the rows that are worth a piece.
const PIECE: usize = 64;
/// Most rows that are summed in f32.
const CHUNK: usize = 512;

/// A value for each column.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Columns<T>(pub [T; WIDTH]);

impl Columns<f32> {
    /// The vector from this column on.
    ///
    /// # Safety
    /// The lanes of the mask must lie within the width.
    #[inline(always)]
    pub(crate) unsafe fn at<S: Simd>(&self, s: S, column: usize, mask: Option<S::M>) -> S::V {
        // SAFETY: by the contract.
        unsafe { s.take(self.0.as_ptr().add(column), mask) }
    }
}

/// A way over a tensor of rows of channels, or over a strip of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    channels: usize,
    /// The first column's channel.
    first: usize,
    width: usize,
    /// From one row to the next.
    stride: usize,
    rows: usize,
    /// Columns of the last row.
    last: usize,
}

impl Walk {
    /// The walks over a whole tensor.
    pub(crate) fn over(rows: usize, channels: usize) -> impl Iterator<Item = Walk> {
        let joined = if channels > FEW {
            1
        } else {
            // Rows that make whole vectors of sixteen, and enough of them for a loop.
            let whole = 16 >> channels.trailing_zeros().min(4);
            whole * 64_usize.div_ceil(whole * channels.max(1))
        };
        Self::strips(rows, channels, joined)
    }

    /// The same, row by row also where channels are few.
    pub(crate) fn by_row(rows: usize, channels: usize) -> impl Iterator<Item = Walk> {
        Self::strips(rows, channels, 1)
    }

    fn strips(rows: usize, channels: usize, joined: usize) -> impl Iterator<Item = Walk> {
        (0..channels).step_by(WIDTH).map(move |first| {
            let width = WIDTH.min(joined * (channels - first));
            if joined == 1 {
                return Walk { channels, first, width, stride: channels, rows, last: width };
            }
            let len = rows * channels;
            let rows = len.div_ceil(width);
            Walk { channels, first, width, stride: width, rows, last: len - rows.saturating_sub(1) * width }
        })
    }

    /// Elements in all.
    pub(crate) fn len(&self) -> usize {
        self.rows.saturating_sub(1) * self.width + if self.rows > 0 { self.last } else { 0 }
    }

    /// A value of each channel, by column.
    pub(crate) fn spread(&self, of: impl Fn(usize) -> f32) -> Columns<f32> {
        let mut columns = Columns([0.0; WIDTH]);
        for i in 0..self.width {
            columns.0[i] = of((self.first + i) % self.channels);
        }
        columns
    }

    /// Columns of a row.
    #[inline(always)]
    fn columns(&self, row: usize) -> usize {
        if row + 1 == self.rows { self.last } else { self.width }
    }
}

/// What is made of each element.
pub(crate) trait Formula: Arguments {
    /// The value for the vector at `place` of the tensor, whose first lane is in this column of the walk.
    ///
    /// # Safety
    /// The lanes of the mask (all, if none) must lie within the tensor and the walk.
    unsafe fn at<S: Simd>(self, s: S, place: usize, column: usize, mask: Option<S::M>) -> S::V;
}

/// Two summands of each element.
pub(crate) trait Terms: Arguments {
    /// The summands of the vector at `place` of the tensor.
    ///
    /// # Safety
    /// As for [`Formula::at`].
    unsafe fn at<S: Simd>(self, s: S, row: usize, place: usize, column: usize, mask: Option<S::M>) -> (S::V, S::V);
}

/// A formula for some rows of a walk.
struct Each<F> {
    walk: Walk,
    rows: (usize, usize),
    formula: F,
    out: *mut f32,
}

impl<F: Formula> Body for Each<F> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let Self { walk, rows, formula, out } = self;
        for row in rows.0..rows.1 {
            let begin = row * walk.stride + walk.first;
            vectors!(s, S, walk.columns(row), |column, n, mask| {
                let place = begin + column;
                // SAFETY: all columns of the row lie within the tensor.
                unsafe { s.put(out.add(place), mask, formula.at(s, place, column, mask)) };
            });
        }
    }
}

/// The sums over some rows of a walk: all first ones, then all second ones.
struct PairSums<T> {
    walk: Walk,
    rows: (usize, usize),
    terms: T,
    out: *mut f64,
}

impl<T: Terms> PairSums<T> {
    /// Adds the terms of `N` rows to the sums.
    ///
    /// # Safety
    /// The rows must lie within the walk and have as many columns.
    #[inline(always)]
    unsafe fn add<S: Simd, const N: usize>(&self, s: S, row: usize, columns: usize, sums: &mut [Columns<f32>; 2]) {
        let Self { walk, terms, .. } = self;
        let begin = row * walk.stride + walk.first;
        vectors!(s, S, columns, |column, n, mask| {
            // SAFETY: the columns lie within the walk.
            unsafe {
                let mut pairs = [(s.zero(), s.zero()); N];
                for i in 0..N {
                    pairs[i] = terms.at(s, row + i, begin + i * walk.stride + column, column, mask);
                }
                let mut live = N;
                while live > 1 {
                    live /= 2;
                    for i in 0..live {
                        let (a, b) = (pairs[i], pairs[i + live]);
                        pairs[i] = (s.add(a.0, b.0), s.add(a.1, b.1));
                    }
                }
                let (first, second) = (sums[0].0.as_mut_ptr().add(column), sums[1].0.as_mut_ptr().add(column));
                s.put(first, mask, s.add(s.take(first, mask), pairs[0].0));
                s.put(second, mask, s.add(s.take(second, mask), pairs[0].1));
            }
        });
    }
}

impl<T: Terms> Body for PairSums<T> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let (mut row, end) = self.rows;
        let width = self.walk.width;
        for i in 0..2 * width {
            // SAFETY: the caller gives room for twice the width.
            unsafe { *self.out.add(i) = 0.0 };
        }
        let mut sums = [Columns([0.0; WIDTH]); 2];
        while row < end {
            let stop = end.min(row + CHUNK);
            for sums in &mut sums {
                sums.0[..width].fill(0.0);
            }
            // SAFETY: rows below `end`, which lie within the walk; only its last one may have fewer columns.
            unsafe {
                while row < stop {
                    let columns = self.walk.columns(row);
                    if row + 4 < stop || row + 4 == stop && self.walk.columns(stop - 1) == columns {
                        self.add::<S, 4>(s, row, columns, &mut sums);
                        row += 4;
                    } else {
                        self.add::<S, 1>(s, row, columns, &mut sums);
                        row += 1;
                    }
                }
                for i in 0..width {
                    *self.out.add(i) += f64::from(sums[0].0[i]);
                    *self.out.add(width + i) += f64::from(sums[1].0[i]);
                }
            }
        }
    }
}

impl Cpu {
    /// Writes a formula's values over a walk.
    ///
    /// # Safety
    /// What the formula reads must cover the walk, and so must `out`.
    pub(super) unsafe fn each<F: Formula>(&mut self, walk: Walk, out: *mut f32, formula: F) {
        let (isa, shared) = (self.isa, Shared((formula, out)));
        self.divide(walk.len() >= self.tuning.parallel_elements, walk.rows, |_, first, end| {
            let (formula, out) = shared.get();
            // SAFETY: by the contract; parts have their own rows.
            unsafe { isa.run(Each { walk, rows: (first, end), formula, out }) }
        });
    }

    /// The two sums of each channel over all rows of a walk; `each(channel, first, second)` takes them.
    ///
    /// # Safety
    /// What the terms read must cover the walk.
    pub(super) unsafe fn pair_sums<T: Terms>(&mut self, walk: Walk, terms: T, mut each: impl FnMut(usize, f64, f64)) {
        let pieces = walk.rows.div_ceil(PIECE).clamp(1, PIECES);
        let size = walk.rows.div_ceil(pieces);
        let pieces = if size == 0 { 0 } else { walk.rows.div_ceil(size) };
        let (isa, shared) = (self.isa, Shared((terms, self.partial.as_ptr().cast::<f64>())));
        self.divide(walk.len() >= self.tuning.parallel_elements, pieces, |_, first, end| {
            let (terms, partial) = shared.get();
            for piece in first..end {
                let rows = (piece * size, walk.rows.min((piece + 1) * size));
                // SAFETY: by the contract; each piece has its own room in `partial`, which holds `PIECES` of the largest.
                unsafe { isa.run(PairSums { walk, rows, terms, out: partial.add(piece * 2 * walk.width) }) }
            }
        });
        // SAFETY: so much was written just now.
        let partial = unsafe { std::slice::from_raw_parts(shared.get().1, pieces * 2 * walk.width) };
        let mut sums = [[0.0; WIDTH]; 2];
        for piece in partial.chunks_exact(2 * walk.width) {
            for (sums, piece) in sums.iter_mut().zip(piece.chunks_exact(walk.width)) {
                sums.iter_mut().zip(piece).for_each(|(sum, piece)| *sum += piece);
            }
        }
        // Columns of one channel lie `channels` apart where rows were joined.
        let channels = walk.width.min(walk.channels - walk.first);
        for c in 0..channels {
            let total = |sums: &[f64]| sums[c..walk.width].iter().step_by(walk.channels).sum::<f64>();
            each(walk.first + c, total(&sums[0]), total(&sums[1]));
        }
    }
}
