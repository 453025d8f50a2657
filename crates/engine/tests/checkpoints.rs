//! Invariant 8 at the files' level: what is left by kills is swept, damaged checkpoints do not push good ones out, cadence is kept.

mod common;

use common::{Around, Toy};
use paceline_base::Monitor;
use paceline_base::optim::Rule;
use paceline_base::units::GlobalBatch;
use paceline_data::{Labelled, Order, Visits};
use paceline_engine::checkpoint::{Identity, Saver, initialize, latest, list, load, restore, set_aside_newer};
use paceline_engine::{
    CheckpointEvery, Control, EpochEvent, Input, Observer, Rank, StepEvent, TrainJob, TrainOptions, TrainState, train,
};
use paceline_graph::{Graph, presets};
use paceline_kernels::{Cpu, CpuOptions, Device};
use paceline_plan::{Batches, Plan, Settings, lower};
use std::path::Path;
use std::sync::Arc;

/// Lets the writer finish each checkpoint, so that none is overtaken.
struct Patient<'a> {
    dir: &'a Path,
    steps: u64,
}

impl Observer for Patient<'_> {
    fn step(&mut self, event: &StepEvent) {
        self.steps = event.step + 1;
    }
    fn epoch(&mut self, _: &EpochEvent) {}
    fn checkpoint(&mut self, _: f64) {
        let begin = std::time::Instant::now();
        while !steps(self.dir).contains(&self.steps) {
            let long = begin.elapsed() > std::time::Duration::from_secs(300);
            assert!(!long, "the checkpoint of step {} was not written: {:?}", self.steps, steps(self.dir));
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    fn wish(&mut self) -> Control {
        Control::default()
    }
}

/// Trains the toy from its newest checkpoint (if any) up to `max_steps`.
fn go(around: Around, dir: &Path, every: CheckpointEvery, max_steps: u64, keep: usize, rate: f64) {
    let data = Toy::new(20, &[5], 3);
    let graph = Graph::build("softmax", &presets::softmax(), &[5], 3, 0.0).unwrap();
    let identity = Identity { seed: 1, batch: 4, rule: Rule::Sgd, data: data.fingerprint(), model: graph.signature() };
    let saver = Saver::new(dir.into(), keep, identity).unwrap();
    let device = around.wrap(Cpu::new(CpuOptions::default()).unwrap());
    let batches = Batches { train: vec![4], evaluate: vec![20] };
    let schedule = lower(&graph, &Plan::data_parallel(1), &batches, &Settings::new(Rule::Sgd, device.kind())).unwrap();
    let mut rank = Rank::new(device, paceline_comm::threads(1).swap_remove(0), Arc::new(schedule)).unwrap();
    let mut progress = TrainState::default();
    match latest(dir).unwrap() {
        None => initialize(&mut rank, &graph, 1).unwrap(),
        Some((checkpoint, _)) => {
            set_aside_newer(dir, checkpoint.manifest.progress.step).unwrap();
            restore(&mut rank, &checkpoint, true).unwrap();
            progress = checkpoint.manifest.progress;
        }
    }
    let options = TrainOptions {
        seed: 1,
        epochs: 8,
        batch: GlobalBatch::new(4).unwrap(),
        eval_batch: 20,
        rate: Arc::new(move |_| rate),
        monitor: Monitor::ValAccuracy,
        patience: 0,
        min_delta: 0.0,
        max_steps,
        checkpoint: every,
    };
    let visits = Visits::all(Order::new(data.len(), 1));
    let input = Input::Memory { samples: &data, visits: &visits };
    let job = TrainJob { graph: &graph, training: input, validation: input, options: &options, saver: Some(&saver) };
    train(&mut rank, &job, progress, &mut Patient { dir, steps: progress.step }).unwrap();
    saver.finish().unwrap();
}

fn steps(dir: &Path) -> Vec<u64> {
    list(dir).unwrap().into_iter().map(|(step, _)| step).collect()
}

#[test]
fn every_due_checkpoint_is_written_also_at_the_end_of_an_epoch() {
    for around in Around::ALL {
        let dir = tempfile::tempdir().unwrap();
        // Five steps an epoch, so steps 10, 20, 30 and 40 are an epoch's last. A huge rate: later epochs are not the best.
        go(around, dir.path(), CheckpointEvery::Steps(10), 0, 100, 30.0);
        let found = steps(dir.path());
        for step in [10, 20, 30, 40] {
            assert!(found.contains(&step), "step {step} is missing: {found:?}");
        }
    }
}

#[test]
fn damaged_checkpoints_do_not_push_good_ones_out() {
    for around in Around::ALL {
        let dir = tempfile::tempdir().unwrap();
        go(around, dir.path(), CheckpointEvery::Epoch, 5, 2, 0.1);
        go(around, dir.path(), CheckpointEvery::Epoch, 12, 2, 0.1);
        std::fs::write(dir.path().join("step-12/model.safetensors"), "").unwrap();
        go(around, dir.path(), CheckpointEvery::Epoch, 11, 1, 0.1);
        let (checkpoint, notes) = latest(dir.path()).unwrap().unwrap();
        assert_eq!(checkpoint.manifest.progress.step, 11);
        assert!(notes.is_empty(), "{notes:?}");
        assert!(dir.path().join("damaged-step-12").exists());
    }
}

#[test]
fn what_kills_leave_is_swept_and_a_replaced_step_is_never_missing() {
    for around in Around::ALL {
        let dir = tempfile::tempdir().unwrap();
        go(around, dir.path(), CheckpointEvery::Epoch, 5, 2, 0.1);
        std::fs::create_dir(dir.path().join(".step-9.partial")).unwrap();
        // A kill between the two renames of a replacement leaves the old one under this name.
        std::fs::rename(dir.path().join("step-5"), dir.path().join("step-5.old")).unwrap();
        assert_eq!(latest(dir.path()).unwrap().unwrap().0.manifest.progress.step, 5);
        go(around, dir.path(), CheckpointEvery::Epoch, 8, 1, 0.1);
        assert!(!dir.path().join(".step-9.partial").exists());
        assert!(load(&dir.path().join("step-8")).is_ok());
    }
}

/// Before samples were counted, the steps of the epoch were. A run that was begun then goes on to the very same bits.
#[test]
fn a_checkpoint_of_format_1_goes_on_exactly() {
    let [old, new] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for dir in [&old, &new] {
        go(Around::Nothing, dir.path(), CheckpointEvery::Steps(7), 7, 9, 0.1);
    }
    let manifest = old.path().join("step-7/manifest.toml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    assert!(text.contains("format = 2\n") && text.contains("position = 8\n"), "two steps of four samples: {text}");
    let text = text.replace("format = 2\n", "format = 1\n").replace("position = 8\n", "step_in_epoch = 2\n");
    std::fs::write(&manifest, text).unwrap();
    let finished = [&old, &new].map(|dir| {
        go(Around::Nothing, dir.path(), CheckpointEvery::Epoch, 13, 9, 0.1);
        let checkpoint = load(&dir.path().join("step-13")).unwrap();
        let progress = TrainState { seconds: 0.0, ..checkpoint.manifest.progress };
        (progress, checkpoint.manifest.files)
    });
    assert_eq!(finished[0], finished[1]);
}

#[test]
fn a_checkpoint_of_a_later_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    go(Around::Nothing, dir.path(), CheckpointEvery::Epoch, 5, 2, 0.1);
    let manifest = dir.path().join("step-5/manifest.toml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("format = 2\n", "format = 3\n")).unwrap();
    let error = latest(dir.path()).unwrap_err().to_string();
    assert!(error.contains("has format 3, newer than this program reads (2); update paceline"), "{error}");
}
