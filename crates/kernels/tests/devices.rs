//! Every kernel of every device against an independent, naive computation on random shapes.

#[path = "../../../tests/not_run.rs"]
mod not_run;
mod suite;

use paceline_base::kernel::{Arena, BufferId, DenseDims, Kernel, StepArgs, Values};
use paceline_base::op::{Activation, Loss};
use paceline_base::optim::{Rule, Segment};
use paceline_base::random::{Stream, Use};
use paceline_base::region::{Region, Strided};
use paceline_base::sample::TargetKind;
use paceline_base::staging::Lend;
use paceline_kernels::Isa;
use paceline_kernels::reference::erf::erf;
use proptest::prelude::*;
use suite::{STEP, Which, close, run, values};

/// Shapes with tails of every kind; rows may be zero.
fn dims() -> impl Strategy<Value = DenseDims> {
    let size = prop_oneof![Just(1usize), Just(2), Just(3), Just(7), Just(10), Just(16), Just(17), 1usize..70];
    (0usize..40, size.clone(), size).prop_map(|(rows, outputs, inputs)| DenseDims { rows, outputs, inputs })
}

fn product(n: usize, m: usize, terms: usize, f: impl Fn(usize, usize, usize) -> f64) -> Vec<f64> {
    let mut out = Vec::new();
    for i in 0..n {
        for j in 0..m {
            out.push((0..terms).map(|t| f(i, j, t)).sum());
        }
    }
    out
}

fn activation(f: Activation, x: f64) -> f64 {
    match f {
        Activation::Relu => x.max(0.0),
        Activation::Tanh => x.tanh(),
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Activation::Gelu => 0.5 * x * (1.0 + erf(x / 2f64.sqrt())),
    }
}

/// dy · f′ by a central difference, given the *input* of f.
fn slope(f: Activation, x: f64) -> f64 {
    let h = 1e-5;
    (activation(f, x + h) - activation(f, x - h)) / (2.0 * h)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn dense_products(d in dims(), seed in 0u64..1000, bias: bool) {
        let DenseDims { rows, outputs, inputs } = d;
        let (x, w, b) = (values(seed, rows * inputs), values(seed + 1, outputs * inputs), values(seed + 2, outputs));
        let dy = values(seed + 3, rows * outputs);
        let y = product(rows, outputs, inputs, |r, o, k| {
            x[r * inputs + k] * w[o * inputs + k] + if bias && k == 0 { b[o] } else { 0.0 }
        });
        let dx = product(rows, inputs, outputs, |r, k, o| dy[r * outputs + o] * w[o * inputs + k]);
        let dw = product(outputs, inputs, rows, |o, k, r| dy[r * outputs + o] * x[r * inputs + k]);
        let db = product(outputs, 1, rows, |o, _, r| dy[r * outputs + o]);
        let junk = |len: usize| vec![5.0; len];
        for which in Which::all() {
            let what = format!("{which:?} {d:?} bias {bias}");
            let mut args = vec![x.clone(), w.clone(), junk(y.len())];
            if bias { args.push(b.clone()); }
            let got = run(which, Kernel::DenseForward { dims: d, bias, activation: None }, &args, &STEP);
            close(&format!("y of {what}"), &got[2], &y, which.tolerance(inputs));
            let args = [dy.clone(), w.clone(), junk(dx.len())];
            let got = run(which, Kernel::DenseBackwardData { dims: d, through: None }, &args, &STEP);
            close(&format!("dx of {what}"), &got[2], &dx, which.tolerance(outputs));
            let mut args = vec![dy.clone(), x.clone(), junk(dw.len())];
            if bias { args.push(junk(db.len())); }
            let got = run(which, Kernel::DenseBackwardWeights { dims: d, bias }, &args, &STEP);
            close(&format!("dw of {what}"), &got[2], &dw, which.tolerance(rows));
            if bias { close(&format!("db of {what}"), &got[3], &db, which.tolerance(rows)); }
        }
    }

    #[test]
    fn activations(len in 0usize..100, seed in 0u64..1000, wide in prop_oneof![Just(1.0), Just(4.0), Just(12.0), Just(100.0)]) {
        let x: Vec<f64> = values(seed, len).iter().map(|x| (x * wide) as f32 as f64).collect();
        let dy = values(seed + 1, len);
        for which in Which::all() {
            for f in Activation::ALL {
                let y: Vec<f64> = x.iter().map(|x| activation(f, *x)).collect();
                let got = run(which, Kernel::Activate { function: f, len }, &[x.clone(), vec![5.0; len]], &STEP);
                for (i, (g, e)) in got[1].iter().zip(&y).enumerate() {
                    // Relative to the value itself; far in a tail the naive GELU is the one that cancels.
                    let floor = if f == Activation::Gelu { 1e-7 } else { 1e-30 };
                    prop_assert!((g - e).abs() <= 1e-6 * e.abs().max(floor), "{which:?} {f}({}) = {g}, not {e}", x[i]);
                }
                let saved = if f.derivative_from_output() { &y } else { &x };
                let got = run(which, Kernel::ActivateBackward { function: f, len }, &[dy.clone(), saved.clone(), vec![5.0; len]], &STEP);
                let dx: Vec<f64> = dy.iter().zip(&x).map(|(dy, x)| dy * slope(f, *x)).collect();
                close(&format!("{which:?} {f}'"), &got[2], &dx, 2e-6);
            }
        }
    }

    #[test]
    fn losses(rows in 0usize..90, classes in 1usize..40, seed in 0u64..1000, gradient: bool, wide in prop_oneof![Just(1.0), Just(30.0)]) {
        let y: Vec<f64> = values(seed, rows * classes).iter().map(|y| (y * wide) as f32 as f64).collect();
        let labels: Vec<f64> = (0..rows).map(|r| ((r * 7 + seed as usize) % classes) as f64).collect();
        for loss in [Loss::SoftmaxCrossEntropy, Loss::MeanSquaredError] {
            let mut metrics = vec![1.0, 2.0, 3.0];
            let mut dy = Vec::new();
            for r in 0..rows {
                let (y, label) = (&y[r * classes..][..classes], labels[r] as usize);
                let best = (0..classes).rev().max_by(|a, b| y[*a].total_cmp(&y[*b])).unwrap();
                metrics[1] += f64::from(u8::from(best == label));
                metrics[2] += 1.0;
                let total: f64 = y.iter().map(|y| y.exp()).sum();
                metrics[0] += match loss {
                    Loss::SoftmaxCrossEntropy => -(y[label].exp() / total).ln(),
                    Loss::MeanSquaredError => (0..classes).map(|c| (y[c] - f64::from(u8::from(c == label))).powi(2)).sum::<f64>() / classes as f64,
                };
                dy.extend((0..classes).map(|c| {
                    let hot = f64::from(u8::from(c == label));
                    STEP.scale * match loss {
                        Loss::SoftmaxCrossEntropy => y[c].exp() / total - hot,
                        Loss::MeanSquaredError => 2.0 * (y[c] - hot) / classes as f64,
                    }
                }));
            }
            for which in Which::all() {
                let mut args = vec![y.clone(), labels.clone(), vec![1.0, 2.0, 3.0]];
                if gradient { args.push(vec![5.0; rows * classes]); }
                let got = run(which, Kernel::Loss { loss, targets: TargetKind::Classes { classes, each: 1 }, rows, gradient }, &args, &STEP);
                let what = format!("{which:?} {loss:?} of {rows} by {classes}");
                let tolerance = if which == Which::Reference { 1e-9 } else { 3e-6 };
                close(&what, &got[2], &metrics, tolerance);
                if gradient { close(&what, &got[3], &dy, tolerance); }
            }
        }
    }

    #[test]
    fn dropout_masks_are_functions_of_the_coordinate(
        axes in prop::collection::vec((1usize..12, 0usize..6, 0usize..6), 1..4), seed in 0u64..1000, rate in 0.0f64..0.95,
    ) {
        // A region within a larger tensor: the mask must be that of the whole, wherever the part lies.
        let shape: Vec<usize> = axes.iter().map(|(n, before, after)| before + n + after).collect();
        let region = Region::new(axes.iter().map(|(n, before, _)| *before..before + n));
        let step = StepArgs { seed, ..STEP };
        let stream = Stream::new(seed, Use::Dropout, 4, STEP.step);
        let x = values(seed, region.len());
        let walk = Strided::between(&region, &Region::whole(&shape), &region);
        let mut expected = vec![0.0; x.len()];
        walk.for_each(|coordinate, at, run| for i in 0..run {
            if stream.uniform((coordinate + i) as u64) >= rate { expected[at + i] = x[at + i] / (1.0 - rate); }
        });
        for which in Which::all() {
            let kernel = Kernel::Dropout { rate, layer: 4, region: region.clone(), shape: shape.clone() };
            let got = run(which, kernel, &[x.clone(), vec![5.0; x.len()]], &step);
            close(&format!("{which:?} {region} of {shape:?}"), &got[1], &expected, 1e-6);
        }
    }

    #[test]
    fn copies_and_sums(counts in prop::collection::vec(1usize..5, 0..3), run_len in 0usize..40, from in 0usize..4, to in 0usize..4, seed in 0u64..100) {
        let (mut source, mut target) = (run_len + 1, run_len + 2);
        let mut loops = Vec::new();
        for &count in counts.iter().rev() {
            loops.insert(0, (count, source, target));
            (source, target) = (source * count + 1, target * count + 2);
        }
        let walk = Strided { from, to, run: run_len, loops };
        let (x, y) = (values(seed, from + source), values(seed + 1, to + target));
        let (mut copied, mut added) = (y.clone(), y.clone());
        walk.for_each(|f, t, n| {
            copied[t..t + n].copy_from_slice(&x[f..f + n]);
            added[t..t + n].iter_mut().zip(&x[f..]).for_each(|(y, x)| *y += x);
        });
        for which in Which::all() {
            close("copy", &run(which, Kernel::Copy(walk.clone()), &[x.clone(), y.clone()], &STEP)[1], &copied, 0.0);
            close("add", &run(which, Kernel::Add(walk.clone()), &[x.clone(), y.clone()], &STEP)[1], &added, 1e-6);
            let zeroed: Vec<f64> = y.iter().enumerate().map(|(i, y)| if i < run_len { 0.0 } else { *y }).collect();
            close("zero", &run(which, Kernel::Zero { len: run_len.min(y.len()) }, std::slice::from_ref(&y), &STEP)[0], &zeroed, 0.0);
        }
    }

    #[test]
    fn the_largest_are_kept_and_the_rest_left_over(len in 1usize..600, share in 0.0f64..=1.0, seed in 0u64..1000) {
        let keep = (len as f64 * share) as usize;
        let (x, left) = (values(seed, len), values(seed + 1, len));
        let sums: Vec<f64> = x.iter().zip(&left).map(|(x, l)| f64::from(*x as f32 + *l as f32)).collect();
        let exact = run(Which::Reference, Kernel::Sparsify { len, keep }, &[sums.clone(), vec![0.0; len]], &STEP);
        for which in Which::all() {
            let found = run(which, Kernel::Sparsify { len, keep }, &[sums.clone(), vec![0.0; len]], &STEP);
            close("kept", &found[0], &exact[0], 0.0);
            close("left", &found[1], &exact[1], 0.0);
            prop_assert_eq!(found[0].iter().filter(|v| **v != 0.0).count(), keep.min(sums.iter().filter(|v| **v != 0.0).count()));
            // Nothing is lost: what is kept and what is left are what there was.
            let found = run(which, Kernel::Sparsify { len, keep }, &[x.clone(), left.clone()], &STEP);
            let both: Vec<f64> = found[0].iter().zip(&found[1]).map(|(a, b)| a + b).collect();
            close("both", &both, &x.iter().zip(&left).map(|(x, l)| x + l).collect::<Vec<_>>(), 1e-6);
        }
    }

    #[test]
    fn updates(len in 1usize..70, cut in 0usize..70, seed in 0u64..1000, step in prop_oneof![Just(0u64), Just(1), Just(1000)]) {
        let cut = cut.min(len);
        let segments = vec![Segment { start: 0, len: cut, l2: 0.01 }, Segment { start: cut, len: len - cut, l2: 0.0 }];
        let args = StepArgs { step, ..STEP };
        let (w, g) = (values(seed, len), values(seed + 1, len));
        let (s1, s2) = (values(seed + 2, len), values(seed + 3, len).iter().map(|v| v.abs()).collect::<Vec<_>>());
        for rule in suite_rules() {
            let positive = matches!(rule, Rule::Adagrad { .. });
            let states = [if positive { s2.clone() } else { s1.clone() }, s2.clone()];
            let mut buffers = vec![w.clone(), g.clone()];
            buffers.extend(states.iter().take(rule.states().len()).cloned());
            let expected = naive_update(&rule, &buffers, cut, &args);
            for which in Which::all() {
                let got = run(which, Kernel::Update { rule, segments: segments.clone() }, &buffers, &args);
                for (got, expected) in got.iter().zip(&expected) {
                    close(&format!("{which:?} {rule:?}"), got, expected, if which == Which::Reference { 1e-12 } else { 1e-6 });
                }
            }
        }
    }
}

fn suite_rules() -> [Rule; 6] {
    let (beta1, beta2, eps) = (0.9, 0.999, 1e-8);
    [
        Rule::Sgd,
        Rule::Momentum { momentum: 0.9 },
        Rule::Nesterov { momentum: 0.9 },
        Rule::Adam { beta1, beta2, eps },
        Rule::AdamW { beta1, beta2, eps, decay: 0.01 },
        Rule::Adagrad { eps: 1e-10 },
    ]
}

/// The rules as PyTorch's documentation states them; the first `cut` elements have an L2 penalty of 0.01.
fn naive_update(rule: &Rule, buffers: &[Vec<f64>], cut: usize, args: &StepArgs) -> Vec<Vec<f64>> {
    let mut out = buffers.to_vec();
    let (r, t) = (args.rate, args.step as i32 + 1);
    for i in 0..buffers[0].len() {
        let w = buffers[0][i];
        let g = buffers[1][i] + if i < cut { 0.01 * w } else { 0.0 };
        let state = |k: usize| buffers[2 + k][i];
        let adam = |b1: f64, b2: f64, eps: f64| {
            let (m, v) = (b1 * state(0) + (1.0 - b1) * g, b2 * state(1) + (1.0 - b2) * g * g);
            let (mh, vh) = (m / (1.0 - b1.powi(t)), v / (1.0 - b2.powi(t)));
            (m, v, r * mh / (vh.sqrt() + eps))
        };
        match *rule {
            Rule::Sgd => out[0][i] = w - r * g,
            Rule::Momentum { momentum } => {
                out[2][i] = momentum * state(0) + g;
                out[0][i] = w - r * out[2][i];
            }
            Rule::Nesterov { momentum } => {
                out[2][i] = momentum * state(0) + g;
                out[0][i] = w - r * (g + momentum * out[2][i]);
            }
            Rule::Adam { beta1, beta2, eps } => {
                let (m, v, step) = adam(beta1, beta2, eps);
                (out[0][i], out[2][i], out[3][i]) = (w - step, m, v);
            }
            Rule::AdamW { beta1, beta2, eps, decay } => {
                let (m, v, step) = adam(beta1, beta2, eps);
                (out[0][i], out[2][i], out[3][i]) = (w * (1.0 - r * decay) - step, m, v);
            }
            Rule::Adagrad { eps } => {
                out[2][i] = state(0) + g * g;
                out[0][i] = w - r * g / (out[2][i].sqrt() + eps);
            }
        }
    }
    out
}

/// The tests of devices take the instruction sets that this processor has.
#[test]
fn every_instruction_set_is_tested_here() {
    for isa in Isa::ALL.into_iter().filter(|isa| !isa.is_available()) {
        let name = format!("every_instruction_set_is_tested_here ({isa})");
        not_run::not_run(&name, &format!("this processor does not have {isa}, so that its kernels were not tested"));
    }
}

#[test]
fn host_values_are_converted_and_lent() {
    for which in Which::all() {
        let mut device = which.make();
        let arena = Arena::of(device.dtype(), 400, &[(0, 300), (304, 50)]);
        device.allocate(&arena).unwrap();
        let bytes: Vec<u8> = (0..=255).collect();
        device.load(BufferId(0), 7, Values::U8 { bytes: &bytes, scale: 1.0 / 255.0, offset: -0.5 }).unwrap();
        let mut out = vec![0.0; 263];
        device.read(BufferId(0), &mut out).unwrap();
        assert_eq!(out[0], 0.0);
        for (i, x) in out[7..].iter().enumerate() {
            assert_eq!(*x, f64::from(i as f32 * (1.0 / 255.0) + -0.5), "{which:?}");
        }
        device.load(BufferId(1), 1, Values::F32(&[1.5, 2.5])).unwrap();
        let mut staging = device.pack_now(BufferId(1), Lend::Change).unwrap();
        assert_eq!((staging.len(), staging.dtype()), (50, device.dtype()));
        // Whoever holds the staging may change it: move the values down by one.
        let size = staging.dtype().size();
        staging.bytes_mut().copy_within(size..3 * size, 0);
        device.unpack(BufferId(1), staging).unwrap();
        let mut out = vec![0.0; 3];
        device.read(BufferId(1), &mut out).unwrap();
        assert_eq!(out, [1.5, 2.5, 2.5], "{which:?}");
    }
}

#[test]
fn products_with_more_weights_than_a_cache_holds() {
    // Weights pass by as they lie in memory, in another order of loops than small ones.
    let d = DenseDims { rows: 13, outputs: 1029, inputs: 1041 };
    let DenseDims { rows, outputs, inputs } = d;
    let (x, w, dy) = (values(1, rows * inputs), values(2, outputs * inputs), values(3, rows * outputs));
    let saved = values(4, rows * inputs);
    let junk = |len: usize| vec![5.0; len];
    let (f, rule) = (Activation::Relu, Rule::Momentum { momentum: 0.9 });
    let data = Kernel::DenseBackwardData { dims: d, through: Some(f) };
    let data_args = [dy.clone(), w.clone(), junk(rows * inputs), saved];
    let update = Kernel::DenseBackwardUpdate { dims: d, bias: false, rule, l2: 0.01 };
    let update_args = [dy.clone(), x.clone(), w.clone(), values(5, outputs * inputs)];
    let weights = Kernel::DenseBackwardWeights { dims: d, bias: false };
    let weights_args = [dy, x, junk(outputs * inputs)];
    let expected = [
        run(Which::Reference, data.clone(), &data_args, &STEP),
        run(Which::Reference, update.clone(), &update_args, &STEP),
        run(Which::Reference, weights.clone(), &weights_args, &STEP),
    ];
    for which in Which::cpus() {
        let got = run(which, data.clone(), &data_args, &STEP);
        close(&format!("dx of {which:?}"), &got[2], &expected[0][2], which.tolerance(outputs));
        let got = run(which, update.clone(), &update_args, &STEP);
        close(&format!("w of {which:?}"), &got[2], &expected[1][2], which.tolerance(rows));
        close(&format!("velocity of {which:?}"), &got[3], &expected[1][3], which.tolerance(rows));
        let got = run(which, weights.clone(), &weights_args, &STEP);
        close(&format!("dw of {which:?}"), &got[2], &expected[2][2], which.tolerance(rows));
    }
}
