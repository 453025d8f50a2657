//! Pools: for every output, the places of its window in the input.

use super::Reference;
use super::conv::places;
use super::elementwise::derivative;
use paceline_base::kernel::BufferId;
use paceline_base::op::Activation;
use paceline_base::window::{DEAD, PoolDims};

/// Calls `each(output, place in the window, input)` for all elements of all windows that lie within the image, first places first.
fn windows(d: &PoolDims, mut each: impl FnMut(usize, u8, usize)) {
    for n in 0..d.samples {
        for (oy, ox) in places(d.out_height, d.out_width) {
            for (place, (wy, wx)) in places(d.window[0], d.window[1]).enumerate() {
                let y = (oy * d.stride[0] + wy).checked_sub(d.pad[0]).filter(|y| *y < d.height);
                let x = (ox * d.stride[1] + wx).checked_sub(d.pad[1]).filter(|x| *x < d.width);
                let (Some(y), Some(x)) = (y, x) else { continue };
                for c in 0..d.channels {
                    let output = ((n * d.out_height + oy) * d.out_width + ox) * d.channels + c;
                    each(output, place as u8, ((n * d.height + y) * d.width + x) * d.channels + c);
                }
            }
        }
    }
}

/// The maximum of each window and its place: the first of equal ones; NaN before all. Behind an activation that passes no gradient there the
/// place is [`DEAD`], as it is for a window that lies outside the image (whose maximum is −∞).
pub(super) fn maxima(d: &PoolDims, x: &[f64], behind: Option<Activation>) -> (Vec<f64>, Vec<u8>) {
    let mut y = vec![f64::NEG_INFINITY; d.output_len()];
    let mut codes = vec![DEAD; d.output_len()];
    windows(d, |o, place, i| {
        let better = x[i] > y[o] || x[i].is_nan() && !y[o].is_nan();
        if codes[o] == DEAD || better {
            (y[o], codes[o]) = (x[i], place);
        }
    });
    if behind == Some(Activation::Relu) {
        for (y, code) in y.iter().zip(&mut codes) {
            if derivative(Activation::Relu, *y, 1.0) == 0.0 {
                *code = DEAD;
            }
        }
    }
    (y, codes)
}

/// Puts each gradient where the maximum was.
pub(super) fn spread(d: &PoolDims, dy: &[f64], codes: &[u8]) -> Vec<f64> {
    let mut dx = vec![0.0; d.input_len()];
    windows(d, |o, place, i| {
        if codes[o] == place {
            dx[i] += dy[o];
        }
    });
    dx
}

impl Reference {
    /// The first `len` codes of a buffer.
    pub(super) fn read_codes(&self, buffer: BufferId, len: usize) -> Vec<u8> {
        self.typed::<u8>(buffer)[..len].to_vec()
    }

    /// The maximum of each window, and where it was
    pub(super) fn max_pool(&mut self, dims: &PoolDims, codes: bool, args: &[BufferId]) {
        let (y, places) = maxima(dims, &self.input(args[0], dims.input_len()), None);
        self.output(args[1], &y);
        if codes {
            self.output(args[2], &places);
        }
    }

    /// Each gradient to the place of its maximum
    pub(super) fn max_pool_backward(&mut self, dims: &PoolDims, args: &[BufferId]) {
        let (dy, codes) = (self.input(args[0], dims.output_len()), self.read_codes(args[1], dims.output_len()));
        self.output(args[2], &spread(dims, &dy, &codes));
    }

    /// `y = Σ x / divisor` over each window
    pub(super) fn average_pool(&mut self, dims: &PoolDims, divisor: usize, args: &[BufferId]) {
        let x = self.input(args[0], dims.input_len());
        let mut y = vec![0.0; dims.output_len()];
        windows(dims, |o, _, i| y[o] += x[i]);
        y.iter_mut().for_each(|y| *y /= divisor as f64);
        self.output(args[1], &y);
    }

    /// `dx = Σ dy / divisor` over the windows that hold each element
    pub(super) fn average_pool_backward(&mut self, dims: &PoolDims, divisor: usize, args: &[BufferId]) {
        let dy = self.input(args[0], dims.output_len());
        let mut dx = vec![0.0; dims.input_len()];
        windows(dims, |o, _, i| dx[i] += dy[o]);
        dx.iter_mut().for_each(|dx| *dx /= divisor as f64);
        self.output(args[1], &dx);
    }
}
