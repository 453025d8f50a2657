//! Freivalds' check: C·x against A·(B·x), for random vectors x of ±1 that the product knows nothing of.
//!
//! Sixteen vectors at once, in f64, so that a pass over a block serves all of them: O(n²) where the product took O(n³). If C
//! differs from A·B in exact arithmetic, a vector misses it with a chance of at most 1/2 (Freivalds, 1979), sixteen with at most 2⁻¹⁶.
//!
//! C was rounded, and the check must know by how much. Rounding a partial sum s is off by at most u·|s|, u = 2⁻²⁴, and by u·|s|/√3 in the
//! root mean square. An element that met m roundings of n terms has partial sums of two parts: what grows in proportion to the
//! element, whose squares come to m·c²/3, and what wanders as sums of random signs do, m/(2n)·‖aᵢ‖²·‖bⱼ‖². The vector's signs are
//! random, so that variances of a row add up, to
//!
//! > σᵢ² = u²/3 · ( m/3·‖cᵢ‖² + m/(2n)·‖aᵢ‖²·‖B‖² )   (rows' norms, and Frobenius')
//!
//! A difference of [`SIGMAS`] of these is *doubtful*: matrices whose sums grow and then cancel, or whose roundings all go the same way
//! (constant ones), are rounded worse than that and yet right. So the worst doubtful rows are computed again: a right one has the same bits,
//! and every element is within m·u·Σ|aᵢₖ·bₖⱼ|, which holds for any matrices, of its sum in f64. That bound, summed over a row,
//! m·u·‖aᵢ‖·‖B‖, is some thousand times wider than σᵢ for matrices without a pattern; beyond it a row is wrong without a second look.

use serde::{Deserialize, Serialize};

pub(crate) use paceline_kernels::cpu::VECTORS;

/// Standard deviations of a row's difference that rounding explains.
const SIGMAS: f64 = 8.0;
/// Standard deviations of a sum with random signs, for the bound that holds for any matrices.
const MARGIN: f64 = 3.0;
/// Half the distance from 1 to the next f32.
const UNIT: f64 = 1.0 / (1u64 << 24) as f64;
/// The distance between the smallest numbers: what is rounded there is off by half of it, however small it is.
const SMALLEST: f64 = 1.4e-45;
/// Rows that are computed again at most.
const AGAIN: usize = 8;

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
    /// The column of a wrong element, where a row was computed again and has one.
    pub column: Option<usize>,
    /// The difference that rounding explains in the middle row: smaller errors of an element are not seen.
    pub tolerance: f64,
    /// The size of a typical element of C: its root mean square.
    pub typical: f64,
    /// Rows that were computed again.
    pub computed_again: usize,
}

impl Verified {
    /// A doubtful row was computed again, the worst first. `wrong` is the first column in which it is wrong, if it is. If it is
    /// right, rounding explains as much as that for these matrices.
    pub fn computed_again(&mut self, row: usize, wrong: Option<usize>) {
        self.computed_again += 1;
        match wrong {
            Some(column) if self.right => (self.right, self.row, self.column) = (false, row, Some(column)),
            Some(_) => {}
            None if self.worst > 1.0 && row == self.row => {
                self.tolerance *= self.worst;
                self.worst = 1.0;
            }
            None => {}
        }
    }
}

/// What differences are measured by.
pub(crate) struct Norms<'a> {
    /// Squared norms of the rows of A.
    pub left: &'a [f64],
    /// Squared norm of B.
    pub right: f64,
    /// Squared norms of the rows of C.
    pub product: &'a [f64],
    /// Roundings that an element of C met.
    pub roundings: usize,
}

impl Norms<'_> {
    /// What rounding explains in a row, as it is for most matrices.
    fn usual(&self, row: usize) -> f64 {
        let (n, m) = (self.left.len() as f64, self.roundings as f64);
        let squares = m / 3.0 * self.product[row] + m / (2.0 * n) * self.left[row] * self.right;
        SIGMAS * UNIT * (squares / 3.0).sqrt() + self.smallest()
    }

    /// What rounding explains in a row of any matrices.
    fn most(&self, row: usize) -> f64 {
        MARGIN * UNIT * self.roundings as f64 * (self.left[row] * self.right).sqrt() + self.smallest()
    }

    fn smallest(&self) -> f64 {
        MARGIN * SMALLEST * self.roundings as f64 * (self.left.len() as f64).sqrt()
    }
}

/// Whether the roundings of one element explain a difference, given the sum of its products' sizes.
pub(crate) fn explains(difference: f64, sizes: f64, roundings: usize) -> bool {
    difference.abs() <= roundings as f64 * (UNIT * (1.0 + 1e-4) * sizes + SMALLEST)
}

/// What a comparison found, and what it could not decide.
pub(crate) struct Compared {
    /// Right, unless a doubtful row is not.
    pub verified: Verified,
    /// Rows to compute again, the worst first; none if the product is wrong anyway.
    pub doubtful: Vec<usize>,
}

/// Compares, row by row. `z` is A·(B·x) and `w` is C·x, vectors side by side.
pub(crate) fn compare(z: &[f64], w: &[f64], norms: &Norms<'_>) -> Compared {
    let n = norms.left.len();
    let (mut worst, mut row, mut right) = (0.0f64, 0, true);
    let mut doubtful: Vec<(f64, usize)> = Vec::new();
    for i in 0..n {
        let (usual, most) = (norms.usual(i), norms.most(i));
        let mut share = 0.0f64;
        for v in i * VECTORS..(i + 1) * VECTORS {
            let difference = (z[v] - w[v]).abs();
            // Not `>`: what is not a number is not right.
            if !(difference <= most || difference <= usual) && right {
                (right, row, worst) = (false, i, difference / usual);
            }
            share = share.max(if difference == 0.0 { 0.0 } else { difference / usual });
        }
        if right && share > worst {
            (worst, row) = (share, i);
        }
        if share > 1.0 {
            doubtful.push((share, i));
        }
    }
    doubtful.sort_by(|a, b| b.0.total_cmp(&a.0));
    doubtful.truncate(if right { AGAIN } else { 0 });
    let verified = Verified {
        right,
        vectors: VECTORS,
        missed: 0.5f64.powi(VECTORS as i32),
        worst,
        row,
        column: None,
        tolerance: norms.usual(n / 2),
        typical: (norms.product.iter().sum::<f64>() / (n as f64 * n as f64)).sqrt(),
        computed_again: 0,
    };
    Compared { verified, doubtful: doubtful.into_iter().map(|(_, i)| i).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_differences_pass_large_and_senseless_ones_do_not() {
        let n = 100;
        let z = vec![10.0; n * VECTORS];
        let (left, product) = (vec![30.0; n], vec![1000.0; n]);
        let norms = Norms { left: &left, right: 3000.0, product: &product, roundings: 100 };
        let check = |change: f64| {
            let mut w = z.clone();
            w[57 * VECTORS + 3] += change;
            compare(&z, &w, &norms)
        };
        let right = check(0.0).verified;
        assert!(right.right && right.worst == 0.0 && right.missed < 2e-5);
        let small = check(right.tolerance * 0.9);
        assert!(small.verified.right && small.doubtful.is_empty());
        // Between what is usual and what is possible, a row is looked at again.
        let between = check(right.tolerance * 1.1);
        assert!(between.verified.right && between.doubtful == [57] && between.verified.worst > 1.0);
        let mut found = between.verified.clone();
        found.computed_again(57, Some(4));
        assert!(!found.right && (found.row, found.column, found.computed_again) == (57, Some(4), 1));
        let mut found = between.verified;
        found.computed_again(57, None);
        assert!(found.right && found.worst == 1.0 && found.tolerance > right.tolerance);
        assert!(norms.most(57) > 10.0 * norms.usual(57));
        let wrong = check(norms.most(57) * 1.1);
        assert!(!wrong.verified.right && wrong.verified.row == 57 && wrong.doubtful.is_empty());
        assert!(!check(f64::NAN).verified.right);
        assert!(!check(f64::INFINITY).verified.right);
        let zero = Norms { left: &[0.0], right: 0.0, product: &[0.0], roundings: 1 };
        assert!(compare(&[0.0; VECTORS], &[0.0; VECTORS], &zero).verified.right, "zero matrices");
    }
}
