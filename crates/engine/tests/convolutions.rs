//! Invariant 1 for convolutional networks: split along samples, height, width and channels, with halos, partial sums and
//! synchronised batch normalisation, N ranks give what one gives.

mod common;

use common::nets::{BRANCHES, GREY, PLAIN, RESIDUAL, net};
use common::{Steps, Toy, distance, loss, random_plan, run, same, simulator_agrees, two_plans};
use paceline_base::optim::Rule;
use paceline_data::Labelled;
use paceline_engine::TrainState;
use paceline_engine::checkpoint::{Identity, Saver, latest};
use paceline_graph::Graph;
use paceline_kernels::{Cpu, CpuOptions, Reference};
use paceline_plan::{Plan, UpdateMode};
use proptest::prelude::*;

/// The models, and the data for them.
fn case(kind: usize, samples: usize) -> (Graph, Toy) {
    let (text, shape): (_, &[usize]) = match kind {
        0 => (RESIDUAL, &[7, 6, 4]),
        1 => (BRANCHES, &[7, 6, 4]),
        2 => (PLAIN, &[7, 9, 3]),
        _ => (GREY, &[7, 6]),
    };
    (net(text, shape), Toy::new(samples, shape, 5))
}

/// Rules that do not divide by the gradient's own size: tiny gradients are mostly rounding.
const RULES: [Rule; 3] = [Rule::Sgd, Rule::Momentum { momentum: 0.9 }, Rule::Nesterov { momentum: 0.9 }];

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn any_plan_equals_one_worker_in_f64(
        kind in 0usize..4,
        ranks in 1usize..6,
        batch in 1usize..9,
        dice in any::<u64>(),
        rule in 0usize..3,
        sharded in any::<bool>(),
        bucket in prop::sample::select(vec![1usize, 100, 100_000]),
        fused in any::<bool>(),
    ) {
        let (graph, data) = case(kind, 11);
        let update = if sharded { UpdateMode::Sharded } else { UpdateMode::Replicated };
        let device = || if fused { Reference::with_fusions() } else { Reference::new() };
        let one = run(&graph, &Plan::data_parallel(1), RULES[rule], Reference::new, &data, &Steps::new(batch, 4));
        for plan in two_plans(&graph, ranks, dice, update, bucket) {
            let many = run(&graph, &plan, RULES[rule], device, &data, &Steps::new(batch, 4));
            prop_assert_eq!(same(&many, &one, 1e-10), Ok(()), "{:?}", plan);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_plan_equals_one_worker_in_f32(
        kind in 0usize..4,
        ranks in 1usize..6,
        batch in 2usize..9,
        dice in any::<u64>(),
        rule in 0usize..3,
        sharded in any::<bool>(),
        threads in 1usize..3,
    ) {
        let (graph, data) = case(kind, 11);
        let update = if sharded { UpdateMode::Sharded } else { UpdateMode::Replicated };
        let cpu = || Cpu::new(CpuOptions { threads, ..CpuOptions::default() }).unwrap();
        let one = run(&graph, &Plan::data_parallel(1), RULES[rule], Reference::new, &data, &Steps::new(batch, 3));
        let plan = random_plan(&graph, ranks, dice, update, 40);
        let many = run(&graph, &plan, RULES[rule], cpu, &data, &Steps::new(batch, 3));
        prop_assert_eq!(same(&many, &one, 1e-4), Ok(()), "{:?}", plan);
    }
}

#[test]
fn simulator_and_reality_agree_on_bytes_and_memory() {
    for (kind, dice) in [(0, 1u64), (0, 2), (1, 3), (1, 4), (2, 5), (3, 6)] {
        let (graph, data) = case(kind, 12);
        simulator_agrees(&graph, &data, RULES[1], dice, &Steps::new(4, 6));
    }
}

#[test]
fn running_moments_are_saved_and_restored_under_another_plan() {
    let (graph, data) = case(0, 11);
    let whole = run(&graph, &Plan::data_parallel(1), RULES[1], Reference::new, &data, &Steps::new(4, 5));
    let first = random_plan(&graph, 3, 8, UpdateMode::Sharded, 40);
    let half = run(&graph, &first, RULES[1], Reference::new, &data, &Steps::new(4, 3));
    let moved = half.snapshot.model.iter().filter(|t| t.name.contains(".running_"));
    assert_eq!(moved.count(), 8);
    assert!(half.snapshot.optimizer.iter().all(|t| !t.name.contains(".running_")), "they have no optimiser state");

    let dir = tempfile::tempdir().unwrap();
    let identity = Identity { seed: 1, batch: 4, rule: RULES[1], data: data.fingerprint(), model: graph.signature() };
    let saver = Saver::new(dir.path().into(), 1, identity).unwrap();
    saver.save(half.snapshot, TrainState { step: 3, ..TrainState::default() }, false);
    saver.finish().unwrap();
    let (checkpoint, _) = latest(dir.path()).unwrap().unwrap();
    for second in [Plan::data_parallel(1), random_plan(&graph, 4, 9, UpdateMode::Replicated, 100)] {
        let rest = run(
            &graph,
            &second,
            RULES[1],
            Reference::new,
            &data,
            &Steps { steps: 3..5, checkpoint: Some(&checkpoint), ..Steps::new(4, 0) },
        );
        let (d, name) = distance(&rest.snapshot, &whole.snapshot);
        assert!(d < 1e-10, "{name} differs by {d:e} under {second:?}");
        assert!((loss(&rest, 2) - loss(&whole, 5)).abs() < 1e-9, "evaluation with running moments");
    }
}

#[test]
fn presets_train_alike_on_both_devices() {
    let cases: [(&str, &[usize]); 4] = [
        ("lenet", &[28, 28]),
        ("resnet-small", &[13, 16, 3]),
        ("flowers-cnn", &[32, 33, 3]),
        ("flowers-net", &[33, 32, 3]),
    ];
    for (name, shape) in cases {
        let layers = paceline_graph::presets::network(name).unwrap().unwrap();
        let graph = Graph::build(name, &layers, shape, 5, 0.0).unwrap();
        let data = Toy::new(4, shape, 5);
        let cpu = || Cpu::new(CpuOptions { threads: 2, ..CpuOptions::default() }).unwrap();
        let exact = run(&graph, &Plan::data_parallel(1), RULES[1], Reference::new, &data, &Steps::new(4, 2));
        let fast = run(&graph, &Plan::data_parallel(2), RULES[1], cpu, &data, &Steps::new(4, 2));
        let (d, tensor) = distance(&fast.snapshot, &exact.snapshot);
        assert!(d < 5e-4, "{name}: {tensor} differs by {d:e}");
    }
}

/// A rank may get what it does not need in a small batch. Its memory was used for something else while the message was under way.
#[test]
fn what_nobody_waits_for_keeps_its_memory() {
    let (graph, data) = case(1, 11);
    let plan = random_plan(&graph, 5, 15852053267708697619, UpdateMode::Replicated, 40);
    let cpu = || Cpu::new(CpuOptions::default()).unwrap();
    let one = run(&graph, &Plan::data_parallel(1), RULES[0], Reference::new, &data, &Steps::new(2, 3));
    let many = run(&graph, &plan, RULES[0], cpu, &data, &Steps::new(2, 3));
    assert_eq!(same(&many, &one, 1e-4), Ok(()));
}
