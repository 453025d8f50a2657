//! Batch normalisation (Ioffe & Szegedy 2015) in the steps between which ranks add up their sums; the moving moments are PyTorch's.
//!
//! Pairs by channel lie as [2, channels]: all of the first, then all of the second.

use super::Reference;
use super::elementwise::{derivative, value};
use paceline_base::kernel::BufferId;
use paceline_base::op::Activation;

/// Sizes of a batch normalisation's part.
#[derive(Clone, Copy)]
pub(super) struct BatchNormPart {
    pub rows: usize,
    pub channels: usize,
    /// Rows over all ranks, where moments are taken.
    pub count: usize,
    pub eps: f64,
}

impl BatchNormPart {
    /// A part as a pass sees it that takes no moments.
    pub(super) fn new(rows: usize, channels: usize) -> Self {
        Self { rows, channels, count: 0, eps: 0.0 }
    }

    fn len(&self) -> usize {
        self.rows * self.channels
    }

    /// Two sums by channel, each over all rows.
    fn sums(&self, of: impl Fn(usize, usize) -> (f64, f64)) -> Vec<f64> {
        let mut sums = vec![0.0; 2 * self.channels];
        for at in 0..self.len() {
            let c = at % self.channels;
            let (first, second) = of(at, c);
            sums[c] += first;
            sums[self.channels + c] += second;
        }
        sums
    }
}

impl Reference {
    /// `[Σ (x − m), Σ (x − m)²]`, m the running mean
    pub(super) fn batch_sums(&mut self, b: BatchNormPart, args: &[BufferId]) {
        let (x, m) = (self.input(args[0], b.len()), self.input(args[1], b.channels));
        let sums = b.sums(|at, c| (x[at] - m[c], (x[at] - m[c]).powi(2)));
        self.output(args[2], &sums);
    }

    /// `y = f((x − mean) / √(variance + eps) · γ + β)`; moves the running moments
    pub(super) fn batch_normalize(
        &mut self,
        b: BatchNormPart,
        momentum: f64,
        f: Option<Activation>,
        args: &[BufferId],
    ) {
        let BatchNormPart { channels, count, eps, .. } = b;
        let sums = self.input(args[1], 2 * channels);
        let (mut running_mean, mut running_variance) = (self.input(args[2], channels), self.input(args[3], channels));
        let mut kept = vec![0.0; 2 * channels];
        for c in 0..channels {
            let n = count.max(1) as f64;
            let shift = sums[c] / n;
            let mean = running_mean[c] + shift;
            let variance = sums[channels + c] / n - shift * shift;
            // Rounding may take it below zero; `max` would lose NaN.
            let variance = if variance < 0.0 { 0.0 } else { variance };
            kept[c] = mean;
            kept[channels + c] = 1.0 / (variance + eps).sqrt();
            if count > 0 {
                let unbiased = variance * n / (n - 1.0).max(1.0);
                running_mean[c] += momentum * (mean - running_mean[c]);
                running_variance[c] += momentum * (unbiased - running_variance[c]);
            }
        }
        self.affine(b, &kept, f, args[0], args[4], args[5], args[7]);
        self.output(args[2], &running_mean);
        self.output(args[3], &running_variance);
        self.output(args[6], &kept);
    }

    /// The same with the running moments
    pub(super) fn batch_infer(&mut self, b: BatchNormPart, f: Option<Activation>, args: &[BufferId]) {
        let mut kept = self.input(args[1], b.channels);
        kept.extend(self.input(args[2], b.channels).iter().map(|v| 1.0 / (v + b.eps).sqrt()));
        self.affine(b, &kept, f, args[0], args[3], args[4], args[5]);
    }

    /// `y = f(x̂ · γ + β)`
    #[allow(clippy::too_many_arguments)] // the buffers of one formula
    fn affine(
        &mut self,
        b: BatchNormPart,
        kept: &[f64],
        f: Option<Activation>,
        x: BufferId,
        gamma: BufferId,
        beta: BufferId,
        y: BufferId,
    ) {
        let (gamma, beta) = (self.input(gamma, b.channels), self.input(beta, b.channels));
        let mut values = self.input(x, b.len());
        for (at, x) in values.iter_mut().enumerate() {
            let c = at % b.channels;
            let linear = (*x - kept[c]) * kept[b.channels + c] * gamma[c] + beta[c];
            *x = f.map_or(linear, |f| value(f, linear));
        }
        self.output(y, &values);
    }

    /// `dy`, times f′ of the activation behind, whose output is `y`
    fn gradient_before(
        &self,
        b: BatchNormPart,
        through: Option<Activation>,
        dy: BufferId,
        y: Option<&BufferId>,
    ) -> Vec<f64> {
        let dy = self.input(dy, b.len());
        match (through, y) {
            (Some(f), Some(y)) => {
                let y = self.input(*y, b.len());
                dy.iter().zip(y).map(|(dy, y)| derivative(f, y, *dy)).collect()
            }
            _ => dy,
        }
    }

    /// `[Σ dy, Σ dy · x̂]`
    pub(super) fn batch_gradient_sums(&mut self, b: BatchNormPart, through: Option<Activation>, args: &[BufferId]) {
        let dy = self.gradient_before(b, through, args[0], args.get(4));
        let (x, kept) = (self.input(args[1], b.len()), self.input(args[2], 2 * b.channels));
        let sums = b.sums(|at, c| (dy[at], dy[at] * (x[at] - kept[c]) * kept[b.channels + c]));
        self.output(args[3], &sums);
    }

    /// `dx = γ / √… · (dy − sums₀ / count − x̂ · sums₁ / count)`
    pub(super) fn batch_backward(&mut self, b: BatchNormPart, through: Option<Activation>, args: &[BufferId]) {
        let mut dx = self.gradient_before(b, through, args[0], args.get(6));
        let (x, kept) = (self.input(args[1], b.len()), self.input(args[2], 2 * b.channels));
        let (gamma, sums) = (self.input(args[3], b.channels), self.input(args[4], 2 * b.channels));
        let n = b.count.max(1) as f64;
        for (at, dx) in dx.iter_mut().enumerate() {
            let c = at % b.channels;
            let scale = kept[b.channels + c];
            let hat = (x[at] - kept[c]) * scale;
            *dx = gamma[c] * scale * (*dx - sums[c] / n - hat * sums[b.channels + c] / n);
        }
        self.output(args[5], &dx);
    }
}
