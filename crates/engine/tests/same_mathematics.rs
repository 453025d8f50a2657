//! Invariant 1: whatever the plan, N ranks give what one rank gives. In f64 on `Reference` to 1e-10; in f32 on `Cpu` by
//! per-tensor norms.
//!
//! Whole runs part all the same, as between any two f32 programs. Measured with LeNet on Fashion-MNIST, batch 32, one replica against two, as
//! distance of all parameters over their size: with momentum 2e-9 after step 1, 2e-8 after 10, 7e-6 after 50, 9e-3 after 100, 3e-2 after 200; with
//! Adam 4e-9, 4e-8, 3e-7, 9e-7 and 2e-4. ResNet-small with its batch normalisation parts faster: 2e-6, 3e-4 after 10, 1e-2 after 50.

mod common;

use common::{Steps, Toy, random_plan, run, same, simulator_agrees, two_plans};
use paceline_base::op::Activation;
use paceline_base::optim::Rule;
use paceline_graph::{Graph, LayerSpec, model_file};
use paceline_kernels::{Cpu, CpuOptions, Reference};
use paceline_plan::{MicroBatches, Plan, UpdateMode};
use proptest::prelude::*;

const RULES: [Rule; 6] = [
    Rule::Sgd,
    Rule::Momentum { momentum: 0.9 },
    Rule::Nesterov { momentum: 0.9 },
    Rule::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8 },
    Rule::AdamW { beta1: 0.9, beta2: 0.999, eps: 1e-8, decay: 0.01 },
    Rule::Adagrad { eps: 1e-10 },
];

fn branches() -> Vec<LayerSpec> {
    let text = r#"
        format = 1
        [[layer]]
        name = "flat"
        type = "flatten"
        [[layer]]
        name = "a"
        type = "dense"
        units = 9
        [[layer]]
        name = "act"
        type = "tanh"
        [[layer]]
        name = "b"
        type = "dense"
        units = 9
        [[layer]]
        name = "drop"
        type = "dropout"
        rate = 0.3
        [[layer]]
        name = "sum"
        type = "add"
        inputs = ["drop", "act"]
        [[layer]]
        name = "gelu"
        type = "gelu"
        [[layer]]
        name = "logits"
        type = "dense"
        units = "classes"
        bias = false
        [[layer]]
        name = "loss"
        type = "mean-squared-error"
    "#;
    model_file::parse(text, "branches").unwrap().layers
}

fn graph(kind: usize) -> Graph {
    let layers = match kind {
        0 => paceline_graph::presets::softmax(),
        1 => paceline_graph::presets::mlp(&[11], Activation::Relu, 0.25),
        2 => paceline_graph::presets::mlp(&[8, 7], Activation::Sigmoid, 0.0),
        _ => branches(),
    };
    Graph::build("test", &layers, &[3, 4], 5, 0.01).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, ..ProptestConfig::default() })]

    #[test]
    fn any_plan_equals_one_worker_in_f64(
        kind in 0usize..4,
        ranks in 1usize..9,
        batch in 1usize..14,
        dice in any::<u64>(),
        rule in 0usize..6,
        sharded in any::<bool>(),
        bucket in prop::sample::select(vec![1usize, 40, 100_000]),
        fused in any::<bool>(),
    ) {
        let graph = graph(kind);
        let data = Toy::new(23, &[3, 4], 5);
        let update = if sharded { UpdateMode::Sharded } else { UpdateMode::Replicated };
        let device = || if fused { Reference::with_fusions() } else { Reference::new() };
        let one = run(&graph, &Plan::data_parallel(1), RULES[rule], Reference::new, &data, &Steps::new(batch, 5));
        for plan in two_plans(&graph, ranks, dice, update, bucket) {
            let many = run(&graph, &plan, RULES[rule], device, &data, &Steps::new(batch, 5));
            prop_assert_eq!(same(&many, &one, 1e-10), Ok(()), "{:?}", plan);
        }
    }

    #[test]
    fn any_plan_equals_one_worker_in_f32(
        kind in 0usize..4,
        ranks in 1usize..9,
        batch in 2usize..14,
        dice in any::<u64>(),
        rule in prop::sample::select(vec![0usize, 1, 2]),
        sharded in any::<bool>(),
    ) {
        let graph = graph(kind);
        let data = Toy::new(23, &[3, 4], 5);
        let update = if sharded { UpdateMode::Sharded } else { UpdateMode::Replicated };
        let cpu = || Cpu::new(CpuOptions::default()).unwrap();
        let one = run(&graph, &Plan::data_parallel(1), RULES[rule], Reference::new, &data, &Steps::new(batch, 4));
        let plan = random_plan(&graph, ranks, dice, update, 40);
        let many = run(&graph, &plan, RULES[rule], cpu, &data, &Steps::new(batch, 4));
        prop_assert_eq!(same(&many, &one, 2e-5), Ok(()), "{:?}", plan);
    }
}

/// What a step defers to the next one changes nothing but the moment of the update: not a bit.
#[test]
fn what_is_left_to_the_next_step_is_done_there() {
    for (kind, dice) in [(0, 1u64), (1, 2), (2, 3), (3, 4), (3, 5)] {
        let (graph, data) = (graph(kind), Toy::new(23, &[3, 4], 5));
        let cpu = || Cpu::new(CpuOptions::default()).unwrap();
        for plan in [Plan::data_parallel(3), random_plan(&graph, 4, dice, UpdateMode::Replicated, 40)] {
            let go = |defers: fn(usize) -> bool| {
                run(&graph, &plan, RULES[3], cpu, &data, &Steps { defers, ..Steps::new(5, 9) })
            };
            let (never, always) = (go(|_| false), go(|_| true));
            assert_eq!(never.results, always.results);
            assert_eq!(same(&never, &always, f64::MIN_POSITIVE), Ok(()));
            assert_eq!(never.received, always.received);
        }
    }
}

/// An order with two micro-batches, whose gradients are added up, is an order of the same step.
#[test]
fn micro_batches_equal_one_batch() {
    for (kind, dice) in [(0, 1u64), (1, 2), (2, 3), (3, 4), (3, 5)] {
        let (graph, data) = (graph(kind), Toy::new(23, &[3, 4], 5));
        for plan in
            [Plan::data_parallel(1), Plan::data_parallel(3), random_plan(&graph, 4, dice, UpdateMode::Sharded, 40)]
        {
            let go = |micro| {
                let device = Reference::with_fusions;
                run(&graph, &plan, RULES[3], device, &data, &Steps { micro_batches: micro, ..Steps::new(8, 6) })
            };
            let (one, two) = (go(MicroBatches::One), go(MicroBatches::InTurn(2)));
            assert_eq!(same(&two, &one, 1e-10), Ok(()), "{plan:?}");
        }
        let steps = Steps { micro_batches: MicroBatches::InTurn(2), ..Steps::new(8, 6) };
        simulator_agrees(&graph, &Toy::new(24, &[3, 4], 5), RULES[3], dice, &steps);
    }
}

#[test]
fn simulator_and_reality_agree_on_bytes_and_memory() {
    for (kind, dice) in [(1, 1u64), (1, 2), (2, 3), (3, 4), (3, 5), (0, 6), (2, 1 << 40)] {
        simulator_agrees(&graph(kind), &Toy::new(24, &[3, 4], 5), RULES[3], dice, &Steps::new(8, 6));
    }
}
