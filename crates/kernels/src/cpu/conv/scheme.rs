//! Winograd's minimal filtering (Lavin & Gray 2016): the transforms of F(2×2, 3×3), F(4×4, 3×3) and F(2×2, 5×5).
//!
//! An output tile of m×m comes from an input patch of (m+r−1)×(m+r−1) by `Aᵀ[(G g Gᵀ) ⊙ (Bᵀ d B)]A`: so many products as the
//! patch has places, instead of m²·r². The product is bilinear, so the weight gradient is its transpose with the same matrices:
//! `Gᵀ[(A dy Aᵀ) ⊙ (Bᵀ d B)]G`. The two schemes on 6×6 patches share the points 0, ±1, ±2, ∞ and so the input's transform.

#![allow(clippy::needless_range_loop)] // indexed loops read as the formula, and unroll into registers

use crate::cpu::simd::Simd;

/// Side of the largest patch of any scheme.
pub(super) const WIDEST: usize = 6;

/// Side of the largest kernel of any scheme.
pub(super) const LONGEST: usize = 5;

/// One scheme: transforms along one axis; the other axis is the same again.
pub(super) trait Scheme: Copy + Sync {
    /// Width of the input's patch.
    const PATCH: usize;
    /// Width of the output's tile.
    const TILE: usize;
    /// Width of the kernel.
    const KERNEL: usize;
    /// G, row by row: `PATCH` rows of `KERNEL` numbers.
    const G: [[f32; LONGEST]; WIDEST];

    /// Bᵀ d
    fn input<S: Simd>(s: S, d: [S::V; WIDEST]) -> [S::V; WIDEST];
    /// Aᵀ m, in the first `TILE` places
    fn output<S: Simd>(s: S, m: [S::V; WIDEST]) -> [S::V; WIDEST];
    /// A y, of the first `TILE` places
    fn spread<S: Simd>(s: S, y: [S::V; WIDEST]) -> [S::V; WIDEST];

    /// G g, of the first `KERNEL` places.
    #[inline(always)]
    fn kernel<S: Simd>(s: S, g: [S::V; WIDEST]) -> [S::V; WIDEST] {
        let mut u = [s.zero(); WIDEST];
        for i in 0..Self::PATCH {
            for j in 0..Self::KERNEL {
                if Self::G[i][j] != 0.0 {
                    u[i] = s.fma(s.splat(Self::G[i][j]), g[j], u[i]);
                }
            }
        }
        u
    }

    /// Gᵀ u, in the first `KERNEL` places.
    #[inline(always)]
    fn gather<S: Simd>(s: S, u: [S::V; WIDEST]) -> [S::V; WIDEST] {
        let mut g = [s.zero(); WIDEST];
        for i in 0..Self::PATCH {
            for j in 0..Self::KERNEL {
                if Self::G[i][j] != 0.0 {
                    g[j] = s.fma(s.splat(Self::G[i][j]), u[i], g[j]);
                }
            }
        }
        g
    }
}

/// F(2×2, 3×3)
#[derive(Clone, Copy)]
pub(super) struct Tile2Kernel3;
/// F(4×4, 3×3)
#[derive(Clone, Copy)]
pub(super) struct Tile4Kernel3;
/// F(2×2, 5×5)
#[derive(Clone, Copy)]
pub(super) struct Tile2Kernel5;

impl Scheme for Tile2Kernel3 {
    const PATCH: usize = 4;
    const TILE: usize = 2;
    const KERNEL: usize = 3;
    const G: [[f32; LONGEST]; WIDEST] = [
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [0.5, 0.5, 0.5, 0.0, 0.0],
        [0.5, -0.5, 0.5, 0.0, 0.0],
        [0.0, 0.0, 1.0, 0.0, 0.0],
        [0.0; LONGEST],
        [0.0; LONGEST],
    ];

    #[inline(always)]
    fn input<S: Simd>(s: S, d: [S::V; WIDEST]) -> [S::V; WIDEST] {
        let z = s.zero();
        [s.sub(d[0], d[2]), s.add(d[1], d[2]), s.sub(d[2], d[1]), s.sub(d[1], d[3]), z, z]
    }
    #[inline(always)]
    fn output<S: Simd>(s: S, m: [S::V; WIDEST]) -> [S::V; WIDEST] {
        let z = s.zero();
        [s.add(s.add(m[0], m[1]), m[2]), s.sub(s.sub(m[1], m[2]), m[3]), z, z, z, z]
    }
    #[inline(always)]
    fn spread<S: Simd>(s: S, y: [S::V; WIDEST]) -> [S::V; WIDEST] {
        let z = s.zero();
        [y[0], s.add(y[0], y[1]), s.sub(y[0], y[1]), s.sub(z, y[1]), z, z]
    }
}

/// Bᵀ for the points 0, ±1, ±2, ∞.
#[inline(always)]
fn input_of_six<S: Simd>(s: S, d: [S::V; WIDEST]) -> [S::V; WIDEST] {
    let (two, four, five) = (s.splat(2.0), s.splat(4.0), s.splat(5.0));
    let even = s.sub_mul(four, d[2], d[4]); // d4 − 4 d2
    let odd = s.sub_mul(four, d[1], d[3]); // d3 − 4 d1
    let near = s.sub(d[4], d[2]);
    let far = s.sub(d[3], d[1]);
    [
        s.fma(four, d[0], s.sub_mul(five, d[2], d[4])),
        s.add(even, odd),
        s.sub(even, odd),
        s.fma(two, far, near),
        s.sub_mul(two, far, near),
        s.fma(four, d[1], s.sub_mul(five, d[3], d[5])),
    ]
}

/// The factor of each point's row of G.
const FACTORS: [f32; 5] = [0.25, -1.0 / 6.0, -1.0 / 6.0, 1.0 / 24.0, 1.0 / 24.0];
const POINTS: [f32; 5] = [0.0, 1.0, -1.0, 2.0, -2.0];

/// Row i is the powers of point i, times its factor; the last row belongs to infinity.
const fn powers(kernel: usize) -> [[f32; LONGEST]; WIDEST] {
    let mut g = [[0.0; LONGEST]; WIDEST];
    let mut i = 0;
    while i < 5 {
        let (mut power, mut j) = (1.0, 0);
        while j < kernel {
            g[i][j] = FACTORS[i] * power;
            power *= POINTS[i];
            j += 1;
        }
        i += 1;
    }
    g[5][kernel - 1] = 1.0;
    g
}

impl Scheme for Tile4Kernel3 {
    const PATCH: usize = 6;
    const TILE: usize = 4;
    const KERNEL: usize = 3;
    const G: [[f32; LONGEST]; WIDEST] = powers(3);

    #[inline(always)]
    fn input<S: Simd>(s: S, d: [S::V; WIDEST]) -> [S::V; WIDEST] {
        input_of_six(s, d)
    }
    #[inline(always)]
    fn output<S: Simd>(s: S, m: [S::V; WIDEST]) -> [S::V; WIDEST] {
        let (two, four, eight) = (s.splat(2.0), s.splat(4.0), s.splat(8.0));
        let (near, near_odd) = (s.add(m[1], m[2]), s.sub(m[1], m[2]));
        let (far, far_odd) = (s.add(m[3], m[4]), s.sub(m[3], m[4]));
        let z = s.zero();
        [
            s.add(s.add(m[0], near), far),
            s.fma(two, far_odd, near_odd),
            s.fma(four, far, near),
            s.add(s.fma(eight, far_odd, near_odd), m[5]),
            z,
            z,
        ]
    }
    #[inline(always)]
    fn spread<S: Simd>(s: S, y: [S::V; WIDEST]) -> [S::V; WIDEST] {
        let (two, four, eight) = (s.splat(2.0), s.splat(4.0), s.splat(8.0));
        let (even, odd) = (s.add(y[0], y[2]), s.add(y[1], y[3]));
        let far_even = s.fma(four, y[2], y[0]);
        let far_odd = s.fma(eight, y[3], s.mul(two, y[1]));
        [y[0], s.add(even, odd), s.sub(even, odd), s.add(far_even, far_odd), s.sub(far_even, far_odd), y[3]]
    }
}

impl Scheme for Tile2Kernel5 {
    const PATCH: usize = 6;
    const TILE: usize = 2;
    const KERNEL: usize = 5;
    const G: [[f32; LONGEST]; WIDEST] = powers(5);

    #[inline(always)]
    fn input<S: Simd>(s: S, d: [S::V; WIDEST]) -> [S::V; WIDEST] {
        input_of_six(s, d)
    }
    #[inline(always)]
    fn output<S: Simd>(s: S, m: [S::V; WIDEST]) -> [S::V; WIDEST] {
        let z = s.zero();
        let (near, far) = (s.add(m[1], m[2]), s.add(m[3], m[4]));
        let (near_odd, far_odd) = (s.sub(m[1], m[2]), s.sub(m[3], m[4]));
        [s.add(s.add(m[0], near), far), s.add(s.fma(s.splat(2.0), far_odd, near_odd), m[5]), z, z, z, z]
    }
    #[inline(always)]
    fn spread<S: Simd>(s: S, y: [S::V; WIDEST]) -> [S::V; WIDEST] {
        let two = s.splat(2.0);
        [y[0], s.add(y[0], y[1]), s.sub(y[0], y[1]), s.fma(two, y[1], y[0]), s.sub_mul(two, y[1], y[0]), y[1]]
    }
}
