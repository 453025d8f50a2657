//! Losses: sums over samples, and the gradient of the mean over the global batch.

use super::Reference;
use crate::contract::class_of;
use paceline_base::kernel::{BufferId, StepArgs};
use paceline_base::op::Loss;

impl Reference {
    /// Adds `[loss sum, correct, count]` to the metrics and writes the gradient.
    pub(super) fn loss(
        &mut self,
        loss: Loss,
        rows: usize,
        classes: usize,
        gradient: bool,
        args: &[BufferId],
        step: &StepArgs,
    ) {
        let (y, labels) = (self.input(args[0], rows * classes), self.input(args[1], rows));
        let mut metrics = self.input(args[2], 3);
        let mut dy = vec![0.0; rows * classes];
        for r in 0..rows {
            let (y, dy) = (&y[r * classes..][..classes], &mut dy[r * classes..][..classes]);
            let label = class_of(labels[r], classes);
            let target = |c: usize| f64::from(u8::from(Some(c) == label));
            metrics[0] += match loss {
                Loss::SoftmaxCrossEntropy => {
                    let max = y.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let sum: f64 = y.iter().map(|y| (y - max).exp()).sum();
                    for c in 0..classes {
                        dy[c] = ((y[c] - max).exp() / sum - target(c)) * step.scale;
                    }
                    label.map_or(f64::NAN, |label| sum.ln() + max - y[label])
                }
                Loss::MeanSquaredError => {
                    for c in 0..classes {
                        dy[c] = 2.0 * (y[c] - target(c)) / classes as f64 * step.scale;
                    }
                    let squares: f64 = (0..classes).map(|c| (y[c] - target(c)).powi(2)).sum();
                    label.map_or(f64::NAN, |_| squares / classes as f64)
                }
            };
            metrics[1] += f64::from(u8::from(label.is_some() && argmax(y) == label));
            metrics[2] += 1.0;
        }
        self.output(args[2], &metrics);
        if gradient {
            self.output(args[3], &dy);
        }
    }
}

/// The first of the largest values; none if there is a NaN.
fn argmax(values: &[f64]) -> Option<usize> {
    let mut best = 0;
    for (i, v) in values.iter().enumerate() {
        if v.is_nan() {
            return None;
        }
        if *v > values[best] {
            best = i;
        }
    }
    Some(best)
}
