//! What the engine's tests share: small data, and running all ranks of a schedule on threads.
#![allow(dead_code, missing_docs)] // each test file uses its own part of this

pub(crate) mod nets;

use paceline_base::kernel::StepArgs;
use paceline_base::optim::Rule;
use paceline_base::sample::FeatureKind;
use paceline_comm::Comm;
use paceline_data::{Features, Labelled, Order, Samples};
use paceline_engine::checkpoint::{Checkpoint, Snapshot, TensorData, gather, initialize, restore};
use paceline_engine::{Batch, Metrics, Rank};
use paceline_graph::Graph;
use paceline_kernels::testing::{Checked, Queued};
use paceline_kernels::{Cpu, CpuOptions, Device};
use paceline_plan::{
    Batches, ListRoom, MicroBatches, OpPlan, PhaseKind, Plan, Schedule, Settings, Store, UpdateMode, lower,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Deterministic features in ±1 and labels.
pub(crate) struct Toy {
    pub shape: Vec<usize>,
    pub classes: usize,
    pub values: Vec<f32>,
    names: Vec<String>,
}

impl Toy {
    pub(crate) fn new(count: usize, shape: &[usize], classes: usize) -> Self {
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

/// A device for each rank.
pub(crate) type Make<'a> = dyn Fn() -> Box<dyn Device> + Sync + 'a;

/// What stands between the engine and a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Around {
    Nothing,
    /// Poisons what nobody may touch.
    Checked,
    /// Works later, when so many commands were given, or when it must.
    Queued(u64),
    Both(u64),
}

impl Around {
    pub(crate) const ALL: [Around; 5] =
        [Around::Nothing, Around::Checked, Around::Queued(3), Around::Queued(u64::MAX), Around::Both(u64::MAX)];

    pub(crate) fn wrap(self, device: impl Device + 'static) -> Box<dyn Device> {
        match self {
            Around::Nothing => Box::new(device),
            Around::Checked => Box::new(Checked::new(device)),
            Around::Queued(lag) => Box::new(Queued::new(device, lag)),
            Around::Both(lag) => Box::new(Checked::new(Queued::new(device, lag))),
        }
    }
}

/// Runs a test on a device as it is, and on the devices for tests around it.
pub(crate) fn on_all<D: Device + 'static>(device: impl Fn() -> D + Sync, test: impl Fn(&Make<'_>)) {
    for around in Around::ALL {
        test(&|| around.wrap(device()));
    }
}

pub(crate) struct Trained {
    pub snapshot: Snapshot,
    pub results: Vec<Metrics>,
    pub received: Vec<Vec<u64>>,
    pub allocated: Vec<usize>,
    pub schedule: Arc<Schedule>,
}

/// Mean loss of a sample in a step.
pub(crate) fn loss(of: &Trained, step: usize) -> f64 {
    of.results[step].value("loss").unwrap()
}

/// Which steps are done, and how.
#[derive(Clone)]
pub(crate) struct Steps<'a> {
    /// Samples of a step; the last of an epoch may have fewer.
    pub batch: usize,
    pub steps: std::ops::Range<usize>,
    /// Where they begin, if not at the beginning.
    pub checkpoint: Option<&'a Checkpoint>,
    /// Which steps may leave updates to the next one.
    pub defers: fn(usize) -> bool,
    pub micro_batches: MicroBatches,
}

impl Steps<'_> {
    /// The first steps. Most leave updates to the next one, so that all ways from step to step are tested wherever steps are.
    pub(crate) fn new(batch: usize, steps: usize) -> Self {
        let defers = |step| step % 3 != 1;
        Self { batch, steps: 0..steps, checkpoint: None, defers, micro_batches: MicroBatches::One }
    }
}

/// Trains with every rank a thread. So do the devices for tests, which must come to the same bits.
pub(crate) fn run<D: Device + 'static>(
    graph: &Graph,
    plan: &Plan,
    rule: Rule,
    device: impl Fn() -> D + Sync,
    data: &dyn Samples,
    steps: &Steps<'_>,
) -> Trained {
    let on = |around: Around| {
        let make = || around.wrap(device());
        let schedule = schedule(graph, plan, rule, &make, data, steps);
        train_on(graph, schedule, &make, data, steps)
    };
    let plain = on(Around::Nothing);
    for around in [Around::Checked, Around::Queued(u64::MAX)] {
        let other = on(around);
        assert_eq!(other.results, plain.results, "{around:?}");
        assert_eq!(distance(&other.snapshot, &plain.snapshot).0, 0.0, "{around:?}");
        assert_eq!((&other.received, &other.allocated), (&plain.received, &plain.allocated), "{around:?}");
    }
    plain
}

/// What [`run`] executes.
pub(crate) fn schedule(
    graph: &Graph,
    plan: &Plan,
    rule: Rule,
    device: &Make<'_>,
    data: &dyn Samples,
    steps: &Steps<'_>,
) -> Schedule {
    let Steps { batch, micro_batches, .. } = *steps;
    let probe = device();
    let last = data.len() % batch;
    let train: Vec<usize> = [batch.min(data.len()), last].into_iter().filter(|&n| n > 0).collect();
    let batches = Batches { train, evaluate: vec![data.len()] };
    let lists = room(data);
    let settings = Settings { defer_updates: true, micro_batches, lists, ..Settings::new(rule, probe.kind()) };
    lower(graph, plan, &batches, &settings).expect("the plan fits")
}

/// Room for the lists of any batch.
pub(crate) fn room(data: &dyn Samples) -> ListRoom {
    match data.feature_kind() {
        FeatureKind::Dense => ListRoom::default(),
        FeatureKind::Lists { .. } => ListRoom::of_lengths((0..data.len()).map(|i| data.features(i).len())),
    }
}

/// Executes a schedule.
pub(crate) fn train_on(
    graph: &Graph,
    schedule: Schedule,
    device: &Make<'_>,
    data: &dyn Samples,
    steps: &Steps<'_>,
) -> Trained {
    let Steps { batch, checkpoint, defers, .. } = *steps;
    let schedule = Arc::new(schedule);
    let order = Order::new(data.len(), 5);
    let comms = paceline_comm::threads(schedule.ranks);
    let mut outs = Vec::new();
    std::thread::scope(|scope| {
        let handles: Vec<_> = comms
            .into_iter()
            .map(|comm| {
                let (schedule, order, steps) = (schedule.clone(), &order, steps.steps.clone());
                scope.spawn(move || {
                    let mut rank = Rank::new(device(), comm, schedule).unwrap();
                    match checkpoint {
                        None => initialize(&mut rank, graph, 3).unwrap(),
                        Some(checkpoint) => restore(&mut rank, checkpoint, true).unwrap(),
                    }
                    let mut results = Vec::new();
                    let per_epoch = data.len().div_ceil(batch);
                    for step in steps.clone() {
                        let (epoch, start) = (step / per_epoch, step % per_epoch * batch);
                        let count = batch.min(data.len() - start);
                        let phase = rank.schedule.phase(PhaseKind::Train, count).unwrap();
                        let at = |row| order.at(epoch as u64, start + row);
                        let b = Batch::new(data, &at);
                        let args = StepArgs { seed: 9, step: step as u64, rate: 0.05, scale: 1.0 / count as f64 };
                        rank.step(phase, &b, &args).unwrap();
                        results.extend(rank.poll_metrics().unwrap());
                        if !defers(step) {
                            rank.drain().unwrap();
                        }
                    }
                    if steps.len() % 2 == 0 {
                        rank.drain().unwrap(); // else the evaluation does what was left over
                    }
                    let phase = rank.schedule.phase(PhaseKind::Evaluate, data.len()).unwrap();
                    let at = |row| row;
                    let b = Batch::new(data, &at);
                    let args = StepArgs { seed: 9, step: 0, rate: 0.0, scale: 1.0 / data.len() as f64 };
                    rank.step(phase, &b, &args).unwrap();
                    results.extend(std::iter::from_fn(|| rank.wait_metrics().unwrap()));
                    assert_eq!(results.len(), steps.len() + 1, "one for each step");
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

pub(crate) fn values(data: &TensorData) -> Vec<f64> {
    match data {
        TensorData::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
        TensorData::F64(v) => v.clone(),
    }
}

/// Largest ‖a − b‖ / (‖b‖ + 1e-3) over all tensors, optimiser state included.
pub(crate) fn distance(a: &Snapshot, b: &Snapshot) -> (f64, String) {
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

/// Gives a plan random weights, some of them 0; for a third of the dice none.
pub(crate) fn with_shares(mut plan: Plan, graph: &Graph, dice: u64) -> Plan {
    if dice.is_multiple_of(3) {
        return plan;
    }
    let weight = |rank: usize| (dice.rotate_left(7 * rank as u32) >> 3) % 4;
    plan.shares = Some((0..plan.ranks).map(weight).collect());
    if plan.check(graph).is_err() {
        // An operator is only on ranks that have no weight.
        plan.shares = Some((0..plan.ranks).map(|rank| 1 + weight(rank)).collect());
    }
    plan
}

/// A random plan that fits: every operator gets its own split and its own ranks, and ranks get shares of the samples.
pub(crate) fn random_plan(graph: &Graph, ranks: usize, dice: u64, update: UpdateMode, bucket: usize) -> Plan {
    let first = dice;
    let mut dice = dice;
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
    let plan =
        Plan { ranks, operators, default: None, store: Store { update, bucket, ..Store::default() }, shares: None };
    with_shares(plan, graph, first)
}

/// Samples shared out by weight over mirrored ranks, and a random plan.
pub(crate) fn two_plans(graph: &Graph, ranks: usize, dice: u64, update: UpdateMode, bucket: usize) -> [Plan; 2] {
    let mut mirrored = Plan::data_parallel(ranks);
    mirrored.store = Store { update, bucket, ..Store::default() };
    [with_shares(mirrored, graph, dice), random_plan(graph, ranks, dice, update, bucket)]
}

/// Whether what ranks computed under a plan is what one rank computed, tensors to `tolerance`.
pub(crate) fn same(many: &Trained, one: &Trained, tolerance: f64) -> Result<(), String> {
    let (d, name) = distance(&many.snapshot, &one.snapshot);
    if d.is_nan() || d >= tolerance {
        return Err(format!("{name} differs by {d:e}"));
    }
    for (a, b) in many.results.iter().zip(&one.results) {
        let sums = |name| (a.sum(name).unwrap(), b.sum(name).unwrap());
        let (loss, expected) = sums("loss");
        assert_eq!(a.sum("accuracy").is_some(), b.sum("accuracy").is_some(), "the same metrics");
        let near = (loss - expected).abs() < 10.0 * tolerance * expected.abs().max(1.0);
        let (correct, samples) = ((a.sum("accuracy"), b.sum("accuracy")), sums("samples"));
        let distance = a.sum("absolute error").zip(b.sum("absolute error")).map_or(0.0, |(a, b)| (a - b).abs());
        let near = near && distance < 10.0 * tolerance * samples.0;
        // Of several classes of a sample each counts as a part of it.
        let met = correct.0.zip(correct.1).map_or(0.0, |(a, b)| (a - b).abs());
        if samples.0 != samples.1 || !near || (tolerance < 1e-9 && met > 1e-9) {
            return Err(format!("{a:?} {b:?}"));
        }
    }
    Ok(())
}

/// Bytes on every link and memory of every rank: what the simulator says is what three ranks do.
pub(crate) fn simulator_agrees(graph: &Graph, data: &dyn Samples, rule: Rule, dice: u64, steps: &Steps<'_>) {
    assert_eq!(data.len() % steps.batch, 0, "no partial batch");
    let plan = random_plan(graph, 3, dice, UpdateMode::Sharded, 40);
    let cpu = || Cpu::new(CpuOptions::default()).unwrap();
    let real = run(graph, &plan, rule, cpu, data, steps);
    let cluster = paceline_plan::Cluster::guess(3);
    let train = paceline_plan::simulate(&real.schedule, 0, &cluster);
    let evaluate = paceline_plan::simulate(&real.schedule, 1, &cluster);
    for to in 0..3 {
        for from in 0..3 {
            let expected = train.bytes[from][to] * steps.steps.len() as u64 + evaluate.bytes[from][to];
            assert_eq!(real.received[to][from], expected, "{from} → {to}, plan {dice}");
        }
        assert_eq!(real.allocated[to] as u64, train.memory[to], "memory of rank {to}, plan {dice}");
    }
}
