//! Statistics of a speed study: means, fits by least squares, correlations, ratios with their uncertainty.
//!
//! The functions know nothing of images.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The confidence of all intervals.
pub(super) const CONFIDENCE: f64 = 0.95;

/// Mean; NaN for nothing.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Standard deviation of a sample; none for fewer than two values.
pub(super) fn deviation(values: &[f64]) -> Option<f64> {
    (values.len() > 1).then(|| {
        let centre = mean(values);
        let squares: f64 = values.iter().map(|v| (v - centre).powi(2)).sum();
        (squares / (values.len() - 1) as f64).sqrt()
    })
}

/// Coefficient of variation: standard deviation ÷ mean.
pub(super) fn variation(values: &[f64]) -> Option<f64> {
    deviation(values).map(|d| d / mean(values))
}

/// A straight line through points, y = intercept + slope · x.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Linear {
    /// Value at 0.
    pub intercept: f64,
    /// Change per unit.
    pub slope: f64,
    /// Lower end of the 95 % confidence interval of the slope; −∞ where it cannot be told.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Share of the variance that the line explains.
    pub r2: f64,
    /// Pearson's correlation of x and y.
    pub pearson: f64,
}

impl Linear {
    /// The value at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }

    /// Whether the slope differs from 0 beyond the noise.
    pub fn clear(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// The line of least squares; none where x takes one value only.
pub(super) fn linear(points: &[(f64, f64)]) -> Option<Linear> {
    let n = points.len() as f64;
    let (mx, my) = (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in points {
        xx += (x - mx).powi(2);
        xy += (x - mx) * (y - my);
        yy += (y - my).powi(2);
    }
    if points.len() < 2 || xx <= 0.0 {
        return None;
    }
    let slope = xy / xx;
    let pearson = if yy > 0.0 { xy / (xx * yy).sqrt() } else { 0.0 };
    let half = if points.len() > 2 {
        let rest = (yy - slope * xy).max(0.0);
        student_quantile(0.5 + CONFIDENCE / 2.0, n - 2.0) * (rest / (n - 2.0) / xx).sqrt()
    } else {
        f64::INFINITY
    };
    Some(Linear {
        intercept: my - slope * mx,
        slope,
        low: slope - half,
        high: slope + half,
        r2: pearson * pearson,
        pearson,
    })
}

/// A parabola through points, y = a + b·x + c·x².
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quadratic {
    /// Value at 0.
    pub a: f64,
    /// Coefficient of x.
    pub b: f64,
    /// Coefficient of x².
    pub c: f64,
    /// Share of the variance that it explains.
    pub r2: f64,
}

impl Quadratic {
    /// The value at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.a + x * (self.b + x * self.c)
    }

    /// Where it is highest, if it has a highest point.
    pub fn peak(&self) -> Option<f64> {
        (self.c < 0.0).then(|| -self.b / (2.0 * self.c))
    }
}

/// The parabola of least squares; none where x takes fewer than three values.
pub(super) fn quadratic(points: &[(f64, f64)]) -> Option<Quadratic> {
    let mut xs: Vec<f64> = points.iter().map(|p| p.0).collect();
    let (mx, my) = (mean(&xs), points.iter().map(|p| p.1).sum::<f64>() / points.len() as f64);
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    if xs.len() < 3 {
        return None;
    }
    // Centred and scaled, so that the normal equations stay well conditioned.
    let scale = xs.iter().map(|x| (x - mx).abs()).fold(0.0, f64::max);
    let (mut s2, mut s3, mut s4, mut ty, mut t2y, mut yy) = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    for (x, y) in points {
        let (t, d) = ((x - mx) / scale, y - my);
        s2 += t * t;
        s3 += t * t * t;
        s4 += t * t * t * t;
        ty += t * d;
        t2y += t * t * d;
        yy += d * d;
    }
    // With mean-free t and y the constant is −γ·s2/n, which leaves two equations.
    let s4 = s4 - s2 * s2 / points.len() as f64;
    let determinant = s2 * s4 - s3 * s3;
    if determinant <= 0.0 {
        return None;
    }
    let (beta, gamma) = ((ty * s4 - t2y * s3) / determinant, (t2y * s2 - ty * s3) / determinant);
    let alpha = my - gamma * s2 / points.len() as f64;
    let explained = beta * ty + gamma * t2y;
    let c = gamma / (scale * scale);
    Some(Quadratic {
        a: alpha - beta * mx / scale + c * mx * mx,
        b: beta / scale - 2.0 * c * mx,
        c,
        r2: if yy > 0.0 { (explained / yy).clamp(0.0, 1.0) } else { 1.0 },
    })
}

/// Spearman's correlation: Pearson's of the ranks, equal values sharing theirs.
pub(super) fn spearman(points: &[(f64, f64)]) -> Option<f64> {
    let ranks = |values: Vec<f64>| {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|&i, &j| values[i].total_cmp(&values[j]));
        let mut ranks = vec![0.0; values.len()];
        for same in order.chunk_by(|&i, &j| values[i] == values[j]) {
            let before = same[0];
            let first = order.iter().position(|&i| i == before).unwrap_or(0);
            same.iter().for_each(|&i| ranks[i] = first as f64 + (same.len() - 1) as f64 / 2.0);
        }
        ranks
    };
    let x = ranks(points.iter().map(|p| p.0).collect());
    let y = ranks(points.iter().map(|p| p.1).collect());
    linear(&x.into_iter().zip(y).collect::<Vec<_>>()).map(|line| line.pearson)
}

/// How many times as large one thing is as another, with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Ratio {
    /// Geometric mean over the blocks.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Number of matched blocks.
    pub blocks: usize,
}

impl Ratio {
    /// Whether it differs from 1 beyond the noise.
    pub(super) fn clear(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }
}

/// So many blocks tell how much the ratio differs between them.
const MANY: usize = 6;

/// The ratio a ÷ b over blocks of measurements made under the same conditions (geometric means, so that no block
/// outweighs another). With many blocks the interval comes from how the blocks differ, with few from the repetitions
/// within them if these tell more; none where there is nothing to judge by.
pub(super) fn ratio(blocks: &[(Vec<f64>, Vec<f64>)]) -> Option<Ratio> {
    ratio_at(blocks, CONFIDENCE)
}

/// The value of [`ratio`] by itself, which there is also where nothing tells how sure it is.
pub(super) fn ratio_value(blocks: &[(Vec<f64>, Vec<f64>)]) -> Option<f64> {
    let log = |v: &[f64]| mean(&v.iter().map(|x| x.ln()).collect::<Vec<_>>());
    let differences: Vec<f64> =
        blocks.iter().filter(|(a, b)| !a.is_empty() && !b.is_empty()).map(|(a, b)| log(a) - log(b)).collect();
    (!differences.is_empty()).then(|| mean(&differences).exp())
}

/// The variance of logarithms within groups of equal conditions, and its degrees of freedom.
pub(super) fn pooled(groups: &[Vec<f64>]) -> (f64, f64) {
    let squares = |v: &[f64]| {
        let logs: Vec<f64> = v.iter().map(|x| x.ln()).collect();
        logs.iter().map(|x| (x - mean(&logs)).powi(2)).sum::<f64>()
    };
    let freedom: f64 = groups.iter().map(|group| group.len() as f64 - 1.0).sum();
    (groups.iter().map(|group| squares(group)).sum::<f64>() / freedom, freedom)
}

/// [`ratio`] where the noise is known from more than these blocks (see [`pooled`]), and with a given confidence: of
/// several comparisons, each must be surer for all of them to be sure enough.
pub(super) fn ratio_given(
    blocks: &[(Vec<f64>, Vec<f64>)],
    (variance, freedom): (f64, f64),
    confidence: f64,
) -> Option<Ratio> {
    if freedom < 1.0 {
        return ratio_at(blocks, confidence);
    }
    let log = |v: &[f64]| mean(&v.iter().map(|x| x.ln()).collect::<Vec<_>>());
    let differences: Vec<f64> = blocks.iter().map(|(a, b)| log(a) - log(b)).collect();
    let weight: f64 = blocks.iter().map(|(a, b)| 1.0 / a.len() as f64 + 1.0 / b.len() as f64).sum();
    let centre = mean(&differences);
    let error = (variance * weight).sqrt() / differences.len() as f64;
    let half = student_quantile(0.5 + confidence / 2.0, freedom) * error;
    let (low, high) = ((centre - half).exp(), (centre + half).exp());
    (!differences.is_empty()).then(|| Ratio { value: centre.exp(), low, high, blocks: blocks.len() })
}

/// [`ratio`] with another confidence.
fn ratio_at(blocks: &[(Vec<f64>, Vec<f64>)], confidence: f64) -> Option<Ratio> {
    let logs = |values: &[f64]| values.iter().map(|v| v.ln()).collect::<Vec<f64>>();
    let blocks: Vec<(Vec<f64>, Vec<f64>)> =
        blocks.iter().filter(|(a, b)| !a.is_empty() && !b.is_empty()).map(|(a, b)| (logs(a), logs(b))).collect();
    let differences: Vec<f64> = blocks.iter().map(|(a, b)| mean(a) - mean(b)).collect();
    let n = differences.len() as f64;
    let centre = mean(&differences);
    let squares = |v: &[f64]| v.iter().map(|x| (x - mean(v)).powi(2)).sum::<f64>();
    let within: f64 = blocks.iter().map(|(a, b)| (a.len() + b.len()) as f64 - 2.0).sum();
    let (error, freedom) = if differences.len() >= MANY || (differences.len() > 1 && n - 1.0 >= within) {
        (deviation(&differences)? / n.sqrt(), n - 1.0)
    } else if within > 0.0 {
        let variance = blocks.iter().map(|(a, b)| squares(a) + squares(b)).sum::<f64>() / within;
        let weight: f64 = blocks.iter().map(|(a, b)| 1.0 / a.len() as f64 + 1.0 / b.len() as f64).sum();
        ((variance * weight).sqrt() / n, within)
    } else {
        return None;
    };
    let half = student_quantile(0.5 + confidence / 2.0, freedom) * error;
    Some(Ratio { value: centre.exp(), low: (centre - half).exp(), high: (centre + half).exp(), blocks: blocks.len() })
}

/// The value that Student's t with so many degrees of freedom (above 0) stays below with probability `p`; NaN where there is none.
pub(super) fn student_quantile(p: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::NAN, |t| t.inverse_cdf(p))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-8 * expected.abs().max(1.0), "{found} instead of {expected}");
    }

    /// Throughput by batch size, two repetitions, with a peak.
    fn points() -> Vec<(f64, f64)> {
        let x = [2, 4, 6, 8, 12, 16, 24, 32];
        let y = [
            [310.5, 402.1, 455.0, 498.7, 541.2, 560.9, 571.3, 566.0],
            [298.2, 411.7, 449.9, 505.3, 536.0, 566.6, 569.1, 559.4],
        ];
        y.iter().flat_map(|row| x.iter().zip(row).map(|(&x, &y)| (f64::from(x), y))).collect()
    }

    #[test]
    fn quantiles_are_scipys() {
        // scipy.stats.t.ppf(p, df), SciPy 1.17
        for (p, freedom, expected) in [
            (0.975, 1.0, 12.706204736174694),
            (0.975, 2.0, 4.302652729749462),
            (0.975, 5.0, 2.5705818356363146),
            (0.975, 30.0, 2.0422724563012378),
            (0.975, 142.0, 1.9768109936328597),
            (0.995, 10.0, 3.16927267261695),
            (0.95, 3.0, 2.3533634348018233),
        ] {
            near(student_quantile(p, freedom), expected);
        }
    }

    #[test]
    fn fits_are_scipys() {
        // scipy.stats.linregress, numpy.polyfit(…, 2), scipy.stats.spearmanr
        let line = linear(&points()).unwrap();
        near(line.slope, 7.069075520833333);
        near(line.intercept, 395.72076822916665);
        near(line.r2, 0.6140168705565601);
        near(line.pearson, 0.7835922859220604);
        near(line.low, 3.8563271020720418);
        near(line.high, 10.281823939594624);
        let parabola = quadratic(&points()).unwrap();
        near(parabola.c, -0.607548152750281);
        near(parabola.b, 27.364980998647408);
        near(parabola.a, 292.874257496408);
        near(parabola.r2, 0.9294714066024893);
        near(parabola.peak().unwrap(), 22.520833019383048);
        near(parabola.at(8.0), 292.874257496408 + 8.0 * 27.364980998647408 - 64.0 * 0.607548152750281);
        near(spearman(&points()).unwrap(), 0.934927609954023);
        let y: Vec<f64> = points().iter().map(|p| p.1).collect();
        near(mean(&y), 487.61875);
        near(deviation(&y).unwrap(), 91.28984038946138);
    }

    #[test]
    fn little_data_gives_no_false_answers() {
        assert_eq!(linear(&[(1.0, 2.0)]), None);
        assert_eq!(linear(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert!(!linear(&[(1.0, 2.0), (2.0, 3.0)]).unwrap().clear());
        assert_eq!(quadratic(&[(1.0, 2.0), (2.0, 3.0), (1.0, 2.5), (2.0, 2.0)]), None);
        assert_eq!(quadratic(&[]), None);
        assert_eq!((deviation(&[1.0]), spearman(&[])), (None, None));
        assert!(mean(&[]).is_nan());
        assert_eq!(linear(&[(1.0, 5.0), (2.0, 5.0), (3.0, 5.0)]).unwrap().r2, 0.0);
    }

    #[test]
    fn ratios_know_their_noise() {
        let block = |a: &[f64], b: &[f64]| (a.to_vec(), b.to_vec());
        let clear = ratio(&[block(&[90.0, 91.0], &[10.0]), block(&[180.0], &[20.5]), block(&[45.0], &[5.0])]).unwrap();
        assert!(clear.clear() && (clear.value - 9.0).abs() < 0.2 && clear.blocks == 3, "{clear:?}");
        let unclear = ratio(&[block(&[9.0, 11.0, 10.0], &[9.5, 10.5, 11.0])]).unwrap();
        assert!(!unclear.clear(), "{unclear:?}");
        assert_eq!(ratio(&[block(&[9.0], &[10.0])]), None);
        assert_eq!(ratio(&[block(&[], &[10.0, 11.0])]), None);
    }
}
