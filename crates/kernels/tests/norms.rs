//! Normalisations and sums on every device: against a naive computation and, over random shapes, against the reference.

mod suite;

use paceline_base::kernel::{Kernel, LocalResponse};
use paceline_base::op::Activation;
use proptest::prelude::*;
use suite::{STEP, Which, agree, close, run, run_all, same_bits, values};

/// Rows and channels: none, one, few of either, joined rows, tails, and more channels than a strip.
fn sizes() -> impl Strategy<Value = (usize, usize)> {
    let rows = prop_oneof![Just(0usize), Just(1), 1usize..50, 100usize..1400];
    let channels = prop_oneof![1usize..41, Just(1), Just(3), Just(10), Just(16), Just(64)];
    prop_oneof![8 => (rows, channels), 1 => (0usize..5, 500usize..1100)]
}

fn maybe_relu() -> impl Strategy<Value = Option<Activation>> {
    prop_oneof![Just(None), Just(Some(Activation::Relu)), Just(Some(Activation::Tanh))]
}

/// Buffers of a batch normalisation: 0 x, 1 sums, 2 running mean, 3 running variance, 4 γ, 5 β, 6 kept, 7 y, 8 dy, 9 gradient sums, 10 dx.
fn batch_buffers(rows: usize, channels: usize, seed: u64) -> Vec<Vec<f64>> {
    let len = rows * channels;
    let sizes = [len, 2 * channels, channels, channels, channels, channels, 2 * channels, len, len, 2 * channels, len];
    let mut buffers: Vec<Vec<f64>> = sizes.iter().enumerate().map(|(i, n)| values(seed + i as u64, *n)).collect();
    buffers[3].iter_mut().for_each(|v| *v = v.abs());
    // Each channel has a mean and a width of its own; not wide, for one row's variance is what its squares leave over.
    for (at, x) in buffers[0].iter_mut().enumerate() {
        let c = (at % channels) as f64;
        *x = (*x * (1.0 + 0.1 * (c % 11.0)) + 0.3 * (c % 7.0)) as f32 as f64;
    }
    buffers
}

fn batch_calls(rows: usize, channels: usize, f: Option<Activation>) -> Vec<(Kernel, Vec<usize>)> {
    let count = rows.max(1);
    let with = |mut args: Vec<usize>| {
        args.extend(f.map(|_| 7));
        args
    };
    vec![
        (Kernel::BatchSums { rows, channels }, vec![0, 2, 1]),
        (Kernel::BatchNormalize { rows, channels, count, eps: 1e-2, momentum: 0.1, activation: f }, (0..8).collect()),
        (Kernel::BatchGradientSums { rows, channels, through: f }, with(vec![8, 0, 6, 9])),
        (Kernel::BatchBackward { rows, channels, count, through: f }, with(vec![8, 0, 6, 4, 9, 10])),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn batch_normalisation((rows, channels) in sizes(), f in maybe_relu(), seed in 0u64..1000) {
        let mut buffers = batch_buffers(rows, channels, seed);
        // Each step by itself, on what the reference made before: a relu of almost zero would otherwise differ by more than rounding.
        for (i, call) in batch_calls(rows, channels, f).into_iter().enumerate() {
            let compared = [vec![1], vec![2, 3, 6, 7], vec![9], vec![10]][i].clone();
            let what = format!("{} of {rows} by {channels} with {f:?}", call.0.name());
            let made = agree(&what, &[call], &buffers, &compared, 100.max(rows));
            buffers = made.iter().map(|b| b.iter().map(|x| *x as f32 as f64).collect()).collect();
        }
        let infer = Kernel::BatchInfer { rows, channels, eps: 1e-2, activation: f };
        agree(&format!("infer {rows} by {channels}"), &[(infer, vec![0, 2, 3, 4, 5, 7])], &buffers, &[7], 4);
    }

    #[test]
    fn fused_batch_normalisation_has_the_same_bits((rows, channels) in sizes(), seed in 0u64..1000) {
        let relu = Some(Activation::Relu);
        let mut buffers = batch_buffers(rows, channels, seed);
        buffers.push(vec![5.0; rows * channels]); // 11: before the activation, then its gradient
        let (function, len) = (Activation::Relu, rows * channels);
        let mut apart = batch_calls(rows, channels, None);
        apart[1].1[7] = 11;
        apart.insert(2, (Kernel::Activate { function, len }, vec![11, 7]));
        apart.insert(3, (Kernel::ActivateBackward { function, len }, vec![8, 7, 11]));
        apart[4].1[0] = 11;
        apart[5].1[0] = 11;
        let infer = |activation| Kernel::BatchInfer { rows, channels, eps: 1e-2, activation };
        for which in Which::all() {
            let one = run_all(which, &batch_calls(rows, channels, relu), &buffers, &STEP);
            let two = run_all(which, &apart, &buffers, &STEP);
            for i in [2, 3, 6, 7, 9, 10] {
                same_bits(&format!("{which:?} {rows} by {channels} buffer {i}"), &one[i], &two[i]);
            }
            let one = run_all(which, &[(infer(relu), vec![0, 2, 3, 4, 5, 7])], &buffers, &STEP);
            let calls = [(infer(None), vec![0, 2, 3, 4, 5, 11]), (Kernel::Activate { function, len }, vec![11, 7])];
            same_bits("infer", &one[7], &run_all(which, &calls, &buffers, &STEP)[7]);
        }
    }

    #[test]
    fn layer_normalisation((rows, channels) in sizes(), seed in 0u64..1000) {
        // 0 x, 1 γ, 2 β, 3 y, 4 kept, 5 dy, 6 dx, 7 dγ, 8 dβ
        let len = rows * channels;
        let sizes = [len, channels, channels, len, 2 * rows, len, len, channels, channels];
        let buffers: Vec<Vec<f64>> = sizes.iter().enumerate().map(|(i, n)| values(seed + i as u64, *n)).collect();
        let calls = [
            (Kernel::LayerNorm { rows, channels, eps: 1e-2 }, (0..5).collect()),
            (Kernel::LayerNormBackwardData { rows, channels }, vec![5, 0, 4, 1, 6]),
            (Kernel::LayerNormBackwardWeights { rows, channels }, vec![5, 0, 4, 7, 8]),
        ];
        agree(&format!("{rows} by {channels}"), &calls, &buffers, &[3, 4, 6, 7, 8], 100.max(rows + channels));
    }

    #[test]
    fn local_responses(
        rows in 0usize..6, channels in prop_oneof![1usize..41, 200usize..600], cut in (0usize..4, 0usize..4),
        size in prop_oneof![Just(5usize), 1usize..9, 60usize..70], beta in prop_oneof![Just(0.75), Just(0.5), Just(1.3)],
        seed in 0u64..1000,
    ) {
        let first = cut.0.min(channels - 1);
        let out_channels = (channels - first).saturating_sub(cut.1).max(1);
        let l = LocalResponse { rows, channels, first, out_channels, size, alpha: 0.9, beta, k: 2.0 };
        let (read, made) = (rows * channels, rows * out_channels);
        let buffers = [values(seed, read), vec![5.0; made], values(seed + 1, made), vec![5.0; read]];
        let calls = [(Kernel::LocalResponse(l), vec![0, 1]), (Kernel::LocalResponseBackward(l), vec![2, 0, 3])];
        agree(&format!("{l:?}"), &calls, &buffers, &[1, 3], 16);
    }

    #[test]
    fn sums(inputs in 0usize..6, len in 0usize..200, f in maybe_relu(), seed in 0u64..1000) {
        let mut buffers: Vec<Vec<f64>> = (0..inputs).map(|i| values(seed + i as u64, len)).collect();
        buffers.push(vec![5.0; len]);
        let call = |activation| (Kernel::Sum { inputs, len, activation }, (0..=inputs).collect());
        let expected: Vec<f64> = (0..len).map(|at| {
            let sum: f64 = buffers[..inputs].iter().map(|x| x[at]).sum();
            match f { None => sum, Some(Activation::Relu) => sum.max(0.0), _ => sum.tanh() }
        }).collect();
        for which in Which::all() {
            let got = run_all(which, &[call(f)], &buffers, &STEP);
            close(&format!("{which:?} sum of {inputs}"), &got[inputs], &expected, which.tolerance(inputs));
            if let Some(function) = f {
                let apart = [call(None), (Kernel::Activate { function, len }, vec![inputs, inputs])];
                same_bits(&format!("{which:?}"), &got[inputs], &run_all(which, &apart, &buffers, &STEP)[inputs]);
            }
        }
    }
}

/// The definitions, with moments by two passes.
#[test]
fn formulas_are_those_of_the_papers() {
    let (rows, channels) = (300, 6);
    let buffers = batch_buffers(rows, channels, 5);
    let x = &buffers[0];
    let column = |c: usize| (0..rows).map(move |r| x[r * channels + c]);
    let mean: Vec<f64> = (0..channels).map(|c| column(c).sum::<f64>() / rows as f64).collect();
    let variance: Vec<f64> =
        (0..channels).map(|c| column(c).map(|x| (x - mean[c]).powi(2)).sum::<f64>() / rows as f64).collect();
    let normal = |x: f64, c: usize, mean: &[f64], variance: &[f64]| {
        (x - mean[c]) / (variance[c] + 1e-2).sqrt() * buffers[4][c] + buffers[5][c]
    };
    let each = |of: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
        (0..rows * channels).map(|at| of(at, at % channels)).collect()
    };
    let y = each(&|at, c| normal(x[at], c, &mean, &variance));
    let infer = each(&|at, c| normal(x[at], c, &buffers[2], &buffers[3]));
    let moved: Vec<f64> = (0..channels).map(|c| 0.9 * buffers[2][c] + 0.1 * mean[c]).collect();
    let unbiased = rows as f64 / (rows - 1) as f64;
    let moved_variance: Vec<f64> = (0..channels).map(|c| 0.9 * buffers[3][c] + 0.1 * variance[c] * unbiased).collect();
    // Torch's local response: the mean square over a window of zeros and channels, whatever its place.
    let l = LocalResponse { rows, channels, first: 0, out_channels: channels, size: 4, alpha: 0.9, beta: 0.75, k: 2.0 };
    let response = each(&|at, c| {
        let squares = (-2_isize..=1).filter_map(|o| {
            let near = c as isize + o;
            (0..channels as isize).contains(&near).then(|| x[at - c + near as usize].powi(2))
        });
        x[at] / (2.0 + 0.9 * squares.sum::<f64>() / 4.0).powf(0.75)
    });
    let layer = each(&|at, c| {
        let row = &x[at - c..at - c + channels];
        let mean = row.iter().sum::<f64>() / channels as f64;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / channels as f64;
        (x[at] - mean) / (variance + 1e-2).sqrt() * buffers[4][c] + buffers[5][c]
    });
    for which in Which::all() {
        let got = run_all(which, &batch_calls(rows, channels, None)[..2], &buffers, &STEP);
        for (i, expected) in [(2, &moved), (3, &moved_variance), (7, &y)] {
            close(&format!("{which:?} buffer {i}"), &got[i], expected, which.tolerance(rows));
        }
        let kernel = Kernel::BatchInfer { rows, channels, eps: 1e-2, activation: None };
        let got = run_all(which, &[(kernel, vec![0, 2, 3, 4, 5, 7])], &buffers, &STEP);
        close(&format!("{which:?} infer"), &got[7], &infer, which.tolerance(4));
        let got = run_all(which, &[(Kernel::LocalResponse(l), vec![0, 7])], &buffers, &STEP);
        close(&format!("{which:?} local response"), &got[7], &response, which.tolerance(4));
        let mut buffers = buffers.clone();
        buffers.push(vec![0.0; 2 * rows]);
        let kernel = Kernel::LayerNorm { rows, channels, eps: 1e-2 };
        let got = run_all(which, &[(kernel, vec![0, 4, 5, 7, 11])], &buffers, &STEP);
        close(&format!("{which:?} layer"), &got[7], &layer, which.tolerance(channels));
    }
}

/// A mean far larger than the deviation: the sums are taken about the running mean, and nothing cancels.
#[test]
fn a_large_mean_costs_no_precision() {
    let (rows, channels) = (5000, 3);
    let mut buffers = batch_buffers(rows, channels, 9);
    buffers[0].iter_mut().for_each(|x| *x = (*x * 0.1 + 1000.0) as f32 as f64);
    buffers[2] = vec![1000.0; channels];
    // Not y: that the mean itself is kept in f32 shows there, in units of the deviation.
    agree("large mean", &batch_calls(rows, channels, None)[..2], &buffers, &[1, 2, 3, 6], 1000);
}

#[test]
fn sums_over_many_rows_are_exact_enough() {
    let (rows, channels) = (200_000, 5);
    let x: Vec<f64> = values(2, rows * channels).iter().map(|x| (x + 3.0) as f32 as f64).collect();
    let mut sums = vec![0.0; 2 * channels];
    for (at, x) in x.iter().enumerate() {
        sums[at % channels] += x;
        sums[channels + at % channels] += x * x;
    }
    for which in Which::all() {
        let buffers = [x.clone(), vec![0.0; channels], vec![5.0; 2 * channels]];
        let got = run(which, Kernel::BatchSums { rows, channels }, &buffers, &STEP);
        close(&format!("{which:?}"), &got[2], &sums, 1e-6);
    }
}

#[test]
fn nan_stays_in_its_channel() {
    let (rows, channels) = (70, 5);
    let mut buffers = batch_buffers(rows, channels, 1);
    buffers[0][33 * channels + 2] = f64::NAN;
    for which in Which::all() {
        for f in [None, Some(Activation::Relu)] {
            let got = run_all(which, &batch_calls(rows, channels, f), &buffers, &STEP);
            for i in [1, 2, 3, 6, 7, 9, 10] {
                let only = got[i].iter().enumerate().all(|(at, v)| v.is_nan() <= (at % channels == 2));
                // Σ dy alone does not read x.
                let there = got[i].iter().any(|v| v.is_nan());
                assert!(only && there, "{which:?} {f:?} buffer {i}");
            }
        }
    }
}
