//! What must hold between kernels: fused equals unfused, threads do not change bits, NaN is never lost, gradients are derivatives.

mod suite;

use paceline_base::kernel::{DenseDims, Kernel, StepArgs};
use paceline_base::op::{Activation, Loss};
use paceline_base::optim::{Rule, Segment};
use paceline_base::region::Region;
use paceline_base::sample::TargetKind;
use paceline_kernels::{Cpu, CpuOptions, Isa, Tuning};
use proptest::prelude::*;
use suite::{STEP, Which, close, run, run_all, same_bits, values};

fn dims() -> impl Strategy<Value = DenseDims> {
    (0usize..30, 1usize..40, 1usize..90).prop_map(|(rows, outputs, inputs)| DenseDims { rows, outputs, inputs })
}

fn rules() -> impl Strategy<Value = Rule> {
    let (beta1, beta2, eps) = (0.9, 0.999, 1e-8);
    prop_oneof![
        Just(Rule::Sgd),
        Just(Rule::Momentum { momentum: 0.9 }),
        Just(Rule::Nesterov { momentum: 0.9 }),
        Just(Rule::Adam { beta1, beta2, eps }),
        Just(Rule::AdamW { beta1, beta2, eps, decay: 0.01 }),
        Just(Rule::Adagrad { eps: 1e-10 }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn fused_forward_has_the_same_bits(d in dims(), seed in 0u64..1000) {
        let DenseDims { rows, outputs, inputs } = d;
        let len = rows * outputs;
        let buffers =
            [values(seed, rows * inputs), values(seed + 1, outputs * inputs), vec![5.0; len], values(seed + 2, outputs)];
        for which in Which::all() {
            for f in Activation::ALL {
                let fused = run(which, Kernel::DenseForward { dims: d, bias: true, activation: Some(f) }, &buffers, &STEP);
                let calls = [
                    (Kernel::DenseForward { dims: d, bias: true, activation: None }, vec![0, 1, 2, 3]),
                    (Kernel::Activate { function: f, len }, vec![2, 2]),
                ];
                let apart = run_all(which, &calls, &buffers, &STEP);
                same_bits(&format!("{which:?} {f} {d:?}"), &fused[2], &apart[2]);
            }
        }
    }

    #[test]
    fn fused_backward_has_the_same_bits(d in dims(), seed in 0u64..1000) {
        let DenseDims { rows, outputs, inputs } = d;
        let len = rows * inputs;
        let buffers = [values(seed, rows * outputs), values(seed + 1, outputs * inputs), vec![5.0; len], values(seed + 2, len)];
        for which in Which::all() {
            for f in Activation::ALL.into_iter().filter(|f| f.derivative_from_output()) {
                let fused = run(which, Kernel::DenseBackwardData { dims: d, through: Some(f) }, &buffers, &STEP);
                let calls = [
                    (Kernel::DenseBackwardData { dims: d, through: None }, vec![0, 1, 2]),
                    (Kernel::ActivateBackward { function: f, len }, vec![2, 3, 2]),
                ];
                let apart = run_all(which, &calls, &buffers, &STEP);
                same_bits(&format!("{which:?} {f} {d:?}"), &fused[2], &apart[2]);
            }
        }
    }

    #[test]
    fn fused_updates_have_the_same_bits(d in dims(), rule in rules(), seed in 0u64..1000, bias: bool, l2 in prop_oneof![Just(0.0), Just(0.02)]) {
        let DenseDims { rows, outputs, inputs } = d;
        let states = rule.states().len();
        // dy, x, w, states of w, b, states of b, and room for the gradients.
        let mut buffers = vec![values(seed, rows * outputs), values(seed + 1, rows * inputs)];
        for (i, len) in [outputs * inputs, outputs].into_iter().enumerate() {
            for state in 0..=states {
                let v = values(seed + 2 + (3 * i + state) as u64, len);
                buffers.push(if state == 0 { v } else { v.iter().map(|x| x.abs()).collect() });
            }
        }
        let (w, b) = (2, 3 + states);
        let mut fused_args: Vec<usize> = (0..buffers.len()).collect();
        if !bias { fused_args.truncate(b); }
        buffers.push(vec![5.0; outputs * inputs]);
        buffers.push(vec![5.0; outputs]);
        let (dw, db) = (buffers.len() - 2, buffers.len() - 1);
        for which in Which::all() {
            let fused = run_all(which, &[(Kernel::DenseBackwardUpdate { dims: d, bias, rule, l2 }, fused_args.clone())], &buffers, &STEP);
            let update = |first: usize, gradient: usize, len: usize, l2: f64| {
                let mut args = vec![first, gradient];
                args.extend(first + 1..=first + states);
                (Kernel::Update { rule, segments: vec![Segment { start: 0, len, l2 }] }, args)
            };
            let gradient = if bias { vec![0, 1, dw, db] } else { vec![0, 1, dw] };
            let mut calls = vec![
                (Kernel::DenseBackwardWeights { dims: d, bias }, gradient),
                update(w, dw, outputs * inputs, l2),
            ];
            if bias { calls.push(update(b, db, outputs, 0.0)); }
            let apart = run_all(which, &calls, &buffers, &STEP);
            for (fused, apart) in fused[..dw].iter().zip(&apart) {
                same_bits(&format!("{which:?} {rule:?} {d:?}"), fused, apart);
            }
        }
    }

    #[test]
    fn threads_and_blocks_do_not_change_bits(d in dims(), seed in 0u64..1000) {
        let DenseDims { rows, outputs, inputs } = d;
        let buffers = [
            values(seed, rows * inputs), values(seed + 1, outputs * inputs), values(seed + 2, rows * outputs),
            vec![5.0; rows * outputs], vec![5.0; outputs * inputs], vec![5.0; rows * inputs], vec![0.0; 3],
            (0..rows).map(|r| (r % outputs) as f64).collect(),
        ];
        let calls = [
            (Kernel::DenseForward { dims: d, bias: false, activation: Some(Activation::Tanh) }, vec![0, 1, 3]),
            (Kernel::DenseBackwardWeights { dims: d, bias: false }, vec![2, 0, 4]),
            (Kernel::DenseBackwardData { dims: d, through: None }, vec![2, 1, 5]),
            (Kernel::Loss { loss: Loss::SoftmaxCrossEntropy, rows, targets: TargetKind::Classes { classes: outputs, each: 1 }, gradient: false }, vec![3, 7, 6]),
        ];
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let one = run_all(Which::Cpu(isa, 1, false), &calls, &buffers, &STEP);
            for threads in [1, 2, 3] {
                for tiny in [false, true] {
                    let many = run_all(Which::Cpu(isa, threads, tiny), &calls, &buffers, &STEP);
                    for (many, one) in many.iter().zip(&one) {
                        same_bits(&format!("{isa} with {threads} threads, tiny {tiny}, {d:?}"), many, one);
                    }
                }
            }
        }
    }

    #[test]
    fn a_row_does_not_depend_on_its_batch(rows in 1usize..20, outputs in 1usize..30, inputs in 1usize..100, at in 0usize..20) {
        let at = at % rows;
        let (x, w) = (values(1, rows * inputs), values(2, outputs * inputs));
        let forward = |rows| Kernel::DenseForward { dims: DenseDims { rows, outputs, inputs }, bias: false, activation: None };
        for which in Which::all() {
            let all = run(which, forward(rows), &[x.clone(), w.clone(), vec![0.0; rows * outputs]], &STEP);
            let row = x[at * inputs..][..inputs].to_vec();
            let alone = run(which, forward(1), &[row, w.clone(), vec![0.0; outputs]], &STEP);
            same_bits(&format!("{which:?} row {at} of {rows}"), &all[2][at * outputs..][..outputs], &alone[2]);
        }
    }
}

#[test]
fn long_dot_products_are_cut_and_still_right() {
    let d = DenseDims { rows: 5, outputs: 7, inputs: 3001 };
    let (x, w) = (values(1, 5 * 3001), values(2, 7 * 3001));
    let expected: Vec<f64> =
        (0..35).map(|i| (0..3001).map(|k| x[i / 7 * 3001 + k] * w[i % 7 * 3001 + k]).sum()).collect();
    for which in Which::all() {
        let kernel = Kernel::DenseForward { dims: d, bias: false, activation: None };
        let got = run(which, kernel, &[x.clone(), w.clone(), vec![0.0; 35]], &STEP);
        close(&format!("{which:?}"), &got[2], &expected, which.tolerance(3001));
    }
}

/// Shapes that reach packing and blocking: equal to the reference, and the same bits for all threads and blocks.
#[test]
fn large_shapes_are_right_and_repeatable() {
    let rule = Rule::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8 };
    for (rows, outputs, inputs) in [(30, 53, 333), (70, 101, 512), (300, 13, 1040)] {
        let d = DenseDims { rows, outputs, inputs };
        // 0 x, 1 w, 2 dy, 3 y, 4 dw, 5 dx, 6 w to be moved, 7 and 8 its states
        let parameters = values(4, outputs * inputs);
        let buffers = [
            values(1, rows * inputs),
            values(2, outputs * inputs),
            values(3, rows * outputs),
            vec![5.0; rows * outputs],
            vec![5.0; outputs * inputs],
            vec![5.0; rows * inputs],
            parameters.clone(),
            parameters.clone(),
            parameters.iter().map(|x| x.abs()).collect(),
        ];
        let calls = [
            (Kernel::DenseForward { dims: d, bias: false, activation: None }, vec![0, 1, 3]),
            (Kernel::DenseBackwardWeights { dims: d, bias: false }, vec![2, 0, 4]),
            (Kernel::DenseBackwardData { dims: d, through: None }, vec![2, 1, 5]),
            (Kernel::DenseBackwardUpdate { dims: d, bias: false, rule, l2: 0.0 }, vec![2, 0, 6, 7, 8]),
        ];
        let expected = run_all(Which::Reference, &calls, &buffers, &STEP);
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let one = run_all(Which::Cpu(isa, 1, false), &calls, &buffers, &STEP);
            for (i, (got, expected)) in one.iter().zip(&expected).enumerate() {
                close(
                    &format!("{isa} {d:?} buffer {i}"),
                    got,
                    expected,
                    Which::Cpu(isa, 1, false).tolerance(inputs.max(rows)),
                );
            }
            for (threads, tiny) in [(1, true), (2, false), (2, true), (3, false), (3, true)] {
                let many = run_all(Which::Cpu(isa, threads, tiny), &calls, &buffers, &STEP);
                for (i, (many, one)) in many.iter().zip(&one).enumerate() {
                    same_bits(&format!("{isa} with {threads} threads, tiny {tiny}, {d:?} buffer {i}"), many, one);
                }
            }
        }
    }
}

/// dL/dθ by central differences through a whole little network, against the kernels' own chain.
#[test]
fn backward_kernels_are_the_derivatives_of_forward_ones() {
    let (rows, inputs, hidden, classes) = (5, 4, 6, 3);
    let first = DenseDims { rows, outputs: hidden, inputs };
    let second = DenseDims { rows, outputs: classes, inputs: hidden };
    let drop =
        || Kernel::Dropout { rate: 0.3, layer: 1, region: Region::whole(&[rows, hidden]), shape: vec![rows, hidden] };
    let step = StepArgs { scale: 1.0 / rows as f64, ..STEP };
    for f in Activation::ALL {
        for loss in [Loss::SoftmaxCrossEntropy, Loss::MeanSquaredError] {
            // 0 x, 1 w1, 2 b1, 3 z, 4 a, 5 dropped, 6 w2, 7 b2, 8 y, 9 labels, 10 metrics, 11 dy, 12 d(dropped), 13 da, 14 dz, 15 dx,
            // 16 dw1, 17 db1, 18 dw2, 19 db2
            let sizes = [
                rows * inputs,
                hidden * inputs,
                hidden,
                rows * hidden,
                rows * hidden,
                rows * hidden,
                classes * hidden,
                classes,
                rows * classes,
                rows,
                3,
                rows * classes,
                rows * hidden,
                rows * hidden,
                rows * hidden,
                rows * inputs,
                hidden * inputs,
                hidden,
                classes * hidden,
                classes,
            ];
            let mut buffers: Vec<Vec<f64>> = sizes.iter().enumerate().map(|(i, n)| values(90 + i as u64, *n)).collect();
            buffers[9] = (0..rows).map(|r| (r % classes) as f64).collect();
            buffers[10] = vec![0.0; 3];
            let forward = [
                (Kernel::DenseForward { dims: first, bias: true, activation: None }, vec![0, 1, 3, 2]),
                (Kernel::Activate { function: f, len: rows * hidden }, vec![3, 4]),
                (drop(), vec![4, 5]),
                (Kernel::DenseForward { dims: second, bias: true, activation: None }, vec![5, 6, 8, 7]),
                (
                    Kernel::Loss { loss, targets: TargetKind::Classes { classes, each: 1 }, rows, gradient: true },
                    vec![8, 9, 10, 11],
                ),
            ];
            let saved = if f.derivative_from_output() { 4 } else { 3 };
            let backward = [
                (Kernel::DenseBackwardWeights { dims: second, bias: true }, vec![11, 5, 18, 19]),
                (Kernel::DenseBackwardData { dims: second, through: None }, vec![11, 6, 12]),
                (drop(), vec![12, 13]),
                (Kernel::ActivateBackward { function: f, len: rows * hidden }, vec![13, saved, 14]),
                (Kernel::DenseBackwardWeights { dims: first, bias: true }, vec![14, 0, 16, 17]),
                (Kernel::DenseBackwardData { dims: first, through: None }, vec![14, 1, 15]),
            ];
            let all: Vec<_> = forward.iter().chain(&backward).cloned().collect();
            let chain = run_all(Which::Reference, &all, &buffers, &step);
            let mean_loss =
                |buffers: &[Vec<f64>]| run_all(Which::Reference, &forward, buffers, &step)[10][0] / rows as f64;
            for (parameter, gradient) in [(0, 15), (1, 16), (2, 17), (6, 18), (7, 19)] {
                let h = 1e-6;
                let numeric: Vec<f64> = (0..sizes[parameter])
                    .map(|i| {
                        let (mut up, mut down) = (buffers.clone(), buffers.clone());
                        up[parameter][i] += h;
                        down[parameter][i] -= h;
                        (mean_loss(&up) - mean_loss(&down)) / (2.0 * h)
                    })
                    .collect();
                close(&format!("{f} {loss:?}: gradient of buffer {parameter}"), &chain[gradient], &numeric, 1e-8);
            }
        }
    }
}

#[test]
fn nan_is_never_lost() {
    let nan = f64::NAN;
    for which in Which::all() {
        for at in [0, 9, 18] {
            let mut x = values(3, 19);
            x[at] = nan;
            for function in Activation::ALL {
                let y = run(which, Kernel::Activate { function, len: 19 }, &[x.clone(), vec![0.0; 19]], &STEP);
                assert!(
                    y[1].iter().enumerate().all(|(i, y)| y.is_nan() == (i == at)),
                    "{which:?} {function}: {:?}",
                    y[1]
                );
            }
            // One row of 19 classes with a NaN logit: the loss is NaN, nothing is correct, the sample still counts.
            for loss in [Loss::SoftmaxCrossEntropy, Loss::MeanSquaredError] {
                for label in 0..19 {
                    let args = [x.clone(), vec![label as f64], vec![0.0; 3], vec![0.0; 19]];
                    let got = run(
                        which,
                        Kernel::Loss {
                            loss,
                            rows: 1,
                            targets: TargetKind::Classes { classes: 19, each: 1 },
                            gradient: true,
                        },
                        &args,
                        &STEP,
                    );
                    assert!(
                        got[2][0].is_nan() && got[2][1] == 0.0 && got[2][2] == 1.0,
                        "{which:?} {loss:?}: {:?}",
                        got[2]
                    );
                    assert!(got[3][at].is_nan(), "{which:?} {loss:?}");
                }
            }
        }
        // NaN through a product reaches exactly its row.
        let d = DenseDims { rows: 3, outputs: 2, inputs: 18 };
        let mut x = values(4, 54);
        x[18 + 17] = nan;
        let kernel = Kernel::DenseForward { dims: d, bias: false, activation: Some(Activation::Relu) };
        let y = run(which, kernel, &[x, values(5, 36), vec![0.0; 6]], &STEP);
        assert_eq!(y[2].iter().map(|y| y.is_nan()).collect::<Vec<_>>(), [false, false, true, true, false, false]);
    }
}

#[test]
fn ties_go_to_the_lowest_class() {
    for which in Which::all() {
        for (label, correct) in [(0.0, 0.0), (1.0, 1.0), (2.0, 0.0)] {
            let args = [vec![0.0, 1.0, 1.0], vec![label], vec![0.0; 3]];
            let kernel = Kernel::Loss {
                loss: Loss::SoftmaxCrossEntropy,
                rows: 1,
                targets: TargetKind::Classes { classes: 3, each: 1 },
                gradient: false,
            };
            assert_eq!(run(which, kernel, &args, &STEP)[2][1], correct, "{which:?} {label}");
        }
    }
}

#[test]
fn wrong_options_are_refused() {
    let refused = |options: CpuOptions| Cpu::new(options).err().expect("must be refused").to_string();
    assert!(refused(CpuOptions { cores: Some(vec![100_000]), ..CpuOptions::default() }).contains("core 100000"));
    assert!(refused(CpuOptions { cores: Some(vec![]), ..CpuOptions::default() }).contains("empty"));
    let mut tuning = Tuning::heuristic(Isa::Portable);
    let other = CpuOptions { isa: Some(Isa::Avx2), tuning: Some(tuning.clone()), ..CpuOptions::default() };
    assert!(refused(other).contains("portable"));
    tuning.blocks.term_block = 0;
    assert!(refused(CpuOptions { tuning: Some(tuning), ..CpuOptions::default() }).contains("positive"));
}
