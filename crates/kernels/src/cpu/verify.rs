//! What the check of a product needs of a block: sums in f64 over one pass through it.

/// Vectors that are multiplied at once: two registers of eight f64.
pub const VECTORS: usize = 16;

/// `y[i, v] += Σ_j a[i, j] · x[j, v]` in f64, for `VECTORS` vectors that lie side by side.
///
/// # Panics
/// If a slice has another length than the extents say.
pub fn add_times_vectors([rows, columns]: [usize; 2], a: &[f32], x: &[f64], y: &mut [f64]) {
    assert_eq!(
        (a.len(), x.len(), y.len()),
        (rows * columns, columns * VECTORS, rows * VECTORS),
        "a block of another size than {rows}×{columns}"
    );
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has it.
            return unsafe { on_avx512(columns, a, x, y) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has it.
            return unsafe { on_avx2(columns, a, x, y) };
        }
    }
    body(columns, a, x, y);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn on_avx512(columns: usize, a: &[f32], x: &[f64], y: &mut [f64]) {
    body(columns, a, x, y);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn on_avx2(columns: usize, a: &[f32], x: &[f64], y: &mut [f64]) {
    body(columns, a, x, y);
}

#[inline(always)]
fn body(columns: usize, a: &[f32], x: &[f64], y: &mut [f64]) {
    if columns == 0 {
        return;
    }
    // Two rows at a time: four independent chains of sixteen-lane sums are too many registers for AVX2.
    for (a, y) in a.chunks(2 * columns).zip(y.chunks_mut(2 * VECTORS)) {
        if let (Some((first, second)), Some((to, next))) =
            (a.split_at_checked(columns), y.split_at_mut_checked(VECTORS))
            && second.len() == columns
        {
            let mut sums = [[0.0f64; VECTORS]; 2];
            for ((&p, &q), x) in first.iter().zip(second).zip(x.chunks_exact(VECTORS)) {
                let (p, q) = (f64::from(p), f64::from(q));
                for v in 0..VECTORS {
                    sums[0][v] += p * x[v];
                    sums[1][v] += q * x[v];
                }
            }
            add(to, &sums[0]);
            add(next, &sums[1]);
        } else {
            let mut sums = [0.0f64; VECTORS];
            for (&p, x) in a.iter().zip(x.chunks_exact(VECTORS)) {
                for v in 0..VECTORS {
                    sums[v] += f64::from(p) * x[v];
                }
            }
            add(&mut y[..VECTORS], &sums);
        }
    }
}

#[inline(always)]
fn add(to: &mut [f64], sums: &[f64; VECTORS]) {
    for (to, sum) in to.iter_mut().zip(sums) {
        *to += sum;
    }
}

/// `Σ_ij a[i, j] · b[j, i]` in f64: the part that two blocks have in the trace of a product. `a` is rows × columns, `b` columns × rows.
///
/// # Panics
/// If a slice has another length than the extents say.
pub fn transposed_dot([rows, columns]: [usize; 2], a: &[f32], b: &[f32]) -> f64 {
    assert_eq!((a.len(), b.len()), (rows * columns, rows * columns), "blocks of another size than {rows}×{columns}");
    // Squares whose both sides fit the first-level cache: `b` is read across its rows.
    const SIDE: usize = 32;
    let mut sum = 0.0;
    for i in (0..rows).step_by(SIDE) {
        for j in (0..columns).step_by(SIDE) {
            let mut square = 0.0;
            for r in i..rows.min(i + SIDE) {
                let a = &a[r * columns + j..r * columns + columns.min(j + SIDE)];
                for (c, &a) in a.iter().enumerate() {
                    square += f64::from(a) * f64::from(b[(j + c) * rows + r]);
                }
            }
            sum += square;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(len: usize, salt: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * 7919 + salt * 104_729) % 2003) as f32 / 1001.5 - 1.0).collect()
    }

    #[test]
    fn vectors_and_transposes_agree_with_their_definitions() {
        for (rows, columns) in [(1, 1), (2, 3), (5, 7), (33, 70), (64, 31), (3, 0), (0, 3)] {
            let (a, b) = (numbers(rows * columns, 1), numbers(rows * columns, 2));
            let x: Vec<f64> = numbers(columns * VECTORS, 3).into_iter().map(f64::from).collect();
            let mut y = vec![1.0; rows * VECTORS];
            add_times_vectors([rows, columns], &a, &x, &mut y);
            for i in 0..rows {
                for v in 0..VECTORS {
                    let exact: f64 = (0..columns).map(|j| f64::from(a[i * columns + j]) * x[j * VECTORS + v]).sum();
                    assert!((y[i * VECTORS + v] - 1.0 - exact).abs() < 1e-12);
                }
            }
            let exact: f64 =
                (0..rows * columns).map(|at| f64::from(a[at]) * f64::from(b[at % columns * rows + at / columns])).sum();
            assert!((transposed_dot([rows, columns], &a, &b) - exact).abs() < 1e-10);
        }
    }
}
