//! The training loop over several ranks, on every device. Invariant 8: no checkpoint is published before every rank has recorded the steps
//! that it stands for, since these will not be done, and so not be recorded, again.

mod common;

use common::{Around, Toy};
use paceline_base::Result;
use paceline_base::optim::Rule;
use paceline_base::units::GlobalBatch;
use paceline_comm::Comm;
use paceline_data::{Labelled, Order, Visits};
use paceline_engine::checkpoint::{Identity, Saver, Written, initialize, list};
use paceline_engine::{
    CheckpointEvery, Control, EpochEvent, Input, Observer, Outcome, Rank, StepEvent, TrainJob, TrainOptions,
    TrainState, train,
};
use paceline_graph::{Graph, presets};
use paceline_kernels::{Cpu, CpuOptions, Device};
use paceline_plan::{Batches, Plan, Settings, lower};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const RANKS: usize = 3;

/// Takes its time to record, and looks whether the checkpoint is there meanwhile.
struct Slow<'a> {
    dir: &'a Path,
    rank: usize,
    steps: u64,
    checkpoints: usize,
}

impl Observer for Slow<'_> {
    fn step(&mut self, event: &StepEvent) {
        self.steps = event.step + 1;
    }
    fn epoch(&mut self, _: &EpochEvent) {}
    fn before_checkpoint(&mut self) -> Result<()> {
        if self.rank == RANKS - 1 {
            std::thread::sleep(Duration::from_millis(60));
        }
        let published = list(self.dir)?.into_iter().any(|(step, _)| step >= self.steps);
        assert!(!published, "step {} was published before rank {} had recorded it", self.steps, self.rank);
        self.checkpoints += 1;
        Ok(())
    }
    fn checkpoint(&mut self, _: f64) {}
    fn wish(&mut self) -> Control {
        Control::default()
    }
}

/// Trains eight steps with a checkpoint after every second, and gives what every rank came to.
fn train_on<O: Observer + Send>(
    around: Around,
    dir: &Path,
    rate: impl Fn(u64) -> f64 + Send + Sync + 'static,
    observer: impl Fn(usize) -> O + Sync,
) -> (Vec<(O, Result<Outcome>)>, Result<Written>) {
    let data = Toy::new(24, &[5], 3);
    let graph = Graph::build("softmax", &presets::softmax(), &[5], 3, 0.0).unwrap();
    let identity = Identity { seed: 1, batch: 6, rule: Rule::Sgd, data: data.fingerprint(), model: graph.signature() };
    let saver = Saver::new(dir.into(), 9, identity).unwrap();
    let probe = Cpu::new(CpuOptions::default()).unwrap();
    let batches = Batches { train: vec![6], evaluate: vec![24] };
    let plan = Plan::data_parallel(RANKS);
    let settings = Settings { defer_updates: true, ..Settings::new(Rule::Sgd, probe.kind()) };
    let schedule = Arc::new(lower(&graph, &plan, &batches, &settings).unwrap());
    let options = TrainOptions {
        seed: 1,
        epochs: 2,
        batch: GlobalBatch::new(6).unwrap(),
        eval_batch: 24,
        rate: Arc::new(rate),
        monitor: Default::default(),
        patience: 0,
        min_delta: 0.0,
        max_steps: 0,
        checkpoint: CheckpointEvery::Steps(2),
    };
    let visits = Visits::all(Order::new(data.len(), 1));
    let input = Input::Memory { samples: &data, visits: &visits };
    let ended = std::thread::scope(|scope| {
        let ranks: Vec<_> = paceline_comm::threads(RANKS)
            .into_iter()
            .map(|comm| {
                let (schedule, graph, options, observer) = (schedule.clone(), &graph, &options, &observer);
                let saver = (comm.rank() == 0).then_some(&saver);
                scope.spawn(move || {
                    let mut observer = observer(comm.rank());
                    let device = around.wrap(Cpu::new(CpuOptions::default()).unwrap());
                    let mut rank = Rank::new(device, comm, schedule).unwrap();
                    initialize(&mut rank, graph, 1).unwrap();
                    let job = TrainJob { graph, training: input, validation: input, options, saver };
                    let ended = train(&mut rank, &job, TrainState::default(), &mut observer);
                    (observer, ended)
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    (ended, saver.finish())
}

#[test]
fn a_checkpoint_waits_until_every_rank_has_recorded() {
    for around in Around::ALL {
        let dir = tempfile::tempdir().unwrap();
        let slow = |rank| Slow { dir: dir.path(), rank, steps: 0, checkpoints: 0 };
        let (ranks, written) = train_on(around, dir.path(), |_| 0.1, slow);
        for (observer, ended) in ranks {
            ended.unwrap();
            assert_eq!(observer.checkpoints, 4, "steps 2, 4, 6 and 8");
        }
        let written = written.unwrap();
        assert_eq!(written.written + written.replaced, 4);
    }
}

/// Remembers which steps it was told of.
struct Told(Vec<u64>);

impl Observer for Told {
    fn step(&mut self, event: &StepEvent) {
        assert!(event.loss.is_finite(), "{event:?}");
        self.0.push(event.step);
    }
    fn epoch(&mut self, _: &EpochEvent) {}
    fn checkpoint(&mut self, _: f64) {}
    fn wish(&mut self) -> Control {
        Control::default()
    }
}

/// The update of step 4 leaves no finite parameters, so that the loss of step 5 is not finite. However late a device has the metrics, every
/// rank names that step, nobody is told of it, and no checkpoint holds it.
#[test]
fn a_loss_that_is_not_finite_is_reported_with_its_step_and_never_saved() {
    for around in Around::ALL {
        let dir = tempfile::tempdir().unwrap();
        let rate = move |step| if step == 4 { 1e39 } else { 0.1 };
        let (ranks, written) = train_on(around, dir.path(), rate, |_| Told(Vec::new()));
        for (told, ended) in ranks {
            let error = ended.unwrap_err().to_string();
            assert!(error.contains("the loss is NaN at step 5 "), "{around:?}: {error}");
            assert_eq!(told.0, [0, 1, 2, 3, 4], "{around:?}");
        }
        written.unwrap();
        assert_eq!(list(dir.path()).unwrap().into_iter().map(|(step, _)| step).max(), Some(4), "{around:?}");
    }
}

/// The update of step 5 leaves no finite parameters after a loss that was, just where a checkpoint is due.
#[test]
fn parameters_that_are_not_finite_are_never_saved() {
    for around in Around::ALL {
        let dir = tempfile::tempdir().unwrap();
        let rate = move |step| if step == 5 { 1e39 } else { 0.1 };
        let (ranks, _) = train_on(around, dir.path(), rate, |_| Told(Vec::new()));
        let errors: Vec<String> = ranks.into_iter().map(|(_, ended)| ended.unwrap_err().to_string()).collect();
        assert!(errors[0].contains("no longer finite at step 6"), "{around:?}: {errors:?}");
        assert_eq!(list(dir.path()).unwrap().into_iter().map(|(step, _)| step).max(), Some(4), "{around:?}");
    }
}
