//! Convolutions on every device and by every algorithm: the reference against a naive computation, the others against the reference.

mod suite;

use paceline_base::kernel::Kernel;
use paceline_base::op::Activation;
use paceline_base::window::{ConvDims, DEAD, PoolDims};
use paceline_kernels::cpu::{Algorithm, ConvCase};
use paceline_kernels::tuning::ConvChoice;
use paceline_kernels::{Cpu, CpuOptions, Device, Isa, Tuning};
use proptest::prelude::*;
use suite::shapes::{any_conv, conv, conv_cases, pool_of};
use suite::{STEP, Which, as_codes, close, codes_of, run, run_on, same_bits, values};

/// A processor that computes this kernel by this algorithm.
fn cpu(isa: Isa, threads: usize, kernel: &Kernel, algorithm: Algorithm) -> Box<dyn Device> {
    let case = ConvCase::of(kernel).expect("a convolution").shape();
    let convs = vec![ConvChoice { case, algorithm }];
    let tuning = Tuning { parallel_flops: 0, parallel_elements: 0, convs, ..Tuning::heuristic(isa) };
    Box::new(Cpu::new(CpuOptions { threads, tuning: Some(tuning), ..CpuOptions::default() }).unwrap())
}

/// How far an algorithm may be from the truth, in units of what a plain sum may.
fn looseness(algorithm: Algorithm) -> f64 {
    match algorithm {
        Algorithm::Direct => 1.0,
        Algorithm::Winograd2 => 4.0,
        Algorithm::Winograd4 | Algorithm::Winograd5 => 16.0,
    }
}

/// Runs a kernel on every processor by every algorithm that can; `check(what, tolerance, contents)` looks at what came out.
fn on_all(
    kernel: &Kernel,
    buffers: impl Fn(Which) -> Vec<Vec<f64>>,
    terms: usize,
    check: impl Fn(&str, f64, &[Vec<f64>]),
) {
    for which in Which::cpus() {
        let Which::Cpu(isa, threads, _) = which else { continue };
        for algorithm in ConvCase::of(kernel).expect("a convolution").candidates() {
            let what = format!("{which:?} by {algorithm}: {kernel:?}");
            let buffers = buffers(which);
            let calls = [(kernel.clone(), (0..buffers.len()).collect())];
            let got = run_on(cpu(isa, threads, kernel, algorithm), &what, &calls, &buffers, &STEP);
            check(&what, looseness(algorithm) * which.tolerance(terms), &got);
        }
    }
}

/// `y` from an image with an explicit frame of zeros.
fn naive(d: &ConvDims, x: &[f64], w: &[f64], b: &[f64]) -> Vec<f64> {
    let (ins, outs) = (d.channels / d.groups, d.out_channels / d.groups);
    let reach = |axis: usize, out: usize| (out - 1) * d.stride[axis] + (d.kernel[axis] - 1) * d.dilation[axis] + 1;
    let (high, wide) = (reach(0, d.out_height).max(d.height + d.pad[0]), reach(1, d.out_width).max(d.width + d.pad[1]));
    let mut y = Vec::new();
    for n in 0..d.samples {
        let mut framed = vec![vec![vec![0.0; d.channels]; wide]; high];
        for (i, v) in x[n * d.height * d.width * d.channels..][..d.height * d.width * d.channels].iter().enumerate() {
            let (row, column) = (i / d.channels / d.width, i / d.channels % d.width);
            framed[row + d.pad[0]][column + d.pad[1]][i % d.channels] = *v;
        }
        for at in 0..d.out_height * d.out_width * d.out_channels {
            let (o, ox, oy) =
                (at % d.out_channels, at / d.out_channels % d.out_width, at / d.out_channels / d.out_width);
            let mut sum = b[o];
            for (k, w) in w[o * d.terms()..][..d.terms()].iter().enumerate() {
                let (kx, ky, i) = (k % d.kernel[1], k / d.kernel[1] % d.kernel[0], k / d.kernel[1] / d.kernel[0]);
                let row = &framed[oy * d.stride[0] + ky * d.dilation[0]];
                sum += w * row[ox * d.stride[1] + kx * d.dilation[1]][o / outs * ins + i];
            }
            y.push(sum);
        }
    }
    y
}

/// Forward, data and weights, by themselves and with what they can be joined with.
fn check(dims: ConvDims, pool: Option<PoolDims>, f: Activation, seed: u64) {
    let (input, output, terms) = (dims.input_len(), dims.output_len(), dims.terms());
    let (x, w, b) = (values(seed, input), values(seed + 1, dims.weight_len()), values(seed + 2, dims.out_channels));
    let (dy, junk) = (values(seed + 3, output), |len: usize| vec![5.0; len]);
    for (bias, activation) in [(true, None), (false, Some(f))] {
        let kernel = Kernel::ConvForward { dims, bias, activation, pool: None, codes: false };
        let mut buffers = vec![x.clone(), w.clone(), junk(output)];
        if bias {
            buffers.push(b.clone());
        }
        let expected = run(Which::Reference, kernel.clone(), &buffers, &STEP);
        on_all(
            &kernel,
            |_| buffers.clone(),
            terms,
            |what, tolerance, got| {
                close(what, &got[2], &expected[2], tolerance);
            },
        );
    }
    // Zeros in the input as a relu leaves them.
    let saved: Vec<f64> = x.iter().map(|x| x.max(0.0)).collect();
    for through in [None, Some(Activation::Relu)] {
        let kernel = Kernel::ConvBackwardData { dims, through, pooled: None };
        let mut buffers = vec![dy.clone(), w.clone(), junk(input)];
        if through.is_some() {
            buffers.push(saved.clone());
        }
        let expected = run(Which::Reference, kernel.clone(), &buffers, &STEP);
        let terms = dims.out_channels / dims.groups * dims.kernel[0] * dims.kernel[1];
        on_all(
            &kernel,
            |_| buffers.clone(),
            terms,
            |what, tolerance, got| {
                close(what, &got[2], &expected[2], tolerance);
            },
        );
    }
    for bias in [false, true] {
        let kernel = Kernel::ConvBackwardWeights { dims, bias, pooled: None };
        let mut buffers = vec![dy.clone(), x.clone(), junk(dims.weight_len())];
        if bias {
            buffers.push(junk(dims.out_channels));
        }
        let expected = run(Which::Reference, kernel.clone(), &buffers, &STEP);
        on_all(
            &kernel,
            |_| buffers.clone(),
            output / dims.out_channels,
            |what, tolerance, got| {
                got.iter().zip(&expected).skip(2).for_each(|(got, expected)| close(what, got, expected, tolerance));
            },
        );
    }
    if let Some(pool) = pool.filter(|p| p.out_height * p.out_width > 0) {
        check_pooled(dims, pool, seed);
    }
}

/// The same with relu and a pool behind.
fn check_pooled(dims: ConvDims, pool: PoolDims, seed: u64) {
    let (x, w, b) =
        (values(seed, dims.input_len()), values(seed + 1, dims.weight_len()), values(seed + 2, dims.out_channels));
    let (junk, relu) = (|len: usize| vec![5.0; len], Some(Activation::Relu));
    // What each window chooses from, to tell a wrong code from a tie that rounding broke the other way.
    let plain = Kernel::ConvForward { dims, bias: true, activation: relu, pool: None, codes: false };
    let image = run(Which::Reference, plain, &[x.clone(), w.clone(), junk(dims.output_len()), b.clone()], &STEP);
    let image = &image[2];
    let chosen = |at: usize, code: u8| {
        let (c, ox, line) =
            (at % pool.channels, at / pool.channels % pool.out_width, at / pool.channels / pool.out_width);
        let (sample, oy) = (line / pool.out_height, line % pool.out_height);
        let (wy, wx) = (usize::from(code) / pool.window[1], usize::from(code) % pool.window[1]);
        let (row, column) = (oy * pool.stride[0] + wy, ox * pool.stride[1] + wx);
        image[((sample * pool.height + row) * pool.width + column) * pool.channels + c]
    };
    let mut codes = Vec::new();
    for keep in [false, true] {
        let kernel = Kernel::ConvForward { dims, bias: true, activation: relu, pool: Some(pool), codes: keep };
        let mut buffers = vec![x.clone(), w.clone(), junk(pool.output_len()), b.clone()];
        if keep {
            buffers.push(junk(pool.codes_len()));
        }
        let expected = run(Which::Reference, kernel.clone(), &buffers, &STEP);
        on_all(
            &kernel,
            |_| buffers.clone(),
            dims.terms(),
            |what, tolerance, got| {
                close(what, &got[2], &expected[2], tolerance);
                if keep {
                    for (at, code) in codes_of(&got[4]).into_iter().enumerate() {
                        let (best, slack) = (expected[2][at], tolerance * expected[2][at].abs().max(1.0));
                        let right = if code == DEAD { best <= slack } else { chosen(at, code) >= best - 2.0 * slack };
                        assert!(right, "{what}: code {code} of output {at}, where the maximum is {best}");
                    }
                }
            },
        );
        if keep {
            codes = codes_of(&expected[4]);
        }
    }
    let dy = values(seed + 3, pool.output_len());
    let saved: Vec<f64> = x.iter().map(|x| x.max(0.0)).collect();
    for through in [None, relu] {
        let kernel = Kernel::ConvBackwardData { dims, through, pooled: Some(pool) };
        let buffers = |_: Which| {
            let mut buffers = vec![dy.clone(), w.clone(), junk(dims.input_len()), as_codes(&codes)];
            buffers.extend(through.map(|_| saved.clone()));
            buffers
        };
        let expected = run(Which::Reference, kernel.clone(), &buffers(Which::Reference), &STEP);
        on_all(&kernel, buffers, dims.out_channels, |what, tolerance, got| {
            close(what, &got[2], &expected[2], tolerance);
        });
    }
    let kernel = Kernel::ConvBackwardWeights { dims, bias: true, pooled: Some(pool) };
    let buffers = |_: Which| {
        let (dw, db) = (junk(dims.weight_len()), junk(dims.out_channels));
        vec![dy.clone(), x.clone(), dw, db, as_codes(&codes)]
    };
    let expected = run(Which::Reference, kernel.clone(), &buffers(Which::Reference), &STEP);
    on_all(&kernel, buffers, pool.output_len() / dims.out_channels, |what, tolerance, got| {
        close(what, &got[2], &expected[2], tolerance);
        close(what, &got[3], &expected[3], tolerance);
    });
}

#[test]
fn the_reference_convolves_as_defined() {
    for (dims, _) in conv_cases() {
        let (x, w, b) = (values(1, dims.input_len()), values(2, dims.weight_len()), values(3, dims.out_channels));
        let kernel = Kernel::ConvForward { dims, bias: true, activation: None, pool: None, codes: false };
        let y = naive(&dims, &x, &w, &b);
        let got = run(Which::Reference, kernel, &[x, w, vec![5.0; y.len()], b], &STEP);
        close(&format!("{dims:?}"), &got[2], &y, 1e-12);
    }
}

#[test]
fn every_rule_of_shapes() {
    for (dims, pool) in conv_cases() {
        check(dims, pool, Activation::Tanh, 7);
    }
}

/// Enough channels and places for whole tiles, blocks and vectors, with tails.
#[test]
fn larger_shapes() {
    let (one, two) = ([1, 1], [2, 2]);
    for dims in [
        conv([3, 17, 15, 16], 32, [3, 3], one, one, one, 1),
        conv([2, 14, 14, 40], 24, [3, 3], one, one, one, 1),
        conv([2, 12, 13, 20], 36, [5, 5], one, two, one, 1),
        conv([1, 35, 35, 3], 19, [11, 11], [4, 4], two, one, 1),
        conv([2, 16, 16, 24], 48, [3, 3], two, one, one, 1),
        conv([2, 9, 9, 48], 33, [1, 1], two, [0, 0], one, 1),
        conv([1, 12, 12, 32], 32, [3, 3], one, one, one, 32),
    ] {
        check(dims, Some(pool_of(&dims, two)), Activation::Relu, 3);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_shape(dims in any_conv(), window in [1usize..4, 1usize..4], f in prop::sample::select(Activation::ALL.to_vec()), seed in 0u64..1000) {
        check(dims, Some(pool_of(&dims, window)), f, seed);
    }

    #[test]
    fn any_square_kernel(
        n in 0usize..4, size in (1usize..20, 1usize..20), channels in (1usize..40, 1usize..40), five: bool, pad in 0usize..4, seed in 0u64..1000,
    ) {
        // What Winograd takes.
        let kernel = if five { [5, 5] } else { [3, 3] };
        let dims = conv([n, size.0, size.1, channels.0], channels.1, kernel, [1, 1], [pad, pad.saturating_sub(1)], [1, 1], 1);
        prop_assume!(dims.out_height * dims.out_width > 0);
        check(dims, Some(pool_of(&dims, [2, 2])), Activation::Relu, seed);
    }
}

/// Every pass by every algorithm: the same bits on any number of threads. Shapes with many partial sums of the weight gradient, with
/// one that threads must divide by channels, with partial vectors, groups and strides.
#[test]
fn threads_do_not_change_bits() {
    let shapes = [
        conv([16, 12, 12, 5], 20, [3, 3], [1, 1], [1, 1], [1, 1], 1),
        conv([8, 16, 16, 16], 40, [3, 3], [1, 1], [1, 1], [1, 1], 1),
        conv([24, 20, 20, 3], 8, [5, 5], [1, 1], [2, 2], [1, 1], 1),
        conv([9, 13, 11, 8], 12, [3, 3], [2, 2], [1, 1], [1, 1], 4),
        conv([40, 3, 4, 6], 33, [1, 1], [1, 1], [0, 0], [1, 1], 1),
        conv([1, 8, 8, 256], 256, [3, 3], [1, 1], [1, 1], [1, 1], 1),
    ];
    for d in shapes {
        let (x, w, dy) = (values(1, d.input_len()), values(2, d.weight_len()), values(3, d.output_len()));
        let junk = |len: usize| vec![5.0; len];
        let passes = [
            (
                Kernel::ConvForward { dims: d, bias: false, activation: None, pool: None, codes: false },
                vec![x.clone(), w.clone(), junk(d.output_len())],
            ),
            (
                Kernel::ConvBackwardData { dims: d, through: None, pooled: None },
                vec![dy.clone(), w.clone(), junk(d.input_len())],
            ),
            (
                Kernel::ConvBackwardWeights { dims: d, bias: true, pooled: None },
                vec![dy.clone(), x.clone(), junk(d.weight_len()), junk(d.out_channels)],
            ),
        ];
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            for (kernel, buffers) in &passes {
                for algorithm in ConvCase::of(kernel).expect("a convolution").candidates() {
                    let calls = [(kernel.clone(), (0..buffers.len()).collect())];
                    let on = |threads: usize| {
                        let what = format!("{isa} by {algorithm} on {threads} threads: {kernel:?}");
                        (run_on(cpu(isa, threads, kernel, algorithm), &what, &calls, buffers, &STEP), what)
                    };
                    let (one, _) = on(1);
                    for threads in [2, 3, 5, 16] {
                        let (many, what) = on(threads);
                        many.iter().zip(&one).for_each(|(many, one)| same_bits(&what, many, one));
                    }
                }
            }
        }
    }
}

/// Pixels that read nothing but zeros are exactly their bias, by every algorithm: half of them would pass a relu's gradient if they came out
/// as ± something tiny. Images with black areas of all sizes, inside and along the border, in all channels or in some.
#[test]
fn pixels_that_read_only_zeros_are_their_bias() {
    for d in [
        conv([2, 23, 21, 3], 5, [3, 3], [1, 1], [1, 1], [1, 1], 1),
        conv([1, 18, 19, 20], 17, [3, 3], [1, 1], [0, 0], [1, 1], 1),
        conv([2, 14, 13, 2], 8, [3, 3], [1, 1], [2, 2], [1, 1], 1),
        conv([1, 22, 20, 5], 8, [5, 5], [1, 1], [2, 2], [1, 1], 1),
    ] {
        let mut x = values(3, d.input_len());
        for (i, v) in x.iter_mut().enumerate() {
            let (c, column, row) = (i % d.channels, i / d.channels % d.width, i / d.channels / d.width % d.height);
            // A wide black area, a spot of one pixel, a channel that is black everywhere.
            if (row >= 5 && column >= 4 && row + column < 26) || (row, column) == (2, 2) || c == 1 {
                *v = 0.0;
            }
        }
        let zero = vec![0.0; d.out_channels];
        for bias in [zero.clone(), values(5, d.out_channels)] {
            let kernel = Kernel::ConvForward { dims: d, bias: true, activation: None, pool: None, codes: false };
            let buffers = vec![x.clone(), values(4, d.weight_len()), vec![5.0; d.output_len()], bias.clone()];
            // Which ones: those that weights of ones see nothing of.
            let seen = naive(&d, &x.iter().map(|v| v.abs()).collect::<Vec<_>>(), &vec![1.0; d.weight_len()], &zero);
            assert!(seen.iter().filter(|v| **v == 0.0).count() > 8 * d.out_channels, "{d:?}");
            on_all(
                &kernel,
                |_| buffers.clone(),
                d.terms(),
                |what, _, got| {
                    for (i, (y, seen)) in got[2].iter().zip(&seen).enumerate() {
                        let expected = bias[i % d.out_channels];
                        assert!(*seen != 0.0 || *y == expected, "{what}: pixel {i} is {y:e}, not {expected:e}");
                    }
                },
            );
        }
    }
}
