//! How long kernels take, by kind and shape: the training steps of some well-known networks, kernel by kernel, so that each finds the caches as it does
//! in training. One core alone, then every core for itself, then all cores together.
//!
//! The median of the rounds counts, since a step takes what its kernels usually take. What would take too long, or more memory than is free, is left out: for such kernels there are
//! those of the same kind.

use paceline_base::kernel::{BufferId, Call, StepArgs, Values};
use paceline_base::op::Activation;
use paceline_base::optim::Rule;
use paceline_base::{Error, Result};
use paceline_graph::{Graph, presets, summary};
use paceline_kernels::cpu::{ConvCase, measure};
use paceline_kernels::{Device, DeviceOptions, Tuning};
use paceline_plan::{Batches, KernelShape, KernelTime, Plan, Schedule, Settings, TaskKind, lower};
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// How long all of it may take.
const BUDGET: Duration = Duration::from_secs(15);
/// How long one network goes on in one way, and how many rounds it has at least and at most, after one that warms up.
const LONGEST: Duration = Duration::from_millis(120);
const ROUNDS: (usize, usize) = (2, 400);

/// Bytes of the samples that are loaded from.
const SET: usize = 16 << 20;

/// A network whose step is measured.
struct Network {
    graph: Graph,
    /// Samples of one rank.
    batch: usize,
    /// With two ranks gradients are stored and updated by themselves; one rank does both in one pass where it can.
    ranks: usize,
    rule: Rule,
}

/// From small to large, so that what a slow machine has no time for is the largest.
fn networks() -> Result<Vec<Network>> {
    let adam = Rule::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8 };
    let momentum = Rule::Momentum { momentum: 0.9 };
    let mlp = |hidden: &[usize]| presets::mlp(hidden, Activation::Relu, 0.0);
    let preset = |name: &str| presets::network(name).ok_or_else(|| Error::internal(format!("no preset {name}")))?;
    let (cifar, photo, large) = ([32, 32, 3], [64, 64, 3], [224, 224, 3]);
    let mut networks = Vec::new();
    let mut add = |name: &str, layers: &[_], shape: &[usize], classes, cases: &[(usize, usize, Rule)]| -> Result<()> {
        for &(batch, ranks, rule) in cases {
            networks.push(Network { graph: Graph::build(name, layers, shape, classes, 0.0)?, batch, ranks, rule });
        }
        Ok(())
    };
    add("softmax", &presets::softmax(), &[28, 28], 10, &[(32, 1, adam), (16, 2, adam), (128, 1, Rule::Sgd)])?;
    add("mlp", &mlp(&[128]), &[28, 28], 10, &[(32, 1, adam), (16, 2, adam), (64, 2, Rule::Sgd), (128, 1, momentum)])?;
    add("mlp", &mlp(&[512, 512]), &cifar, 10, &[(64, 1, Rule::Sgd), (128, 2, momentum)])?;
    add("resnet-small", &preset("resnet-small")?, &cifar, 10, &[(8, 2, Rule::Sgd)])?;
    add("flowers-cnn", &preset("flowers-cnn")?, &photo, 5, &[(16, 1, adam), (8, 2, adam)])?;
    add("mlp", &mlp(&[4096, 4096]), &cifar, 10, &[(64, 1, adam)])?;
    add("flowers-cnn", &preset("flowers-cnn")?, &[192, 192, 3], 5, &[(4, 2, adam)])?;
    add("alexnet", &preset("alexnet")?, &large, 1000, &[(4, 2, adam)])?;
    Ok(networks)
}

/// Measures on a host of so many cores, whose core computes `flops` a second and which has so much memory to spare (0 if that is not known).
pub(crate) fn measure(cores: usize, flops: f64, free: u64) -> Result<BTreeMap<String, [f64; 5]>> {
    let end = Instant::now() + BUDGET;
    let mut found: BTreeMap<String, KernelTime> = BTreeMap::new();
    let mut tuning = DeviceOptions::default().tuning()?;
    for network in networks()? {
        let Network { graph, batch, ranks, rule } = &network;
        let left = end.saturating_duration_since(Instant::now()).as_secs_f64();
        // Forward, and twice as much backward.
        let step = 3.0 * summary::flops_per_sample(graph) * *batch as f64 / flops;
        if 3.0 * (ROUNDS.0 + 1) as f64 * step > left {
            continue;
        }
        let batches = Batches { train: vec![batch * ranks], evaluate: Vec::new() };
        let settings = Settings::new(*rule, DeviceOptions::default().kind());
        let schedule = lower(graph, &Plan::data_parallel(*ranks), &batches, &settings)?;
        let needed = schedule.memory[0].arena.bytes as u64 * cores as u64;
        if free > 0 && needed > free / 2 {
            continue;
        }
        choose_algorithms(&schedule, &mut tuning)?;
        let work = Work::of(&schedule)?;
        let alone = work.seconds(&tuning, 1, 1)?;
        let (crowded, together) = match cores {
            1 => (alone.clone(), alone.clone()),
            _ => (work.seconds(&tuning, 1, cores)?, work.seconds(&tuning, cores, 1)?),
        };
        for (i, (name, flops, bytes)) in work.names.iter().enumerate() {
            let time = KernelTime {
                flops: *flops,
                bytes: *bytes,
                alone: alone[i],
                crowded: crowded[i],
                together: together[i],
            };
            // The same shape may stand in a step more than once: the last finds caches that are warm as most do.
            found.insert(name.clone(), time);
        }
    }
    Ok(found.into_iter().map(|(name, time)| (name, time.figures().map(rounded))).collect())
}

/// Three digits are more than a clock is worth.
pub(crate) fn rounded(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

fn choose_algorithms(schedule: &Schedule, tuning: &mut Tuning) -> Result<()> {
    for call in schedule.phases[0].tasks().filter(|(_, task)| task.rank == 0).filter_map(|(_, task)| task.call()) {
        let Some(case) = ConvCase::of(&call.kernel).filter(|case| case.candidates().len() > 1) else { continue };
        if tuning.convs.iter().all(|choice| choice.case != case.shape()) {
            tuning.convs.push(measure::choose(&case, tuning, 1)?.0);
        }
    }
    Ok(())
}

/// What the first rank of a schedule does by itself in one step.
struct Work<'a> {
    schedule: &'a Schedule,
    tasks: Vec<Timed>,
    /// Name, operations and bytes of each.
    names: Vec<(String, f64, f64)>,
}

enum Timed {
    Kernel(Box<Call>),
    Load(BufferId, usize),
}

impl<'a> Work<'a> {
    fn of(schedule: &'a Schedule) -> Result<Self> {
        let memory = &schedule.memory[0];
        let (mut tasks, mut names) = (Vec::new(), Vec::new());
        for (_, task) in schedule.phases[0].tasks().filter(|(_, task)| task.rank == 0) {
            match &task.kind {
                TaskKind::Load { buffer, .. } => {
                    let Some(buffer) = memory.id(0, *buffer) else { continue };
                    tasks.push(Timed::Load(buffer, task.size));
                    names.push((KernelShape::load(task.size).to_string(), 0.0, 4.0 * task.size as f64));
                }
                TaskKind::Compute(call) | TaskKind::Update(call) => {
                    let Some(placed) = memory.call(0, call) else { continue };
                    let kernel = &placed.kernel;
                    names.push((KernelShape::of(kernel).to_string(), kernel.flops(), 4.0 * kernel.traffic().max(1.0)));
                    tasks.push(Timed::Kernel(Box::new(placed)));
                }
                _ => {}
            }
        }
        Ok(Self { schedule, tasks, names })
    }

    /// Seconds of each task, on a device of so many threads, with `copies` of it at work at the same time.
    fn seconds(&self, tuning: &Tuning, threads: usize, copies: usize) -> Result<Vec<f64>> {
        let barrier = Barrier::new(copies);
        let times: Result<Vec<Vec<f64>>> = std::thread::scope(|scope| {
            let one = || self.one(tuning, threads, &barrier);
            let running: Vec<_> = (0..copies).map(|_| scope.spawn(one)).collect();
            let joined = running.into_iter().map(|thread| thread.join());
            joined.map(|r| r.unwrap_or_else(|_| Err(Error::internal("a measurement panicked")))).collect()
        });
        let times = times?;
        let mean = |i: usize| times.iter().map(|t| t[i]).sum::<f64>() / copies as f64;
        Ok((0..self.tasks.len()).map(mean).collect())
    }

    fn one(&self, tuning: &Tuning, threads: usize, barrier: &Barrier) -> Result<Vec<f64>> {
        let made = self.device(tuning, threads);
        barrier.wait(); // also if it failed, so that nobody waits for ever
        let mut device = made?;
        let largest = self.tasks.iter().map(|t| if let Timed::Load(_, len) = t { *len } else { 0 }).max().unwrap_or(0);
        // Samples come from all over a set, which no cache holds.
        let bytes: Vec<u8> = (0..largest.max(SET) + largest).map(|i| (i * 7919 % 251) as u8).collect();
        let mut at = 0;
        let mut times = vec![Vec::new(); self.tasks.len()];
        let begin = Instant::now();
        for round in 0..=ROUNDS.1 {
            if round > ROUNDS.0 && begin.elapsed() > LONGEST {
                break;
            }
            let args = StepArgs { seed: 1, step: round as u64, rate: 1e-6, scale: 1e-2 };
            for (task, times) in self.tasks.iter().zip(&mut times) {
                let from = Instant::now();
                match task {
                    Timed::Kernel(call) => {
                        let event = device.submit(call, &args)?;
                        device.wait(event)?;
                    }
                    Timed::Load(buffer, len) => {
                        let values = Values::U8 { bytes: &bytes[at..][..*len], scale: 1.0 / 255.0, offset: 0.0 };
                        device.load(*buffer, 0, values)?;
                        at = (at + len) % SET;
                    }
                }
                if round > 0 {
                    times.push(from.elapsed().as_secs_f64());
                }
            }
        }
        let median = |mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2].max(1e-9)
        };
        Ok(times.into_iter().map(median).collect())
    }

    /// A device with the memory of the first rank, in which are small numbers of both signs.
    fn device(&self, tuning: &Tuning, threads: usize) -> Result<Box<dyn Device>> {
        let memory = &self.schedule.memory[0];
        let mut device = DeviceOptions { threads, tuning: Some(tuning.clone()), ..DeviceOptions::default() }.make()?;
        device.allocate(&memory.arena)?;
        let kernels =
            self.tasks.iter().filter_map(|t| if let Timed::Kernel(call) = t { Some(&call.kernel) } else { None });
        device.prepare(&mut { kernels })?;
        for bucket in &self.schedule.buckets {
            if let Some(params) = memory.lasting_id(bucket.params(0)) {
                let values: Vec<f32> =
                    (0..bucket.len).map(|i| ((i * 7919 % 2003) as f32 / 1001.5 - 1.0) * 0.05).collect();
                device.load(params, 0, Values::F32(&values))?;
            }
        }
        Ok(device)
    }
}
