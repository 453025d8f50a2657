//! How long lowering takes, by ranks and operators, and lowering again after a change: `bench/lower/run` runs it.
//!
//!     cargo run --release -p paceline-plan --example lowering_speed
//!     cargo run --release -p paceline-plan --example lowering_speed -- --ranks 64 --blocks 50 --repeats 5
//!
//! One line of JSON for each case; times are medians in seconds, on one core.

use paceline_base::kernel::{DeviceKind, Fusion};
use paceline_base::op::Activation::Relu;
use paceline_base::optim::Rule;
use paceline_base::units::DType;
use paceline_base::{Error, Result};
use paceline_graph::{Graph, model_file};
use paceline_plan::{Batches, Cluster, Lowering, OpPlan, Plan, Settings, lower, simulate};
use std::collections::BTreeMap;
use std::time::Instant;

/// What the processor's device joins in such a network.
const FUSIONS: [Fusion; 4] = [
    Fusion::ConvActivation(Relu),
    Fusion::ConvThrough(Relu),
    Fusion::BatchActivation(Relu),
    Fusion::SumActivation(Relu),
];

/// A residual network: seven operators a block, six around them.
fn network(blocks: usize) -> Result<Graph> {
    let mut toml = String::from("format = 1\n");
    let mut layer = |name: String, kind: &str, rest: &str, inputs: &[String]| {
        toml += &format!("[[layer]]\nname = \"{name}\"\ntype = \"{kind}\"\n{rest}");
        if !inputs.is_empty() {
            toml += &format!("inputs = [\"{}\"]\n", inputs.join("\", \""));
        }
    };
    let conv = "channels = 64\nkernel = 3\npad = 1\n";
    layer("first".into(), "conv", conv, &[]);
    layer("start".into(), "relu", "", &[]);
    let mut last = String::from("start");
    for b in 0..blocks {
        layer(format!("conv{b}a"), "conv", conv, std::slice::from_ref(&last));
        layer(format!("norm{b}a"), "batch-norm", "", &[]);
        layer(format!("relu{b}a"), "relu", "", &[]);
        layer(format!("conv{b}b"), "conv", conv, &[]);
        layer(format!("norm{b}b"), "batch-norm", "", &[]);
        layer(format!("sum{b}"), "add", "", &[format!("norm{b}b"), last]);
        layer(format!("relu{b}b"), "relu", "", &[]);
        last = format!("relu{b}b");
    }
    layer("mean".into(), "global-average-pool", "", &[]);
    layer("logits".into(), "dense", "units = \"classes\"\n", &[]);
    layer("loss".into(), "softmax-cross-entropy", "", &[]);
    Graph::build("residual", &model_file::parse(&toml, "residual")?.layers, &[32, 32, 3], 10, 0.0)
}

fn by_channels(ranks: usize) -> OpPlan {
    OpPlan { split: BTreeMap::from([("out".to_string(), ranks.min(64))]), ranks: None }
}

/// Samples over all ranks; if asked, every tenth operator over channels instead.
fn plan(graph: &Graph, ranks: usize, mixed: bool) -> Plan {
    let mut plan = Plan::data_parallel(ranks);
    if mixed {
        let tenth = graph.nodes.iter().skip(1).step_by(10).filter(|n| n.name.starts_with("conv"));
        plan.operators.extend(tenth.map(|n| (n.name.clone(), by_channels(ranks))));
    }
    plan
}

fn median(repeats: usize, mut what: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut times = (0..repeats)
        .map(|_| {
            let begin = Instant::now();
            what()?;
            Ok(begin.elapsed().as_secs_f64())
        })
        .collect::<Result<Vec<f64>>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn case(ranks: usize, blocks: usize, mixed: bool, repeats: usize) -> Result<()> {
    let graph = network(blocks)?;
    let plan = plan(&graph, ranks, mixed);
    let batches = Batches { train: vec![16 * ranks], evaluate: Vec::new() };
    let settings = Settings::new(Rule::Momentum { momentum: 0.9 }, DeviceKind::new(DType::F32, &FUSIONS));
    let mut lowering = Lowering::new(&graph, &plan, &batches, &settings)?;
    let tasks = lowering.schedule().phases[0].tasks().count();
    let fresh = median(repeats, || Lowering::new(&graph, &plan, &batches, &settings).map(|l| drop(l.schedule())))?;
    let laid_out = median(repeats, || lower(&graph, &plan, &batches, &settings).map(drop))?;
    // The same operator is split otherwise, over halves of its channels or over all of them, and back over samples.
    let name = format!("conv{}a", blocks / 2);
    let node = graph.nodes.iter().find(|n| n.name == name).ok_or_else(|| Error::internal("no such operator"))?;
    let split = |samples: usize, out: usize| OpPlan {
        split: BTreeMap::from([("sample".to_string(), samples), ("out".to_string(), out)]),
        ranks: None,
    };
    let mut again = |other: OpPlan| {
        let mut turn = 0;
        median(2 * repeats, || {
            turn += 1;
            lowering.change(&node.name, if turn % 2 == 1 { other.clone() } else { split(ranks, 1) })?;
            drop(lowering.schedule());
            Ok(())
        })
    };
    let halves = again(if ranks > 1 { split(ranks / 2, 2) } else { split(1, 1) })?;
    let channels = again(split(1, ranks.min(64)))?;
    let schedule = lowering.schedule();
    let simulated = median(repeats, || {
        std::hint::black_box(simulate(&schedule, 0, &Cluster::guess(schedule.ranks)));
        Ok(())
    })?;
    println!(
        "{{\"ranks\": {ranks}, \"operators\": {}, \"mixed\": {mixed}, \"tasks\": {tasks}, \"fresh\": {fresh:.6}, \
         \"laid_out\": {laid_out:.6}, \"halves_again\": {halves:.6}, \"channels_again\": {channels:.6}, \"simulated\": {simulated:.6}}}",
        graph.nodes.len()
    );
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str, default: usize| -> Result<usize> {
        let Some(at) = arguments.iter().position(|a| a == name) else { return Ok(default) };
        let value = arguments.get(at + 1).and_then(|v| v.parse().ok());
        value.ok_or_else(|| Error::user(format!("{name}: give a whole number")))
    };
    let repeats = number("--repeats", 5)?.max(1);
    if arguments.iter().any(|a| a == "--ranks" || a == "--blocks") {
        let (ranks, blocks) = (number("--ranks", 64)?, number("--blocks", 50)?);
        return [false, true].into_iter().try_for_each(|mixed| case(ranks, blocks, mixed, repeats));
    }
    for ranks in [1, 2, 4, 8, 16, 32, 64] {
        case(ranks, 50, false, repeats)?;
    }
    for blocks in [1, 6, 14, 28, 57] {
        case(16, blocks, false, repeats)?;
    }
    case(64, 50, true, repeats)
}
