//! Normalisations within a row: over the channels around each (Krizhevsky et al. 2012), and over all of them (Ba et al. 2016).

use super::Reference;
use paceline_base::kernel::{BufferId, LocalResponse};

/// The channels around channel `c`.
fn around(l: &LocalResponse, c: usize) -> std::ops::Range<usize> {
    c.saturating_sub(l.size / 2)..(c + l.size.div_ceil(2)).min(l.channels)
}

/// `k + α/size · Σ x²` around channel `c` of a row.
fn denominator(l: &LocalResponse, row: &[f64], c: usize) -> f64 {
    l.k + l.alpha / l.size as f64 * row[around(l, c)].iter().map(|x| x * x).sum::<f64>()
}

impl Reference {
    /// `y = x / (k + α/size · Σ x²)^β`
    pub(super) fn local_response(&mut self, l: &LocalResponse, args: &[BufferId]) {
        let x = self.input(args[0], l.rows * l.channels);
        let mut y = Vec::with_capacity(l.rows * l.out_channels);
        for r in 0..l.rows {
            let row = &x[r * l.channels..][..l.channels];
            y.extend((l.first..l.first + l.out_channels).map(|c| row[c] * denominator(l, row, c).powf(-l.beta)));
        }
        self.output(args[1], &y);
    }

    /// With d the denominator: `∂y_c/∂x_i = [i = c] d^−β − 2αβ/size · x_c · x_i · d^(−β−1)` for i around c
    pub(super) fn local_response_backward(&mut self, l: &LocalResponse, args: &[BufferId]) {
        let (dy, x) = (self.input(args[0], l.rows * l.out_channels), self.input(args[1], l.rows * l.channels));
        let mut dx = vec![0.0; l.rows * l.channels];
        for r in 0..l.rows {
            let (row, dx) = (&x[r * l.channels..][..l.channels], &mut dx[r * l.channels..][..l.channels]);
            for made in 0..l.out_channels {
                let (c, dy) = (l.first + made, dy[r * l.out_channels + made]);
                let d = denominator(l, row, c);
                dx[c] += dy * d.powf(-l.beta);
                for i in around(l, c) {
                    let slope = 2.0 * l.alpha * l.beta / l.size as f64 * row[c] * row[i];
                    dx[i] -= dy * slope * d.powf(-l.beta - 1.0);
                }
            }
        }
        self.output(args[2], &dx);
    }

    /// `y = (x − mean) / √(variance + eps) · γ + β`; keeps `[mean, 1 / √…]` row by row
    pub(super) fn layer_norm(&mut self, rows: usize, channels: usize, eps: f64, args: &[BufferId]) {
        let x = self.input(args[0], rows * channels);
        let (gamma, beta) = (self.input(args[1], channels), self.input(args[2], channels));
        let (mut y, mut kept) = (Vec::new(), Vec::new());
        for r in 0..rows {
            let row = &x[r * channels..][..channels];
            let mean = row.iter().sum::<f64>() / channels as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / channels as f64;
            let scale = 1.0 / (variance + eps).sqrt();
            y.extend((0..channels).map(|c| (row[c] - mean) * scale * gamma[c] + beta[c]));
            kept.extend([mean, scale]);
        }
        self.output(args[3], &y);
        self.output(args[4], &kept);
    }

    /// With g = dy · γ: `dx = 1 / √… · (g − mean of g − x̂ · mean of g · x̂)`
    pub(super) fn layer_norm_backward_data(&mut self, rows: usize, channels: usize, args: &[BufferId]) {
        let (dy, x) = (self.input(args[0], rows * channels), self.input(args[1], rows * channels));
        let (kept, gamma) = (self.input(args[2], 2 * rows), self.input(args[3], channels));
        let mut dx = Vec::new();
        for r in 0..rows {
            let (mean, scale) = (kept[2 * r], kept[2 * r + 1]);
            let g: Vec<f64> = (0..channels).map(|c| dy[r * channels + c] * gamma[c]).collect();
            let hat: Vec<f64> = (0..channels).map(|c| (x[r * channels + c] - mean) * scale).collect();
            let mean_g = g.iter().sum::<f64>() / channels as f64;
            let mean_g_hat = g.iter().zip(&hat).map(|(g, hat)| g * hat).sum::<f64>() / channels as f64;
            dx.extend((0..channels).map(|c| scale * (g[c] - mean_g - hat[c] * mean_g_hat)));
        }
        self.output(args[4], &dx);
    }

    /// `dγ = Σ dy · x̂`, `dβ = Σ dy` over the rows
    pub(super) fn layer_norm_backward_weights(&mut self, rows: usize, channels: usize, args: &[BufferId]) {
        let (dy, x) = (self.input(args[0], rows * channels), self.input(args[1], rows * channels));
        let kept = self.input(args[2], 2 * rows);
        let (mut gamma, mut beta) = (vec![0.0; channels], vec![0.0; channels]);
        for at in 0..rows * channels {
            let (r, c) = (at / channels, at % channels);
            gamma[c] += dy[at] * (x[at] - kept[2 * r]) * kept[2 * r + 1];
            beta[c] += dy[at];
        }
        self.output(args[3], &gamma);
        self.output(args[4], &beta);
    }
}
