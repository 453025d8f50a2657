//! What a training step costs beside its kernels: real steps of a network so small that little else is left.

use crate::kernels::rounded;
use paceline_base::kernel::StepArgs;
use paceline_base::optim::Rule;
use paceline_base::{Error, Result};
use paceline_comm::single;
use paceline_data::{Features, Labelled, Order, Samples};
use paceline_engine::checkpoint::initialize;
use paceline_engine::{Batch, Next, Rank};
use paceline_graph::{Graph, presets};
use paceline_kernels::DeviceOptions;
use paceline_plan::{Batches, KernelShape, KernelTime, PhaseKind, Plan, Settings, lower};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// Samples of a step, and of the set.
const BATCH: usize = 32;
const SAMPLES: usize = 4096;
/// Steps of a round, and rounds.
const STEPS: u64 = 200;
const ROUNDS: usize = 12;

/// Samples that are all alike.
struct Made {
    shape: [usize; 2],
    names: Vec<String>,
    bytes: Vec<u8>,
}

impl Labelled for Made {
    fn len(&self) -> usize {
        SAMPLES
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn class_names(&self) -> &[String] {
        &self.names
    }

    fn label(&self, index: usize) -> u32 {
        (index % 10) as u32
    }

    fn fingerprint(&self) -> String {
        String::new()
    }
}

impl Samples for Made {
    fn features(&self, index: usize) -> Features<'_> {
        let len = self.shape[0] * self.shape[1];
        Features::U8 { bytes: &self.bytes[index * len..][..len], scale: 1.0 / 255.0, offset: 0.0 }
    }
}

/// Seconds of a step beside its kernels and its load, whose time is among the measured `kernels`; on one core.
pub(crate) fn measure(kernels: &BTreeMap<String, [f64; 5]>) -> Result<f64> {
    let load =
        kernels.get(&KernelShape::load(BATCH * 784).to_string()).map_or(0.0, |&figures| KernelTime::of(figures).alone);
    let graph = Graph::build("softmax", &presets::softmax(), &[28, 28], 10, 0.0)?;
    let rule = Rule::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8 };
    let batches = Batches { train: vec![BATCH], evaluate: Vec::new() };
    let options = DeviceOptions { threads: 1, ..DeviceOptions::default() };
    let schedule = Arc::new(lower(&graph, &Plan::data_parallel(1), &batches, &Settings::new(rule, options.kind()))?);
    let samples = Made { shape: [28, 28], names: vec![String::new(); 10], bytes: vec![7; SAMPLES * 784] };
    let order = Order::new(SAMPLES, 1);
    let mut rank = Rank::new(options.make()?, single(), schedule)?;
    initialize(&mut rank, &graph, 1)?;
    let phase =
        rank.schedule.phase(PhaseKind::Train, BATCH).ok_or_else(|| Error::internal("a step was not planned"))?;
    let mut beside = Vec::with_capacity(ROUNDS);
    let mut step = 0;
    for _ in 0..=ROUNDS {
        rank.take_times();
        let begin = Instant::now();
        for _ in 0..STEPS {
            let start = |step: u64| (step as usize * BATCH) % (SAMPLES - BATCH);
            let at = |row| order.at(0, start(step) + row);
            let at_next = |row| order.at(0, start(step + 1) + row);
            let next = Some(Next { phase, id: step + 1, at: &at_next });
            let batch = Batch { id: Some(step), next, ..Batch::new(&samples, &at) };
            rank.step(phase, &batch, &StepArgs { seed: 1, step, rate: 1e-4, scale: 1.0 / BATCH as f64 })?;
            step += 1;
        }
        let all = begin.elapsed().as_secs_f64();
        let split = rank.take_times();
        beside.push((all - split.compute - split.update) / STEPS as f64 - load.min(split.input / STEPS as f64));
    }
    beside.sort_by(f64::total_cmp);
    Ok(rounded(beside[ROUNDS / 4].max(1e-8)))
}
