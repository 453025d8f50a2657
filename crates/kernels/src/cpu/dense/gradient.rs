//! Both backward passes: `c = a·b` by tiles of outer products, blocked for the caches, and what is done with a finished tile.
//!
//! Columns are taken in strips of a few vectors. A strip of `b` is copied into a packed panel when many tiles will read it; sums over more
//! terms than a panel holds wait in `c`, or in scratch if the gradient is used up at once and never stored.

use super::outer::{Outer, tiles};
use super::tiles::Pieces;
use crate::cpu::activate::ActivateBackward;
use crate::cpu::isa::Body;
use crate::cpu::rule::{Constants, Parameters, Update};
use crate::cpu::simd::Simd;
use crate::cpu::submit::Arguments;
use crate::tuning::Blocks;
use paceline_base::op::Activation;

/// What becomes of a finished tile.
#[derive(Clone, Copy)]
pub(crate) enum Finish {
    /// It stays in `c`.
    Store,
    /// It is multiplied by f′ of the values saved at the same places, and stays in `c`.
    Through(Activation, *const f32),
    /// It moves the parameters at the same places; `c` is not used.
    Update(Constants, Parameters),
}

/// Tiles that are finished in one go.
const FINISHED_TOGETHER: usize = 4;

/// A part of `c[rows, columns] = a[rows, terms] · b[terms, columns]`.
#[derive(Clone, Copy)]
pub(crate) struct Product {
    pub a: *const f32,
    /// Strides of `a` along rows and terms.
    pub a_strides: (usize, usize),
    pub b: *const f32,
    /// Columns of the whole product: the stride of `b` and `c`.
    pub stride: usize,
    pub terms: usize,
    pub c: *mut f32,
    pub finish: Finish,
    /// This part's rows, first and one past the last.
    pub rows: (usize, usize),
    /// This part's columns.
    pub columns: (usize, usize),
    /// Take the strips from the last to the first. Updates change direction with every step: the parameters and states that were
    /// touched last are then touched first, while they are still in the cache. Bits do not depend on it.
    pub backwards: bool,
    /// Take `b` as it lies in memory, a few terms at a time; sums wait in `c`, so that `finish` must not be an update.
    pub streams: bool,
    pub blocks: Blocks,
    /// This thread's scratch: `Blocks::scratch()` elements, 64-byte aligned.
    pub scratch: *mut f32,
}

/// A strip of columns: so many whole vectors, or (0 vectors) one partial vector.
#[derive(Clone, Copy)]
struct Strip {
    start: usize,
    vectors: usize,
    len: usize,
}

// SAFETY: numbers and pointers into device memory.
unsafe impl Arguments for Product {}

impl Body for Product {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let (first, last) = self.columns;
        let whole = (last - first) / S::LANES;
        // A factor that lies across the terms is read a few elements per cache line: packed, if it is read often.
        let pack = self.a_strides.0 == 1
            && self.terms >= self.blocks.pack_terms
            && self.rows.1 - self.rows.0 >= S::TILES.outer.0
            && whole >= 4 * S::TILES.outer.1
            && self.terms <= self.blocks.factor_elements / S::TILES.outer.0;
        let most = if pack {
            self.blocks.row_block.min(self.blocks.factor_elements / self.terms)
        } else {
            self.blocks.row_block
        };
        // A second factor that does not fit the caches passes by once, row by row as it lies in memory: a few terms at a time for all
        // columns, while the sums wait in the second-level cache.
        let step = if self.streams { STREAMED } else { self.terms.max(1) };
        let mut j = 0;
        loop {
            let terms = (self.terms - j).min(step);
            for (row, rows) in Pieces::new(self.rows.0, self.rows.1, most) {
                if pack && j == 0 {
                    // SAFETY: these rows lie within this part, and scratch has room for them.
                    unsafe { self.pack_factor(s, row, rows) };
                }
                for (v, vectors) in Pieces::new(0, whole, S::TILES.outer.1) {
                    let v = if self.backwards { whole - v - vectors } else { v };
                    let strip = Strip { start: first + v * S::LANES, vectors, len: vectors * S::LANES };
                    // SAFETY: the strip lies within this part.
                    unsafe { self.strip(s, row, rows, strip, pack, (j, j + terms)) };
                }
                let rest = last - first - whole * S::LANES;
                if rest > 0 {
                    let strip = Strip { start: last - rest, vectors: 0, len: rest };
                    // SAFETY: as above.
                    unsafe { self.strip(s, row, rows, strip, pack, (j, j + terms)) };
                }
            }
            j += terms;
            if j == self.terms {
                return;
            }
        }
    }
}

/// Terms of a pass over all columns.
const STREAMED: usize = 16;

impl Product {
    /// Where the packed first factor lies.
    #[inline(always)]
    fn factor(&self) -> *mut f32 {
        self.scratch.wrapping_add(64 * (self.blocks.term_block + self.blocks.row_block))
    }

    /// Copies a block of rows of `a`, tile by tile, each tile's values of one term side by side.
    ///
    /// # Safety
    /// As for `run`; rows are contiguous in `a`, and no more than scratch has room for.
    #[inline(always)]
    unsafe fn pack_factor<S: Simd>(&self, s: S, row: usize, rows: usize) {
        for (i, tile_rows, count) in Pieces::new(row, row + rows, S::TILES.outer.0).runs() {
            let mask = s.head(tile_rows);
            for j in 0..self.terms {
                for tile in 0..count {
                    // SAFETY: within this part's rows and terms, and within scratch.
                    unsafe {
                        let from = self.a.add(i + tile * tile_rows + j * self.a_strides.1);
                        let to = self.factor().add((i - row + tile * tile_rows) * self.terms + j * tile_rows);
                        s.store_head(to, mask, s.load_head(from, mask));
                    }
                }
            }
        }
    }

    /// # Safety
    /// As for `run`.
    #[inline(always)]
    unsafe fn strip<S: Simd>(
        &self,
        s: S,
        row: usize,
        rows: usize,
        strip: Strip,
        packed: bool,
        (mut j, end): (usize, usize),
    ) {
        let Blocks { term_block, .. } = self.blocks;
        let width = S::TILES.outer.1 * S::LANES; // of a packed panel and of partial sums: a strip, at most 64
        let panel = self.scratch;
        let partial_sums = self.scratch.wrapping_add(term_block * width);
        let often = rows >= self.blocks.pack_rows && self.terms >= self.blocks.pack_terms;
        let pack = (often || self.streams) && strip.vectors > 0;
        // Runs once also without terms: the gradient is then zero, and an update still happens.
        loop {
            let terms = (end - j).min(term_block);
            let done = j + terms == self.terms;
            // SAFETY: all places lie within this part's operands, or within scratch.
            unsafe {
                let mut b = self.b.add(j * self.stride + strip.start);
                let mut b_stride = self.stride;
                if pack {
                    for t in 0..terms {
                        for v in 0..strip.vectors {
                            let x = s.load(b.add(t * self.stride + v * S::LANES));
                            s.store(panel.add(t * width + v * S::LANES), x);
                        }
                    }
                    (b, b_stride) = (panel.cast_const(), width);
                }
                for (i, tile_rows, count) in Pieces::new(row, row + rows, S::TILES.outer.0).runs() {
                    // Finished a few tiles at a time, while they are in the first-level cache.
                    let mut next = 0;
                    while next < count {
                        let count = (count - next).min(FINISHED_TOGETHER);
                        let i = i + next * tile_rows;
                        let (c, c_stride) = match self.finish {
                            Finish::Update(..) => (partial_sums.add((i - row) * width), width),
                            _ => (self.c.add(i * self.stride + strip.start), self.stride),
                        };
                        let (a_i, a_j) = self.a_strides;
                        let (a, a_i, a_j, a_next) = if packed {
                            let tile = self.factor().add((i - row) * self.terms + j * tile_rows);
                            (tile.cast_const(), 1, tile_rows, tile_rows * self.terms)
                        } else {
                            (self.a.add(i * a_i + j * a_j), a_i, a_j, tile_rows * a_i)
                        };
                        let outer = Outer {
                            a,
                            a_i,
                            a_j,
                            a_next,
                            b,
                            b_stride,
                            j: terms,
                            c,
                            c_stride,
                            add: j > 0,
                            last: false,
                            count,
                        };
                        tiles(s, tile_rows, strip.vectors, strip.len, &outer);
                        if done {
                            self.finish(s, i, count * tile_rows, strip, c);
                        }
                        next += count;
                    }
                }
            }
            j += terms;
            if j == end {
                return;
            }
        }
    }

    /// # Safety
    /// As for `run`; `c` is the finished tile.
    #[inline(always)]
    unsafe fn finish<S: Simd>(&self, s: S, row: usize, rows: usize, strip: Strip, c: *mut f32) {
        // SAFETY: all places lie within this part's operands, or within scratch.
        unsafe {
            match &self.finish {
                Finish::Store => {}
                Finish::Through(f, saved) => {
                    for i in 0..rows {
                        let dx = c.add(i * self.stride);
                        let saved = saved.add((row + i) * self.stride + strip.start);
                        ActivateBackward { f: *f, dy: dx, saved, dx, len: strip.len }.run(s);
                    }
                }
                Finish::Update(constants, parameters) => {
                    let parameters = parameters.add(row * self.stride + strip.start);
                    let (stride, g, len) = (self.stride, c.cast_const(), strip.len);
                    let g_stride = S::TILES.outer.1 * S::LANES;
                    Update { constants, parameters, stride, g, g_stride, rows, len }.run(s);
                }
            }
        }
    }
}

/// `db = Σ_rows dy`, for some outputs, in the order of the rows.
pub(crate) struct BiasGradient {
    pub dy: *const f32,
    pub rows: usize,
    pub outputs: usize,
    /// Where the sums go, unless they move parameters.
    pub db: *mut f32,
    pub update: Option<(Constants, Parameters)>,
}

impl Body for BiasGradient {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let mut at = 0;
        while at < self.outputs {
            let len = (self.outputs - at).min(S::LANES);
            let mask = s.head(len);
            // SAFETY: lanes below `outputs` only; the caller vouches for the pointers.
            unsafe {
                let mut sum = s.zero();
                for r in 0..self.rows {
                    sum = s.add(sum, s.load_head(self.dy.add(r * self.outputs + at), mask));
                }
                match &self.update {
                    None => s.store_head(self.db.add(at), mask, sum),
                    Some((constants, parameters)) => {
                        let mut g = [0.0; 16];
                        s.store(g.as_mut_ptr(), sum);
                        let (parameters, g) = (parameters.add(at), g.as_ptr());
                        Update { constants, parameters, stride: 0, g, g_stride: 0, rows: 1, len }.run(s);
                    }
                }
            }
            at += S::LANES;
        }
    }
}
