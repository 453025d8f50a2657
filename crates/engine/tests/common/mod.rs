//! What the engine's tests share: small data, and running all ranks of a schedule on threads.
#![allow(dead_code, missing_docs)] // each test file uses its own part of this

pub mod nets;

use paceline_base::kernel::StepArgs;
use paceline_base::optim::Rule;
use paceline_comm::Comm;
use paceline_data::{Features, Labelled, Order, Samples};
use paceline_engine::checkpoint::{Checkpoint, Snapshot, TensorData, gather, initialize, restore};
use paceline_engine::{Batch, Rank, StepResult};
use paceline_graph::Graph;
use paceline_kernels::Device;
use paceline_plan::{Batches, OpPlan, PhaseKind, Plan, Schedule, Store, UpdateMode, lower};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Deterministic features in ±1 and labels.
pub struct Toy {
    pub shape: Vec<usize>,
    pub classes: usize,
    pub values: Vec<f32>,
    names: Vec<String>,
}

impl Toy {
    pub fn new(count: usize, shape: &[usize], classes: usize) -> Self {
        let n: usize = count * shape.iter().product::<usize>();
        let values = (0..n).map(|i| ((i * 7919 + i * i * 31) % 2003) as f32 / 1001.5 - 1.0).collect();
        let names = (0..classes).map(|c| c.to_string()).collect();
        Self { shape: shape.to_vec(), classes, values, names }
    }
}

impl Labelled for Toy {
    fn len(&self) -> usize {
        self.values.len() / self.shape.iter().product::<usize>()
    }
    fn shape(&self) -> &[usize] {
        &self.shape
    }
    fn class_names(&self) -> &[String] {
        &self.names
    }
    fn label(&self, index: usize) -> u32 {
        ((index * 13 + index / 3) % self.classes) as u32
    }
    fn fingerprint(&self) -> String {
        "toy".into()
    }
}

impl Samples for Toy {
    fn features(&self, index: usize) -> Features<'_> {
        let n: usize = self.shape.iter().product();
        Features::F32(&self.values[index * n..(index + 1) * n])
    }
}

pub struct Trained {
    pub snapshot: Snapshot,
    pub results: Vec<StepResult>,
    pub received: Vec<Vec<u64>>,
    pub allocated: Vec<usize>,
    pub schedule: Arc<Schedule>,
}

/// Trains `steps` steps of `batch` samples with every rank a thread; the last batch of an epoch may be partial.
pub fn run<D: Device>(
    graph: &Graph,
    plan: &Plan,
    rule: Rule,
    device: impl Fn() -> D + Sync,
    data: &Toy,
    batch: usize,
    steps: usize,
) -> Trained {
    run_from(graph, plan, rule, device, data, batch, 0..steps, None)
}

/// The same for these steps, from a checkpoint on if there is one.
#[allow(clippy::too_many_arguments)] // what a test varies
pub fn run_from<D: Device>(
    graph: &Graph,
    plan: &Plan,
    rule: Rule,
    device: impl Fn() -> D + Sync,
    data: &Toy,
    batch: usize,
    steps: std::ops::Range<usize>,
    checkpoint: Option<&Checkpoint>,
) -> Trained {
    let probe = device();
    let last = data.len() % batch;
    let train: Vec<usize> = [batch.min(data.len()), last].into_iter().filter(|&n| n > 0).collect();
    let batches = Batches { train, evaluate: vec![data.len()] };
    let schedule = Arc::new(lower(graph, plan, &batches, rule, probe.fusions()).expect("the plan fits"));
    let order = Order::new(data.len(), 5);
    let comms = paceline_comm::threads(plan.ranks);
    let mut outs = Vec::new();
    std::thread::scope(|scope| {
        let handles: Vec<_> = comms
            .into_iter()
            .map(|comm| {
                let (schedule, device, order, steps) = (schedule.clone(), &device, &order, steps.clone());
                scope.spawn(move || {
                    let mut rank = Rank::new(device(), comm, schedule).unwrap();
                    match checkpoint {
                        None => initialize(&mut rank, graph, 3).unwrap(),
                        Some(checkpoint) => restore(&mut rank, checkpoint, true).unwrap(),
                    }
                    let mut results = Vec::new();
                    let per_epoch = data.len().div_ceil(batch);
                    for step in steps {
                        let (epoch, start) = (step / per_epoch, step % per_epoch * batch);
                        let count = batch.min(data.len() - start);
                        let phase = rank.schedule.phase(PhaseKind::Train, count).unwrap();
                        let at = |row| order.at(epoch as u64, start + row);
                        let b = Batch::new(data, &at);
                        let args = StepArgs { seed: 9, step: step as u64, rate: 0.05, scale: 1.0 / count as f64 };
                        results.push(rank.step(phase, &b, &args, 0.0).unwrap());
                    }
                    let phase = rank.schedule.phase(PhaseKind::Evaluate, data.len()).unwrap();
                    let at = |row| row;
                    let b = Batch::new(data, &at);
                    let args = StepArgs { seed: 9, step: 0, rate: 0.0, scale: 1.0 / data.len() as f64 };
                    results.push(rank.step(phase, &b, &args, 0.0).unwrap());
                    let received = rank.comm.counters().received.clone();
                    let allocated = rank.device.allocated_bytes();
                    (gather(&mut rank, graph).unwrap(), results, received, allocated)
                })
            })
            .collect();
        outs = handles.into_iter().map(|h| h.join().unwrap()).collect();
    });
    let received = outs.iter().map(|o| o.2.clone()).collect();
    let allocated = outs.iter().map(|o| o.3).collect();
    for out in &outs {
        assert_eq!(out.1, outs[0].1, "every rank knows the same results");
    }
    let first = outs.swap_remove(0);
    Trained { snapshot: first.0.unwrap(), results: first.1, received, allocated, schedule }
}

pub fn values(data: &TensorData) -> Vec<f64> {
    match data {
        TensorData::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
        TensorData::F64(v) => v.clone(),
    }
}

/// Largest ‖a − b‖ / (‖b‖ + 1e-3) over all tensors, optimiser state included.
pub fn distance(a: &Snapshot, b: &Snapshot) -> (f64, String) {
    let mut worst = (0.0, String::new());
    for (x, y) in a.model.iter().chain(&a.optimizer).zip(b.model.iter().chain(&b.optimizer)) {
        assert_eq!((&x.name, &x.shape), (&y.name, &y.shape));
        let (x, y, name) = (values(&x.data), values(&y.data), &x.name);
        let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|e| e * e).sum::<f64>().sqrt();
        let d = norm(&mut x.iter().zip(&y).map(|(a, b)| a - b)) / (norm(&mut y.iter().copied()) + 1e-3);
        if d > worst.0 || d.is_nan() {
            worst = (d, name.clone());
        }
    }
    worst
}

/// A random plan that fits: every operator gets its own split and its own ranks.
pub fn random_plan(graph: &Graph, ranks: usize, mut dice: u64, update: UpdateMode, bucket: usize) -> Plan {
    let mut roll = |n: usize| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) as usize % n
    };
    let mut operators = BTreeMap::new();
    for (id, node) in graph.nodes.iter().enumerate() {
        if graph.is_data(id) || roll(4) == 0 {
            continue; // by default
        }
        let mut split = BTreeMap::new();
        let mut room = ranks + 1;
        for dim in node.op.dims(1000, &graph.input_shapes(id)) {
            let degree = 1 + roll(room.min(dim.extent));
            split.insert(dim.name.to_string(), degree);
            room = (room / degree).max(1);
        }
        let parts: usize = split.values().product();
        let ranks = (0..parts).map(|_| roll(ranks)).collect();
        operators.insert(node.name.clone(), OpPlan { split, ranks: Some(ranks) });
    }
    Plan { ranks, operators, default: None, store: Store { update, bucket } }
}
