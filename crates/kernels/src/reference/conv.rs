//! Convolutions: one trilinear form, summed three ways.
//!
//! Every product of a convolution joins one element of the output, one of the input and one of the weights. [`products`] names them all; each
//! pass multiplies two of the three and adds to the third.

use super::Reference;
use super::elementwise::{derivative, value};
use super::pool::{maxima, spread};
use paceline_base::kernel::BufferId;
use paceline_base::op::Activation;
use paceline_base::window::{ConvDims, PoolDims};

/// The places (in the output, in the input, in the weights) of every product; those with a zero beyond the image are left out.
fn products(d: &ConvDims, mut each: impl FnMut(usize, usize, usize)) {
    let (ins, outs) = (d.channels / d.groups, d.out_channels / d.groups);
    for n in 0..d.samples {
        for (oy, ox) in places(d.out_height, d.out_width) {
            for (ky, kx) in places(d.kernel[0], d.kernel[1]) {
                let y = (oy * d.stride[0] + ky * d.dilation[0]).checked_sub(d.pad[0]).filter(|y| *y < d.height);
                let x = (ox * d.stride[1] + kx * d.dilation[1]).checked_sub(d.pad[1]).filter(|x| *x < d.width);
                let (Some(y), Some(x)) = (y, x) else { continue };
                for (o, i) in places(d.out_channels, ins) {
                    let group = o / outs;
                    each(
                        ((n * d.out_height + oy) * d.out_width + ox) * d.out_channels + o,
                        ((n * d.height + y) * d.width + x) * d.channels + group * ins + i,
                        ((o * ins + i) * d.kernel[0] + ky) * d.kernel[1] + kx,
                    );
                }
            }
        }
    }
}

/// All pairs below two limits, row by row.
pub(super) fn places(rows: usize, columns: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).flat_map(move |row| (0..columns).map(move |column| (row, column)))
}

impl Reference {
    /// `y = f(x ∗ w + b)`, then the maxima of windows if `pool`
    pub(super) fn conv_forward(
        &mut self,
        dims: &ConvDims,
        bias: bool,
        f: Option<Activation>,
        pool: Option<&PoolDims>,
        codes: bool,
        args: &[BufferId],
    ) {
        let (x, w) = (self.input(args[0], dims.input_len()), self.input(args[1], dims.weight_len()));
        let b = if bias { self.input(args[3], dims.out_channels) } else { vec![0.0; dims.out_channels] };
        let mut y: Vec<f64> = (0..dims.output_len()).map(|at| b[at % dims.out_channels]).collect();
        products(dims, |o, i, k| y[o] += x[i] * w[k]);
        if let Some(f) = f {
            y.iter_mut().for_each(|y| *y = value(f, *y));
        }
        let Some(pool) = pool else { return self.output(args[2], &y) };
        let (y, places) = maxima(pool, &y, f);
        self.output(args[2], &y);
        if codes {
            self.output(args[3 + usize::from(bias)], &places);
        }
    }

    /// The gradient of a convolution's output: as it is, or put back by the codes of the pool behind it.
    fn conv_gradient(&self, dims: &ConvDims, pooled: Option<(&PoolDims, BufferId)>, dy: BufferId) -> Vec<f64> {
        match pooled {
            None => self.input(dy, dims.output_len()),
            Some((pool, codes)) => {
                spread(pool, &self.input(dy, pool.output_len()), &self.read_codes(codes, pool.output_len()))
            }
        }
    }

    /// `dx`, then times f′
    pub(super) fn conv_backward_data(
        &mut self,
        dims: &ConvDims,
        through: Option<Activation>,
        pooled: Option<&PoolDims>,
        args: &[BufferId],
    ) {
        let dy = self.conv_gradient(dims, pooled.map(|pool| (pool, args[3])), args[0]);
        let w = self.input(args[1], dims.weight_len());
        let mut dx = vec![0.0; dims.input_len()];
        products(dims, |o, i, k| dx[i] += dy[o] * w[k]);
        if let Some(f) = through {
            let saved = self.input(args[3 + usize::from(pooled.is_some())], dims.input_len());
            for (dx, saved) in dx.iter_mut().zip(saved) {
                *dx = derivative(f, saved, *dx);
            }
        }
        self.output(args[2], &dx);
    }

    /// `dw` and `db`
    pub(super) fn conv_backward_weights(
        &mut self,
        dims: &ConvDims,
        bias: bool,
        pooled: Option<&PoolDims>,
        args: &[BufferId],
    ) {
        let dy = self.conv_gradient(dims, pooled.map(|pool| (pool, args[3 + usize::from(bias)])), args[0]);
        let x = self.input(args[1], dims.input_len());
        let mut dw = vec![0.0; dims.weight_len()];
        products(dims, |o, i, k| dw[k] += dy[o] * x[i]);
        self.output(args[2], &dw);
        if bias {
            let mut db = vec![0.0; dims.out_channels];
            dy.iter().enumerate().for_each(|(at, dy)| db[at % dims.out_channels] += dy);
            self.output(args[3], &db);
        }
    }
}
