//! Lowering again after a change gives exactly the schedule of a fresh lowering.

use paceline_base::kernel::{DeviceKind, Fusion};
use paceline_base::op::Activation::Relu;
use paceline_base::optim::Rule;
use paceline_base::units::DType;
use paceline_graph::{Graph, model_file};
use paceline_plan::{Batches, Lowering, MicroBatches, OpPlan, Plan, Schedule, Settings, Store, UpdateMode};
use proptest::prelude::*;
use std::collections::BTreeMap;

const FUSIONS: [Fusion; 8] = [
    Fusion::DenseActivation(Relu),
    Fusion::DenseThrough(Relu),
    Fusion::ConvActivation(Relu),
    Fusion::ConvThrough(Relu),
    Fusion::ConvPool(Relu),
    Fusion::BatchActivation(Relu),
    Fusion::SumActivation(Relu),
    Fusion::DenseUpdate,
];

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// A network of `blocks` random blocks: plain, normalised, residual, with two branches, or with a pool.
fn graph(dice: &mut Dice, blocks: usize) -> Graph {
    let mut toml = String::from("format = 1\n");
    let mut layer = |name: &str, kind: &str, rest: &str, inputs: &[&str]| {
        toml += &format!("[[layer]]\nname = \"{name}\"\ntype = \"{kind}\"\n{rest}");
        if !inputs.is_empty() {
            toml += &format!("inputs = [\"{}\"]\n", inputs.join("\", \""));
        }
    };
    let conv = "channels = 4\nkernel = 3\npad = 1\n";
    layer("first", "conv", conv, &[]);
    let mut last = String::from("first");
    let mut side = 8;
    for b in 0..blocks {
        let name = |what: &str| format!("{what}{b}");
        match dice.roll(5) {
            0 => {
                layer(&name("c"), "conv", conv, &[&last]);
                layer(&name("r"), "relu", "", &[]);
                last = name("r");
            }
            1 => {
                layer(&name("c"), "conv", conv, &[&last]);
                layer(&name("n"), "batch-norm", "", &[]);
                layer(&name("r"), "relu", "", &[]);
                last = name("r");
            }
            2 => {
                layer(&name("c"), "conv", conv, &[&last]);
                layer(&name("n"), "batch-norm", "", &[]);
                layer(&name("s"), "add", "", &[&name("n"), &last]);
                layer(&name("r"), "relu", "", &[]);
                last = name("r");
            }
            3 => {
                layer(&name("a"), "conv", "channels = 2\nkernel = 1\n", &[&last]);
                layer(&name("b"), "conv", "channels = 2\nkernel = 3\npad = 1\n", &[&last]);
                layer(&name("k"), "concatenate", "", &[&name("a"), &name("b")]);
                last = name("k");
            }
            _ if side >= 4 => {
                layer(&name("c"), "conv", conv, &[&last]);
                layer(&name("r"), "relu", "", &[]);
                layer(&name("p"), "max-pool", "window = 2\n", &[]);
                last = name("p");
                side /= 2;
            }
            _ => {
                layer(&name("r"), "relu", "", &[&last]);
                last = name("r");
            }
        }
    }
    layer("flat", "flatten", "", &[&last]);
    layer("hidden", "dense", "units = 6\n", &[]);
    layer("act", "relu", "", &[]);
    layer("logits", "dense", "units = \"classes\"\n", &[]);
    layer("loss", "softmax-cross-entropy", "", &[]);
    Graph::build("net", &model_file::parse(&toml, "net").unwrap().layers, &[8, 8, 3], 4, 0.0).unwrap()
}

/// Another split of a random operator.
fn edit(dice: &mut Dice, graph: &Graph, ranks: usize) -> (String, OpPlan) {
    let node = 1 + dice.roll(graph.nodes.len() - 1);
    let n = &graph.nodes[node];
    let (mut split, mut room) = (BTreeMap::new(), ranks + 1);
    for dim in n.op.dims(1000, &graph.input_shapes(node)) {
        let degree = 1 + dice.roll(room.min(dim.extent));
        split.insert(dim.name.to_string(), degree);
        room = (room / degree).max(1);
    }
    let parts: usize = split.values().product();
    let on = (0..parts).map(|_| dice.roll(ranks)).collect();
    (n.name.clone(), OpPlan { split, ranks: Some(on) })
}

fn settings(dice: &mut Dice) -> Settings {
    let fusions: Vec<Fusion> = FUSIONS.into_iter().filter(|_| dice.roll(4) > 0).collect();
    let micro_batches = if dice.roll(4) == 0 { MicroBatches::InTurn(2) } else { MicroBatches::One };
    let defer_updates = dice.roll(2) == 0;
    Settings {
        defer_updates,
        micro_batches,
        ..Settings::new(Rule::Momentum { momentum: 0.9 }, DeviceKind::new(DType::F32, &fusions))
    }
}

fn difference(a: &Schedule, b: &Schedule) -> Option<String> {
    if a.buckets != b.buckets {
        return Some("the buckets".into());
    }
    for (x, y) in a.phases.iter().zip(&b.phases) {
        let names = |p: &paceline_plan::Phase| p.segments.iter().map(|s| s.key).collect::<Vec<_>>();
        if names(x) != names(y) {
            return Some(format!("the order of {:?}", x.kind));
        }
        if let Some((s, t)) = x.segments.iter().zip(&y.segments).find(|(s, t)| s != t) {
            return Some(format!("{:?}:\n{s:#?}\n{t:#?}", x.kind));
        }
    }
    (a != b).then(|| "the first uses".into())
}

fn check(seed: u64, blocks: usize, edits: usize) -> Result<(), String> {
    let mut dice = Dice(seed);
    let graph = graph(&mut dice, blocks);
    let ranks = 1 + dice.roll(3);
    let update = if dice.roll(2) == 0 { UpdateMode::Sharded } else { UpdateMode::Replicated };
    let store = Store { update, bucket: [1, 100, 1 << 18][dice.roll(3)], ..Store::default() };
    let mut plan = Plan { store, ..Plan::data_parallel(ranks) };
    let settings = settings(&mut dice);
    let batches = Batches { train: vec![8, 1 + dice.roll(7)], evaluate: vec![5] };
    let mut lowering = Lowering::new(&graph, &plan, &batches, &settings).unwrap();
    for number in 0..edits {
        let (name, split) = edit(&mut dice, &graph, ranks);
        plan.operators.insert(name.clone(), split.clone());
        lowering.change(&name, split.clone()).unwrap();
        let fresh = Lowering::new(&graph, &plan, &batches, &settings).unwrap().schedule();
        if let Some(what) = difference(&lowering.schedule(), &fresh) {
            return Err(format!("after edit {number}, {name} as {split:?}, something differs: {what}"));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lowering_again_equals_lowering(seed in any::<u64>(), blocks in 1usize..6) {
        check(seed, blocks, 4).map_err(TestCaseError::fail)?;
    }

    /// Long enough that most of the network is far from what changes.
    #[test]
    fn also_where_most_stays_as_it_is(seed in any::<u64>()) {
        check(seed, 24, 3).map_err(TestCaseError::fail)?;
    }
}

/// A pool that its convolution took in, with a view behind it: the convolution reads the gradient of the view.
#[test]
fn a_gradient_that_a_view_passes_on_is_waited_for_where_it_is_read() {
    check(9_513_137_316_134_492_560, 5, 4).unwrap();
}

#[test]
fn a_wrong_change_leaves_everything_as_it_was() {
    let graph = graph(&mut Dice(1), 3);
    let batches = Batches { train: vec![8], evaluate: vec![] };
    let settings = Settings::new(Rule::Sgd, DeviceKind::new(DType::F32, &FUSIONS));
    let mut lowering = Lowering::new(&graph, &Plan::data_parallel(2), &batches, &settings).unwrap();
    let before = lowering.schedule();
    let split = |name: &str, degree| OpPlan { split: BTreeMap::from([(name.to_string(), degree)]), ranks: None };
    assert!(lowering.change("first", split("out", 3)).unwrap_err().message().contains("a part is on rank 2"));
    assert!(lowering.change("frist", split("out", 2)).unwrap_err().message().contains("did you mean first?"));
    assert!(lowering.change("first", split("uot", 2)).unwrap_err().message().contains("cannot be split along uot"));
    assert!(lowering.schedule() == before);
}

/// Segments that a change makes anew are few: all others are the very same.
#[test]
fn most_segments_stay() {
    let graph = graph(&mut Dice(7), 40);
    let batches = Batches { train: vec![16], evaluate: vec![] };
    let mut plan = Plan::data_parallel(4);
    plan.store.bucket = 100;
    let mut lowering =
        Lowering::new(&graph, &plan, &batches, &Settings::new(Rule::Sgd, DeviceKind::new(DType::F32, &[]))).unwrap();
    let before = lowering.schedule();
    let split = OpPlan { split: BTreeMap::from([("out".into(), 2)]), ranks: None };
    let middle = graph.nodes[graph.nodes.len() / 2..].iter().find(|n| n.op.kind().starts_with("conv")).unwrap();
    lowering.change(&middle.name, split).unwrap();
    let after = lowering.schedule();
    let old: std::collections::HashSet<_> = before.phases[0].segments.iter().map(std::sync::Arc::as_ptr).collect();
    let new = after.phases[0].segments.iter().filter(|s| !old.contains(&std::sync::Arc::as_ptr(s))).count();
    let all = after.phases[0].segments.len();
    assert!(new > 3 && new * 4 < all, "{new} of {all} segments are new");
}
