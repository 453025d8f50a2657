//! How fast convolutions are, by layer, pass and algorithm.
//!
//!     cargo run --release -p paceline-kernels --example conv_speed [threads=N] [isa=NAME] [samples=N] [only=text]

use paceline_base::kernel::{Arena, BufferId, Call, Kernel, StepArgs, Values};
use paceline_base::op::Activation;
use paceline_base::window::{ConvDims, PoolDims};
use paceline_kernels::cpu::ConvCase;
use paceline_kernels::tuning::ConvChoice;
use paceline_kernels::{Cpu, CpuOptions, Device, Isa, Tuning};
use std::time::Instant;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let value = |key: &str| args.iter().find_map(|a| a.strip_prefix(key).map(str::to_owned));
    let threads = value("threads=").map_or(1, |n| n.parse().expect("threads=N"));
    let samples = value("samples=").map_or(32, |n| n.parse().expect("samples=N"));
    let only = value("only=").unwrap_or_default();
    let isa = Isa::ALL
        .into_iter()
        .find(|i| value("isa=").map_or(i.is_available(), |n| n == i.to_string()))
        .expect("isa=avx512, avx2 or portable");
    println!("{:34} {:18} {:>9} {:>9}", "layer, pass", "algorithm", "ms", "GFLOP/s");
    for (name, kernel, lens) in cases(samples) {
        if !name.contains(&only) {
            continue;
        }
        let case = ConvCase::of(&kernel).expect("a convolution");
        for algorithm in case.candidates() {
            let mut tuning = Tuning::heuristic(isa);
            tuning.convs = vec![ConvChoice { case: case.shape(), algorithm }];
            let mut cpu =
                Cpu::new(CpuOptions { threads, tuning: Some(tuning), ..CpuOptions::default() }).expect("a device");
            let (mut slots, mut len) = (Vec::new(), 0);
            for n in &lens {
                slots.push((len, *n));
                len += n.next_multiple_of(16);
            }
            cpu.allocate(&Arena { len, slots }).expect("memory");
            for (i, n) in lens.iter().enumerate() {
                let values: Vec<f32> = (0..*n).map(|k| ((k * 7919) % 2003) as f32 / 1001.5 - 1.0).collect();
                cpu.load(BufferId(i as u32), 0, Values::F32(&values));
            }
            let call = Call { kernel: kernel.clone(), args: (0..lens.len() as u32).map(BufferId).collect() };
            let step = StepArgs { seed: 1, step: 0, rate: 0.1, scale: 1.0 };
            cpu.submit(&call, &step);
            let (mut best, begin) = (f64::MAX, Instant::now());
            while begin.elapsed().as_secs_f64() < 0.25 {
                let start = Instant::now();
                cpu.submit(&call, &step);
                best = best.min(start.elapsed().as_secs_f64());
            }
            println!("{name:34} {:18} {:9.3} {:9.1}", algorithm.to_string(), best * 1e3, kernel.flops() / best / 1e9);
        }
    }
}

fn cases(samples: usize) -> Vec<(String, Kernel, Vec<usize>)> {
    let mut cases = Vec::new();
    let mut layer =
        |name: &str, size: usize, channels: usize, outputs: usize, k: usize, stride: usize, pool: bool, first: bool| {
            let pad = if k == 11 { 2 } else { k / 2 };
            let out = (size + 2 * pad - k) / stride + 1;
            let d = ConvDims {
                samples,
                height: size,
                width: size,
                channels,
                out_height: out,
                out_width: out,
                out_channels: outputs,
                kernel: [k, k],
                stride: [stride, stride],
                dilation: [1, 1],
                pad: [pad, pad],
                groups: 1,
            };
            let p = pool.then_some(PoolDims {
                samples,
                height: out,
                width: out,
                channels: outputs,
                out_height: out / 2,
                out_width: out / 2,
                window: [2, 2],
                stride: [2, 2],
                pad: [0, 0],
            });
            let y = p.map_or(d.output_len(), |p| p.output_len());
            let codes = p.map(|p| p.codes_len());
            let name = |pass: &str| format!("{name} {channels}→{outputs} {pass}");
            let (x, w) = (d.input_len(), d.weight_len());
            let mut lens = vec![x, w, y, outputs];
            lens.extend(codes);
            cases.push((
                name("forward"),
                Kernel::ConvForward { dims: d, bias: true, activation: Some(Activation::Relu), pool: p, codes: pool },
                lens,
            ));
            if !first {
                let mut lens = vec![y, w, x];
                lens.extend(codes);
                cases.push((name("data"), Kernel::ConvBackwardData { dims: d, through: None, pooled: p }, lens));
            }
            let mut lens = vec![y, x, w, outputs];
            lens.extend(codes);
            cases.push((name("weights"), Kernel::ConvBackwardWeights { dims: d, bias: true, pooled: p }, lens));
        };
    layer("flowers 192", 192, 3, 16, 3, 1, true, true);
    layer("flowers 96", 96, 16, 32, 3, 1, true, false);
    layer("flowers 48", 48, 32, 64, 3, 1, true, false);
    layer("flowers 24", 24, 64, 96, 3, 1, true, false);
    layer("flowers 12", 12, 96, 128, 3, 1, false, false);
    layer("alexnet 224", 224, 3, 64, 11, 4, false, true);
    layer("alexnet 27", 27, 64, 192, 5, 1, false, false);
    layer("alexnet 13", 13, 192, 384, 3, 1, false, false);
    layer("alexnet 13", 13, 384, 256, 3, 1, false, false);
    layer("alexnet 13", 13, 256, 256, 3, 1, false, false);
    layer("resnet 112", 112, 3, 64, 7, 2, false, true);
    layer("resnet 28", 28, 64, 64, 3, 1, false, false);
    layer("resnet 28", 28, 64, 128, 3, 2, false, false);
    layer("resnet 28", 28, 64, 128, 1, 2, false, false);
    layer("resnet 14", 14, 128, 128, 3, 1, false, false);
    layer("resnet 7", 7, 256, 256, 3, 1, false, false);
    layer("resnet 4", 4, 512, 512, 3, 1, false, false);
    cases
}
