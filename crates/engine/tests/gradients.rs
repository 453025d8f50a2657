//! The gradient of every operator against finite differences, through the whole engine in f64: the loss of a training step
//! as a function of the parameters, along random directions.

mod common;

use common::nets::net;
use common::{Around, Toy, values};
use paceline_base::kernel::{DeviceKind, StepArgs, Values};
use paceline_base::optim::Rule;
use paceline_base::units::DType;
use paceline_comm::Threads;
use paceline_engine::checkpoint::{gather, initialize};
use paceline_engine::{Batch, Rank};
use paceline_graph::Graph;
use paceline_kernels::{Device, Reference};
use paceline_plan::{Batches, Plan, Settings, lower};
use std::sync::Arc;

const SAMPLES: usize = 3;

fn same(row: usize) -> usize {
    row
}

/// One rank with its parameters at their initial values, and those values by name.
struct Trial {
    rank: Rank<Box<dyn Device>, Threads>,
    graph: Graph,
    data: Toy,
}

impl Trial {
    fn new(text: &str, shape: &[usize], around: Around) -> Self {
        let graph = net(text, shape);
        let batches = Batches { train: vec![SAMPLES], evaluate: Vec::new() };
        let schedule = lower(
            &graph,
            &Plan::data_parallel(1),
            &batches,
            &Settings::new(Rule::Sgd, DeviceKind::new(DType::F64, &[])),
        )
        .unwrap();
        let comm = paceline_comm::threads(1).swap_remove(0);
        let mut rank = Rank::new(around.wrap(Reference::new()), comm, Arc::new(schedule)).unwrap();
        initialize(&mut rank, &graph, 3).unwrap();
        Self { rank, graph, data: Toy::new(SAMPLES, shape, 5) }
    }

    /// Takes one step and gives the mean loss before it, the L2 penalty included.
    fn step(&mut self, rate: f64) -> f64 {
        let penalty: f64 = self
            .parameters()
            .iter()
            .zip(self.graph.params())
            .map(|((_, v), p)| 0.5 * p.l2 * v.iter().map(|x| x * x).sum::<f64>())
            .sum();
        let batch = Batch::new(&self.data, &same);
        let args = StepArgs { seed: 9, step: 0, rate, scale: 1.0 / SAMPLES as f64 };
        self.rank.step_now(0, &batch, &args).unwrap().value("loss").unwrap() + penalty
    }

    fn parameters(&mut self) -> Vec<(String, Vec<f64>)> {
        let snapshot = gather(&mut self.rank, &self.graph).unwrap().unwrap();
        snapshot.model.iter().map(|t| (t.name.clone(), values(&t.data))).collect()
    }

    fn set(&mut self, name: &str, values: &[f64]) {
        let schedule = self.rank.schedule.clone();
        for bucket in &schedule.buckets {
            for entry in bucket.entries.iter().filter(|e| e.param == name) {
                let params = self.rank.lasting(bucket.params(0)).unwrap();
                self.rank.device.load(params, entry.offset, Values::F64(values)).unwrap();
            }
        }
    }
}

fn check(text: &str, shape: &[usize]) {
    Around::ALL.into_iter().for_each(|around| check_on(text, shape, around));
}

fn check_on(text: &str, shape: &[usize], around: Around) {
    let mut trial = Trial::new(text, shape, around);
    let mut dice = 1u64;
    let mut roll = || {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) as f64 / (1u64 << 30) as f64 - 1.0
    };
    // Scales and biases begin at one and zero: moved, so that their own gradients count.
    for (name, mut v) in trial.parameters() {
        if !name.contains(".running_") {
            v.iter_mut().for_each(|x| *x += 0.3 * roll());
            trial.set(&name, &v);
        }
    }
    let before = trial.parameters();
    trial.step(1.0);
    let after = trial.parameters();
    for ((name, old), (_, new)) in before.iter().zip(&after).filter(|((n, _), _)| !n.contains(".running_")) {
        // One step of SGD at rate 1 moves by the gradient.
        for _ in 0..2 {
            let direction: Vec<f64> = old.iter().map(|_| roll()).collect();
            let told: f64 = old.iter().zip(new).zip(&direction).map(|((o, n), d)| (o - n) * d).sum();
            let mut at = |h: f64| {
                for (n, v) in &before {
                    trial.set(n, v);
                }
                let moved: Vec<f64> = old.iter().zip(&direction).map(|(o, d)| o + h * d).collect();
                trial.set(name, &moved);
                trial.step(0.0)
            };
            let h = 1e-5;
            let found = (at(h) - at(-h)) / (2.0 * h);
            assert!(
                (told - found).abs() < 1e-7 * (1.0 + found.abs()),
                "{name}: the engine says {told}, differences {found}, in {text} ({around:?})"
            );
        }
    }
}

/// The operator between two layers with parameters: so both its input's and its own gradients are seen.
fn between(operator: &str) {
    let text = format!(
        "first conv channels=4 kernel=2\n{operator}\nflat flatten\nlogits dense units=\"classes\"\nloss softmax-cross-entropy"
    );
    check(&text, &[5, 6, 3]);
}

#[test]
fn convolutions() {
    between("op conv channels=3 kernel=3");
    between("op conv channels=3 kernel=[3,2] stride=[2,1] pad=[1,0] bias=false");
    between("op conv channels=6 kernel=2 groups=2 dilation=[1,2] pad=[0,1]");
    between("op conv channels=4 kernel=1 stride=3 groups=4");
    check(
        "op conv channels=4 kernel=3\nmean global-average-pool\nlogits dense units=\"classes\"\nloss mean-squared-error",
        &[5, 6],
    );
}

#[test]
fn pools() {
    between("op max-pool window=2");
    between("op max-pool window=3 stride=2 pad=1");
    between("op max-pool window=[1,2] stride=[1,3]");
    between("op average-pool window=2");
    between("op average-pool window=3 stride=[1,2] pad=1");
    check(
        "first conv channels=4 kernel=2\nop global-average-pool\nlogits dense units=\"classes\"\nloss mean-squared-error",
        &[4, 5, 2],
    );
}

#[test]
fn normalisations() {
    between("op batch-norm");
    between("op batch-norm eps=0.1\nact relu");
    between("op layer-norm");
    between("op local-response-norm size=3 alpha=0.7 beta=0.6 k=1.5");
    between("op local-response-norm size=2 alpha=0.7");
    check("h dense units=4\nop batch-norm eps=0.01\nlogits dense units=\"classes\"\nloss softmax-cross-entropy", &[6]);
    check("op batch-norm\nflat flatten\nlogits dense units=\"classes\"\nloss softmax-cross-entropy", &[3, 4]);
}

#[test]
fn joins_and_pads() {
    between("a conv channels=2 kernel=1\nb conv channels=3 kernel=1 <first\nop concatenate <a,first,b");
    between("a conv channels=4 kernel=1\nop add <a,first,a");
    between(
        "a max-pool window=[2,1] stride=[2,1]\nb conv channels=4 kernel=3 pad=1 <first\nop concatenate axis=1 <b,a",
    );
    between("op pad pad=[1,2]\nc conv channels=2 kernel=2");
}
