//! How fast the kernels are that do little but move memory: GB/s of what they must read and write, beside a plain copy of as many bytes.
//!
//!     cargo run --release -p paceline-kernels --example memory_speed [isa …] [threads=N] [only=text]
//!
//! Kernel and copy take turns, and the least time of each counts: on a shared machine everything else is noise.

use paceline_base::kernel::{Arena, BufferId, Call, Elements, Kernel, LocalResponse, StepArgs, Values};
use paceline_base::op::Activation;
use paceline_base::staging::Lend;
use paceline_base::units::DType;
use paceline_base::window::PoolDims;
use paceline_kernels::{Cpu, CpuOptions, Device, Isa};
use std::time::{Duration, Instant};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let value = |key: &str| args.iter().find_map(|a| a.strip_prefix(key).map(str::to_owned));
    let threads: usize = value("threads=").map_or(1, |n| n.parse().expect("threads=N"));
    let only = value("only=").unwrap_or_default();
    let named = |isa: &Isa| args.contains(&isa.to_string());
    let any = Isa::ALL.iter().any(named);
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available() && (!any || named(isa))) {
        println!("{isa}, {threads} thread(s)");
        println!("{:52} {:>9} {:>8} {:>8} {:>8} {:>7}", "kernel", "µs", "MB", "GB/s", "copy", "share");
        for (name, kernel, lens) in cases().into_iter().filter(|(name, ..)| name.contains(&only)) {
            let bytes = 4.0 * kernel.traffic();
            let (micros, copy) = time(isa, threads, &kernel, &lens, bytes as usize);
            let share = 100.0 * copy / micros;
            let (speed, copied) = (bytes / micros / 1e3, bytes / copy / 1e3);
            println!("{name:52} {micros:9.1} {:8.2} {speed:8.1} {copied:8.1} {share:6.0}%", bytes / 1e6);
        }
    }
}

/// A name, a kernel, and the lengths of its buffers.
type Case = (String, Kernel, Vec<usize>);

fn pool(samples: usize, size: usize, channels: usize, window: usize, stride: usize, pad: usize) -> PoolDims {
    let out = (size + 2 * pad - window) / stride + 1;
    PoolDims {
        samples,
        height: size,
        width: size,
        channels,
        out_height: out,
        out_width: out,
        window: [window; 2],
        stride: [stride; 2],
        pad: [pad; 2],
    }
}

/// The flowers network, AlexNet, a residual network at 112 × 112, LeNet, and few channels.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, d) in [
        ("flowers", pool(32, 192, 16, 2, 2, 0)),
        ("flowers", pool(32, 48, 64, 2, 2, 0)),
        ("alexnet", pool(32, 55, 64, 3, 2, 0)),
        ("resnet", pool(32, 56, 64, 3, 2, 1)),
        ("lenet", pool(128, 28, 6, 2, 2, 0)),
        ("grey", pool(128, 28, 1, 2, 2, 0)),
    ] {
        let (x, y, codes) = (d.input_len(), d.output_len(), d.codes_len());
        let shape =
            format!("{name} b{} {}×{}×{} {}/{}", d.samples, d.height, d.width, d.channels, d.window[0], d.stride[0]);
        cases.push((format!("max-pool {shape}"), Kernel::MaxPool { dims: d, codes: true }, vec![x, y, codes]));
        cases.push((format!("max-pool backward {shape}"), Kernel::MaxPoolBackward { dims: d }, vec![y, codes, x]));
    }
    for (name, d) in [
        ("flowers", pool(32, 12, 128, 12, 1, 0)),
        ("resnet", pool(32, 56, 64, 56, 1, 0)),
        ("grey", pool(128, 28, 1, 28, 1, 0)),
    ] {
        let (x, y, divisor) = (d.input_len(), d.output_len(), d.height * d.width);
        let shape = format!("{name} b{} {}×{}×{}", d.samples, d.height, d.width, d.channels);
        cases.push((format!("global average {shape}"), Kernel::AveragePool { dims: d, divisor }, vec![x, y]));
        cases.push((
            format!("global average backward {shape}"),
            Kernel::AveragePoolBackward { dims: d, divisor },
            vec![y, x],
        ));
    }
    for (rows, channels) in [
        (32 * 56 * 56, 64),
        (32 * 28 * 28, 64),
        (32 * 7 * 7, 256),
        (32 * 4 * 4, 512),
        (32 * 64 * 64, 3),
        (32 * 64 * 64, 10),
        (64, 2048),
    ] {
        let (x, c, count, eps) = (rows * channels, channels, rows, 1e-5);
        let shape = |what: &str| format!("{what} {rows} by {channels}");
        let relu = Some(Activation::Relu);
        cases.push((shape("batch sums"), Kernel::BatchSums { rows, channels }, vec![x, c, 2 * c]));
        let kernel = Kernel::BatchNormalize { rows, channels, count, eps, momentum: 0.1, activation: relu };
        cases.push((shape("batch normalise, relu"), kernel, vec![x, 2 * c, c, c, c, c, 2 * c, x]));
        let kernel = Kernel::BatchGradientSums { rows, channels, through: relu };
        cases.push((shape("batch gradient sums, relu"), kernel, vec![x, x, 2 * c, 2 * c, x]));
        let kernel = Kernel::BatchBackward { rows, channels, count, through: relu };
        cases.push((shape("batch backward, relu"), kernel, vec![x, x, 2 * c, c, 2 * c, x, x]));
    }
    let len = 32 * 28 * 28 * 64;
    let sum = |inputs| Kernel::Sum { inputs, len, activation: Some(Activation::Relu) };
    cases.push((format!("sum of 2, relu, {len}"), sum(2), vec![len; 3]));
    cases.push((format!("sum of 4, relu, {len}"), sum(4), vec![len; 5]));
    let (rows, channels) = (32 * 55 * 55, 96);
    let l =
        LocalResponse { rows, channels, first: 0, out_channels: channels, size: 5, alpha: 1e-4, beta: 0.75, k: 2.0 };
    let x = rows * channels;
    cases.push((format!("local response {rows} by {channels}"), Kernel::LocalResponse(l), vec![x; 2]));
    cases.push((format!("local response backward {rows} by {channels}"), Kernel::LocalResponseBackward(l), vec![x; 3]));
    let (rows, channels) = (4096, 768);
    let (x, c) = (rows * channels, channels);
    let kernel = Kernel::LayerNorm { rows, channels, eps: 1e-5 };
    cases.push((format!("layer norm {rows} by {channels}"), kernel, vec![x, c, c, x, 2 * rows]));
    let kernel = Kernel::LayerNormBackwardData { rows, channels };
    cases.push((format!("layer norm data {rows} by {channels}"), kernel, vec![x, x, 2 * rows, c, x]));
    let kernel = Kernel::LayerNormBackwardWeights { rows, channels };
    cases.push((format!("layer norm weights {rows} by {channels}"), kernel, vec![x, x, 2 * rows, c, c]));
    cases
}

/// The least times of one call, and of a copy that reads and writes `bytes` in all, in µs.
fn time(isa: Isa, threads: usize, kernel: &Kernel, lens: &[usize], bytes: usize) -> (f64, f64) {
    let mut cpu = Cpu::new(CpuOptions { threads, isa: Some(isa), ..CpuOptions::default() }).expect("a cpu");
    // Room for the copy lies on the same kind of pages.
    let half = bytes / 8;
    let buffers = lens.iter().enumerate().map(|(i, n)| (kernel.elements(i), *n));
    let buffers = buffers.chain([(Elements::Float, 2 * half)]);
    cpu.allocate(&Arena::packed(DType::F32, buffers)).expect("memory");
    for (i, n) in lens.iter().enumerate().filter(|(i, _)| kernel.elements(*i) == Elements::Float) {
        let values: Vec<f32> = (0..*n).map(|k| ((k * 7919 + i) % 1000) as f32 * 1e-3).collect();
        cpu.load(BufferId(i as u32), 0, Values::F32(&values)).expect("a load");
    }
    let call = Call { kernel: kernel.clone(), args: (0..lens.len() as u32).map(BufferId).collect() };
    let step = StepArgs { seed: 1, step: 0, rate: 1e-6, scale: 0.01 };
    let mut room = cpu.pack_now(BufferId(lens.len() as u32), Lend::Change).expect("a loan");
    let (mut best, mut copied) = (f64::INFINITY, f64::INFINITY);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(400) {
        for _ in 0..3 {
            let from = Instant::now();
            cpu.submit(&call, &step).expect("a kernel");
            best = best.min(from.elapsed().as_secs_f64() * 1e6);
        }
        for _ in 0..3 {
            copied = copied.min(copy(room.bytes_mut(), threads));
        }
    }
    (best, copied)
}

/// Copies one half onto the other, each thread its share; the slowest thread counts.
fn copy(bytes: &mut [u8], threads: usize) -> f64 {
    let (from, to) = bytes.split_at_mut(bytes.len() / 2);
    let share = from.len().div_ceil(threads).max(1);
    let one = |from: &[u8], to: &mut [u8]| {
        let begin = Instant::now();
        to.copy_from_slice(from);
        begin.elapsed().as_secs_f64() * 1e6
    };
    if threads == 1 {
        return one(from, to);
    }
    std::thread::scope(|scope| {
        let parts = from.chunks(share).zip(to.chunks_mut(share));
        let running: Vec<_> = parts.map(|(from, to)| scope.spawn(move || one(from, to))).collect();
        running.into_iter().map(|thread| thread.join().expect("a copy")).fold(0.0, f64::max)
    })
}
