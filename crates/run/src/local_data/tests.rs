//! Several processes, simulated by threads that each open data of their own.

use super::*;
use crate::input::{Feeds, open_data};
use crate::resolve::{batches, build_graph};
use paceline_base::kernel::StepArgs;
use paceline_base::optim::Rule;
use paceline_base::units::GlobalBatch;
use paceline_config::Config;
use paceline_data::{Features, Labelled, Samples};
use paceline_engine::checkpoint::{self, Checkpoint, Identity, Saver, TensorData, gather, initialize, restore};
use paceline_engine::{Batch, CheckpointEvery, Control, EpochEvent, Observer, Rank, StepEvent, TrainJob, TrainState};
use paceline_engine::{TrainOptions, train};
use paceline_kernels::{Cpu, CpuOptions, Device};
use paceline_plan::{Batches, PhaseKind, Plan, Settings, lower};
use std::path::Path;
use std::sync::{Arc, Mutex};

const BATCH: usize = 8;
const EVAL: usize = 7;
const RULE: Rule = Rule::Momentum { momentum: 0.9 };

/// One process for each (samples, ranks), with data of its own.
fn processes(of: &[(usize, usize)], sets: &[&str]) -> (Vec<RunData>, Vec<usize>, Config) {
    let config = |samples: usize| {
        let name = format!("data.name=fake:4x3x1:3:{samples}");
        let all: Vec<&str> = [&name[..], "model.hidden=[5]"].into_iter().chain(sets.iter().copied()).collect();
        Config::from_parts(None, &all).unwrap()
    };
    let mut data: Vec<RunData> = of.iter().map(|&(samples, _)| open_data(&config(samples)).unwrap()).collect();
    let holdings: Vec<Holding> =
        data.iter().enumerate().map(|(number, data)| Holding::of(data, format!("host{number}"))).collect();
    for (number, data) in data.iter_mut().enumerate() {
        data.local = Some(Local::agree(holdings.clone(), number).unwrap());
    }
    (data, of.iter().map(|&(_, ranks)| ranks).collect(), config(of[0].0))
}

fn options(max_steps: u64) -> TrainOptions {
    TrainOptions {
        seed: 1,
        epochs: 3,
        batch: Arc::new(|_, _| GlobalBatch::new(BATCH).unwrap()),
        eval_batch: EVAL,
        rate: Arc::new(|_| 0.05),
        monitor: paceline_base::Monitor::ValAccuracy,
        patience: 0,
        min_delta: 0.0,
        max_steps,
        checkpoint: CheckpointEvery::Steps(1000),
    }
}

/// Keeps the validation counts of rank 0.
struct Counts<'a>(&'a Mutex<Vec<f64>>);

impl Observer for Counts<'_> {
    fn step(&mut self, _: &StepEvent) {}
    fn epoch(&mut self, event: &EpochEvent) {
        self.0.lock().unwrap().push(event.validation.count);
    }
    fn checkpoint(&mut self, _: f64) {}
    fn wish(&mut self) -> Control {
        Control::default()
    }
}

fn values(checkpoint: &Checkpoint) -> Vec<f32> {
    let names = ["hidden1.weight", "hidden1.bias", "logits.weight", "logits.bias"];
    let tensors = names.iter().map(|name| &checkpoint.model_tensor(name).unwrap().data);
    tensors.flat_map(|data| if let TensorData::F32(v) = data { v.clone() } else { panic!("floats") }).collect()
}

/// Trains up to `max_steps` from the newest checkpoint in `dir` on; gives the newest after, and what validations counted.
fn go(data: &[RunData], ranks: &[usize], config: &Config, dir: &Path, max_steps: u64) -> (Checkpoint, Vec<f64>) {
    let local = data[0].local.as_ref().unwrap();
    let total: usize = ranks.iter().sum();
    let options = options(max_steps);
    let plan = Plan { shares: Some(local.shares(ranks, BATCH).unwrap()), ..Plan::data_parallel(total) };
    let graph = build_graph(config, &data[0]).unwrap();
    let cpu = || Cpu::new(CpuOptions::default()).unwrap();
    let batches = batches(GlobalBatch::new(BATCH).unwrap(), EVAL, &data[0]);
    let schedule = Arc::new(
        lower(&graph, &plan, &batches, &Settings { defer_updates: true, ..Settings::new(RULE, cpu().kind()) }).unwrap(),
    );
    let identity = Identity { seed: 1, batch: BATCH, rule: RULE, data: local.fingerprint(), model: graph.signature() };
    let saver = Saver::new(dir.into(), 2, identity).unwrap();
    let start = checkpoint::latest(dir).unwrap().map(|(found, _)| found);
    let progress = start.as_ref().map_or(TrainState::default(), |c| c.manifest.progress);
    let counts = Mutex::new(Vec::new());
    let mut comms = paceline_comm::threads(total).into_iter();
    // Each process's feeds know its own data only.
    let feeds = data.iter().zip(ranges_of(ranks)).map(|(data, range)| {
        (
            range.clone(),
            Feeds::new(config, data, &options, GlobalBatch::new(BATCH).unwrap(), &schedule, range, &progress).unwrap(),
        )
    });
    let feeds: Vec<_> = feeds.collect();
    std::thread::scope(|scope| {
        for (range, feeds) in &feeds {
            for number in range.clone() {
                let comm = comms.next().unwrap();
                let (schedule, graph, options, saver) = (schedule.clone(), &graph, &options, &saver);
                let (start, counts) = (start.as_ref(), &counts);
                scope.spawn(move || {
                    let mut rank = Rank::new(cpu(), comm, schedule).unwrap();
                    match start {
                        Some(checkpoint) => restore(&mut rank, checkpoint, true).unwrap(),
                        None => initialize(&mut rank, graph, 1).unwrap(),
                    }
                    let (training, validation) = (feeds.training().unwrap(), feeds.validation().unwrap());
                    let saver = (number == 0).then_some(saver);
                    let job = TrainJob { graph, training, validation, options, phases: None, saver };
                    let nobody = Mutex::default();
                    let mut observer = Counts(if number == 0 { counts } else { &nobody });
                    train(&mut rank, &job, progress, &mut observer).unwrap();
                });
            }
        }
    });
    saver.finish().unwrap();
    (checkpoint::latest(dir).unwrap().unwrap().0, counts.into_inner().unwrap())
}

/// The samples of all processes, one after another, for one worker.
struct Joined(Vec<Arc<dyn Samples>>);

impl Joined {
    fn find(&self, mut index: usize) -> (&dyn Samples, usize) {
        for part in &self.0 {
            if index < part.len() {
                return (&**part, index);
            }
            index -= part.len();
        }
        panic!("beyond the last sample")
    }
}

impl Labelled for Joined {
    fn len(&self) -> usize {
        self.0.iter().map(|part| part.len()).sum()
    }
    fn shape(&self) -> &[usize] {
        self.0[0].shape()
    }
    fn class_names(&self) -> &[String] {
        self.0[0].class_names()
    }
    fn label(&self, index: usize) -> u32 {
        let (part, index) = self.find(index);
        part.label(index)
    }
    fn fingerprint(&self) -> String {
        String::new()
    }
}

impl Samples for Joined {
    fn features(&self, index: usize) -> Features<'_> {
        let (part, index) = self.find(index);
        part.features(index)
    }
}

/// By epoch, process and sample: how often one worker that does all the processes do visits it; and its parameters.
fn one_worker(data: &[RunData], ranks: &[usize], config: &Config, steps: usize) -> (Vec<Vec<Vec<usize>>>, Vec<f32>) {
    let local = data[0].local.as_ref().unwrap();
    let shares = local.shares(ranks, BATCH).unwrap();
    let joined = Joined(data.iter().map(|data| data.training.memory().unwrap().clone()).collect());
    let visits: Vec<Visits> = data
        .iter()
        .zip(ranges_of(ranks))
        .map(|(data, range)| {
            let portion = portion_of(&shares, &range, joined.len(), BATCH);
            data.local.as_ref().unwrap().training_visits(true, 1, portion)
        })
        .collect();
    let graph = build_graph(config, &data[0]).unwrap();
    let cpu = Cpu::new(CpuOptions::default()).unwrap();
    let batches = Batches { train: batches(GlobalBatch::new(BATCH).unwrap(), EVAL, &data[0]).train, evaluate: vec![] };
    let schedule = lower(&graph, &Plan::data_parallel(1), &batches, &Settings::new(RULE, cpu.kind())).unwrap();
    let mut rank = Rank::new(cpu, paceline_comm::threads(1).swap_remove(0), Arc::new(schedule)).unwrap();
    initialize(&mut rank, &graph, 1).unwrap();
    let per_epoch = joined.len().div_ceil(BATCH);
    let mut seen = vec![data.iter().map(|d| vec![0; d.training.len()]).collect::<Vec<_>>(); steps.div_ceil(per_epoch)];
    for step in 0..steps {
        let (epoch, start) = (step / per_epoch, step % per_epoch * BATCH);
        let count = BATCH.min(joined.len() - start);
        let mut rows = Vec::new();
        let pieces = weighted_ranges(count, &shares);
        for (process, range) in ranges_of(ranks).iter().enumerate() {
            let before: usize = data[..process].iter().map(|data| data.training.len()).sum();
            for row in range.clone().flat_map(|rank| pieces[rank].clone()) {
                let (_, sample) = visits[process].at(epoch as u64, (start + row) as u64);
                seen[epoch][process][sample] += 1;
                rows.push(before + sample);
            }
        }
        let at = |row: usize| rows[row];
        let phase = rank.schedule.phase(PhaseKind::Train, count).unwrap();
        let args = StepArgs { seed: 1, step: step as u64, rate: 0.05, scale: 1.0 / count as f64 };
        rank.step_now(phase, &Batch::new(&joined, &at), &args).unwrap();
    }
    let snapshot = gather(&mut rank, &graph).unwrap().unwrap();
    let flat = |data: &TensorData| if let TensorData::F32(v) = data { v.clone() } else { panic!("floats") };
    (seen, snapshot.model.iter().flat_map(|tensor| flat(&tensor.data)).collect())
}

#[test]
fn processes_do_together_what_one_worker_does_with_all_their_samples() {
    for of in [vec![(60, 1), (60, 1)], vec![(100, 2), (30, 1), (50, 1)], vec![(40, 1), (200, 3)], vec![(50, 2)]] {
        let (data, ranks, config) = processes(&of, &[]);
        let dir = tempfile::tempdir().unwrap();
        let per_epoch = data[0].samples().div_ceil(BATCH);
        let (many, counts) = go(&data, &ranks, &config, dir.path(), 0);
        assert_eq!(many.manifest.progress.step as usize, 3 * per_epoch);
        let pool = data[0].validation_pool();
        assert_eq!(counts, vec![pool.pass as f64; 3], "every validation counts as many samples as there are");
        let (seen, one) = one_worker(&data, &ranks, &config, 3 * per_epoch);
        let far = values(&many).iter().zip(&one).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(far < 1e-5, "{of:?}: parameters differ by {far}");
        for process in 0..of.len() {
            let all: Vec<usize> = (0..data[process].training.len())
                .map(|sample| seen.iter().map(|epoch| epoch[process][sample]).sum())
                .collect();
            // A rank's share of a step is off by less than a row; nobody has a second turn before all had their first.
            let (least, most) = (*all.iter().min().unwrap(), *all.iter().max().unwrap());
            assert!(most - least <= 1, "{of:?}: {least} to {most} visits");
            let fair = all.len() as f64 / data[0].samples() as f64 * BATCH as f64;
            let rows = all.iter().sum::<usize>() as f64 / (3 * per_epoch) as f64;
            assert!((rows - fair).abs() < ranks[process] as f64 + 0.5, "{of:?}: {rows} rows a step instead of {fair}");
        }
    }
}

#[test]
fn one_process_with_its_own_files_is_as_one_that_shares_them() {
    let (data, ..) = processes(&[(50, 2)], &[]);
    let local = data[0].local.as_ref().unwrap();
    let portion = Portion::new(45, 8, std::iter::once(0..8), std::iter::once(0..5));
    let (own, shared) = (local.training_visits(true, 1, portion), Visits::all(Order::new(45, 1)));
    for (epoch, place) in [(0, 0), (0, 44), (1, 0), (7, 23)] {
        assert_eq!(own.at(epoch, place), shared.at(epoch, place));
    }
    assert_eq!(data[0].fingerprint(), data[0].training.fingerprint());
}

#[test]
fn a_run_goes_on_in_mid_epoch_with_the_very_same_samples() {
    for sets in [&[][..], &["augment.flip=true", "augment.brightness=0.3"]] {
        let (data, ranks, config) = processes(&[(100, 2), (30, 1), (50, 1)], sets);
        let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (uninterrupted, _) = go(&data, &ranks, &config, whole.path(), 0);
        let mut last = None;
        for steps in [9, 25, 41, 0] {
            last = Some(go(&data, &ranks, &config, parts.path(), steps).0);
        }
        assert_eq!(values(&last.unwrap()), values(&uninterrupted), "{sets:?}");
    }
}

#[test]
fn what_all_have_alike_is_evaluated_once() {
    let (data, ..) = processes(&[(60, 1), (60, 1)], &[]);
    assert_eq!(data[0].validation_pool(), Pool { pass: 6, own: false }, "made-up sets of one size are the same");
    assert!(data[0].local.as_ref().unwrap().doubts()[0].contains("host0 and host1 have the same training samples"));
    let (data, ..) = processes(&[(60, 1), (120, 1)], &[]);
    assert_eq!(data[1].validation_pool(), Pool { pass: 18, own: true });
    assert_eq!(data[1].test_pool(), Some(Pool { pass: 30, own: true }));
    assert!(data[1].local.as_ref().unwrap().doubts().is_empty());
    assert_ne!(data[0].fingerprint(), data[0].training.fingerprint());
    assert_eq!(data[0].fingerprint(), data[1].fingerprint());
}

fn holding(host: &str, training: usize, classes: &[&str]) -> Holding {
    let stock = |samples| Stock { samples, fingerprint: host.into() };
    Holding {
        host: host.into(),
        training: stock(training),
        validation: stock(training / 10),
        test: None,
        kind: SampleKind::classified(&[4, 4], classes.len()),
        classes: classes.iter().map(|c| c.to_string()).collect(),
    }
}

#[test]
fn words_say_what_each_host_has_and_what_validation_misses() {
    let holdings = vec![holding("a", 1000, &["x"]), holding("b", 500, &["x"])];
    let local = Local::agree(holdings, 1).unwrap();
    let shares = local.shares(&[2, 1], 32).unwrap();
    assert_eq!(shares, [500, 500, 500]);
    let words = local.words(&[2, 1], &shares, 32);
    assert!(words.contains("a 1000 (1.03 visits an epoch), b 500 (0.94 visits an epoch)"), "{words}");
    assert!(words.contains("statistical"));
    // 150 validation samples in batches of 100 and 50: a reads 67 + 34 rows, b 33 + 16.
    let words = local.validation_words(&[2, 1], &shares, 100).unwrap();
    assert!(words.contains("of 150 samples 1 are left out and 1 counted again"), "{words}");
    assert_eq!(local.validation_words(&[2, 1], &shares, 150), None);
    assert_eq!(
        local.seed(7),
        Local::agree(local.holdings.clone(), 0).unwrap().seed(7).wrapping_add(0x9E37_79B9_7F4A_7C15)
    );
}

#[test]
fn what_does_not_fit_names_the_host() {
    let check = |second: Holding, ranks: &[usize], batch: usize, expected: &str| {
        let local = Local::agree(vec![holding("a", 1000, &["x", "y"]), second], 0);
        let error = local.and_then(|local| local.shares(ranks, batch)).unwrap_err();
        assert!(error.message().contains(expected), "wanted {expected:?}, got {error}");
    };
    check(holding("b", 0, &["x", "y"]), &[1, 1], 32, "process 1 on b has no training samples");
    check(holding("b", 5, &["x", "y"]), &[1, 1], 32, "process 1 on b has no validation samples");
    check(
        Holding { kind: SampleKind::classified(&[4, 5], 2), ..holding("b", 50, &["x", "y"]) },
        &[1, 1],
        32,
        "on b has samples of shape [4, 5]",
    );
    let numbers = SampleKind { targets: TargetKind::Numbers { each: 1 }, ..SampleKind::classified(&[4, 4], 2) };
    let other = Holding { kind: numbers, ..holding("b", 50, &["x", "y"]) };
    check(
        other,
        &[1, 1],
        32,
        "on b has dense features with 1 number to be met, process 0 on a dense features with 1 of 2 classes",
    );
    check(holding("b", 50, &["x"]), &[1, 1], 32, "on b has no class \"y\"");
    check(holding("b", 50, &["x", "y", "z"]), &[1, 1], 32, "on b has a class \"z\"");
    check(holding("b", 50, &["y", "x"]), &[1, 1], 32, "in another order");
    check(holding("b", 10, &["x", "y"]), &[1, 11], 32, "on b has 11 ranks, but only 10 training samples");
    check(holding("b", 10, &["x", "y"]), &[1, 1], 32, "give train.batch of at least 101");
    let local = Local::agree(vec![holding("a", 1000, &["x"]), holding("b", 10, &["x"])], 0).unwrap();
    assert_eq!(weighted_ranges(101, &local.shares(&[1, 1], 101).unwrap())[1].len(), 1);
}
