//! The ranks of this process: a thread for each, with a device, a transport and the schedule of the run.

use crate::devices;
use crate::input::Feeds;
use crate::process_group::ProcessGroup;
use crate::resolve::Resolved;
use crate::tune::trial::no_thread;
use crate::watch::{RankObserver, Shared, Watcher};
use paceline_base::{Error, Result, TimeSplit};
use paceline_comm::Comm;
use paceline_engine::checkpoint::{Checkpoint, Identity, Saver, initialize, restore};
use paceline_engine::train as train_rank;
use paceline_engine::{Outcome, Rank, Scores, TrainJob, TrainState, evaluate};
use paceline_kernels::Device;
use paceline_launch::LaunchClient;
use paceline_record::{CpuShare, CpuWatch, EpochRecord, RunDir, StepWriter};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

/// All that the ranks of this process train with.
pub(super) struct OneRun<'a> {
    pub(super) resolved: &'a Resolved,
    pub(super) dir: &'a RunDir,
    pub(super) identity: Identity,
    pub(super) start: Option<&'a Checkpoint>,
    pub(super) progress: TrainState,
    /// The ranks that this process holds.
    pub(super) local: Range<usize>,
    pub(super) watcher: &'a dyn Watcher,
    pub(super) stop: &'a AtomicBool,
    pub(super) begin: Instant,
    /// Looks at what this process gets of the machine, from here on.
    pub(super) cores: CpuWatch,
}

/// Where the time of a rank went.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct RankTimes {
    /// In all steps of this attempt.
    pub(super) all: TimeSplit,
    /// In the first ones, [`WARM`](crate::watch::WARM) of them.
    pub(super) warm_up: TimeSplit,
}

/// What a rank's thread gives back.
pub(super) struct RankEnd {
    pub(super) outcome: Result<Outcome>,
    pub(super) times: RankTimes,
    pub(super) test: Option<Scores>,
}

impl OneRun<'_> {
    pub(super) fn feeds(&self) -> Result<Feeds<'_>> {
        let r = self.resolved;
        Feeds::new(&r.config, &r.data, &r.options, r.layout.batch, &r.schedule, self.local.clone(), &self.progress)
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.resolved.config.strategy.timeout.min(1e9))
    }

    pub(super) fn shared<'s>(
        &'s self,
        writer: &'s StepWriter,
        group: &ProcessGroup,
        on_epoch: &'s (dyn Fn(&EpochRecord) + Sync),
    ) -> Shared<'s> {
        Shared {
            writer,
            dir: self.dir,
            watcher: self.watcher,
            stop: self.stop,
            connection: group.client().map(LaunchClient::connection),
            every: self.resolved.config.record.every,
            interval: AtomicU64::new(0),
            interval_reason: Mutex::default(),
            on_epoch,
            ranks: self.resolved.layout.plan.ranks,
            first: self.local.start as u32,
        }
    }

    /// Where the time of this process's ranks went, and what it got of the machine.
    pub(super) fn times(&self, ends: &[RankEnd]) -> (Vec<RankTimes>, CpuShare) {
        (ends.iter().map(|e| e.times).collect(), self.cores.share())
    }

    pub(super) fn all_ranks(
        &self,
        comms: Vec<Box<dyn Comm>>,
        shared: &Shared<'_>,
        saver: Option<&Saver>,
        feeds: &Feeds<'_>,
    ) -> Vec<RankEnd> {
        let ranks = comms.len();
        std::thread::scope(|scope| {
            let handles: Vec<_> = comms
                .into_iter()
                .map(|comm| {
                    let number = comm.rank();
                    let saver = saver.filter(|_| number == 0);
                    std::thread::Builder::new()
                        .name(format!("rank-{number}"))
                        .spawn_scoped(scope, move || self.one_rank(number, comm, shared, saver, feeds))
                        .map_err(|e| no_thread(number, ranks, &e))
                })
                .collect();
            let gone =
                |why: &str| RankEnd { outcome: Err(Error::internal(why)), times: RankTimes::default(), test: None };
            handles
                .into_iter()
                .map(|h| match h {
                    Ok(handle) => handle.join().unwrap_or_else(|_| gone("a rank panicked")),
                    Err(e) => RankEnd { outcome: Err(e), times: RankTimes::default(), test: None },
                })
                .collect()
        })
    }

    fn one_rank(
        &self,
        number: usize,
        comm: Box<dyn Comm>,
        shared: &Shared<'_>,
        saver: Option<&Saver>,
        feeds: &Feeds<'_>,
    ) -> RankEnd {
        let r = self.resolved;
        let mut observer = RankObserver::new(shared, number);
        let mut test = None;
        let outcome = devices::of_layout(&r.layout, Some(&r.tuning))
            .make()
            .and_then(|device| Rank::new(device, comm, r.schedule.clone()))
            .and_then(|mut rank| {
                let result = self.train_and_test(&mut rank, &mut observer, saver, feeds);
                self.cores.sample(); // while this rank's threads are there
                if let Err(e) = &result {
                    rank.comm.abort(e.message());
                }
                result
            })
            .map(|(outcome, scores)| {
                test = scores;
                outcome
            });
        observer.flush();
        RankEnd { outcome, times: RankTimes { all: observer.total, warm_up: observer.warm_up }, test }
    }

    fn train_and_test<C: Comm>(
        &self,
        rank: &mut Rank<Box<dyn Device>, C>,
        observer: &mut RankObserver<'_>,
        saver: Option<&Saver>,
        feeds: &Feeds<'_>,
    ) -> Result<(Outcome, Option<Scores>)> {
        let r = self.resolved;
        match self.start {
            Some(checkpoint) => restore(rank, checkpoint, true)?,
            None => initialize(rank, &r.graph, r.options.seed)?,
        }
        let job = TrainJob {
            phases: None,
            graph: &r.graph,
            training: feeds.training()?,
            validation: feeds.validation()?,
            options: &r.options,
            saver,
        };
        let outcome = train_rank(rank, &job, self.progress, observer)?;
        // Without checkpoints there is nothing to go back to: the last parameters are tested.
        let test = feeds.test()?.map(|test| evaluate(rank, test, 0, &r.options, None)).transpose()?;
        Ok((outcome, test))
    }
}

/// The outcome of rank 0, or the error that was the cause of the others.
pub(super) fn first_outcome(ends: &[RankEnd]) -> Result<Outcome> {
    match Error::first_cause(ends.iter().filter_map(|e| e.outcome.as_ref().err())) {
        Some(cause) => Err(cause.clone()),
        None => ends[0].outcome.clone(),
    }
}
