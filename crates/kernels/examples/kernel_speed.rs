//! How fast the kernels are, in µs, GFLOP/s and percent of this core's own peak, for the shapes that matter.
//!
//!     cargo run --release -p paceline-kernels --example kernel_speed [isa …] [threads=N] [only=text]
//!
//! The peak is measured by a loop of multiply-adds on registers. Minima of the wall's clock are reported: on a shared machine everything
//! else is noise. (A thread's processor time is no way out: on a virtual machine it came out below what the peak allows.)

use paceline_base::kernel::{Arena, BufferId, Call, DenseDims, Elements, Kernel, StepArgs, Values};
use paceline_base::op::{Activation, Loss};
use paceline_base::optim::{Rule, Segment};
use paceline_base::region::Region;
use paceline_base::sample::TargetKind;
use paceline_base::units::DType;
use paceline_kernels::cpu::peak_flops;
use paceline_kernels::{Cpu, CpuOptions, Device, Isa};
use std::time::{Duration, Instant};

const ADAM: Rule = Rule::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8 };

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let value = |key: &str| args.iter().find_map(|a| a.strip_prefix(key).map(str::to_owned));
    let threads = value("threads=").map_or(1, |n| n.parse().expect("threads=N"));
    let only = value("only=").unwrap_or_default();
    let named = |isa: &Isa| args.contains(&isa.to_string());
    let any = Isa::ALL.iter().any(named);
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available() && (!any || named(isa))) {
        let peak = peak_flops(isa).map(|flops| flops / 1e9);
        match peak {
            Some(peak) => println!("{isa}, {threads} thread(s); one core's peak {peak:.1} GFLOP/s"),
            None => println!("{isa}, {threads} thread(s)"),
        }
        println!("{:42} {:>10} {:>9} {:>7}", "kernel", "µs", "GFLOP/s", "peak");
        for (name, kernel) in cases() {
            if !name.contains(&only) {
                continue;
            }
            let micros = time(isa, threads, &kernel);
            let speed = kernel.flops() / micros / 1e3;
            let Some(peak) = peak else {
                println!("{name:42} {micros:10.2} {speed:9.1}");
                continue;
            };
            let share = 100.0 * speed / peak / threads as f64;
            // More than the peak means that the clock is wrong (or the peak was disturbed): say so, rather than report it.
            let mark = if share > 101.0 { "  not possible: measure again" } else { "" };
            println!("{name:42} {micros:10.2} {speed:9.1} {share:6.1}%{mark}");
        }
    }
}

/// Softmax regression, the MLP, and products too big for the caches.
fn cases() -> Vec<(String, Kernel)> {
    let mut cases = Vec::new();
    let mut dense = |model: &str, dims: DenseDims, rules: &[Rule], data: bool, activation: Option<Activation>| {
        let DenseDims { rows, outputs, inputs } = dims;
        let name = |pass: &str| format!("{model} b{rows} {inputs}→{outputs} {pass}");
        cases.push((name("forward"), Kernel::DenseForward { dims, bias: true, activation }));
        if data {
            let through = Some(Activation::Relu);
            cases.push((name("data"), Kernel::DenseBackwardData { dims, through }));
        }
        cases.push((name("weights"), Kernel::DenseBackwardWeights { dims, bias: true }));
        for rule in rules {
            let what = format!("update {rule:?}").split([' ', '{']).take(2).collect::<Vec<_>>().join(" ");
            cases.push((name(&what), Kernel::DenseBackwardUpdate { dims, bias: true, rule: *rule, l2: 0.0 }));
        }
    };
    for rows in [5, 10, 50, 100, 250, 500] {
        dense("softmax", DenseDims { rows, outputs: 10, inputs: 784 }, &[Rule::Sgd], false, None);
    }
    for rows in [16, 32, 64, 128] {
        let hidden = DenseDims { rows, outputs: 128, inputs: 784 };
        dense("mlp", hidden, &[Rule::Sgd, ADAM], false, Some(Activation::Relu));
        dense("mlp", DenseDims { rows, outputs: 10, inputs: 128 }, &[ADAM], true, None);
    }
    dense("big", DenseDims { rows: 1024, outputs: 1024, inputs: 1024 }, &[ADAM], true, None);
    dense("big", DenseDims { rows: 1000, outputs: 1000, inputs: 1000 }, &[], true, None);
    dense("big", DenseDims { rows: 128, outputs: 4096, inputs: 4096 }, &[], true, None);
    for rows in [10, 100, 500] {
        let loss = Loss::SoftmaxCrossEntropy;
        cases.push((
            format!("loss b{rows} of 10"),
            Kernel::Loss { loss, targets: TargetKind::Classes { classes: 10, each: 1 }, rows, gradient: true },
        ));
    }
    for function in Activation::ALL {
        cases.push((format!("{function} of 16384"), Kernel::Activate { function, len: 16_384 }));
    }
    for (name, rule) in [("sgd", Rule::Sgd), ("adam", ADAM)] {
        for len in [1_024, 4_096, 100_352] {
            let segments = vec![Segment { start: 0, len, l2: 0.0 }];
            cases.push((format!("{name} of {len}"), Kernel::Update { rule, segments }));
        }
    }
    let region = Region::whole(&[128, 128]);
    cases.push(("dropout of 16384".into(), Kernel::Dropout { rate: 0.5, layer: 0, region, shape: vec![128, 128] }));
    cases.push(("zero of 1".into(), Kernel::Zero { len: 1 }));
    cases
}

/// The least time of one call, in µs.
fn time(isa: Isa, threads: usize, kernel: &Kernel) -> f64 {
    let mut cpu = Cpu::new(CpuOptions { threads, isa: Some(isa), ..CpuOptions::default() }).expect("a cpu");
    let lens = lengths(kernel);
    let buffers = lens.iter().enumerate().map(|(i, n)| (kernel.elements(i), *n));
    cpu.allocate(&Arena::packed(DType::F32, buffers)).expect("memory");
    for (i, n) in lens.iter().enumerate().filter(|(i, _)| kernel.elements(*i) == Elements::Float) {
        let values: Vec<f32> = (0..*n).map(|k| ((k * 7919 + i) % 1000) as f32 * 1e-3).collect();
        cpu.load(BufferId(i as u32), 0, Values::F32(&values)).expect("a load");
    }
    let call = Call { kernel: kernel.clone(), args: (0..lens.len() as u32).map(BufferId).collect() };
    let mut step = StepArgs { seed: 1, step: 0, rate: 1e-6, scale: 0.01 };
    let mut run = |cpu: &mut Cpu, n: usize| {
        let begin = Instant::now();
        for _ in 0..n {
            step.step += 1;
            cpu.submit(&call, &step).expect("a kernel");
        }
        begin.elapsed().as_secs_f64() * 1e6 / n as f64
    };
    let first = run(&mut cpu, 2);
    let batch = ((60.0 / first) as usize).clamp(1, 1000);
    let (begin, mut best) = (Instant::now(), f64::INFINITY);
    while begin.elapsed() < Duration::from_millis(300) {
        best = best.min(run(&mut cpu, batch));
    }
    best
}

/// Lengths of the buffers that a kernel of this example needs.
fn lengths(kernel: &Kernel) -> Vec<usize> {
    match kernel {
        Kernel::DenseForward { dims: d, .. } => {
            vec![d.rows * d.inputs, d.outputs * d.inputs, d.rows * d.outputs, d.outputs]
        }
        Kernel::DenseBackwardData { dims: d, .. } => {
            vec![d.rows * d.outputs, d.outputs * d.inputs, d.rows * d.inputs, d.rows * d.inputs]
        }
        Kernel::DenseBackwardWeights { dims: d, .. } => {
            vec![d.rows * d.outputs, d.rows * d.inputs, d.outputs * d.inputs, d.outputs]
        }
        Kernel::DenseBackwardUpdate { dims: d, rule, .. } => {
            let mut lens = vec![d.rows * d.outputs, d.rows * d.inputs];
            lens.extend(std::iter::repeat_n(d.outputs * d.inputs, 1 + rule.states().len()));
            lens.extend(std::iter::repeat_n(d.outputs, 1 + rule.states().len()));
            lens
        }
        Kernel::Loss { rows, targets, .. } => {
            vec![rows * targets.outputs(), rows * targets.each(), 3, rows * targets.outputs()]
        }
        Kernel::Activate { len, .. } => vec![*len, *len],
        Kernel::Dropout { region, .. } => vec![region.len(), region.len()],
        Kernel::Update { rule, segments } => vec![segments[0].len; 2 + rule.states().len()],
        Kernel::Zero { len } => vec![*len],
        other => unreachable!("{} is not measured here", other.name()),
    }
}
