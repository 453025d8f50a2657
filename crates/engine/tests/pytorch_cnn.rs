//! A tiny convolutional network against values that PyTorch computed (`fixtures/pytorch/make_cnn.py`): loss, one step of SGD,
//! running statistics, and the logits of an evaluation after it; on both devices, alone and on two ranks.

mod common;

use paceline_base::kernel::{StepArgs, Values};
use paceline_base::optim::Rule;
use paceline_data::Table;
use paceline_engine::checkpoint::{Snapshot, TensorData, gather};
use paceline_engine::{Batch, Rank};
use paceline_graph::{Graph, model_file};
use paceline_kernels::{Cpu, CpuOptions, Device, Reference};
use paceline_plan::{Batches, PhaseKind, Plan, Settings, lower};
use serde_json::Value;
use std::sync::Arc;

const MODEL: &str = r#"
format = 1
[[layer]]
name = "conv1"
type = "conv"
channels = 4
kernel = 3
pad = 1
bias = false
[[layer]]
name = "bn1"
type = "batch-norm"
[[layer]]
type = "relu"
[[layer]]
name = "pooled"
type = "max-pool"
window = 2
[[layer]]
name = "conv2"
type = "conv"
channels = 4
kernel = 3
pad = 1
groups = 2
[[layer]]
type = "add"
inputs = ["conv2", "pooled"]
[[layer]]
type = "relu"
[[layer]]
name = "conv3"
type = "conv"
channels = 6
kernel = 2
stride = 2
[[layer]]
type = "average-pool"
window = 2
stride = 1
[[layer]]
type = "flatten"
[[layer]]
name = "logits"
type = "dense"
units = "classes"
[[layer]]
type = "softmax-cross-entropy"
"#;

fn flat(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(flat).collect(),
        number => vec![number.as_f64().expect("a number")],
    }
}

fn near(what: &str, got: &[f64], wanted: &[f64], tolerance: f64) {
    assert_eq!(got.len(), wanted.len(), "{what}");
    for (g, w) in got.iter().zip(wanted) {
        assert!((g - w).abs() <= tolerance * (1.0 + w.abs()), "{what}: got {g}, PyTorch {w}");
    }
}

/// What one rank found.
struct Found {
    loss: f64,
    evaluated_loss: f64,
    /// Of the rank's own samples.
    logits: Vec<f64>,
    after: Option<Snapshot>,
}

fn one_rank<D: Device>(
    fixture: &Value,
    graph: &Graph,
    data: &Table,
    mut rank: Rank<D, paceline_comm::Threads>,
) -> Found {
    let (me, schedule, count) = (rank.number(), rank.schedule.clone(), flat(&fixture["labels"]).len());
    for bucket in &schedule.buckets {
        let member = bucket.group.iter().position(|&r| r == me).unwrap();
        for entry in &bucket.entries {
            let values = flat(&fixture["before"][&entry.param]);
            let params = rank.lasting(bucket.params(member)).unwrap();
            rank.device.load(params, entry.offset, Values::F64(&values)).unwrap();
        }
    }
    let same = |row| row;
    let args = StepArgs { seed: 1, step: 0, rate: fixture["rate"].as_f64().unwrap(), scale: 1.0 / count as f64 };
    let mut step = |kind| {
        let phase = schedule.phase(kind, count).unwrap();
        rank.step_now(phase, &Batch::new(data, &same), &args).unwrap().value("loss").unwrap()
    };
    let (loss, evaluated_loss) = (step(PhaseKind::Train), step(PhaseKind::Evaluate));
    // The loss is the last layer, and reads the logits first.
    let phase = schedule.phase(PhaseKind::Evaluate, count).unwrap();
    let last = Some(graph.nodes.len() - 1);
    let mut tasks = schedule.phases[phase].tasks().filter(|(s, task)| task.rank == me && s.key.node() == last);
    let logits = tasks.find_map(|(_, task)| Some(task.call()?.args[0])).unwrap();
    let buffer = schedule.memory[me].id(phase, logits);
    let mut logits = vec![0.0; count / schedule.ranks * graph.targets.outputs()];
    rank.device.read(buffer.unwrap(), &mut logits).unwrap();
    Found { loss, evaluated_loss, logits, after: gather(&mut rank, graph).unwrap() }
}

fn check<D: Device + 'static>(ranks: usize, tolerance: f64, device: impl Fn() -> D + Sync) {
    common::on_all(device, |device| check_on(ranks, tolerance, device));
}

fn check_on(ranks: usize, tolerance: f64, device: &common::Make<'_>) {
    let text = include_str!("../../../fixtures/pytorch/cnn.json");
    let fixture: Value = serde_json::from_str(text).expect("the fixture is JSON");
    let shape: Vec<usize> = flat(&fixture["shape"]).iter().map(|&n| n as usize).collect();
    let layers = model_file::parse(MODEL, "fixture").unwrap().layers;
    let graph = Graph::build("fixture", &layers, &shape, 5, 0.0).unwrap();
    let labels: Vec<u32> = flat(&fixture["labels"]).iter().map(|&l| l as u32).collect();
    let inputs: Vec<f32> = flat(&fixture["inputs"]).iter().map(|&x| x as f32).collect();
    let batches = Batches { train: vec![labels.len()], evaluate: vec![labels.len()] };
    let data = Table::new(shape, inputs, labels, graph.targets.outputs()).unwrap();
    let plan = Plan::data_parallel(ranks);
    let schedule = Arc::new(lower(&graph, &plan, &batches, &Settings::new(Rule::Sgd, device().kind())).unwrap());
    let one = |comm| one_rank(&fixture, &graph, &data, Rank::new(device(), comm, schedule.clone()).unwrap());
    let found: Vec<Found> = std::thread::scope(|scope| {
        let one = &one;
        let handles: Vec<_> = paceline_comm::threads(ranks).into_iter().map(|c| scope.spawn(move || one(c))).collect();
        handles.into_iter().map(|h| h.join().unwrap()).collect()
    });
    near("loss", &[found[0].loss], &flat(&fixture["loss"]), tolerance);
    near("loss in evaluation", &[found[0].evaluated_loss], &flat(&fixture["evaluated_loss"]), tolerance);
    let logits: Vec<f64> = found.iter().flat_map(|f| f.logits.clone()).collect();
    near("logits in evaluation", &logits, &flat(&fixture["evaluated_logits"]), tolerance);
    let after = found[0].after.as_ref().expect("rank 0 gathers");
    assert_eq!(after.model.len(), fixture["after"].as_object().unwrap().len(), "all tensors are there");
    for tensor in &after.model {
        let values = match &tensor.data {
            TensorData::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            TensorData::F64(v) => v.clone(),
        };
        near(&tensor.name, &values, &flat(&fixture["after"][&tensor.name]), tolerance);
    }
}

#[test]
fn reference_gives_what_pytorch_gives() {
    check(1, 1e-11, Reference::new);
    check(2, 1e-11, Reference::with_fusions);
}

#[test]
fn cpu_gives_what_pytorch_gives() {
    let cpu = || Cpu::new(CpuOptions::default()).unwrap();
    check(1, 2e-5, cpu);
    check(2, 2e-5, cpu);
}
