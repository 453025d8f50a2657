//! What the fuse pass joins around batch normalisation and sums, and what it must leave alone.

use paceline_base::kernel::{DeviceKind, Fusion, Kernel};
use paceline_base::op::Activation::{Gelu, Relu, Tanh};
use paceline_base::optim::Rule;
use paceline_base::units::DType;
use paceline_graph::{Graph, model_file};
use paceline_plan::{Batches, Devices, PhaseKind, Plan, Schedule, Settings, TaskKind, lower};
use std::collections::BTreeSet;

const BATCH: Fusion = Fusion::BatchActivation(Relu);
const SUM: Fusion = Fusion::SumActivation(Relu);

/// A model of these layers, lowered for one rank.
fn lowered(layers: &[&str], fusions: &[Fusion]) -> Schedule {
    let devices = Devices::alike(DeviceKind::new(DType::F32, fusions));
    lowered_for(layers, 1, devices)
}

/// A model of these layers, `name type` or `name type <input,input` each, lowered for some ranks.
fn lowered_for(layers: &[&str], ranks: usize, devices: Devices) -> Schedule {
    let mut toml = String::from("format = 1\n");
    for layer in layers {
        let (layer, inputs) = layer.split_once(" <").unwrap_or((layer, ""));
        let mut words = layer.split_whitespace();
        toml += &format!("[[layer]]\nname = \"{}\"\ntype = \"{}\"\n", words.next().unwrap(), words.next().unwrap());
        for word in words {
            toml += &format!("{}\n", word.replace('=', " = "));
        }
        if !inputs.is_empty() {
            toml += &format!("inputs = [\"{}\"]\n", inputs.replace(',', "\", \""));
        }
    }
    let graph = Graph::build("net", &model_file::parse(&toml, "net").unwrap().layers, &[6, 6, 3], 4, 0.0).unwrap();
    let batches = Batches { train: vec![5], evaluate: vec![7] };
    let settings = Settings { devices, ..Settings::new(Rule::Sgd, DeviceKind::new(DType::F32, &[])) };
    lower(&graph, &Plan::data_parallel(ranks), &batches, &settings).unwrap()
}

/// The kernels of a phase.
fn kernels(schedule: &Schedule, kind: PhaseKind) -> Vec<Kernel> {
    let phase = schedule.phases.iter().find(|p| p.kind == kind).unwrap();
    let call = |task: &paceline_plan::Task| match &task.kind {
        TaskKind::Compute(call) => Some(call.kernel.clone()),
        _ => None,
    };
    phase.tasks().filter_map(|(_, task)| call(task)).collect()
}

fn names(kernels: &[Kernel]) -> Vec<&'static str> {
    kernels.iter().map(Kernel::name).collect()
}

const STEM: [&str; 6] = [
    "c conv channels=5 kernel=3",
    "bn batch-norm",
    "r relu",
    "p max-pool window=3 stride=2",
    "m global-average-pool",
    "logits dense units=\"classes\"",
];

fn with_loss<'a>(layers: &[&'a str]) -> Vec<&'a str> {
    [layers, &["loss softmax-cross-entropy"]].concat()
}

#[test]
fn normalisation_takes_the_activation_behind_it_and_its_derivative() {
    let (plain, fused) = (lowered(&with_loss(&STEM), &[]), lowered(&with_loss(&STEM), &[BATCH]));
    let (before, after) = (kernels(&plain, PhaseKind::Train), kernels(&fused, PhaseKind::Train));
    let left: Vec<_> = names(&before).into_iter().filter(|n| !n.starts_with("activate")).collect();
    assert_eq!(names(&after), left, "the activation and its derivative go, all else stays in its order");
    assert_eq!(before.len(), after.len() + 2);
    let relu = Some(Relu);
    for kernel in &after {
        match kernel {
            Kernel::BatchNormalize { activation, .. } => assert_eq!(*activation, relu),
            Kernel::BatchGradientSums { through, .. } | Kernel::BatchBackward { through, .. } => {
                assert_eq!(*through, relu);
            }
            _ => {}
        }
    }
    let evaluation = kernels(&fused, PhaseKind::Evaluate);
    assert!(evaluation.iter().any(|k| matches!(k, Kernel::BatchInfer { activation: Some(Relu), .. })));
    assert!(!names(&evaluation).contains(&"activate"));
    // Nobody touches the value before the activation any more, nor its gradient, nor that value in evaluation.
    let touched = |schedule: &Schedule| {
        let mut found = BTreeSet::new();
        for (number, phase) in schedule.phases.iter().enumerate() {
            phase.tasks().for_each(|(_, task)| {
                task.touches(|rank, buffer| {
                    found.insert(schedule.memory[rank].id(number, buffer).unwrap());
                });
            });
        }
        found.len()
    };
    assert_eq!(touched(&fused), touched(&plain) - 3);
}

#[test]
fn other_activations_stay() {
    for (layer, fusion) in [("r tanh", BATCH), ("r gelu", Fusion::BatchActivation(Tanh)), ("r relu", SUM)] {
        let mut layers = with_loss(&STEM);
        layers[2] = layer;
        let (plain, fused) = (lowered(&layers, &[]), lowered(&layers, &[fusion]));
        assert_eq!(kernels(&fused, PhaseKind::Train), kernels(&plain, PhaseKind::Train), "{layer} with {fusion:?}");
    }
    // A derivative that needs the value before the activation cannot do without it.
    let mut layers = with_loss(&STEM);
    layers[2] = "r gelu";
    let (plain, fused) = (lowered(&layers, &[]), lowered(&layers, &[Fusion::BatchActivation(Gelu)]));
    assert_eq!(kernels(&fused, PhaseKind::Train), kernels(&plain, PhaseKind::Train));
}

#[test]
fn what_somebody_else_reads_is_kept() {
    let layers = with_loss(&[
        "c conv channels=5 kernel=3",
        "bn batch-norm",
        "r relu",
        "s add <bn,r",
        "m global-average-pool",
        "logits dense units=\"classes\"",
    ]);
    let (plain, fused) = (lowered(&layers, &[]), lowered(&layers, &[BATCH]));
    for kind in [PhaseKind::Train, PhaseKind::Evaluate] {
        assert_eq!(kernels(&fused, kind), kernels(&plain, kind));
    }
}

#[test]
fn a_sum_takes_the_activation_behind_it() {
    let layers = with_loss(&[
        "c conv channels=5 kernel=3",
        "d conv channels=5 kernel=3 <input",
        "s add <c,d",
        "r relu",
        "m global-average-pool",
        "logits dense units=\"classes\"",
    ]);
    let (plain, fused) = (lowered(&layers, &[]), lowered(&layers, &[SUM]));
    let (before, after) = (kernels(&plain, PhaseKind::Train), kernels(&fused, PhaseKind::Train));
    let left: Vec<_> = names(&before).into_iter().filter(|n| *n != "activate").collect();
    assert_eq!(names(&after), left);
    assert!(after.iter().any(|k| matches!(k, Kernel::Sum { activation: Some(Relu), .. })));
}

#[test]
fn a_convolution_takes_the_derivative_first() {
    let mut layers = with_loss(&STEM);
    layers[3] = "p conv channels=4 kernel=3";
    let fused = lowered(&layers, &[BATCH, Fusion::ConvThrough(Relu)]);
    let kernels = kernels(&fused, PhaseKind::Train);
    assert!(!names(&kernels).contains(&"activate-backward"));
    assert!(kernels.iter().any(|k| matches!(k, Kernel::ConvBackwardData { through: Some(Relu), .. })));
    assert!(kernels.iter().any(|k| matches!(k, Kernel::BatchBackward { through: None, .. })));
    assert!(kernels.iter().any(|k| matches!(k, Kernel::BatchNormalize { activation: Some(Relu), .. })));
}

#[test]
fn each_rank_has_what_its_own_device_takes() {
    let kinds = [&[BATCH][..], &[]].map(|fusions| DeviceKind::new(DType::F32, fusions)).to_vec();
    let schedule = lowered_for(&with_loss(&STEM), 2, Devices::by_rank(kinds));
    let activations = |rank: usize| {
        let of_rank = schedule.phases[0].tasks().filter(|(_, task)| task.rank == rank);
        of_rank.filter(|(_, task)| task.call().is_some_and(|call| call.kernel.name().starts_with("activate"))).count()
    };
    assert_eq!((activations(0), activations(1)), (0, 2), "forward and backward, only where they are not fused");
}
