//! How convolutional networks are split: who follows whom, what travels, and what batch normalisation exchanges.

use paceline_base::collective::{Collective, Exchange};
use paceline_base::kernel::DeviceKind;
use paceline_base::optim::Rule;
use paceline_base::units::DType;
use paceline_graph::{Graph, model_file};
use paceline_plan::{Batches, BufferKey, Plan, Schedule, Settings, TaskKind, lower, parse};
use std::collections::BTreeSet;

const NET: &str = "
    format = 1
    [[layer]]
    name = 'conv'
    type = 'conv'
    channels = 8
    kernel = 3
    pad = 1
    [[layer]]
    name = 'norm'
    type = 'batch-norm'
    [[layer]]
    name = 'relu'
    type = 'relu'
    [[layer]]
    name = 'pool'
    type = 'max-pool'
    window = 2
    [[layer]]
    name = 'mean'
    type = 'global-average-pool'
    [[layer]]
    name = 'logits'
    type = 'dense'
    units = 'classes'
    [[layer]]
    name = 'loss'
    type = 'softmax-cross-entropy'
";

fn graph() -> Graph {
    let layers = model_file::parse(NET, "net").unwrap().layers;
    Graph::build("net", &layers, &[6, 4, 3], 5, 0.0).unwrap()
}

fn plan(text: &str) -> Plan {
    parse(&format!("format=1\nranks=2\nupdate='replicated'\n{text}"), "plan").unwrap()
}

/// Regions of the parts of each operator, in order.
fn regions(plan: &Plan, name: &str) -> Vec<String> {
    let graph = graph();
    plan.check(&graph).unwrap();
    let node = graph.nodes.iter().position(|n| n.name == name).unwrap();
    plan.parts(&graph, 4).unwrap().of[node].iter().map(|p| p.needs.output.to_string()).collect()
}

#[test]
fn samples_are_shared_out_by_weight() {
    let rows =
        |text: &str, name: &str| regions(&plan(text), name).iter().map(|r| r[1..5].to_string()).collect::<Vec<_>>();
    assert_eq!(rows("shares=[3,1]", "conv"), ["0..3", "3..4"]);
    assert_eq!(rows("shares=[3,1]", "loss"), ["0..3", "3..4"]);
    assert_eq!(rows("shares=[0,1]", "relu"), ["0..0", "0..4"]);
    // By the ranks that the parts are on, and those of a piece together.
    assert_eq!(rows("shares=[3,1]\n[operators.conv]\nsplit={sample=2}\nranks=[1,0]", "norm"), ["0..1", "1..4"]);
    let both = "shares=[3,1]\n[operators.conv]\nsplit={sample=2, out=2}\nranks=[0,0,0,1]";
    assert_eq!(rows(both, "conv"), ["0..2", "0..2", "2..4", "2..4"]);
    // What is not split along samples knows no shares.
    assert_eq!(rows("shares=[3,1]\n[operators.conv]\nsplit={out=2}", "conv"), ["0..4", "0..4"]);
}

#[test]
fn what_follows_is_split_as_the_convolution_before_it() {
    let rows = plan("[operators.conv]\nsplit={height=2}");
    assert_eq!(regions(&rows, "relu"), ["[0..4, 0..3, 0..4, 0..8]", "[0..4, 3..6, 0..4, 0..8]"]);
    assert_eq!(regions(&rows, "norm"), regions(&rows, "conv"));
    assert_eq!(regions(&rows, "pool"), ["[0..4, 0..2, 0..2, 0..8]", "[0..4, 2..3, 0..2, 0..8]"]);
    assert_eq!(regions(&rows, "mean"), ["[0..4, 0..8]", "[0..4, 0..8]"]);
    assert_eq!(regions(&rows, "logits"), ["[0..2, 0..5]", "[2..4, 0..5]"]);
    let channels = plan("[operators.conv]\nsplit={out=2}");
    assert_eq!(regions(&channels, "mean"), ["[0..4, 0..4]", "[0..4, 4..8]"]);
    // Four rows of parts do not fit into the pool's three: it goes by samples.
    let fine = parse("format=1\nranks=4\n[operators.conv]\nsplit={height=4}", "plan").unwrap();
    assert_eq!(regions(&fine, "relu").len(), 4);
    assert_eq!(regions(&fine, "pool")[0], "[0..1, 0..3, 0..2, 0..8]");
}

#[test]
fn axes_are_also_known_by_number() {
    let by_number = plan("[operators.relu]\nsplit={axis1=2}");
    assert_eq!(regions(&by_number, "relu"), regions(&plan("[operators.relu]\nsplit={height=2}"), "relu"));
    let fail = plan("[operators.logits]\nsplit={axis1=2}").check(&graph()).unwrap_err();
    assert!(fail.message().contains("cannot be split along axis1"), "{fail}");
    let fail = plan("[operators.conv]\nsplit={heigth=2}").check(&graph()).unwrap_err();
    assert!(fail.message().contains("did you mean height?"), "{fail}");
}

fn schedule(plan: &Plan) -> Schedule {
    lower(
        &graph(),
        plan,
        &Batches { train: vec![4], evaluate: vec![4] },
        &Settings::new(Rule::Sgd, DeviceKind::new(DType::F32, &[])),
    )
    .unwrap()
}

/// Elements of each all-reduce of a phase that belongs to an operator.
fn sums(schedule: &Schedule, phase: usize) -> Vec<usize> {
    let tasks = schedule.phases[phase].tasks().filter(|(segment, _)| segment.key.node().is_some());
    let sum = |what: &Exchange| what.what == Collective::AllReduce;
    tasks
        .filter(|(_, t)| matches!(&t.kind, TaskKind::Collective { what, .. } if sum(what)))
        .map(|(_, t)| t.size)
        .collect()
}

#[test]
fn batch_normalisation_sums_its_moments_once_forward_and_once_backward() {
    let by_samples = schedule(&Plan::data_parallel(2));
    assert_eq!(sums(&by_samples, 0), [16, 16]);
    assert_eq!(sums(&by_samples, 1), [], "evaluation uses the running moments");
    assert_eq!(sums(&schedule(&Plan::data_parallel(1)), 0), []);
    // Each rank has whole channels: nothing is summed.
    assert_eq!(sums(&schedule(&plan("[operators.conv]\nsplit={out=2}")), 0), []);
}

#[test]
fn running_moments_are_neither_updated_nor_exchanged() {
    let schedule = schedule(&Plan::data_parallel(2));
    let kept = schedule.buckets.iter().find(|b| !b.trained).unwrap();
    let names: Vec<_> = kept.entries.iter().map(|e| &e.param[..]).collect();
    assert_eq!(names, ["norm.running_mean", "norm.running_var"]);
    assert!(!kept.sharded);
    assert_eq!(kept.buffers(0, Rule::Momentum { momentum: 0.5 }).len(), 3, "the values, and those of each entry");
    let kept: BTreeSet<BufferKey> = kept.buffers(0, Rule::Sgd).iter().map(|buffer| buffer.key).collect();
    for (_, task) in schedule.phases[0].tasks() {
        if matches!(task.kind, TaskKind::Update(_) | TaskKind::Collective { .. }) {
            task.touches(|_, buffer| assert!(!kept.contains(&buffer), "{task:?}"));
        }
    }
}
