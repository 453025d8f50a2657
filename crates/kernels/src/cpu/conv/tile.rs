//! The innermost loop of every convolution: a tile of sums of outer products, all in registers.
//!
//! A tile of R rows and V vectors reads V vectors and R single values for R·V multiply-adds. Rows are pixels (or tiles of
//! pixels, or channels, for weight gradients), vectors are output channels. With few vectors a tile has more rows, so that
//! the multipliers always have enough independent sums under way.

#![allow(clippy::needless_range_loop)] // indexed loops read as the formula, and unroll into registers

use crate::cpu::dense::Pieces;
use crate::cpu::isa::Body;
use crate::cpu::simd::Simd;

/// What a tile begins with.
#[derive(Clone, Copy)]
pub(super) enum Start {
    /// Zero.
    Zero,
    /// What `c` holds.
    Add,
    /// These values, one for each column.
    Bias(*const f32),
}

/// `c[i, k] = f(start + Σ_run Σ_j a[i·a_row + offset_run + j·a_term] · b[run·b_run + j·b_term + k])`
#[derive(Clone, Copy)]
pub(super) struct Product {
    pub a: *const f32,
    pub a_row: usize,
    pub a_term: usize,
    /// Where each run begins in `a`.
    pub offsets: *const usize,
    pub runs: usize,
    /// Terms of a run.
    pub terms: usize,
    pub b: *const f32,
    pub b_run: usize,
    pub b_term: usize,
    pub c: *mut f32,
    pub c_row: usize,
    pub start: Start,
    /// Whether negative results become zero.
    pub relu: bool,
}

/// The one offset of a product with one run.
pub(super) static NO_OFFSET: [usize; 1] = [0];

/// Most vectors of a tile.
pub(super) const fn most_vectors(lanes: usize) -> usize {
    if lanes == 16 { 4 } else { 3 }
}

/// Most rows of a tile of so many vectors: 32 registers hold 28 sums, 16 hold 12.
#[inline(always)]
const fn most_rows(lanes: usize, vectors: usize) -> usize {
    match (lanes == 16, vectors) {
        (true, 1) => 14,
        (true, 2) => 12,
        (true, 3) => 8,
        (true, _) => 6,
        (false, 1) => 12,
        (false, 2) => 6,
        (false, _) => 4,
    }
}

/// Computes `rows` rows of `columns` columns, at most [`most_vectors`] vectors; the last vector may be partial.
///
/// # Safety
/// Pointers valid for the sizes; `b` readable in whole vectors.
#[inline(always)]
pub(super) unsafe fn product<S: Simd>(s: S, rows: usize, columns: usize, whole: &Product) {
    let vectors = columns.div_ceil(S::LANES);
    let last = columns - (vectors - 1) * S::LANES;
    for (i, size, count) in Pieces::new(0, rows, most_rows(S::LANES, vectors)).runs() {
        if count == 0 {
            continue;
        }
        let mut p = *whole;
        p.a = p.a.wrapping_add(i * p.a_row);
        p.c = p.c.wrapping_add(i * p.c_row);
        // SAFETY: the caller's promise.
        unsafe { tiles(s, size, vectors, &Tiles { p, count, last }) };
    }
}

/// Tiles of equal size, one below the other.
#[derive(Clone, Copy)]
struct Tiles {
    p: Product,
    count: usize,
    /// Columns in the last vector.
    last: usize,
}

#[inline(always)]
unsafe fn tiles<S: Simd>(s: S, rows: usize, vectors: usize, t: &Tiles) {
    macro_rules! choose {
        ($(($i:literal, $v:literal))*) => {
            // SAFETY: the caller's promise.
            unsafe {
                match (rows, vectors) {
                    $(($i, $v) => s.apart(Fixed::<$i, $v>(t)),)*
                    _ => unreachable!("a tile of {rows} by {vectors}"),
                }
            }
        };
    }
    if S::LANES == 16 {
        choose! {
            (1, 1) (2, 1) (3, 1) (4, 1) (5, 1) (6, 1) (7, 1) (8, 1) (9, 1) (10, 1) (11, 1) (12, 1) (13, 1) (14, 1)
            (1, 2) (2, 2) (3, 2) (4, 2) (5, 2) (6, 2) (7, 2) (8, 2) (9, 2) (10, 2) (11, 2) (12, 2)
            (1, 3) (2, 3) (3, 3) (4, 3) (5, 3) (6, 3) (7, 3) (8, 3)
            (1, 4) (2, 4) (3, 4) (4, 4) (5, 4) (6, 4)
        }
    } else {
        choose! {
            (1, 1) (2, 1) (3, 1) (4, 1) (5, 1) (6, 1) (7, 1) (8, 1) (9, 1) (10, 1) (11, 1) (12, 1)
            (1, 2) (2, 2) (3, 2) (4, 2) (5, 2) (6, 2)
            (1, 3) (2, 3) (3, 3) (4, 3)
        }
    }
}

/// The same pointer, of which the compiler does not know how it moves. Left to itself it makes one moving pointer of every row, more
/// than there are registers, and the loop then waits for the stack (a tile of 14 rows ran at a third of its speed).
#[inline(always)]
fn opaque(pointer: *const f32) -> *const f32 {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        let mut address = pointer.addr();
        // SAFETY: no instruction at all.
        unsafe { std::arch::asm!("/* {0} */", inout(reg) address, options(pure, nomem, nostack, preserves_flags)) };
        pointer.with_addr(address)
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    pointer
}

struct Fixed<'a, const R: usize, const V: usize>(&'a Tiles);

impl<const R: usize, const V: usize> Body for Fixed<'_, R, V> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let Tiles { p, count, last } = *self.0;
        let partial = last < S::LANES;
        let mask = s.head(last);
        // SAFETY: all of a, b and c that the tiles cover is valid, by the caller's promise.
        unsafe {
            let (mut a_first, mut c) = (p.a, p.c);
            for _ in 0..count {
                let mut sums = [[s.zero(); V]; R];
                match p.start {
                    Start::Zero => {}
                    Start::Add => {
                        for i in 0..R {
                            for v in 0..V {
                                let from = c.add(i * p.c_row + v * S::LANES);
                                sums[i][v] = if partial && v + 1 == V { s.load_head(from, mask) } else { s.load(from) };
                            }
                        }
                    }
                    Start::Bias(bias) => {
                        for v in 0..V {
                            let from = bias.add(v * S::LANES);
                            let x = if partial && v + 1 == V { s.load_head(from, mask) } else { s.load(from) };
                            for i in 0..R {
                                sums[i][v] = x;
                            }
                        }
                    }
                }
                for run in 0..p.runs {
                    let a = a_first.wrapping_add(*p.offsets.add(run));
                    // Rows in groups of four: few enough pointers to stay in registers.
                    let mut groups = [a; 4];
                    for g in 1..R.div_ceil(4) {
                        groups[g] = a.wrapping_add(4 * g * p.a_row);
                    }
                    let mut b = p.b.add(run * p.b_run);
                    for _ in 0..p.terms {
                        let mut bs = [s.zero(); V];
                        for v in 0..V {
                            bs[v] = s.load(b.add(v * S::LANES));
                        }
                        for i in 0..R {
                            let value = s.splat(*groups[i / 4].add(i % 4 * p.a_row));
                            for v in 0..V {
                                sums[i][v] = s.fma(value, bs[v], sums[i][v]);
                            }
                        }
                        for g in 0..R.div_ceil(4) {
                            groups[g] = opaque(groups[g].wrapping_add(p.a_term));
                        }
                        b = b.wrapping_add(p.b_term);
                    }
                }
                if p.relu {
                    for i in 0..R {
                        for v in 0..V {
                            sums[i][v] = s.max(s.zero(), sums[i][v]);
                        }
                    }
                }
                for i in 0..R {
                    for v in 0..V {
                        let to = c.add(i * p.c_row + v * S::LANES);
                        if partial && v + 1 == V {
                            s.store_head(to, mask, sums[i][v]);
                        } else {
                            s.store(to, sums[i][v]);
                        }
                    }
                }
                a_first = a_first.wrapping_add(R * p.a_row);
                c = c.wrapping_add(R * p.c_row);
            }
        }
    }
}
