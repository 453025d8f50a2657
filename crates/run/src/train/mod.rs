//! One run, from configuration to summary: resolve, make or reopen the run directory, train on all ranks, test.

mod directory;
mod evaluation;
mod follower;
mod leader;
mod ranks;
mod resume;
mod summary;

use crate::forecast::{Forecast, Measured};
use crate::local_data;
use crate::process_group::{ProcessGroup, Workers};
use crate::repeat::Recorded;
use crate::resolve::{Opened, Resolved, resolve_among, unless_stopped};
use crate::tune::kernels;
use crate::watch::Watcher;
use directory::reopen;
use leader::Held;
use paceline_base::{Error, Result};
use paceline_config::{Config, PlacementName};
use paceline_engine::Ended;
use paceline_engine::checkpoint::Identity;
use paceline_kernels::Tuning;
use paceline_record::{Patience, Summary};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Where a run's directory is and whether it exists already.
#[derive(Clone, Debug)]
pub enum Place {
    /// A new one: `run.dir`/`run.name`, or a name made from model and data.
    Auto,
    /// A new one, here.
    New(PathBuf),
    /// Go on from the newest checkpoint in this one.
    Resume(PathBuf),
    /// A new one, here or as for [`Place::Auto`], with the kernels of a recorded run; its configuration is that run's, as far as it is to be
    /// repeated.
    Repeat(Box<Recorded>, Option<PathBuf>),
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Its directory.
    pub dir: PathBuf,
    /// Its summary, as written.
    pub summary: Summary,
    /// Where its checkpoints are, if it wrote any.
    pub checkpoints: Option<PathBuf>,
    /// Why it ended.
    pub ended: Ended,
}

/// Reads the configuration and the kernel choices of an earlier attempt.
pub fn saved(dir: &Path) -> Result<(Config, Tuning)> {
    Recorded::open(dir).map(|r| (r.config, r.tuning))
}

/// Trains. Ends after the current step, with a checkpoint, when `stop` becomes true; before the first step with an error,
/// and without a run directory.
pub fn train(config: &Config, place: &Place, watcher: &dyn Watcher, stop: &AtomicBool) -> Result<Finished> {
    let finished = train_among(&mut ProcessGroup::alone(), config, place, watcher, stop)?;
    finished.ok_or_else(|| Error::internal("a run alone has a leader"))
}

/// Trains with the other processes of a job. The first one records, watches and gives the result; the others give none.
pub fn train_among(
    group: &mut ProcessGroup,
    config: &Config,
    place: &Place,
    watcher: &dyn Watcher,
    stop: &AtomicBool,
) -> Result<Option<Finished>> {
    let result = together(group, config, place, watcher, stop);
    group.end(&result);
    result
}

/// What process 0 tells the others when the run directory is there.
#[derive(Serialize, Deserialize)]
struct Begun {
    dir: PathBuf,
    attempt: u32,
    /// The checkpoint to go on from.
    from: Option<PathBuf>,
    /// Nothing is left to do.
    finished: bool,
}

/// What every process has when all of them have agreed.
struct Ready {
    resolved: Resolved,
    /// The ranks that this process holds.
    local: Range<usize>,
    identity: Identity,
    /// When the run was asked for.
    begin: Instant,
    /// What a step was predicted to take, if that is known; process 0 only.
    forecast: Option<Forecast>,
}

fn together(
    group: &mut ProcessGroup,
    config: &Config,
    place: &Place,
    watcher: &dyn Watcher,
    stop: &AtomicBool,
) -> Result<Option<Finished>> {
    let begin = Instant::now();
    let (before, tuning) = match place {
        Place::Resume(dir) => saved(dir).map(|(config, tuning)| (Some(config), Some(tuning)))?,
        Place::Repeat(recorded, _) => (None, recorded.fits().then(|| recorded.tuning.clone())),
        _ => (None, None),
    };
    // The lock before all work; only a restart, whose predecessor may still be ending, checks in first, so that it is not
    // taken for one that does not come up.
    let restart = group.client().is_some();
    let mut held = match place {
        Place::Resume(dir) if group.leads() && !restart => Some(reopen(dir, Patience::Short, watcher)?),
        _ => None,
    };
    let config = &group.fit(config)?;
    let given = group.cluster_file().map(Path::to_path_buf);
    let measured = if group.leads() { Measured::find(given.as_deref()) } else { Ok(None) };
    // Only a file that was asked for must be right: what is kept from an earlier doctor is no reason not to train.
    let (measured, mut unpredicted) = match measured {
        Err(e) if given.is_some() => return Err(e),
        Err(e) => (None, Some(e)),
        Ok(measured) => (measured, None),
    };
    let mut opened = Opened::new(config)?;
    unless_stopped(stop)?;
    let folder = match place {
        Place::Resume(dir) => dir.clone(),
        Place::New(dir) | Place::Repeat(_, Some(dir)) => {
            dir.parent().map_or(PathBuf::from("."), |p| if p == Path::new("") { ".".into() } else { p.into() })
        }
        Place::Auto | Place::Repeat(_, None) => config.run.dir.clone(),
    };
    group.meet(config, &folder, &opened)?;
    if let (Place::Resume(dir), true, true) = (place, group.leads(), restart) {
        held = Some(reopen(dir, Patience::Restart, watcher)?);
    }
    if config.data.placement == PlacementName::Local && group.world()?.processes() > 1 {
        local_data::place(&mut opened.data, group)?;
    }
    let mut workers = group.workers(config, opened.plan.as_ref().map(|plan| plan.ranks))?;
    if let Some(workers) = &mut workers {
        group.choose_bucket(config, opened.graph.parameter_count(), workers)?;
    }
    // A resume computes with the kernels that it had; a repeated run too, but it may have been given another model.
    let measure = tuning.is_none() || matches!(place, Place::Repeat(..));
    let mut resolved = resolve_among(config, opened, tuning, workers.as_ref(), stop)?;
    let leads = group.leads();
    if measure {
        let Resolved { schedule, layout, tuning, reasons, .. } = &mut resolved;
        if leads {
            *tuning = kernels::choose(schedule, layout, tuning.clone(), reasons, stop)?;
        }
        *tuning = group.tell(tuning)?;
    }
    unless_stopped(stop)?;
    watcher.begins(); // from here on there is something to keep
    let identity = Identity {
        seed: resolved.options.seed,
        batch: resolved.layout.batch.samples(),
        rule: resolved.schedule.rule,
        data: resolved.data.fingerprint(),
        model: resolved.graph.signature(),
    };
    let local = workers.as_ref().map_or(0..resolved.layout.plan.ranks, Workers::local);
    let forecast = match measured.map(|m| Forecast::of_run(&resolved, &m, workers.as_ref())).transpose() {
        Err(e) if given.is_some() => return Err(e),
        Err(e) => {
            unpredicted = Some(e);
            None
        }
        Ok(forecast) => forecast,
    };
    resolved.reasons.extend(unpredicted.map(|e| format!("steps are not predicted: {}", e.message())));
    let ready = Ready { resolved, local, identity, begin, forecast };
    if !leads {
        return follower::follow(group, ready);
    }
    leader::lead(group, config, place, ready, Held { dir: held, before }, watcher, stop).map(Some)
}

/// "mlp on fashion-sample: 7,200 training and 800 validation samples, mirrored 2×1, batch 32"
pub fn title(r: &Resolved) -> String {
    let strategy = match &r.config.strategy.plan {
        Some(path) => format!("plan {}", path.display()),
        None => r.config.strategy.name.to_string(),
    };
    format!(
        "{} on {}: {} training and {} validation samples, {strategy}, {}×{} (replicas × threads), batch {}",
        r.graph.name,
        r.config.data.name,
        r.data.samples(),
        r.data.validation_pool().pass,
        r.layout.plan.ranks,
        r.layout.threads,
        r.layout.batch
    )
}

/// Asks a run to end: what a signal handler sets.
pub fn request_stop(stop: &AtomicBool) {
    stop.store(true, Ordering::Relaxed);
}
