//! Freivalds' check: C·x against A·(B·x), for random vectors x of ±1 that the product knows nothing of.
//!
//! Sixteen vectors at once, in f64, so that a pass over a block serves all of them: O(n²) where the product took O(n³). If C
//! differs from A·B in exact arithmetic, a vector misses it with a chance of at most 1/2 (Freivalds, 1979), sixteen with at most 2⁻¹⁶.
//!
//! C was rounded: an element that met m roundings is off by at most m·u·‖aᵢ‖·‖bⱼ‖, u = 2⁻²⁴. Signs are random, so that row
//! i of (C − A·B)·x is off by the root of the sum of squares, m·u·‖aᵢ‖·‖B‖ (Frobenius), times a few standard deviations: three here, of a bound that
//! is not reached even where all roundings go the same way. So no product is called wrong for its rounding, and larger errors are seen.

use serde::{Deserialize, Serialize};

pub use paceline_kernels::cpu::VECTORS;

/// Standard deviations of a sum with random signs.
const MARGIN: f64 = 3.0;
/// Half the distance from 1 to the next f32.
const UNIT: f64 = 1.0 / (1u64 << 24) as f64;

/// What the check found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verified {
    /// Whether the product is right, as far as rounding allows.
    pub right: bool,
    /// Vectors that were tried.
    pub vectors: usize,
    /// At most this chance that a wrong product passes.
    pub missed: f64,
    /// The largest difference, as a share of what rounding explains in its row.
    pub worst: f64,
    /// The row of that difference.
    pub row: usize,
    /// The difference that rounding explains in the middle row: smaller errors of an element are not seen.
    pub tolerance: f64,
    /// The size of a typical element of C: its root mean square.
    pub typical: f64,
}

/// Compares, row by row. `z` is A·(B·x) and `w` is C·x, vectors side by side; `left` holds the squared norms of the rows of A, `right` the
/// squared norm of B, `product` that of C, whose elements met `roundings`.
pub fn compare(z: &[f64], w: &[f64], left: &[f64], right: f64, product: f64, roundings: usize) -> Verified {
    let n = left.len();
    let factor = MARGIN * UNIT * roundings as f64 * right.sqrt();
    let (mut worst, mut row, mut right_all) = (0.0f64, 0, true);
    for (i, left) in left.iter().enumerate() {
        let tolerance = factor * left.sqrt();
        for v in i * VECTORS..(i + 1) * VECTORS {
            let difference = (z[v] - w[v]).abs();
            // Not `>`: what is not a number is not right.
            let fine = difference <= tolerance;
            let share = if difference == 0.0 { 0.0 } else { difference / tolerance };
            if !fine && right_all || share > worst {
                (worst, row) = (share, i);
            }
            right_all &= fine;
        }
    }
    Verified {
        right: right_all,
        vectors: VECTORS,
        missed: 0.5f64.powi(VECTORS as i32),
        worst,
        row,
        tolerance: factor * left[n / 2].sqrt(),
        typical: (product / (n as f64 * n as f64)).sqrt(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_differences_pass_large_and_senseless_ones_do_not() {
        let n = 100;
        let z = vec![10.0; n * VECTORS];
        let left = vec![30.0; n];
        let check = |change: f64| {
            let mut w = z.clone();
            w[57 * VECTORS + 3] += change;
            compare(&z, &w, &left, 3000.0, 1e5, 100)
        };
        let right = check(0.0);
        assert!(right.right && right.worst == 0.0 && right.missed < 2e-5);
        assert!(check(right.tolerance * 0.9).right);
        let wrong = check(right.tolerance * 1.1);
        assert!(!wrong.right && wrong.row == 57 && wrong.worst > 1.0);
        assert!(!check(f64::NAN).right);
        assert!(!check(f64::INFINITY).right);
        assert!(compare(&[0.0; VECTORS], &[0.0; VECTORS], &[0.0], 0.0, 0.0, 1).right, "zero matrices");
    }
}
