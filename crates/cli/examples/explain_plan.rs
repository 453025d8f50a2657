//! One model, two plans: what moves between the ranks, and what each of them holds. Nothing is trained.
//!
//!     cargo run --release --example explain_plan
//!
//! A plan is lowered to a *schedule*: every kernel, message and collective of one step, as data. The engine executes it;
//! the simulator, here, costs the very same schedule. Bytes and memory are exact, times are a model.

use paceline::kernels::DeviceOptions;
use paceline::plan::{Batches, Cluster, Plan, Settings, explain, lower, parse, simulate};
use paceline::{Config, Result, graph, text};

const MODEL: &str = "
format = 1
[[layer]]
type = 'flatten'
[[layer]]
name = 'hidden1'
type = 'dense'
units = 128
[[layer]]
type = 'relu'
[[layer]]
name = 'logits'
type = 'dense'
units = 'classes'
[[layer]]
type = 'softmax-cross-entropy'
";

fn main() -> Result<()> {
    let layers = graph::model_file::parse(MODEL, "the model above")?.layers;
    let model = graph::Graph::build("mlp", &layers, &[28, 28], 10, 0.0)?;
    let adam = Config::default().optimizer.rule();
    let kind = DeviceOptions::default().kind();
    let batches = Batches { train: vec![64], evaluate: Vec::new() };

    let mirrored = Plan::data_parallel(2);
    let hybrid = parse(include_str!("../../../examples/hybrid-plan.toml"), "hybrid-plan.toml")?;
    for (name, plan) in [("mirrored", &mirrored), ("hybrid", &hybrid)] {
        let schedule = lower(&model, plan, &batches, &Settings::new(adam, kind.clone()))?;
        let prediction = simulate(&schedule, 0, &Cluster::guess(schedule.ranks));
        println!("{name}: {} tasks a step", schedule.phases[0].tasks().count());
        for rank in 0..plan.ranks {
            let received: u64 = prediction.bytes.iter().map(|to| to[rank]).sum();
            let memory = prediction.memory[rank];
            println!("  rank {rank} receives {}, holds {}", text::bytes(received), text::bytes(memory));
        }
    }

    let schedule = lower(&model, &hybrid, &batches, &Settings::new(adam, kind.clone()))?;
    println!("\n{}", explain(&schedule, &model, 0));
    Ok(())
}
