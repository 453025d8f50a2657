//! Batches of any size at any position: what a schedule did not plan is lowered when it comes, and every update is the one that the same
//! samples give by hand.

mod common;

use common::nets::net;
use common::{Around, distance};
use paceline_base::Result;
use paceline_base::kernel::StepArgs;
use paceline_base::optim::Rule;
use paceline_base::portion::{EqualBatches, Portion};
use paceline_base::units::GlobalBatch;
use paceline_comm::Comm;
use paceline_data::{Catalogue, ImagesInMemory, Options, Order, Samples, Source, Visits};
use paceline_engine::checkpoint::{Checkpoint, Identity, Saver, Snapshot, gather, initialize, latest, restore};
use paceline_engine::{
    Batch, CheckpointEvery, Control, EpochEvent, Input, Observer, Rank, StepEvent, TrainJob, TrainOptions, TrainState,
    train,
};
use paceline_graph::Graph;
use paceline_kernels::{Device, Reference};
use paceline_plan::{Batches, PhaseKind, Phases, Plan, Settings, lower};
use paceline_prepare::feed::{Feed, FeedOptions};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

const RULE: Rule = Rule::Momentum { momentum: 0.9 };
const NET: &str = "flat flatten\nh dense units=7 bias=false\nbn batch-norm eps=0.1\nact tanh\n\
                   logits dense units=\"classes\"\nloss softmax-cross-entropy";

/// Grows and shrinks within every epoch, to sizes that were not planned too.
fn batch(epoch: u64, position: u64) -> GlobalBatch {
    let samples = match position {
        0..8 => 4,
        8..20 => 6,
        _ => 3 + epoch as usize,
    };
    GlobalBatch::new(samples).unwrap()
}

/// Where ranks read their samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Memory,
    /// Decoded ahead, for all ranks.
    Feed,
    /// Decoded ahead, by a feed of each rank that reads only its own rows, as if each were a process.
    FeedEach,
}

struct Seen(Vec<(u64, usize)>);

impl Observer for Seen {
    fn step(&mut self, event: &StepEvent) {
        self.0.push((event.step, event.batch));
    }
    fn epoch(&mut self, _: &EpochEvent) {}
    fn checkpoint(&mut self, _: f64) {}
    fn wish(&mut self) -> Control {
        Control::default()
    }
}

struct Case {
    graph: Graph,
    samples: Arc<dyn Samples>,
    source: Arc<dyn Source>,
    order: Order,
}

impl Case {
    fn new() -> Self {
        let options = Options { seed: 1, ..Options::default() };
        let set = Catalogue::with_cache("nowhere").open("fake:4x3:5:31", &options).unwrap();
        let samples = set.train.memory().unwrap().clone();
        let source = Arc::new(ImagesInMemory::new(samples.clone()).unwrap());
        let order = Order::new(samples.len(), 1);
        Self { graph: net(NET, &[4, 3]), samples, source, order }
    }

    /// The sizes of the steps of two epochs.
    fn sizes(&self) -> Vec<usize> {
        let len = self.samples.len() as u64;
        let mut sizes = Vec::new();
        for epoch in 0..2 {
            let mut position = 0;
            while position < len {
                sizes.push(batch(epoch, position).samples().min((len - position) as usize));
                position += *sizes.last().unwrap() as u64;
            }
        }
        sizes
    }

    /// The rows that a rank reads of every batch, however large it is.
    fn portion(&self, plan: &Plan, rank: usize) -> Portion {
        let batches = Batches { train: self.sizes(), evaluate: Vec::new() };
        let schedule = lower(&self.graph, plan, &batches, &Settings::new(RULE, Reference::new().kind())).unwrap();
        let rows = |samples| schedule.phases[schedule.phase(PhaseKind::Train, samples).unwrap()].rows(rank);
        let (mut passes, mut done, len) = (vec![Vec::new()], 0, self.samples.len());
        for samples in self.sizes() {
            if done == len {
                (passes, done) = ([passes, vec![Vec::new()]].concat(), 0);
            }
            done += samples;
            passes.last_mut().unwrap().push(EqualBatches::new(samples, 1, [rows(samples)]));
        }
        Portion::of_batches(len, passes)
    }

    /// One step after another on one rank, every size planned.
    fn by_hand(&self) -> Snapshot {
        let batches = Batches { train: self.sizes(), evaluate: Vec::new() };
        let device = Reference::new();
        let schedule =
            lower(&self.graph, &Plan::data_parallel(1), &batches, &Settings::new(RULE, device.kind())).unwrap();
        let mut rank = Rank::new(device, paceline_comm::single(), Arc::new(schedule)).unwrap();
        initialize(&mut rank, &self.graph, 1).unwrap();
        let mut done = 0;
        for (step, samples) in self.sizes().into_iter().enumerate() {
            let phase = rank.schedule.phase(PhaseKind::Train, samples).unwrap();
            let at = |row| {
                let (position, len) = (done + row, self.samples.len());
                self.order.at((position / len) as u64, position % len)
            };
            let args = StepArgs { seed: 1, step: step as u64, rate: 0.05, scale: 1.0 / samples as f64 };
            rank.step_now(phase, &Batch::new(&*self.samples, &at), &args).unwrap();
            done += samples;
        }
        gather(&mut rank, &self.graph).unwrap().unwrap()
    }

    /// The training loop on so many ranks, from a checkpoint or the beginning up to `max_steps`.
    fn trained(
        &self,
        around: Around,
        ranks: usize,
        from_where: From,
        dir: &Path,
        max_steps: u64,
    ) -> (Snapshot, Vec<(u64, usize)>) {
        let from: Option<Checkpoint> = latest(dir).unwrap().map(|(checkpoint, _)| checkpoint);
        let progress = from.as_ref().map_or(TrainState::default(), |c| c.manifest.progress);
        let identity =
            Identity { seed: 1, batch: 4, rule: RULE, data: self.samples.fingerprint(), model: self.graph.signature() };
        let saver = Saver::new(dir.into(), 9, identity).unwrap();
        let options = TrainOptions {
            seed: 1,
            epochs: 2,
            batch: Arc::new(batch),
            eval_batch: 9,
            rate: Arc::new(|_| 0.05),
            monitor: Default::default(),
            patience: 0,
            min_delta: 0.0,
            max_steps,
            checkpoint: CheckpointEvery::Epoch,
        };
        let plan = Plan::data_parallel(ranks);
        let len = self.samples.len();
        let evaluate = [9, len % 9].into_iter().filter(|&n| n > 0).collect();
        let settings = Settings { defer_updates: true, ..Settings::new(RULE, Reference::new().kind()) };
        // Only the first size is planned.
        let phases = Phases::new(&self.graph, &plan, Batches { train: vec![4], evaluate }, settings).unwrap();
        let visits = Visits::all(self.order.clone());
        let start = progress.epoch * len as u64 + progress.position;
        let feed = |visits: Visits, ranks: Range<usize>| {
            let feed = FeedOptions { visits, augment: None, threads: 2, rows: 20, ranks, start, end: u64::MAX };
            Feed::new(self.source.clone(), feed).unwrap()
        };
        let feeds: Vec<Feed> = match from_where {
            From::Memory => Vec::new(),
            From::Feed => vec![feed(visits.clone(), 0..ranks)],
            From::FeedEach => {
                let each = |rank| feed(Visits::shared(self.order.clone(), self.portion(&plan, rank)), rank..rank + 1);
                (0..ranks).map(each).collect()
            }
        };
        let memory = Input::Memory { samples: &*self.samples, visits: &visits };
        let input_of = |rank: usize| {
            let feed = feeds.get(if from_where == From::FeedEach { rank } else { 0 });
            feed.map_or(memory, |feed| Input::Supply { supply: feed, len })
        };
        let unshuffled = Visits::all(Order::unshuffled(len));
        let validation = Input::Memory { samples: &*self.samples, visits: &unshuffled };
        let mut ended = std::thread::scope(|scope| {
            let ranks: Vec<_> = paceline_comm::threads(ranks)
                .into_iter()
                .map(|comm| {
                    let saver = (comm.rank() == 0).then_some(&saver);
                    let training = input_of(comm.rank());
                    let (phases, options, from, graph) = (&phases, &options, from.as_ref(), &self.graph);
                    scope.spawn(move || -> Result<_> {
                        let mut rank = Rank::new(around.wrap(Reference::new()), comm, phases.first())?;
                        match from {
                            None => initialize(&mut rank, graph, 1)?,
                            Some(checkpoint) => restore(&mut rank, checkpoint, true)?,
                        }
                        let job = TrainJob { graph, training, validation, options, phases: Some(phases), saver };
                        let mut seen = Seen(Vec::new());
                        train(&mut rank, &job, progress, &mut seen)?;
                        Ok((gather(&mut rank, graph)?, seen.0))
                    })
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap().unwrap()).collect::<Vec<_>>()
        });
        saver.finish().unwrap();
        assert!(ended.iter().all(|(_, seen)| *seen == ended[0].1));
        let (snapshot, seen) = ended.swap_remove(0);
        (snapshot.unwrap(), seen)
    }
}

#[test]
fn batches_that_change_within_an_epoch_are_the_updates_done_by_hand() {
    let case = Case::new();
    let (sizes, by_hand) = (case.sizes(), case.by_hand());
    assert!(sizes.windows(2).filter(|pair| pair[0] != pair[1]).count() >= 4, "{sizes:?}");
    for (around, ranks, fed) in [
        (Around::Nothing, 1, From::Memory),
        (Around::Nothing, 3, From::Feed),
        (Around::Nothing, 3, From::FeedEach),
        (Around::Checked, 2, From::Memory),
        (Around::Queued(u64::MAX), 3, From::Memory),
        (Around::Both(3), 2, From::FeedEach),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (trained, seen) = case.trained(around, ranks, fed, dir.path(), 0);
        assert_eq!(seen.iter().map(|s| s.1).collect::<Vec<_>>(), sizes, "{around:?}");
        let (d, name) = distance(&trained, &by_hand);
        assert!(d < 1e-10, "{name} differs by {d:e} on {ranks} ranks, {around:?}");
    }
}

#[test]
fn a_run_goes_on_where_it_stopped_between_changes_of_the_batch() {
    let case = Case::new();
    let (steps, by_hand) = (case.sizes().len() as u64, case.by_hand());
    for stop in 1..steps {
        let dir = tempfile::tempdir().unwrap();
        case.trained(Around::Nothing, 2, From::Memory, dir.path(), stop);
        let from_where = [From::Memory, From::Feed, From::FeedEach][stop as usize % 3];
        let (again, seen) = case.trained(Around::Nothing, 1 + (stop % 3) as usize, from_where, dir.path(), 0);
        assert_eq!(seen.iter().map(|s| s.0).collect::<Vec<_>>(), (stop..steps).collect::<Vec<_>>());
        let (d, name) = distance(&again, &by_hand);
        assert!(d < 1e-10, "{name} differs by {d:e} after a stop at step {stop}");
    }
}
