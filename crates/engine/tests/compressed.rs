//! Gradients that travel compressed: near the results of whole ones, and the same on every transport and in every repeat.

mod common;

use common::{Steps, Toy, Trained, distance, loss, run};
use paceline_base::op::Activation;
use paceline_base::optim::Rule;
use paceline_engine::TrainState;
use paceline_engine::checkpoint::{Checkpoint, Identity, Saver, latest};
use paceline_graph::{Graph, presets};
use paceline_kernels::{Cpu, CpuOptions, Reference};
use paceline_plan::{Compression, Plan, Store, UpdateMode};
use std::collections::BTreeMap;

const STEPS: usize = 60;

fn graph() -> Graph {
    Graph::build("mlp", &presets::mlp(&[24], Activation::Tanh, 0.0), &[12], 3, 0.0).unwrap()
}

fn trained(ranks: usize, compression: Compression) -> Trained {
    let mut plan = Plan::data_parallel(ranks);
    plan.store = Store { update: UpdateMode::Replicated, bucket: 100, compression };
    let cpu = || Cpu::new(CpuOptions::default()).unwrap();
    run(&graph(), &plan, Rule::Momentum { momentum: 0.9 }, cpu, &Toy::new(48, &[12], 3), &Steps::new(16, STEPS))
}

#[test]
fn sixteen_bits_come_near() {
    let (whole, rounded) = (trained(3, Compression::None), trained(3, Compression::Bf16));
    let (d, name) = distance(&rounded.snapshot, &whole.snapshot);
    assert!(d > 0.0 && d < 0.05, "{name} differs by {d}");
    assert!((loss(&rounded, STEPS - 1) - loss(&whole, STEPS - 1)).abs() < 0.02);
}

#[test]
fn all_of_the_largest_are_all() {
    let (whole, all) = (trained(2, Compression::None), trained(2, Compression::TopK { per_million: 1_000_000 }));
    assert_eq!(distance(&all.snapshot, &whole.snapshot).0, 0.0);
}

#[test]
fn what_is_left_over_is_not_lost() {
    let (whole, few) = (trained(3, Compression::None), trained(3, Compression::TopK { per_million: 100_000 }));
    let (begin, end, aim) = (loss(&few, 0), loss(&few, STEPS - 1), loss(&whole, STEPS - 1));
    // A tenth of the gradients, and yet most of the way: without feedback some parameters would never move.
    assert!(begin - end > 0.7 * (begin - aim), "from {begin} to {end}; whole gradients come to {aim}");
    let moved = |t: &Trained| t.snapshot.model.iter().map(|t| common::values(&t.data)).collect::<Vec<_>>();
    let initial = {
        let mut plan = Plan::data_parallel(1);
        plan.store.update = UpdateMode::Replicated;
        let reference = || Reference::new();
        moved(&run(&graph(), &plan, Rule::Sgd, reference, &Toy::new(48, &[12], 3), &Steps::new(16, 0)))
    };
    let weights = initial.iter().flatten().zip(moved(&few).concat()).filter(|(a, b)| (*a - b).abs() > 1e-6).count();
    let all = initial.iter().flatten().count();
    assert!(weights as f64 > 0.9 * all as f64, "{weights} of {all} parameters moved");
}

/// The checkpoint of a training after so many steps.
fn checkpoint(of: Trained, steps: usize) -> Checkpoint {
    let dir = tempfile::tempdir().unwrap();
    let rule = Rule::Momentum { momentum: 0.9 };
    let identity = Identity { seed: 1, batch: 16, rule, data: String::new(), model: graph().signature() };
    let saver = Saver::new(dir.path().into(), 1, identity).unwrap();
    saver.save(of.snapshot, TrainState { step: steps as u64, ..TrainState::default() }, false);
    saver.finish().unwrap();
    latest(dir.path()).unwrap().unwrap().0
}

fn continued(ranks: usize, steps: std::ops::Range<usize>, from: Option<&Checkpoint>) -> Trained {
    let compression = Compression::TopK { per_million: 100_000 };
    let mut plan = Plan::data_parallel(ranks);
    plan.store = Store { update: UpdateMode::Replicated, bucket: 100, compression };
    let cpu = || Cpu::new(CpuOptions::default()).unwrap();
    let rule = Rule::Momentum { momentum: 0.9 };
    let steps = Steps { steps, checkpoint: from, ..Steps::new(16, 0) };
    run(&graph(), &plan, rule, cpu, &Toy::new(48, &[12], 3), &steps)
}

/// By parameter: the sum over ranks of what is held back.
fn held_back(of: &Trained) -> BTreeMap<String, Vec<f64>> {
    let mut sums: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for tensor in of.snapshot.optimizer.iter() {
        let Some((name, _)) = tensor.name.split_once(".held-back.") else { continue };
        let values = common::values(&tensor.data);
        let sum = sums.entry(name.into()).or_insert_with(|| vec![0.0; values.len()]);
        sum.iter_mut().zip(values).for_each(|(a, b)| *a += b);
    }
    sums
}

#[test]
fn what_is_held_back_survives_a_checkpoint() {
    let whole = continued(3, 0..20, None);
    let half = continued(3, 0..9, None);
    let sums = held_back(&half);
    assert_eq!(sums.len(), 4, "of every parameter");
    assert!(sums.values().flatten().any(|v| *v != 0.0));
    let saved = checkpoint(half, 9);
    assert_eq!(saved.held_back_ranks(), 3);
    let rest = continued(3, 9..20, Some(&saved));
    assert_eq!(distance(&rest.snapshot, &whole.snapshot).0, 0.0, "the bits of a run that was not broken");
    // With other numbers of ranks the sum is kept.
    for ranks in [2, 5] {
        let moved = continued(ranks, 9..9, Some(&saved));
        assert_eq!(checkpoint(continued(ranks, 9..9, Some(&saved)), 9).held_back_ranks(), ranks);
        for (name, sum) in held_back(&moved) {
            for (a, b) in sum.iter().zip(&sums[&name]) {
                assert!((a - b).abs() <= 1e-6 * b.abs().max(1e-3), "{name} on {ranks} ranks: {a} instead of {b}");
            }
        }
    }
}

#[test]
fn checkpoints_without_what_was_held_back_are_read() {
    let saved = checkpoint(trained(2, Compression::None), STEPS);
    assert_eq!(saved.held_back_ranks(), 0);
    let rest = continued(2, STEPS..STEPS, Some(&saved));
    assert!(held_back(&rest).values().flatten().all(|v| *v == 0.0));
}

#[test]
fn repeats_give_the_same_bits() {
    for compression in [Compression::Bf16, Compression::TopK { per_million: 50_000 }] {
        let (a, b) = (trained(3, compression), trained(3, compression));
        assert_eq!(distance(&a.snapshot, &b.snapshot).0, 0.0);
    }
}
