//! Loss, gradients and optimiser trajectories of two small networks against values that PyTorch computed
//! (`fixtures/pytorch/make.py`), on both devices, alone and on two ranks.

mod common;

use paceline_base::kernel::{StepArgs, Values};
use paceline_base::optim::Rule;
use paceline_data::Table;
use paceline_engine::checkpoint::{Snapshot, TensorData, gather};
use paceline_engine::{Batch, Rank};
use paceline_graph::{Graph, model_file};
use paceline_kernels::{Cpu, CpuOptions, Device, Reference};
use paceline_plan::{Batches, Plan, Settings, lower};
use serde_json::Value;
use std::sync::Arc;

fn fixture() -> Value {
    serde_json::from_str(include_str!("../../../fixtures/pytorch/dense.json")).expect("the fixture is JSON")
}

fn flat(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(flat).collect(),
        number => vec![number.as_f64().expect("a number")],
    }
}

/// The network of the fixture as a model file.
fn graph(net: &Value) -> Graph {
    let mut text = String::from("format = 1\n");
    let sizes = flat(&net["sizes"]);
    for (i, activation) in net["activations"].as_array().unwrap().iter().enumerate() {
        text += &format!("[[layer]]\nname = \"l{i}\"\ntype = \"dense\"\nunits = {}\n", sizes[i + 1]);
        match activation.as_str().unwrap() {
            "identity" => {}
            name => text += &format!("[[layer]]\ntype = \"{name}\"\n"),
        }
    }
    let loss = if net["loss_name"].as_str().unwrap().contains("cross") {
        "softmax-cross-entropy"
    } else {
        "mean-squared-error"
    };
    text += &format!("[[layer]]\ntype = \"{loss}\"\n");
    let layers = model_file::parse(&text, "fixture").unwrap().layers;
    let classes = *sizes.last().unwrap() as usize;
    Graph::build("fixture", &layers, &[sizes[0] as usize], classes, net["l2"].as_f64().unwrap()).unwrap()
}

fn same(row: usize) -> usize {
    row
}

/// Trains `steps` steps on the fixture's one batch; gives the losses and the parameters.
fn run<D: Device>(
    net: &Value,
    rule: Rule,
    rate: f64,
    steps: u64,
    ranks: usize,
    device: impl Fn() -> D + Sync,
) -> (Vec<f64>, Snapshot) {
    let graph = graph(net);
    let labels: Vec<u32> = flat(&net["labels"]).iter().map(|&l| l as u32).collect();
    let inputs: Vec<f32> = flat(&net["inputs"]).iter().map(|&x| x as f32).collect();
    let count = labels.len();
    let data = Table::new(graph.nodes[0].shape.clone(), inputs, labels, graph.targets.outputs()).unwrap();
    let batches = Batches { train: vec![count], evaluate: Vec::new() };
    let plan = Plan::data_parallel(ranks);
    let schedule = Arc::new(lower(&graph, &plan, &batches, &Settings::new(rule, device().kind())).unwrap());
    let one = |comm: paceline_comm::Threads| {
        let mut rank = Rank::new(device(), comm, schedule.clone()).unwrap();
        let me = rank.number();
        for bucket in &schedule.buckets {
            let member = bucket.group.iter().position(|&r| r == me).unwrap();
            for entry in &bucket.entries {
                let (layer, name) = entry.param.split_once('.').unwrap();
                let index: usize = layer[1..].parse().unwrap();
                let params = rank.lasting(bucket.params(member)).unwrap();
                rank.device.load(params, entry.offset, Values::F64(&flat(&net["layers"][index][name]))).unwrap();
            }
        }
        let mut losses = Vec::new();
        for step in 0..steps {
            let batch = Batch::new(&data, &same);
            let args = StepArgs { seed: 1, step, rate, scale: 1.0 / count as f64 };
            losses.push(rank.step_now(0, &batch, &args).unwrap().value("loss").unwrap());
        }
        (losses, gather(&mut rank, &graph).unwrap())
    };
    std::thread::scope(|scope| {
        let one = &one;
        let handles: Vec<_> = paceline_comm::threads(ranks).into_iter().map(|c| scope.spawn(move || one(c))).collect();
        let mut ends: Vec<_> = handles.into_iter().map(|h| h.join().unwrap()).collect();
        let (losses, snapshot) = ends.swap_remove(0);
        (losses, snapshot.unwrap())
    })
}

fn near(what: &str, got: &[f64], wanted: &[f64], tolerance: f64) {
    assert_eq!(got.len(), wanted.len(), "{what}");
    for (g, w) in got.iter().zip(wanted) {
        assert!((g - w).abs() <= tolerance * (1.0 + w.abs()), "{what}: got {g}, PyTorch {w}");
    }
}

fn values(data: &TensorData) -> Vec<f64> {
    match data {
        TensorData::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
        TensorData::F64(v) => v.clone(),
    }
}

fn check_all<D: Device + 'static>(ranks: usize, tolerance: f64, device: impl Fn() -> D + Sync + Copy) {
    common::on_all(device, |device| check_on(ranks, tolerance, device));
}

fn check_on(ranks: usize, tolerance: f64, device: &common::Make<'_>) {
    let fixture = fixture();
    for name in ["softmax", "mse"] {
        let net = &fixture[name];
        // One step of SGD at rate 1 moves by exactly the gradient.
        let (losses, after) = run(net, Rule::Sgd, 1.0, 1, ranks, device);
        near(&format!("{name} loss"), &losses, &[net["loss"].as_f64().unwrap()], tolerance);
        for tensor in &after.model {
            let (layer, part) = tensor.name.split_once('.').unwrap();
            let index: usize = layer[1..].parse().unwrap();
            let before = flat(&net["layers"][index][part]);
            let gradient: Vec<f64> = before.iter().zip(values(&tensor.data)).map(|(b, a)| b - a).collect();
            near(
                &format!("{name} gradient of {}", tensor.name),
                &gradient,
                &flat(&net["gradients"][index][part]),
                tolerance,
            );
        }
    }
    let rules = [
        ("sgd", Rule::Sgd),
        ("momentum", Rule::Momentum { momentum: 0.9 }),
        ("nesterov", Rule::Nesterov { momentum: 0.9 }),
        ("adam", Rule::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8 }),
        ("adamw", Rule::AdamW { beta1: 0.9, beta2: 0.999, eps: 1e-8, decay: 0.01 }),
        ("adagrad", Rule::Adagrad { eps: 1e-10 }),
    ];
    for (name, rule) in rules {
        let wanted = &fixture["trajectories"]["optimizers"][name];
        let (losses, after) = run(&fixture["softmax"], rule, 0.05, 3, ranks, device);
        near(&format!("{name} losses"), &losses, &flat(&wanted["losses"]), tolerance);
        for tensor in &after.model {
            let (layer, part) = tensor.name.split_once('.').unwrap();
            let index: usize = layer[1..].parse().unwrap();
            // Adam and Adagrad divide by the gradient's own size: rounding of tiny gradients shows.
            near(
                &format!("{name} {}", tensor.name),
                &values(&tensor.data),
                &flat(&wanted["layers"][index][part]),
                tolerance * 20.0,
            );
        }
    }
}

#[test]
fn reference_gives_what_pytorch_gives() {
    check_all(1, 1e-11, Reference::new);
    check_all(2, 1e-11, Reference::with_fusions);
}

#[test]
fn cpu_gives_what_pytorch_gives() {
    let cpu = || Cpu::new(CpuOptions::default()).unwrap();
    check_all(1, 5e-6, cpu);
    check_all(2, 5e-6, cpu);
}
