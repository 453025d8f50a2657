//! Embeddings, and targets of every kind, against values that PyTorch's `EmbeddingBag` and losses computed (`fixtures/pytorch/make_lists.py`): on
//! both devices, alone, with the samples shared out, and with the table split over its rows and columns.

mod common;

use common::nets::net_for;
use paceline_base::kernel::{StepArgs, Values};
use paceline_base::optim::Rule;
use paceline_base::region::{Region, Strided};
use paceline_data::{Labelled, Lists, Targets};
use paceline_engine::checkpoint::{Snapshot, gather};
use paceline_engine::{Batch, Rank};
use paceline_graph::Graph;
use paceline_kernels::{Cpu, CpuOptions, Device, Reference};
use paceline_plan::{Batches, OpPlan, Plan, Settings, lower};
use serde_json::Value;
use std::sync::Arc;

fn fixture() -> Value {
    serde_json::from_str(include_str!("../../../fixtures/pytorch/lists.json")).expect("the fixture is JSON")
}

fn flat(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(flat).collect(),
        number => vec![number.as_f64().expect("a number")],
    }
}

fn data(fixture: &Value, case: &Value) -> Lists {
    let number = |value: &Value| value.as_u64().expect("a number");
    let lists: Vec<Vec<u64>> = fixture["lists"]
        .as_array()
        .unwrap()
        .iter()
        .map(|list| list.as_array().unwrap().iter().map(number).collect())
        .collect();
    let targets = flat(&case["targets"]);
    let (classes, each) = (number(&fixture["classes"]) as usize, targets.len() / lists.len());
    let numbers = || targets.iter().map(|x| *x as u32).collect();
    let targets = match case["kind"].as_str().unwrap() {
        "class" => Targets::classes(numbers(), classes),
        "classes" => Targets::several(numbers(), each, classes),
        _ => Targets::numbers(targets.iter().map(|x| *x as f32).collect(), each),
    };
    Lists::new(lists, number(&fixture["rows"]), targets.unwrap()).unwrap()
}

fn graph(case: &Value, data: &Lists) -> Graph {
    let kind = data.sample_kind();
    let loss = if case["kind"].as_str().unwrap().starts_with("class") {
        "softmax-cross-entropy"
    } else {
        "mean-squared-error"
    };
    let (mode, outputs) = (case["mode"].as_str().unwrap(), kind.targets.outputs());
    net_for(
        &format!("words embedding columns=6 mode=\"{mode}\"\nact tanh\nout dense units={outputs}\nloss {loss}"),
        &kind,
    )
}

/// Trains on the fixture's one batch from its parameters on; gives the losses and the parameters.
fn run<D: Device>(
    case: &Value,
    data: &Lists,
    plan: &Plan,
    (rule, rate, steps): (Rule, f64, u64),
    device: impl Fn() -> D + Sync,
) -> (Vec<f64>, Snapshot) {
    let graph = graph(case, data);
    let batches = Batches { train: vec![data.len()], evaluate: Vec::new() };
    let settings = Settings { lists: common::room(data), ..Settings::new(rule, device().kind()) };
    let schedule = Arc::new(lower(&graph, plan, &batches, &settings).unwrap());
    let one = |comm: paceline_comm::Threads| {
        let mut rank = Rank::new(device(), comm, schedule.clone()).unwrap();
        let me = rank.number();
        for bucket in &schedule.buckets {
            let Some(member) = bucket.group.iter().position(|&r| r == me) else { continue };
            for entry in &bucket.entries {
                let whole = flat(&case["before"][&entry.param]);
                let shape = graph.params().find(|p| p.name == entry.param).unwrap().spec.shape.clone();
                let mut part = vec![0.0; entry.region.len()];
                Strided::between(&entry.region, &Region::whole(&shape), &entry.region)
                    .for_each(|from, to, run| part[to..to + run].copy_from_slice(&whole[from..from + run]));
                let params = rank.lasting(bucket.params(member)).unwrap();
                rank.device.load(params, entry.offset, Values::F64(&part)).unwrap();
            }
        }
        let mut losses = Vec::new();
        for step in 0..steps {
            let args = StepArgs { seed: 1, step, rate, scale: 1.0 / data.len() as f64 };
            losses.push(rank.step_now(0, &Batch::new(data, &|row| row), &args).unwrap().value("loss").unwrap());
        }
        (losses, gather(&mut rank, &graph).unwrap())
    };
    std::thread::scope(|scope| {
        let one = &one;
        let handles: Vec<_> =
            paceline_comm::threads(plan.ranks).into_iter().map(|c| scope.spawn(move || one(c))).collect();
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

fn check<D: Device>(tolerance: f64, device: impl Fn() -> D + Sync + Copy) {
    let fixture = fixture();
    let mut plans = vec![Plan::data_parallel(1), Plan::data_parallel(3)];
    for split in [("row", 2), ("out", 3)] {
        let mut plan = Plan::data_parallel(split.1);
        let ranks = Some((0..split.1).collect());
        plan.operators.insert("words".into(), OpPlan { split: [(split.0.to_string(), split.1)].into(), ranks });
        plans.push(plan);
    }
    for case in fixture["cases"].as_array().unwrap() {
        let data = data(&fixture, case);
        for plan in &plans {
            let name = format!("{} {} {:?}", case["mode"], case["kind"], plan.operators);
            // One step of SGD at rate 1 moves by exactly the gradient.
            let (losses, after) = run(case, &data, plan, (Rule::Sgd, 1.0, 1), device);
            near(&format!("{name} loss"), &losses, &flat(&case["losses"])[..1], tolerance);
            for tensor in &after.model {
                let before = flat(&case["before"][&tensor.name]);
                let moved: Vec<f64> = before.iter().zip(common::values(&tensor.data)).map(|(b, a)| b - a).collect();
                let wanted = flat(&case["gradients"][&tensor.name]);
                near(&format!("{name} gradient of {}", tensor.name), &moved, &wanted, tolerance);
            }
            let rule = Rule::Momentum { momentum: fixture["momentum"].as_f64().unwrap() };
            let (losses, after) = run(case, &data, plan, (rule, fixture["rate"].as_f64().unwrap(), 3), device);
            near(&format!("{name} losses"), &losses, &flat(&case["losses"]), tolerance);
            for tensor in &after.model {
                let wanted = flat(&case["after"][&tensor.name]);
                near(&format!("{name} {} after", tensor.name), &common::values(&tensor.data), &wanted, tolerance);
            }
        }
    }
}

#[test]
fn the_reference_device_computes_what_pytorch_does() {
    check(1e-12, Reference::new);
}

#[test]
fn the_cpu_computes_what_pytorch_does() {
    check(2e-5, || Cpu::new(CpuOptions { threads: 2, ..CpuOptions::default() }).unwrap());
}
