//! The forward pass's innermost loop: a tile of dot products, all in registers.
//!
//! Per step along `k` a tile of R samples and O outputs reads R + O vectors for R·O multiply-adds: 10 for 24 at 4 × 6, well below the
//! two loads per cycle that the first-level cache gives. The sums over lanes are taken at the end, sixteen at a time, by transposing.

#![allow(clippy::needless_range_loop)] // indexed loops read as the formula, and unroll into registers

use crate::cpu::simd::Simd;

/// Operands of a tile: both row-major along `k`.
#[derive(Clone, Copy)]
pub(super) struct Dot {
    pub x: *const f32,
    pub w: *const f32,
    /// Elements from one row to the next, in both.
    pub stride: usize,
    /// Elements to multiply.
    pub k: usize,
    pub y: *mut f32,
    pub y_stride: usize,
    /// Null if none.
    pub bias: *const f32,
    /// Add to what `y` holds.
    pub add: bool,
}

/// Runs the tile of `rows` samples and `outputs` outputs.
///
/// # Safety
/// Pointers valid for the sizes; the tile no larger than `S::TILES` allows.
#[inline(always)]
pub(super) unsafe fn tile<S: Simd>(s: S, rows: usize, outputs: usize, dot: &Dot) {
    macro_rules! choose {
        ($(($r:literal, $o:literal))*) => {
            // SAFETY: the caller's promise.
            unsafe {
                match (rows, outputs) {
                    $(($r, $o) => fixed::<S, $r, $o>(s, dot),)*
                    _ => unreachable!("a dot tile of {rows} by {outputs}"),
                }
            }
        };
    }
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

/// # Safety
/// As for `tile`.
#[inline(always)]
unsafe fn fixed<S: Simd, const R: usize, const O: usize>(s: S, dot: &Dot) {
    let Dot { x, w, stride, k, y, y_stride, bias, add } = *dot;
    let mut sums = [[s.zero(); O]; R];
    let full = k / S::LANES * S::LANES;
    // SAFETY: rows of x and w are readable for k elements, the tile of y is writable, by the caller's promise.
    unsafe {
        let mut at = 0;
        while at < full {
            let mut xs = [s.zero(); R];
            for r in 0..R {
                xs[r] = s.load(x.add(r * stride + at));
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
                xs[r] = s.load_head(x.add(r * stride + full), mask);
            }
            for o in 0..O {
                let ws = s.load_head(w.add(o * stride + full), mask);
                for r in 0..R {
                    sums[r][o] = s.fma(xs[r], ws, sums[r][o]);
                }
            }
        }
        // All sums in a row, sample by sample, with room for the last vector store and for the vector loads below.
        let mut flat = [0.0_f32; 64];
        let mut first = 0;
        while first < R * O {
            let mut group = [s.zero(); 16];
            for (i, v) in group.iter_mut().enumerate().take(S::LANES) {
                if first + i < R * O {
                    *v = sums[(first + i) / O][(first + i) % O];
                }
            }
            s.store(flat.as_mut_ptr().add(first), s.sums(group));
            first += S::LANES;
        }
        let mask = s.head(O);
        let bias = if bias.is_null() { s.zero() } else { s.load_head(bias, mask) };
        for r in 0..R {
            let to = y.add(r * y_stride);
            let mut v = s.load(flat.as_ptr().add(r * O));
            if add {
                v = s.add(s.load_head(to, mask), v);
            }
            s.store_head(to, mask, s.add(v, bias));
        }
    }
}
