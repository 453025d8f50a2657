//! How fast each kernel of a model is: one training step on one rank, kernel by kernel, as training runs it.

use crate::devices;
use crate::resolve::{Layout, read_text};
use crate::tune::kernels;
use paceline_base::kernel::{Call, Kernel, StepArgs, Values};
use paceline_base::op::Activation;
use paceline_base::optim::Rule;
use paceline_base::setting::{Setting, SettingNames};
use paceline_base::text::did_you_mean;
use paceline_base::units::GlobalBatch;
use paceline_base::{Error, Result};
use paceline_graph::{Graph, model_file, presets};
use paceline_kernels::cpu::{ConvCase, peak_flops};
use paceline_kernels::{Device, DeviceOptions};
use paceline_plan::{Batches, Plan, Schedule, Segment, Settings, Task, TaskKind, lower};
use serde::Serialize;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// A setting of a measurement of kernels that errors may speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchSetting {
    /// Shape of a sample.
    Input,
    /// Threads of the kernels.
    Threads,
}

impl Setting for BenchSetting {
    fn field(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Threads => "threads",
        }
    }
}

/// What the user calls each setting of a measurement of kernels.
pub type BenchSettingNames = SettingNames<BenchSetting>;

/// What is measured.
pub struct KernelBench<'a> {
    /// The model.
    pub graph: &'a Graph,
    /// Samples of a step.
    pub batch: usize,
    /// Threads of the kernels.
    pub threads: usize,
    /// How parameters move.
    pub rule: Rule,
    /// Steps that are timed; the median of each kernel counts.
    pub repeats: usize,
    /// What the user calls the settings, for errors.
    pub names: BenchSettingNames,
}

/// One kernel of a step.
#[derive(Clone, Debug, Serialize)]
pub struct KernelLine {
    /// The layer that it belongs to; empty for what serves several.
    pub layer: String,
    /// Which kernel.
    pub kernel: &'static str,
    /// What it computes on, in words.
    pub shape: String,
    /// How a convolution is computed.
    pub algorithm: Option<String>,
    /// Median time.
    pub seconds: f64,
    /// Floating-point operations per second, counted by the definition; 0 for what only moves data.
    pub flops: f64,
    /// Share of the peak of all its threads.
    pub of_peak: Option<f64>,
}

/// All kernels of a step.
#[derive(Clone, Debug, Serialize)]
pub struct KernelReport {
    /// The model.
    pub model: String,
    /// Samples of a step.
    pub batch: usize,
    /// The device.
    pub device: String,
    /// Peak of one core.
    pub peak_flops: Option<f64>,
    /// Kernels in the order of the step.
    pub lines: Vec<KernelLine>,
    /// Sum of all medians.
    pub seconds: f64,
    /// Samples per second at that.
    pub samples_per_second: f64,
    /// Bytes of buffers and of the device's own working memory.
    pub bytes: usize,
    /// Decisions in words.
    pub reasons: Vec<String>,
}

/// A model by preset or file, for samples of this shape and so many classes: those that the preset is known for, if not given.
pub fn bench_model(
    model: &str,
    input: Option<&[usize]>,
    classes: Option<usize>,
    names: BenchSettingNames,
) -> Result<Graph> {
    let (shape, of) = match model {
        "flowers-cnn" | "flowers-net" => (vec![192, 192, 3], 5),
        "alexnet" => (vec![224, 224, 3], 1000),
        "resnet18" => (vec![112, 112, 3], 1000),
        "resnet-small" => (vec![32, 32, 3], 10),
        _ => (vec![28, 28], 10),
    };
    let layers = match (model, presets::network(model)) {
        (_, Some(layers)) => layers?,
        ("softmax", _) => presets::softmax(),
        ("mlp", _) => presets::mlp(&[128], Activation::Relu, 0.0),
        _ if Path::new(model).exists() => {
            if input.is_none() {
                let input = names.of(BenchSetting::Input);
                return Err(Error::user(format!("{model} takes samples of any shape: say which, as {input} 28x28x1")));
            }
            model_file::parse(&read_text("read the model file", Path::new(model))?, model)?.layers
        }
        _ => {
            return Err(Error::user(format!(
                "{model} is neither a preset nor a model file{}; presets are {}",
                did_you_mean(model, presets::NAMES),
                presets::NAMES.join(", ")
            )));
        }
    };
    Graph::build(model, &layers, input.unwrap_or(&shape), classes.unwrap_or(of), 0.0)
}

/// Runs the kernels of a training step, each by itself, and says how fast they are.
pub fn bench_kernels(bench: &KernelBench<'_>) -> Result<KernelReport> {
    let batch = GlobalBatch::new(bench.batch)?;
    paceline_system::threads::check_threads(bench.names.of(BenchSetting::Threads), 1, bench.threads)?;
    let layout = Layout { plan: Plan::data_parallel(1), threads: bench.threads, core: None, batch };
    let untuned = DeviceOptions::default();
    let batches = Batches { train: vec![bench.batch], evaluate: Vec::new() };
    let schedule = lower(bench.graph, &layout.plan, &batches, &Settings::new(bench.rule, untuned.kind()))?;
    let mut reasons = Vec::new();
    let tuning = kernels::choose(&schedule, &layout, untuned.tuning()?, &mut reasons, &AtomicBool::new(false))?;
    let mut device = devices::of_layout(&layout, Some(&tuning)).make()?;
    let memory = &schedule.memory[0];
    let call = |task: &Task| task.call().and_then(|call| memory.call(0, call));
    let calls: Vec<(&Segment, Call)> =
        schedule.phases[0].tasks().filter_map(|(segment, task)| Some((segment, call(task)?))).collect();
    device.allocate(&memory.arena)?;
    device.prepare(&mut calls.iter().map(|c| &c.1.kernel))?;
    fill(&mut *device, &schedule)?;
    let mut times = vec![Vec::with_capacity(bench.repeats); calls.len()];
    for step in 0..=bench.repeats {
        let args = StepArgs { seed: 1, step: step as u64, rate: 1e-6, scale: 1.0 / bench.batch as f64 };
        for ((_, call), times) in calls.iter().zip(&mut times) {
            let begin = Instant::now();
            let event = device.submit(call, &args)?;
            device.wait(event)?;
            if step > 0 {
                times.push(begin.elapsed().as_secs_f64()); // the first warms caches and pages
            }
        }
    }
    let peak = peak_flops(tuning.isa);
    let lines: Vec<KernelLine> = calls
        .iter()
        .zip(times)
        .map(|((segment, call), mut times)| {
            times.sort_by(f64::total_cmp);
            let seconds = times[times.len() / 2];
            let flops = call.kernel.flops() / seconds;
            KernelLine {
                layer: segment.key.node().map_or(String::new(), |n| bench.graph.nodes[n].name.clone()),
                kernel: call.kernel.name(),
                shape: shape(&call.kernel),
                algorithm: ConvCase::of(&call.kernel).map(|case| tuning.conv(&case).to_string()),
                seconds,
                flops,
                of_peak: peak.map(|peak| flops / (peak * bench.threads as f64)),
            }
        })
        .collect();
    let seconds = lines.iter().map(|l| l.seconds).sum();
    Ok(KernelReport {
        model: bench.graph.name.clone(),
        batch: bench.batch,
        device: device.describe(),
        peak_flops: peak,
        seconds,
        samples_per_second: bench.batch as f64 / seconds,
        bytes: device.allocated_bytes() + device.working_bytes(),
        lines,
        reasons,
    })
}

/// Small numbers of both signs in parameters and data; labels are 0.
fn fill(device: &mut dyn Device, schedule: &Schedule) -> Result<()> {
    let values = |len: usize, size: f32| -> Vec<f32> {
        (0..len).map(|i| (((i * 7919) % 2003) as f32 / 1001.5 - 1.0) * size).collect()
    };
    let memory = &schedule.memory[0];
    for bucket in &schedule.buckets {
        if let Some(params) = memory.lasting_id(bucket.params(0)) {
            device.load(params, 0, Values::F32(&values(bucket.len, 0.05)))?;
        }
    }
    for (_, task) in schedule.phases[0].tasks() {
        if let TaskKind::Load { buffer, .. } = task.kind
            && let Some(buffer) = memory.id(0, buffer)
        {
            device.load(buffer, 0, Values::F32(&values(memory.len(buffer), 1.0)))?;
        }
    }
    Ok(())
}

fn shape(kernel: &Kernel) -> String {
    match kernel {
        Kernel::ConvForward { dims: d, .. }
        | Kernel::ConvBackwardData { dims: d, .. }
        | Kernel::ConvBackwardWeights { dims: d, .. } => {
            let stride = if d.stride == [1, 1] { String::new() } else { format!("/{}", d.stride[0]) };
            format!(
                "{}×{}×{} → {}×{}×{}, {}×{}{stride}",
                d.height, d.width, d.channels, d.out_height, d.out_width, d.out_channels, d.kernel[0], d.kernel[1]
            )
        }
        Kernel::DenseForward { dims: d, .. }
        | Kernel::DenseBackwardData { dims: d, .. }
        | Kernel::DenseBackwardWeights { dims: d, .. }
        | Kernel::DenseBackwardUpdate { dims: d, .. } => format!("{} → {}", d.inputs, d.outputs),
        Kernel::MaxPool { dims: d, .. }
        | Kernel::MaxPoolBackward { dims: d }
        | Kernel::AveragePool { dims: d, .. }
        | Kernel::AveragePoolBackward { dims: d, .. } => {
            format!("{}×{}×{} → {}×{}", d.height, d.width, d.channels, d.out_height, d.out_width)
        }
        _ => String::new(),
    }
}
