//! The backward kernels of image networks are the derivatives of the forward ones: central differences through `Reference`.

mod suite;

use paceline_base::kernel::{Kernel, LocalResponse};
use paceline_base::op::Activation;
use paceline_base::window::PoolDims;
use suite::shapes::{conv_cases, pool_cases};
use suite::{STEP, Which, close, run_all, values};

type Calls = Vec<(Kernel, Vec<usize>)>;

/// A chain of kernels, and where its gradients are.
struct Chain {
    /// Lengths of the buffers; each begins with random values.
    sizes: Vec<usize>,
    forward: Calls,
    backward: Calls,
    /// The output, and the gradient of a loss with respect to it.
    output: (usize, usize),
    /// (parameter, buffer of its gradient, where in that buffer)
    gradients: Vec<(usize, usize, usize)>,
}

impl Chain {
    /// Compares every gradient with differences of the loss Σ y · dy.
    fn check(&self, what: &str) {
        let buffers: Vec<Vec<f64>> =
            self.sizes.iter().enumerate().map(|(i, len)| values(40 + i as u64, *len)).collect();
        let (y, dy) = self.output;
        let loss = |buffers: &[Vec<f64>]| -> f64 {
            let got = run_all(Which::Reference, &self.forward, buffers, &STEP);
            got[y].iter().zip(&buffers[dy]).map(|(y, dy)| y * dy).sum()
        };
        let calls: Calls = self.forward.iter().chain(&self.backward).cloned().collect();
        let chain = run_all(Which::Reference, &calls, &buffers, &STEP);
        for &(parameter, gradient, at) in &self.gradients {
            let len = self.sizes[parameter];
            // Every element of small buffers, some of large ones.
            let step = len.div_ceil(40).max(1);
            for i in (0..len).step_by(step) {
                let h = 1e-6;
                let (mut up, mut down) = (buffers.clone(), buffers.clone());
                up[parameter][i] += h;
                down[parameter][i] -= h;
                let numeric = (loss(&up) - loss(&down)) / (2.0 * h);
                let what = format!("{what}: element {i} of the gradient of buffer {parameter}");
                close(&what, &[chain[gradient][at + i]], &[numeric], 1e-7);
            }
        }
    }
}

#[test]
fn convolutions() {
    for (dims, pool) in conv_cases() {
        // 0 x, 1 w, 2 y, 3 b, 4 dy, 5 dx, 6 dw, 7 db
        let forward = Kernel::ConvForward { dims, bias: true, activation: None, pool: None, codes: false };
        let (input, output, weights) = (dims.input_len(), dims.output_len(), dims.weight_len());
        let backward = vec![
            (Kernel::ConvBackwardData { dims, through: None, pooled: None }, vec![4, 1, 5]),
            (Kernel::ConvBackwardWeights { dims, bias: true, pooled: None }, vec![4, 0, 6, 7]),
        ];
        Chain {
            sizes: vec![input, weights, output, dims.out_channels, output, input, weights, dims.out_channels],
            forward: vec![(forward, vec![0, 1, 2, 3])],
            backward,
            output: (2, 4),
            gradients: vec![(0, 5, 0), (1, 6, 0), (3, 7, 0)],
        }
        .check(&format!("{dims:?}"));
        // The same with relu and pool in one: 8 codes, 9 what an activation before made of 0, here the input itself.
        let Some(pool) = pool else { continue };
        let forward =
            Kernel::ConvForward { dims, bias: true, activation: Some(Activation::Relu), pool: Some(pool), codes: true };
        let backward = vec![
            (Kernel::ConvBackwardData { dims, through: None, pooled: Some(pool) }, vec![4, 1, 5, 8]),
            (Kernel::ConvBackwardWeights { dims, bias: true, pooled: Some(pool) }, vec![4, 0, 6, 7, 8]),
        ];
        let output = pool.output_len();
        Chain {
            sizes: vec![
                input,
                weights,
                output,
                dims.out_channels,
                output,
                input,
                weights,
                dims.out_channels,
                pool.codes_len(),
            ],
            forward: vec![(forward, vec![0, 1, 2, 3, 8])],
            backward,
            output: (2, 4),
            gradients: vec![(0, 5, 0), (1, 6, 0), (3, 7, 0)],
        }
        .check(&format!("{dims:?} into {pool:?}"));
    }
}

#[test]
fn convolutions_through_an_activation() {
    for (dims, _) in conv_cases() {
        for f in [Activation::Relu, Activation::Tanh, Activation::Sigmoid] {
            // 0 before, 1 w, 2 x = f(before), 3 y, 4 dy, 5 d(before)
            let (input, output) = (dims.input_len(), dims.output_len());
            let conv = Kernel::ConvForward { dims, bias: false, activation: None, pool: None, codes: false };
            let backward = Kernel::ConvBackwardData { dims, through: Some(f), pooled: None };
            Chain {
                sizes: vec![input, dims.weight_len(), input, output, output, input],
                forward: vec![(Kernel::Activate { function: f, len: input }, vec![0, 2]), (conv, vec![2, 1, 3])],
                backward: vec![(backward, vec![4, 1, 5, 2])],
                output: (3, 4),
                gradients: vec![(0, 5, 0)],
            }
            .check(&format!("{dims:?} behind {f}"));
        }
    }
}

#[test]
fn pools() {
    for dims in pool_cases() {
        let (input, output) = (dims.input_len(), dims.output_len());
        // 0 x, 1 y, 2 codes, 3 dy, 4 dx
        let chain = |forward: (Kernel, Vec<usize>), backward: (Kernel, Vec<usize>)| Chain {
            sizes: vec![input, output, dims.codes_len(), output, input],
            forward: vec![forward],
            backward: vec![backward],
            output: (1, 3),
            gradients: vec![(0, 4, 0)],
        };
        if in_image(&dims) {
            chain(
                (Kernel::MaxPool { dims, codes: true }, vec![0, 1, 2]),
                (Kernel::MaxPoolBackward { dims }, vec![3, 2, 4]),
            )
            .check(&format!("maximum, {dims:?}"));
        }
        let divisor = 7;
        let backward = (Kernel::AveragePoolBackward { dims, divisor }, vec![3, 4]);
        chain((Kernel::AveragePool { dims, divisor }, vec![0, 1]), backward).check(&format!("average, {dims:?}"));
    }
}

/// True if every window holds an element: other maxima are −∞, and their loss no number.
fn in_image(d: &PoolDims) -> bool {
    d.pad[0] < d.window[0]
        && d.pad[1] < d.window[1]
        && (d.out_height - 1) * d.stride[0] < d.height + d.pad[0]
        && (d.out_width - 1) * d.stride[1] < d.width + d.pad[1]
}

#[test]
fn batch_normalisation() {
    for f in [None, Some(Activation::Relu)] {
        let (rows, channels) = (9, 4);
        let (len, eps) = (rows * channels, 1e-3);
        // 0 x, 1 sums, 2 running mean, 3 running variance, 4 γ, 5 β, 6 kept, 7 y, 8 dy, 9 gradient sums, 10 dx
        let normalize = Kernel::BatchNormalize { rows, channels, count: rows, eps, momentum: 0.1, activation: f };
        let through = |args: [usize; 6], used: usize| {
            let mut args = args[..used].to_vec();
            if f.is_some() {
                args.push(7);
            }
            args
        };
        Chain {
            sizes: vec![
                len,
                2 * channels,
                channels,
                channels,
                channels,
                channels,
                2 * channels,
                len,
                len,
                2 * channels,
                len,
            ],
            forward: vec![(Kernel::BatchSums { rows, channels }, vec![0, 2, 1]), (normalize, (0..8).collect())],
            backward: vec![
                (Kernel::BatchGradientSums { rows, channels, through: f }, through([8, 0, 6, 9, 0, 0], 4)),
                (Kernel::BatchBackward { rows, channels, count: rows, through: f }, through([8, 0, 6, 4, 9, 10], 6)),
            ],
            output: (7, 8),
            gradients: vec![(0, 10, 0), (5, 9, 0), (4, 9, channels)],
        }
        .check(&format!("batch normalisation, then {f:?}"));
    }
}

#[test]
fn local_responses() {
    for (channels, first, out_channels, size) in [(9, 0, 9, 5), (9, 2, 5, 5), (7, 0, 7, 4), (3, 1, 2, 8), (1, 0, 1, 1)]
    {
        let rows = 3;
        let l = LocalResponse { rows, channels, first, out_channels, size, alpha: 0.7, beta: 0.75, k: 1.5 };
        Chain {
            sizes: vec![rows * channels, rows * out_channels, rows * out_channels, rows * channels],
            forward: vec![(Kernel::LocalResponse(l), vec![0, 1])],
            backward: vec![(Kernel::LocalResponseBackward(l), vec![2, 0, 3])],
            output: (1, 2),
            gradients: vec![(0, 3, 0)],
        }
        .check(&format!("{l:?}"));
    }
}

#[test]
fn layer_normalisation() {
    for (rows, channels) in [(4, 7), (1, 3), (3, 16)] {
        let len = rows * channels;
        // 0 x, 1 γ, 2 β, 3 y, 4 kept, 5 dy, 6 dx, 7 dγ, 8 dβ
        Chain {
            sizes: vec![len, channels, channels, len, 2 * rows, len, len, channels, channels],
            forward: vec![(Kernel::LayerNorm { rows, channels, eps: 1e-3 }, (0..5).collect())],
            backward: vec![
                (Kernel::LayerNormBackwardData { rows, channels }, vec![5, 0, 4, 1, 6]),
                (Kernel::LayerNormBackwardWeights { rows, channels }, vec![5, 0, 4, 7, 8]),
            ],
            output: (3, 5),
            gradients: vec![(0, 6, 0), (1, 7, 0), (2, 8, 0)],
        }
        .check(&format!("layer normalisation of {rows} by {channels}"));
    }
}
