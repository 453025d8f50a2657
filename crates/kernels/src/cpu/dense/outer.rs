//! The backward passes' innermost loop: a tile of sums of outer products, all in registers.
//!
//! Per step along `j` a tile of I rows and V vectors reads V vectors and I single values for I·V multiply-adds.

#![allow(clippy::needless_range_loop)] // indexed loops read as the formula, and unroll into registers

use crate::cpu::isa::Body;
use crate::cpu::simd::Simd;

/// `c[i, k] (+)= Σ_j a[i, j] · b[j, k]`; `a` has a stride for each axis, so that it may lie either way round.
#[derive(Clone, Copy)]
pub(crate) struct Outer {
    pub a: *const f32,
    pub a_i: usize,
    pub a_j: usize,
    /// From one tile to the next.
    pub a_next: usize,
    pub b: *const f32,
    pub b_stride: usize,
    /// Terms to add.
    pub j: usize,
    pub c: *mut f32,
    pub c_stride: usize,
    /// Add to what `c` holds.
    pub add: bool,
    /// Add it last, to a sum that began at zero: shorter chains, and so less rounding.
    pub last: bool,
    /// How many tiles, one below the other.
    pub count: usize,
}

/// Runs `outer.count` tiles of `rows` rows and `vectors` whole vectors each; without vectors there is one of only `partial` elements.
///
/// # Safety
/// Pointers valid for the sizes; a tile no larger than `S::TILES` allows.
#[inline(always)]
pub(crate) unsafe fn tiles<S: Simd>(s: S, rows: usize, vectors: usize, partial: usize, outer: &Outer) {
    macro_rules! choose {
        ($(($i:literal, $v:literal))*) => {
            // SAFETY: the caller's promise.
            unsafe {
                match (rows, vectors) {
                    $(($i, $v) => s.apart(Fixed::<$i, $v, false>(outer, 0)),)*
                    (1, 0) => s.apart(Fixed::<1, 1, true>(outer, partial)),
                    (2, 0) => s.apart(Fixed::<2, 1, true>(outer, partial)),
                    (3, 0) => s.apart(Fixed::<3, 1, true>(outer, partial)),
                    (4, 0) => s.apart(Fixed::<4, 1, true>(outer, partial)),
                    (5, 0) => s.apart(Fixed::<5, 1, true>(outer, partial)),
                    (6, 0) => s.apart(Fixed::<6, 1, true>(outer, partial)),
                    _ => unreachable!("an outer tile of {rows} by {vectors}"),
                }
            }
        };
    }
    if S::LANES == 16 {
        choose! {
            (1, 1) (1, 2) (1, 3) (1, 4)
            (2, 1) (2, 2) (2, 3) (2, 4)
            (3, 1) (3, 2) (3, 3) (3, 4)
            (4, 1) (4, 2) (4, 3) (4, 4)
            (5, 1) (5, 2) (5, 3) (5, 4)
            (6, 1) (6, 2) (6, 3) (6, 4)
        }
    } else {
        choose! {
            (1, 1) (1, 2)
            (2, 1) (2, 2)
            (3, 1) (3, 2)
            (4, 1) (4, 2)
            (5, 1) (5, 2)
            (6, 1) (6, 2)
        }
    }
}

/// Tiles of fixed size, of whole vectors or of one that is partial.
struct Fixed<'a, const I: usize, const V: usize, const PARTIAL: bool>(&'a Outer, usize);

impl<const I: usize, const V: usize, const PARTIAL: bool> Body for Fixed<'_, I, V, PARTIAL> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let Outer { a: mut first, a_i, a_j, a_next, b: top, b_stride, j, mut c, c_stride, add, last, count } = *self.0;
        let mask = s.head(if PARTIAL { self.1 } else { S::LANES });
        // SAFETY: all of a, b and c that the tiles cover is valid, by the caller's promise.
        unsafe {
            for _ in 0..count {
                let mut sums = [[s.zero(); V]; I];
                let (mut a, mut b) = (first, top);
                if add && !last {
                    for i in 0..I {
                        for v in 0..V {
                            let from = c.add(i * c_stride + v * S::LANES);
                            sums[i][v] = if PARTIAL { s.load_head(from, mask) } else { s.load(from) };
                        }
                    }
                }
                for _ in 0..j {
                    let mut bs = [s.zero(); V];
                    for v in 0..V {
                        let from = b.add(v * S::LANES);
                        bs[v] = if PARTIAL { s.load_head(from, mask) } else { s.load(from) };
                    }
                    for i in 0..I {
                        let value = s.splat(*a.add(i * a_i));
                        for v in 0..V {
                            sums[i][v] = s.fma(value, bs[v], sums[i][v]);
                        }
                    }
                    a = a.wrapping_add(a_j);
                    b = b.wrapping_add(b_stride);
                }
                for i in 0..I {
                    for v in 0..V {
                        let to = c.add(i * c_stride + v * S::LANES);
                        if add && last {
                            let before = if PARTIAL { s.load_head(to, mask) } else { s.load(to) };
                            sums[i][v] = s.add(before, sums[i][v]);
                        }
                        if PARTIAL {
                            s.store_head(to, mask, sums[i][v]);
                        } else {
                            s.store(to, sums[i][v]);
                        }
                    }
                }
                first = first.wrapping_add(a_next);
                c = c.wrapping_add(I * c_stride);
            }
        }
    }
}
