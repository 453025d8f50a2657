//! The forward pass's innermost loop: a tile of dot products, all in registers.
//!
//! Per step along `k` a tile of R samples and O outputs reads R + O vectors for R·O multiply-adds: 10 for 24 at 4 × 6, well below the
//! two loads per cycle that the first-level cache gives. The sums over lanes are taken afterwards, sixteen at a time, by transposing.

#![allow(clippy::needless_range_loop)] // indexed loops read as the formula, and unroll into registers

use crate::cpu::isa::Body;
use crate::cpu::simd::Simd;

/// Elements that a tile's vectors of partial sums take, with room for a last incomplete group.
pub(super) const PARTIAL_SUMS: usize = 16 * 32;

/// Operands of a column of tiles, one below the other: all row-major along `k`.
#[derive(Clone, Copy)]
pub(super) struct Dot {
    pub x: *const f32,
    /// Elements from one row of `x` to the next.
    pub x_stride: usize,
    pub w: *const f32,
    /// Elements from one row of `w` to the next.
    pub stride: usize,
    /// Elements to multiply.
    pub k: usize,
    pub y: *mut f32,
    pub y_stride: usize,
    /// Null if none.
    pub bias: *const f32,
    /// Add to what `y` holds.
    pub add: bool,
    /// How many tiles.
    pub count: usize,
    /// Scratch for partial sums: `PARTIAL_SUMS` elements.
    pub sums: *mut f32,
}

/// Runs `dot.count` tiles of `rows` samples and `outputs` outputs each.
///
/// # Safety
/// Pointers valid for the sizes; a tile no larger than `S::TILES` allows.
#[inline(always)]
pub(super) unsafe fn tiles<S: Simd>(s: S, rows: usize, outputs: usize, dot: &Dot) {
    macro_rules! choose {
        ($(($r:literal, $o:literal))*) => {
            match (rows, outputs) {
                $(($r, $o) => s.apart(Fixed::<$r, $o>(dot)),)*
                _ => unreachable!("a dot tile of {rows} by {outputs}"),
            }
        };
    }
    // SAFETY: the caller's promise.
    unsafe {
        if S::LANES == 16 {
            choose! {
                (1, 1) (1, 2) (1, 3) (1, 4) (1, 5) (1, 6) (1, 7) (1, 8) (1, 9) (1, 10)
                (2, 1) (2, 2) (2, 3) (2, 4) (2, 5) (2, 6) (2, 7) (2, 8) (2, 9) (2, 10)
                (3, 1) (3, 2) (3, 3) (3, 4) (3, 5) (3, 6)
                (4, 1) (4, 2) (4, 3) (4, 4) (4, 5) (4, 6)
            }
        } else {
            choose! {
                (1, 1) (1, 2) (1, 3) (1, 4)
                (2, 1) (2, 2) (2, 3) (2, 4)
                (3, 1) (3, 2) (3, 3) (3, 4)
            }
        }
    }
}

/// Tiles of R samples and O outputs.
struct Fixed<'a, const R: usize, const O: usize>(&'a Dot);

impl<const R: usize, const O: usize> Body for Fixed<'_, R, O> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let mut dot = *self.0;
        let mask = s.head(O);
        // SAFETY: all rows of x, w and y that the tiles cover are valid, by the caller's promise.
        unsafe {
            let bias = if dot.bias.is_null() { s.zero() } else { s.load_head(dot.bias, mask) };
            for _ in 0..dot.count {
                products::<S, R, O>(s, &dot);
                // The compiler must not see through the memory that lies between loop and reduction: with all of these values live across
                // both it finds no allocation of registers that keeps the loop free of spills.
                let sums = std::hint::black_box(dot.sums);
                reduce::<S, R, O>(s, sums, &dot, mask, bias);
                dot.x = dot.x.wrapping_add(R * dot.x_stride);
                dot.y = dot.y.wrapping_add(R * dot.y_stride);
            }
        }
    }
}

/// Multiplies a tile; the lane sums go to `sums`, sample by sample.
///
/// # Safety
/// As for `tiles`.
#[inline(always)]
unsafe fn products<S: Simd, const R: usize, const O: usize>(s: S, dot: &Dot) {
    let Dot { x, x_stride, w, stride, k, sums: to, .. } = *dot;
    let mut sums = [[s.zero(); O]; R];
    let full = k / S::LANES * S::LANES;
    // SAFETY: rows of x and w are readable for k elements, and `to` is large enough, by the caller's promise.
    unsafe {
        let mut at = 0;
        while at < full {
            let mut xs = [s.zero(); R];
            for r in 0..R {
                xs[r] = s.load(x.add(r * x_stride + at));
            }
            for o in 0..O {
                let ws = s.load(w.add(o * stride + at));
                for r in 0..R {
                    sums[r][o] = s.fma(xs[r], ws, sums[r][o]);
                }
            }
            at += S::LANES;
        }
        if full < k {
            let mask = s.head(k - full);
            let mut xs = [s.zero(); R];
            for r in 0..R {
                xs[r] = s.load_head(x.add(r * x_stride + full), mask);
            }
            for o in 0..O {
                let ws = s.load_head(w.add(o * stride + full), mask);
                for r in 0..R {
                    sums[r][o] = s.fma(xs[r], ws, sums[r][o]);
                }
            }
        }
        for r in 0..R {
            for o in 0..O {
                s.store(to.add((r * O + o) * S::LANES), sums[r][o]);
            }
        }
    }
}

/// Sums over lanes, adds the bias, and writes the tile of `y`.
///
/// # Safety
/// As for `tiles`; `sums` holds the tile's vectors of partial sums.
#[inline(always)]
unsafe fn reduce<S: Simd, const R: usize, const O: usize>(s: S, sums: *const f32, dot: &Dot, mask: S::M, bias: S::V) {
    // All sums in a row, sample by sample, with room for the vector loads below.
    let mut flat = [0.0_f32; 64];
    let mut first = 0;
    // SAFETY: `PARTIAL_SUMS` has room for whole groups; the tile of y is writable, by the caller's promise.
    unsafe {
        while first < R * O {
            let low = s.sums_of_eight(sums.add(first * S::LANES));
            let mut group = low;
            if S::LANES == 16 {
                let high = if first + 8 < R * O { s.sums_of_eight(sums.add((first + 8) * S::LANES)) } else { low };
                group = s.fold::<8>(low, high);
            }
            s.store(flat.as_mut_ptr().add(first), group);
            first += S::LANES;
        }
        for r in 0..R {
            let to = dot.y.add(r * dot.y_stride);
            let mut v = s.load(flat.as_ptr().add(r * O));
            if dot.add {
                v = s.add(s.load_head(to, mask), v);
            }
            s.store_head(to, mask, s.add(v, bias));
        }
    }
}
