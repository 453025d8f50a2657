//! How fast convolutions are, by layer, pass and algorithm.
//!
//!     cargo run --release -p paceline-kernels --example conv_speed [threads=N] [isa=NAME] [samples=N] [only=text]

use paceline_base::kernel::Kernel;
use paceline_base::op::Activation;
use paceline_base::window::{ConvDims, PoolDims};
use paceline_kernels::cpu::ConvCase;
use paceline_kernels::cpu::measure::measure;
use paceline_kernels::{Isa, Tuning};

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
    for (name, kernel) in cases(samples) {
        if !name.contains(&only) {
            continue;
        }
        let case = ConvCase::of(&kernel).expect("a convolution");
        for measured in measure(&case, &Tuning::heuristic(isa), threads).expect("a device with memory") {
            let (ms, speed) = (measured.best() * 1e3, kernel.flops() / measured.best() / 1e9);
            println!("{name:34} {:18} {ms:9.3} {speed:9.1}", measured.algorithm.to_string());
        }
    }
}

fn cases(samples: usize) -> Vec<(String, Kernel)> {
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
            let name = |pass: &str| format!("{name} {channels}→{outputs} {pass}");
            let activation = Some(Activation::Relu);
            cases
                .push((name("forward"), Kernel::ConvForward { dims: d, bias: true, activation, pool: p, codes: pool }));
            if !first {
                cases.push((name("data"), Kernel::ConvBackwardData { dims: d, through: None, pooled: p }));
            }
            cases.push((name("weights"), Kernel::ConvBackwardWeights { dims: d, bias: true, pooled: p }));
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
