//! Invariant 8 over several ranks: no checkpoint is published before every rank has recorded the steps that it stands for,
//! since these will not be done, and so not be recorded, again.

mod common;

use common::{Around, Toy};
use paceline_base::Result;
use paceline_base::optim::Rule;
use paceline_base::units::GlobalBatch;
use paceline_data::{Labelled, Order, Visits};
use paceline_engine::checkpoint::{Identity, Saver, initialize, list};
use paceline_engine::{
    CheckpointEvery, Control, EpochEvent, Input, Observer, Rank, StepEvent, TrainJob, TrainOptions, TrainState, train,
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

#[test]
fn a_checkpoint_waits_until_every_rank_has_recorded() {
    Around::ALL.into_iter().for_each(check);
}

fn check(around: Around) {
    let dir = tempfile::tempdir().unwrap();
    let data = Toy::new(24, &[5], 3);
    let graph = Graph::build("softmax", &presets::softmax(), &[5], 3, 0.0).unwrap();
    let identity = Identity { seed: 1, batch: 6, rule: Rule::Sgd, data: data.fingerprint(), model: graph.signature() };
    let saver = Saver::new(dir.path().into(), 9, identity).unwrap();
    let probe = Cpu::new(CpuOptions::default()).unwrap();
    let batches = Batches { train: vec![6], evaluate: vec![24] };
    let plan = Plan::data_parallel(RANKS);
    let settings = Settings { defer_updates: true, ..Settings::new(Rule::Sgd, probe.fusions()) };
    let schedule = Arc::new(lower(&graph, &plan, &batches, &settings).unwrap());
    let options = TrainOptions {
        seed: 1,
        epochs: 2,
        batch: GlobalBatch::new(6).unwrap(),
        eval_batch: 24,
        rate: Arc::new(|_| 0.1),
        monitor: Default::default(),
        patience: 0,
        min_delta: 0.0,
        max_steps: 0,
        checkpoint: CheckpointEvery::Steps(2),
    };
    let visits = Visits::all(Order::new(data.len(), 1));
    let input = Input::Memory { samples: &data, visits: &visits };
    std::thread::scope(|scope| {
        let ranks: Vec<_> = paceline_comm::threads(RANKS)
            .into_iter()
            .map(|comm| {
                let (schedule, graph, options, dir) = (schedule.clone(), &graph, &options, dir.path());
                let saver = (comm_rank(&comm) == 0).then_some(&saver);
                scope.spawn(move || {
                    let number = comm_rank(&comm);
                    let device = around.wrap(Cpu::new(CpuOptions::default()).unwrap());
                    let mut rank = Rank::new(device, comm, schedule).unwrap();
                    initialize(&mut rank, graph, 1).unwrap();
                    let job = TrainJob { graph, training: input, validation: input, options, saver };
                    let mut observer = Slow { dir, rank: number, steps: 0, checkpoints: 0 };
                    train(&mut rank, &job, TrainState::default(), &mut observer).unwrap();
                    observer.checkpoints
                })
            })
            .collect();
        for rank in ranks {
            assert_eq!(rank.join().unwrap(), 4, "steps 2, 4, 6 and 8");
        }
    });
    let written = saver.finish().unwrap();
    assert_eq!(written.written + written.replaced, 4);
}

fn comm_rank(comm: &impl paceline_comm::Comm) -> usize {
    comm.rank()
}
