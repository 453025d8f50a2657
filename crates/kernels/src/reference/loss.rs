//! Losses: sums over samples, and the gradient of the mean over the global batch.

use super::Reference;
use crate::contract::class_of;
use paceline_base::kernel::{BufferId, StepArgs};
use paceline_base::op::Loss;
use paceline_base::sample::TargetKind;

impl Reference {
    /// Adds to the metrics of the loss and writes the gradient.
    pub(super) fn loss(
        &mut self,
        loss: Loss,
        targets: TargetKind,
        rows: usize,
        gradient: bool,
        args: &[BufferId],
        step: &StepArgs,
    ) {
        let y = self.input(args[0], rows * targets.outputs());
        let mut metrics = self.input(args[2], 3);
        let each = targets.each() as f64;
        let mut dy = vec![0.0; y.len()];
        match targets {
            TargetKind::Classes { classes, each: n } => {
                let labels = self.typed::<u32>(args[1])[..rows * n].to_vec();
                let (loss, correct) = of_classes(loss, &y, &labels, classes, step.scale / each, &mut dy);
                metrics[0] += loss / each;
                metrics[1] += correct / each;
            }
            TargetKind::Numbers { .. } => {
                let numbers = self.input(args[1], y.len());
                for ((y, number), dy) in y.iter().zip(&numbers).zip(&mut dy) {
                    metrics[0] += (y - number).powi(2) / each;
                    metrics[1] += (y - number).abs() / each;
                    *dy = 2.0 * (y - number) * step.scale / each;
                }
            }
        }
        metrics[2] += rows as f64;
        self.output(args[2], &metrics);
        if gradient {
            self.output(args[3], &dy);
        }
    }
}

/// The sum of the losses of all classes, how many were met, and the gradient.
fn of_classes(loss: Loss, y: &[f64], labels: &[u32], classes: usize, scale: f64, dy: &mut [f64]) -> (f64, f64) {
    let (mut sum, mut correct) = (0.0, 0.0);
    for (r, label) in labels.iter().enumerate() {
        let (y, dy) = (&y[r * classes..][..classes], &mut dy[r * classes..][..classes]);
        let label = class_of(*label, classes);
        let target = |c: usize| f64::from(u8::from(Some(c) == label));
        sum += match loss {
            Loss::SoftmaxCrossEntropy => {
                let max = y.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = y.iter().map(|y| (y - max).exp()).sum();
                for c in 0..classes {
                    dy[c] = ((y[c] - max).exp() / total - target(c)) * scale;
                }
                label.map_or(f64::NAN, |label| total.ln() + max - y[label])
            }
            Loss::MeanSquaredError => {
                for c in 0..classes {
                    dy[c] = 2.0 * (y[c] - target(c)) / classes as f64 * scale;
                }
                let squares: f64 = (0..classes).map(|c| (y[c] - target(c)).powi(2)).sum();
                label.map_or(f64::NAN, |_| squares / classes as f64)
            }
        };
        correct += f64::from(u8::from(label.is_some() && argmax(y) == label));
    }
    (sum, correct)
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
