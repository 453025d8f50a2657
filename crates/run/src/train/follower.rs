//! A process of a run that is not the first.

use super::ranks::{OneRun, first_outcome};
use super::{Begun, Finished, Ready};
use crate::process_group::ProcessGroup;
use crate::watch::Silent;
use paceline_base::Result;
use paceline_engine::TrainState;
use paceline_engine::checkpoint;
use paceline_launch::Doing;
use paceline_record::{CpuWatch, EpochRecord, RunDir};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// The part of a process that is not the first: it trains, and records its own steps.
pub(super) fn follow(group: &mut ProcessGroup, ready: Ready) -> Result<Option<Finished>> {
    let Ready { resolved, local, identity, begin, .. } = ready;
    let resolved = &resolved;
    let nothing = Begun { dir: PathBuf::new(), attempt: 0, from: None, finished: false };
    let begun: Begun = group.tell(&nothing)?;
    if begun.finished {
        return Ok(None);
    }
    let dir = RunDir::open(&begun.dir)?;
    let start = begun.from.as_deref().map(checkpoint::load).transpose()?;
    let progress = start.as_ref().map_or(TrainState::default(), |c| c.manifest.progress);
    let writer = dir.follow_steps(local.start / local.len(), begun.attempt, progress.step)?;
    let (start, stop) = (start.as_ref(), AtomicBool::new(false));
    let cores = CpuWatch::start();
    let watcher = &Silent;
    let run = OneRun { resolved, dir: &dir, identity, start, progress, local, watcher, stop: &stop, begin, cores };
    let feeds = run.feeds()?;
    let nobody = |_: &EpochRecord| {};
    let shared = run.shared(&writer, group, &nobody);
    let comms = group.world()?.ranks_within(run.local.len(), run.timeout())?;
    group.doing(Doing::Training);
    let ends = run.all_ranks(comms, &shared, None, &feeds);
    let outcome = first_outcome(&ends);
    if outcome.is_ok() {
        group.exchange(&run.times(&ends))?;
        if run.tests_apart() {
            run.test_together(group, None)?;
        }
    }
    writer.finish()?;
    outcome.map(|_| None)
}
