//! Vector exp, tanh, sigmoid and the normal distribution, to a few units in the last place of f32.

use super::simd::Simd;

const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 in two parts; the first has trailing zeros, so that its product with an exponent is exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;

/// Coefficients of (e^r − 1 − r)/r² for |r| ≤ ln 2 / 2, highest first (Cephes, `expf`).
const EXP: [f32; 6] = [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];

/// Evaluates a polynomial, highest coefficient first.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(s: S, coefficients: [f32; N], x: S::V) -> S::V {
    let mut sum = s.splat(coefficients[0]);
    for c in &coefficients[1..] {
        sum = s.fma(sum, x, s.splat(*c));
    }
    sum
}

/// e^(high + low) for sums within ±120, where `low` is a correction of up to a few units.
#[inline(always)]
fn exp_of_sum<S: Simd>(s: S, high: S::V, low: S::V) -> S::V {
    let x = s.add(high, low);
    let n = s.round(s.mul(x, s.splat(LOG2_E)));
    let r = s.sub_mul(n, s.splat(LN2_HIGH), high);
    let r = s.add(s.sub_mul(n, s.splat(LN2_LOW), r), low);
    let p = polynomial(s, EXP, r);
    let e = s.add(s.fma(p, s.mul(r, r), r), s.splat(1.0));
    s.scale_by_power(e, n)
}

/// eˣ
#[inline(always)]
pub(crate) fn exp<S: Simd>(s: S, x: S::V) -> S::V {
    // Limits just outside the range in which the result is neither infinite nor zero; `x` last, so that NaN stays.
    let x = s.min(s.splat(89.0), s.max(s.splat(-104.0), x));
    let n = s.round(s.mul(x, s.splat(LOG2_E)));
    let r = s.sub_mul(n, s.splat(LN2_LOW), s.sub_mul(n, s.splat(LN2_HIGH), x));
    let p = polynomial(s, EXP, r);
    let e = s.add(s.fma(p, s.mul(r, r), r), s.splat(1.0));
    s.scale_by_power(e, n)
}

/// 1 / (1 + e⁻ˣ)
#[inline(always)]
pub(crate) fn sigmoid<S: Simd>(s: S, x: S::V) -> S::V {
    let one = s.splat(1.0);
    s.div(one, s.add(one, exp(s, s.sub(s.zero(), x))))
}

/// tanh x: a polynomial near zero (Cephes, `tanhf`), 1 − 2/(e²ˣ + 1) beyond.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(s: S, x: S::V) -> S::V {
    let one = s.splat(1.0);
    let size = s.copy_sign(x, one);
    let far = s.sub(one, s.div(s.splat(2.0), s.add(exp(s, s.add(size, size)), one)));
    let square = s.mul(x, x);
    let p = polynomial(s, [-5.704_988_7e-3, 2.063_909e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1], square);
    let near = s.fma(s.mul(p, square), x, x);
    s.select(s.lt(size, s.splat(0.625)), near, s.copy_sign(far, x))
}

/// Φ(x) = erfc(−x/√2)/2, the normal distribution function, with small relative error also in the lower tail.
///
/// erfc by the Chebyshev fit of Press et al., "Numerical Recipes" (§6.2, error 1.2e-7), its exponent kept in two parts.
#[inline(always)]
pub(crate) fn normal_distribution<S: Simd>(s: S, x: S::V) -> S::V {
    let one = s.splat(1.0);
    // Φ(−15) is zero in f32 already; `x` last, so that NaN stays.
    let x = s.min(s.splat(15.0), s.max(s.splat(-15.0), x));
    let z = s.mul(s.copy_sign(x, one), s.splat(std::f32::consts::FRAC_1_SQRT_2));
    let t = s.div(one, s.fma(z, s.splat(0.5), one));
    let p = polynomial(
        s,
        [
            0.170_872_77,
            -0.822_152_2,
            1.488_515_9,
            -1.135_204,
            0.278_868_07,
            -0.186_288_06,
            0.096_784_18,
            0.374_091_96,
            1.000_023_7,
            -1.265_512_2,
        ],
        t,
    );
    // −z² = −x²/2, and what its rounding lost.
    let half = s.mul(x, s.splat(0.5));
    let square = s.mul(half, x);
    let lost = s.sub_mul(half, x, square);
    let tail = s.mul(s.mul(t, s.splat(0.5)), exp_of_sum(s, s.sub(s.zero(), square), s.add(p, lost)));
    let below = s.le(x, s.zero());
    s.select(below, tail, s.sub(one, tail))
}

/// φ(x) = e^(−x²/2) / √(2π), the normal density.
#[inline(always)]
pub(crate) fn normal_density<S: Simd>(s: S, x: S::V) -> S::V {
    let e = exp(s, s.mul(s.mul(x, x), s.splat(-0.5)));
    s.mul(e, s.splat(0.398_942_3))
}
