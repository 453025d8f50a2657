//! Gradients that travel compressed: near the results of whole ones, and the same on every transport and in every repeat.

mod common;

use common::{Toy, Trained, distance, run};
use paceline_base::op::Activation;
use paceline_base::optim::Rule;
use paceline_graph::{Graph, presets};
use paceline_kernels::{Cpu, CpuOptions, Reference};
use paceline_plan::{Compression, Plan, Store, UpdateMode};

const STEPS: usize = 60;

fn graph() -> Graph {
    Graph::build("mlp", &presets::mlp(&[24], Activation::Tanh, 0.0), &[12], 3, 0.0).unwrap()
}

fn trained(ranks: usize, compression: Compression) -> Trained {
    let mut plan = Plan::data_parallel(ranks);
    plan.store = Store { update: UpdateMode::Replicated, bucket: 100, compression };
    let cpu = || Cpu::new(CpuOptions::default()).unwrap();
    run(&graph(), &plan, Rule::Momentum { momentum: 0.9 }, cpu, &Toy::new(48, &[12], 3), 16, STEPS)
}

fn loss(of: &Trained, step: usize) -> f64 {
    of.results[step].loss / of.results[step].count
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
        moved(&run(&graph(), &plan, Rule::Sgd, reference, &Toy::new(48, &[12], 3), 16, 0))
    };
    let weights = initial.iter().flatten().zip(moved(&few).concat()).filter(|(a, b)| (*a - b).abs() > 1e-6).count();
    let all = initial.iter().flatten().count();
    assert!(weights as f64 > 0.9 * all as f64, "{weights} of {all} parameters moved");
}

#[test]
fn repeats_give_the_same_bits() {
    for compression in [Compression::Bf16, Compression::TopK { per_million: 50_000 }] {
        let (a, b) = (trained(3, compression), trained(3, compression));
        assert_eq!(distance(&a.snapshot, &b.snapshot).0, 0.0);
    }
}
