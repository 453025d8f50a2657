//! One run, from configuration to summary: resolve, make or reopen the run directory, train on all ranks, test.

use crate::crew::{Crew, Workers};
use crate::input::{self, Feeds};
use crate::kernels;
use crate::model_info::ModelInfo;
use crate::placement::{self, Local, Pool};
use crate::repeat::{MODEL_COPY, PLAN_COPY, Recorded, RunToml};
use crate::resolve::{Opened, Resolved, plan_ranks, rates, resolve_among, unless_stopped};
use crate::trial::{make_device, no_thread};
use crate::watch::{RankObserver, Shared, Silent, Started, Watcher};
use paceline_base::text::{self, counted};
use paceline_base::{Error, Result};
use paceline_comm::{Comm, single};
use paceline_config::{Auto, Config, PlacementName, ScheduleName};
use paceline_data::fingerprint_version;
use paceline_engine::checkpoint::{self, Checkpoint, Identity, Saver, initialize, restore};
use paceline_engine::train as train_rank;
use paceline_engine::{CheckpointEvery, Ended, Job, Outcome, Progress, Rank, Scores, TrainOptions, evaluate};
use paceline_kernels::{Cpu, CpuOptions, Device, Tuning};
use paceline_launch::{Doing, LaunchClient};
use paceline_plan::{Batches, Compression, Plan, lower};
use paceline_record::{
    CpuShare, CpuWatch, EpochRecord, Exactness, Monitor, PartialEpoch, Patience, RunDir, StepWriter, Summary,
    TimeSplit, cpu_of_job, read_run,
};
use paceline_system::machine;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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

fn keep_copies(config: &Config, dir: &RunDir) -> Result<()> {
    for (file, copy) in [(&config.model.file, MODEL_COPY), (&config.strategy.plan, PLAN_COPY)] {
        if let Some(path) = file {
            let text = crate::resolve::read_text("read", path)?;
            paceline_system::atomic::write(&dir.path().join(copy), text.as_bytes())?;
        }
    }
    Ok(())
}

/// Trains. Ends after the current step, with a checkpoint, when `stop` becomes true; before the first step with an error,
/// and without a run directory.
pub fn train(config: &Config, place: &Place, watcher: &dyn Watcher, stop: &AtomicBool) -> Result<Finished> {
    let finished = train_among(&mut Crew::alone(), config, place, watcher, stop)?;
    finished.ok_or_else(|| Error::internal("a run alone has a leader"))
}

/// Trains with the other processes of a job. The first one records, watches and gives the result; the others give none.
pub fn train_among(
    crew: &mut Crew,
    config: &Config,
    place: &Place,
    watcher: &dyn Watcher,
    stop: &AtomicBool,
) -> Result<Option<Finished>> {
    let result = together(crew, config, place, watcher, stop);
    crew.end(&result);
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

fn together(
    crew: &mut Crew,
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
    let restart = crew.client().is_some();
    let mut held = match place {
        Place::Resume(dir) if crew.leads() && !restart => Some(reopen(dir, Patience::Short, watcher)?),
        _ => None,
    };
    let config = &crew.fit(config)?;
    let mut opened = Opened::new(config)?;
    unless_stopped(stop)?;
    let folder = match place {
        Place::Resume(dir) => dir.clone(),
        Place::New(dir) | Place::Repeat(_, Some(dir)) => {
            dir.parent().map_or(PathBuf::from("."), |p| if p == Path::new("") { ".".into() } else { p.into() })
        }
        Place::Auto | Place::Repeat(_, None) => config.run.dir.clone(),
    };
    crew.meet(config, &folder, &opened)?;
    if let (Place::Resume(dir), true, true) = (place, crew.leads(), restart) {
        held = Some(reopen(dir, Patience::Restart, watcher)?);
    }
    if config.data.placement == PlacementName::Local && crew.world()?.processes() > 1 {
        placement::place(&mut opened.data, crew)?;
    }
    let mut workers = crew.workers(config, plan_ranks(config)?)?;
    if let Some(workers) = &mut workers {
        crew.choose_bucket(config, opened.graph.parameter_count(), workers)?;
    }
    // A resume computes with the kernels that it had; a repeated run too, but it may have been given another model.
    let measure = tuning.is_none() || matches!(place, Place::Repeat(..));
    let mut resolved = resolve_among(config, opened, tuning, workers.as_ref(), stop)?;
    let leads = crew.leads();
    if measure {
        let Resolved { schedule, layout, tuning, reasons, .. } = &mut resolved;
        if leads {
            *tuning = kernels::choose(schedule, layout, tuning.clone(), reasons, stop)?;
        }
        *tuning = crew.tell(tuning)?;
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
    if !leads {
        return follow(crew, &resolved, local, identity, begin);
    }
    let (mut notes, mut warnings) = (resolved.data.notes.clone(), Vec::new());
    if let Place::Repeat(recorded, _) = place {
        resolved.reasons.push(format!("layout and kernels as in {}", recorded.dir.display()));
        notes.extend(recorded.differences(&resolved, config, &identity)?);
    }
    let (dir, start) = match place {
        Place::Resume(path) => {
            let dir = held.ok_or_else(|| Error::internal(format!("{} is not locked", path.display())))?;
            let start = find_checkpoint(&dir, &identity, resolved.options.monitor, &mut notes, &mut warnings)?;
            notes.extend(before.as_ref().zip(start.as_ref()).and_then(|(b, c)| rate_note(b, &resolved, c)));
            let sparse = resolved.schedule.buckets.iter().any(|bucket| !bucket.left.is_empty());
            let held = start.as_ref().map(|c| c.held_back_ranks());
            notes.extend(held.and_then(|held| held_back_note(held, sparse, resolved.layout.plan.ranks)));
            (dir, start)
        }
        Place::New(path) | Place::Repeat(_, Some(path)) => (RunDir::create(path)?, None),
        Place::Auto | Place::Repeat(_, None) => (create_auto(&resolved)?, None),
    };
    notes.extend(dir.lock_note().map(String::from));
    let progress = start.as_ref().map_or(Progress::default(), |c| c.manifest.progress);
    let resumed = matches!(place, Place::Resume(_));
    if let Some(finished) = finished_before(&dir, &resolved.options, progress, resumed)? {
        crew.tell(&Begun { dir: dir.path().into(), attempt: 0, from: None, finished: true })?;
        return Ok(Some(finished));
    }
    keep_copies(&resolved.config, &dir)?;
    ModelInfo::of(&resolved.config, &resolved.data, &resolved.graph).write(dir.path())?;
    dir.write_run_toml(&RunToml {
        version: env!("CARGO_PKG_VERSION").into(),
        machine: machine::describe(),
        tuning: resolved.tuning.clone(),
        plan: paceline_plan::to_toml(&resolved.layout.plan)?,
        folder: std::env::current_dir().ok().filter(|folder| folder.to_str().is_some()),
        config: resolved.config.to_table(),
    })?;
    resolved.reasons.push(crate::repeat::words(config, &resolved, dir.path()));
    tracing::info!("run directory {}, from step {}", dir.path().display(), progress.step);
    // Last, so that a run killed before this point is either an empty folder or one that can be resumed.
    let writer = if resumed { dir.resume_steps(progress.step)? } else { dir.begin_steps()? };
    if let Some(client) = crew.client() {
        client.run_dir(dir.path());
    }
    let path = std::path::absolute(dir.path()).map_err(|e| Error::io("find", dir.path(), &e))?;
    let from = start.as_ref().map(|c| path.join(c.path.strip_prefix(dir.path()).unwrap_or(&c.path)));
    crew.tell(&Begun { dir: path, attempt: writer.attempt(), from, finished: false })?;
    let summary = first_summary(&resolved, &dir, &writer, resumed, progress)?;
    let start = start.as_ref();
    let cores = CpuWatch::start();
    let run = OneRun { resolved: &resolved, dir: &dir, identity, start, progress, local, watcher, stop, begin, cores };
    run.go(crew, summary, writer, notes, warnings).map(Some)
}

/// The part of a process that is not the first: it trains, and records its own steps.
fn follow(
    crew: &mut Crew,
    resolved: &Resolved,
    local: Range<usize>,
    identity: Identity,
    begin: Instant,
) -> Result<Option<Finished>> {
    let nothing = Begun { dir: PathBuf::new(), attempt: 0, from: None, finished: false };
    let begun: Begun = crew.tell(&nothing)?;
    if begun.finished {
        return Ok(None);
    }
    let dir = RunDir::open(&begun.dir)?;
    let start = begun.from.as_deref().map(checkpoint::load).transpose()?;
    let progress = start.as_ref().map_or(Progress::default(), |c| c.manifest.progress);
    let writer = dir.follow_steps(local.start / local.len(), begun.attempt, progress.step)?;
    let (start, stop) = (start.as_ref(), AtomicBool::new(false));
    let cores = CpuWatch::start();
    let watcher = &Silent;
    let run = OneRun { resolved, dir: &dir, identity, start, progress, local, watcher, stop: &stop, begin, cores };
    let feeds = run.feeds()?;
    let nobody = |_: &EpochRecord| {};
    let shared = run.shared(&writer, crew, &nobody);
    let comms = crew.world()?.ranks_within(run.local.len(), run.timeout())?;
    crew.doing(Doing::Training);
    let ends = run.all_ranks(comms, &shared, None, &feeds);
    let outcome = first_outcome(&ends);
    if outcome.is_ok() {
        crew.exchange(&run.times(&ends))?;
        if run.tests_apart() {
            run.test_together(crew, None)?;
        }
    }
    writer.finish()?;
    outcome.map(|_| None)
}

/// A run that has nothing left to do, as it was: its records stay what they are.
fn finished_before(
    dir: &RunDir,
    options: &TrainOptions,
    progress: Progress,
    resumed: bool,
) -> Result<Option<Finished>> {
    let all = progress.epoch >= options.epochs || (options.max_steps > 0 && progress.step >= options.max_steps);
    let earlier = if resumed && all { read_run(dir.path())?.summary } else { None };
    Ok(earlier.filter(|summary| summary.status == paceline_record::Status::Done).map(|mut summary| {
        let more = "give more train.epochs or train.max_steps to go on";
        summary.warnings.push(format!("this run was finished before, and nothing is left to do; {more}"));
        Finished { dir: dir.path().into(), summary, checkpoints: Some(dir.checkpoints()), ended: Ended::Done }
    }))
}

/// The newest whole checkpoint that belongs to this run; none if the run was killed before its first.
fn find_checkpoint(
    dir: &RunDir,
    identity: &Identity,
    monitor: Monitor,
    notes: &mut Vec<String>,
    warnings: &mut Vec<String>,
) -> Result<Option<Checkpoint>> {
    let Some((found, damaged)) = checkpoint::latest(&dir.checkpoints())? else {
        notes.push("there is no checkpoint yet: training begins at the first step".into());
        return Ok(None);
    };
    warnings.extend(damaged);
    let theirs = &found.manifest.identity;
    let before = &found.manifest.progress;
    let differs = if theirs.model != identity.model {
        let shape =
            |m: &[(String, Vec<usize>)]| m.iter().map(|(n, s)| format!("{n} {s:?}")).collect::<Vec<_>>().join(", ");
        format!("the model: the checkpoint has {}, this run {}", shape(&theirs.model), shape(&identity.model))
    } else if theirs.seed != identity.seed {
        // Before the samples: the seed also decides which of them are held out.
        format!("train.seed: the checkpoint has {}, this run {}", theirs.seed, identity.seed)
    } else if theirs.data != identity.data && fingerprint_version(&theirs.data) != fingerprint_version(&identity.data) {
        let other = if fingerprint_version(&theirs.data) < fingerprint_version(&identity.data) {
            "an older"
        } else {
            "a newer"
        };
        return Err(Error::user(format!(
            "cannot resume {}: {other} version of paceline wrote its checkpoints and identified the training samples in \
             another way, so that it cannot be told whether they are the same; finish the run with that version, or begin a \
             new run",
            dir.path().display()
        )));
    } else if theirs.data != identity.data {
        "the training samples (data.name, data.validation or the files themselves)".into()
    } else if theirs.rule != identity.rule {
        format!("the optimizer: the checkpoint has {:?}, this run {:?}", theirs.rule, identity.rule)
    } else if theirs.batch != identity.batch {
        format!("train.batch: the checkpoint has {}, this run {}", theirs.batch, identity.batch)
    } else if before.best.is_some() && before.monitor != monitor {
        // The best checkpoint by the other value is no longer there.
        let (theirs, ours) = (before.monitor.words(), monitor.words());
        format!("train.monitor: the best checkpoint so far is that by {theirs}, not by {ours}")
    } else {
        checkpoint::set_aside_newer(&dir.checkpoints(), found.manifest.progress.step)?;
        notes.push(format!("going on from {}", found.path.display()));
        return Ok(Some(found));
    };
    Err(Error::user(format!(
        "cannot resume {}: it differs in {differs}; drop the settings that changed it, or begin a new run",
        dir.path().display()
    )))
}

/// What becomes of what top-k compression held back on so many ranks, if the run goes on otherwise than it would have unbroken.
fn held_back_note(held: usize, sparse: bool, ranks: usize) -> Option<String> {
    const WHAT: &str = "what strategy.compress = \"top-k\" held back of gradients";
    const DIFFERS: &str = "and differs from an unbroken one";
    match (held, sparse) {
        (0, false) => None,
        (0, true) => Some(format!("{WHAT} is not in this checkpoint: this run goes on without it, {DIFFERS}")),
        (_, false) => Some(format!("{WHAT} is in this checkpoint, but this run has no use for it: it is dropped")),
        (held, true) if held == ranks => None,
        (held, true) => Some(format!(
            "{WHAT} was on {}, and this run has {ranks}: that of rank r goes to rank r modulo {ranks}, so that all of it \
             is kept; this run rounds otherwise, {DIFFERS}",
            text::counted(held, "rank")
        )),
    }
}

/// Opens a run to go on with it, as its one writer.
fn reopen(dir: &Path, patience: Patience, watcher: &dyn Watcher) -> Result<RunDir> {
    RunDir::reopen(dir, patience, &mut |words| watcher.waiting(words))
}

/// Makes the folder that `run.name` names, or `runs/mlp-fashion-sample-3`: the first number that is free.
fn create_auto(resolved: &Resolved) -> Result<RunDir> {
    let config = &resolved.config;
    if let Some(name) = &config.run.name {
        return RunDir::create(config.run.dir.join(name));
    }
    let word = |s: &str| s.chars().map(|c| if c.is_alphanumeric() || c == '-' { c } else { '-' }).collect::<String>();
    let data = config.data.name.rsplit('/').find(|p| !p.is_empty()).unwrap_or("data");
    let stem = format!("{}-{}", word(&resolved.graph.name), word(data));
    RunDir::create_next(&config.run.dir, &stem)
}

/// What a resume with other settings does to the learning rate, if it does anything.
fn rate_note(before: &Config, resolved: &Resolved, from: &Checkpoint) -> Option<String> {
    let (now, step) = (&resolved.config, from.manifest.progress.step);
    let per_epoch = resolved.options.batch.steps_per_epoch(resolved.data.samples()) as u64;
    let (old, new) = (rates(before, per_epoch), &resolved.options.rate);
    let end = (per_epoch * now.train.epochs).max(step + 1);
    // At a handful of steps on the way: schedules that agree there agree.
    if (0..=64).map(|i| step + (end - 1 - step) * i / 64).all(|at| old(at) == new(at)) {
        return None;
    }
    let at = |rate: f64, step: u64| format!("{} at step {step}", number(rate));
    let mut words = format!(
        "the learning rate changes with this resume: {} before, {} now",
        at(old(step.saturating_sub(1)), step.saturating_sub(1)),
        at(new(step), step)
    );
    let epochs = (before.train.epochs, now.train.epochs);
    if now.schedule.name == ScheduleName::Cosine && now.schedule.length == Auto::Auto && epochs.0 != epochs.1 {
        words += &format!(
            ", because cosine comes down over {1} epochs instead of {0}. The result is not that of {1} epochs from the start; \
             schedule.length = {0} keeps the old curve ({2})",
            epochs.0,
            epochs.1,
            at(old(step), step)
        );
    }
    Some(words)
}

/// A rate in few digits: 0.001, 7.5e-4, 2.7e-8.
fn number(rate: f64) -> String {
    if rate == 0.0 || (1e-3..1e4).contains(&rate) {
        format!("{:.4}", rate).trim_end_matches('0').trim_end_matches('.').into()
    } else {
        format!("{rate:.2e}")
    }
}

fn first_summary(
    r: &Resolved,
    dir: &RunDir,
    writer: &StepWriter,
    resumed: bool,
    progress: Progress,
) -> Result<Summary> {
    let (mut epochs, mut started, mut seconds) = (Vec::new(), now(), 0.0);
    if resumed {
        let earlier = read_run(dir.path())?;
        epochs = earlier.epochs.into_iter().filter(|e| e.epoch <= progress.epoch).collect();
        if let Some(s) = earlier.summary {
            (started, seconds) = (s.started, s.seconds_total);
        }
    }
    Ok(Summary {
        name: dir.name(),
        model: r.graph.name.clone(),
        data: r.config.data.name.clone(),
        strategy: if r.config.strategy.plan.is_some() { "plan".into() } else { r.config.strategy.name.to_string() },
        replicas: r.layout.plan.ranks,
        threads: r.layout.threads,
        plan: r.config.strategy.plan.as_ref().map(|p| p.display().to_string()),
        batch: r.layout.batch.samples() as u64,
        epochs_planned: r.config.train.epochs,
        attempt: writer.attempt(),
        monitor: r.options.monitor,
        seconds_total: seconds,
        parameters: r.graph.parameter_count() as u64,
        classes: Some(r.graph.classes as u64),
        validation_samples: r.data.validation_pool().pass as u64,
        test_samples: r.data.test_pool().map_or(0, |pool| pool.pass as u64),
        input: r.data.facts(&r.config),
        arena_bytes: r.schedule.arenas.iter().map(|a| a.len as u64 * 4).max().unwrap_or(0),
        epochs,
        partial: partial(r, &progress),
        reasons: r.reasons.clone(),
        exactness: exactness(r),
        seed: r.config.train.seed,
        started,
        machine: machine::describe(),
        ..Summary::default()
    })
}

/// The epoch that training stands in the middle of.
fn partial(r: &Resolved, progress: &Progress) -> Option<PartialEpoch> {
    let scores = progress.scores;
    (progress.step_in_epoch > 0).then(|| PartialEpoch {
        epoch: progress.epoch + 1,
        steps: progress.step_in_epoch,
        of_steps: r.options.batch.steps_per_epoch(r.data.samples()) as u64,
        samples: scores.count as u64,
        train_loss: scores.loss(),
        train_accuracy: scores.accuracy(),
    })
}

/// Whether the run gives what one worker gives.
fn exactness(r: &Resolved) -> Exactness {
    let spread = r.data.local.as_ref().is_some_and(Local::is_statistical);
    let lossy = r.config.strategy.compression() != Compression::None;
    if spread || lossy { Exactness::Statistical } else { Exactness::Exact }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

struct OneRun<'a> {
    resolved: &'a Resolved,
    dir: &'a RunDir,
    identity: Identity,
    start: Option<&'a Checkpoint>,
    progress: Progress,
    /// The ranks that this process holds.
    local: Range<usize>,
    watcher: &'a dyn Watcher,
    stop: &'a AtomicBool,
    begin: Instant,
    /// Looks at what this process gets of the machine, from here on.
    cores: CpuWatch,
}

/// What a rank's thread gives back.
struct RankEnd {
    outcome: Result<Outcome>,
    times: TimeSplit,
    test: Option<Scores>,
}

impl OneRun<'_> {
    fn feeds(&self) -> Result<Feeds<'_>> {
        let r = self.resolved;
        Feeds::new(&r.config, &r.data, &r.options, &r.schedule, self.local.clone(), &self.progress)
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.resolved.config.strategy.timeout.min(1e9))
    }

    fn shared<'s>(
        &'s self,
        writer: &'s StepWriter,
        crew: &Crew,
        on_epoch: &'s (dyn Fn(&EpochRecord) + Sync),
    ) -> Shared<'s> {
        Shared {
            writer,
            dir: self.dir,
            watcher: self.watcher,
            stop: self.stop,
            connection: crew.client().map(LaunchClient::connection),
            every: self.resolved.config.record.every,
            interval: AtomicU64::new(0),
            interval_reason: Mutex::default(),
            on_epoch,
            ranks: self.resolved.layout.plan.ranks,
            first: self.local.start as u32,
        }
    }

    fn go(
        self,
        crew: &mut Crew,
        summary: Summary,
        writer: StepWriter,
        notes: Vec<String>,
        warnings: Vec<String>,
    ) -> Result<Finished> {
        let r = self.resolved;
        let before = summary.seconds_total;
        self.watcher.started(&Started {
            name: summary.name.clone(),
            dir: self.dir.path().into(),
            title: title(r),
            epochs: r.config.train.epochs,
            epochs_done: self.progress.epoch,
            steps_per_epoch: r.options.batch.steps_per_epoch(r.data.samples()) as u64,
            samples: r.data.samples() as u64,
            reasons: r.reasons.clone(),
            notes: notes.clone(),
            warnings: warnings.clone(),
        });
        self.dir.write_summary(&summary)?;
        let saver = (r.options.checkpoint != CheckpointEvery::Never)
            .then(|| Saver::new(self.dir.checkpoints(), r.config.checkpoint.keep, self.identity.clone()))
            .transpose()?;
        let summary = Mutex::new(summary);
        let lock = || summary.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let last_write = Mutex::new(Instant::now());
        let on_epoch = |record: &EpochRecord| {
            let mut s = lock();
            s.epochs.push(EpochRecord { attempt: writer.attempt(), ..*record });
            s.partial = None; // what a resume began in the middle of is whole now
            drop(s);
            // Small networks have many epochs a second; the summary on disk need not be that fresh.
            let mut last = last_write.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if last.elapsed().as_secs_f64() > 1.0 {
                *last = Instant::now();
                let mut s = lock();
                s.seconds_total = before + self.begin.elapsed().as_secs_f64();
                s.cpu = vec![self.cores.so_far()];
                s.settle();
                let _ = self.dir.write_summary(&s); // the final write reports errors
            }
        };
        let shared = self.shared(&writer, crew, &on_epoch);
        let feeds = self.feeds()?;
        let comms = crew.world()?.ranks_within(self.local.len(), self.timeout())?;
        crew.doing(Doing::Training);
        let ends = self.all_ranks(comms, &shared, saver.as_ref(), &feeds);
        crew.doing(Doing::Ending);
        self.watcher.ended();
        let reason =
            std::mem::take(&mut *shared.interval_reason.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        let mut s = summary.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        s.reasons.extend((!reason.is_empty()).then_some(reason));
        s.warnings.extend(warnings);
        s.warnings.extend(notes);
        s.warnings.extend(crew.told().iter().cloned()); // which launch has shown
        s.stages = feeds.stages();
        drop(feeds); // what still decodes ahead is not needed
        let mut times = vec![self.times(&ends)];
        if ends.iter().all(|e| e.outcome.is_ok()) {
            times = crew.exchange(&times[0])?; // in the order of ranks
        }
        s.split = times.iter().flat_map(|(split, _)| split).copied().collect();
        let shares: Vec<CpuShare> = times.into_iter().map(|(_, share)| share).collect();
        s.cpu = cpu_of_job(&shares, crew.world()?.hosts());
        let written = saver.map(Saver::finish).transpose();
        let recorded = writer.finish();
        let mut outcome = first_outcome(&ends);
        if outcome.is_ok() {
            outcome = written.as_ref().map_or_else(|e| Err(e.clone()), |_| outcome);
        }
        if let (Ok(_), Err(e)) = (&outcome, &recorded) {
            outcome = Err(e.clone());
        }
        s.warnings.extend(recorded.ok().and_then(|w| w.warning()));
        if let Ok(Some(w)) = &written
            && w.replaced > 0
        {
            let words = match w.replaced {
                1 => "1 checkpoint was overtaken by a newer one before it was written".to_string(),
                n => format!("{n} checkpoints were overtaken by newer ones before they were written"),
            };
            s.reasons.push(words);
        }
        s.warnings.extend(written.iter().flatten().filter_map(|w| w.unmarked.clone()));
        let best = outcome.as_ref().ok().and_then(|o| o.progress.best).map(|b| b.step);
        // All processes take part, also if this one could not write what is to be tested.
        let apart = match ends.iter().all(|e| e.outcome.is_ok()) && self.tests_apart() {
            true => self.test_together(crew, best)?,
            false => None,
        };
        if outcome.is_ok() {
            let test = match ends[0].test {
                Some(scores) => Some(scores),
                None if self.tests_apart() => apart,
                None => self.test_best(best)?,
            };
            s.test_accuracy = test.map(|t| t.accuracy());
            s.test_loss = test.map(|t| t.loss());
        }
        s.status = match &outcome {
            Ok(Outcome { ended: Ended::Done, .. }) => paceline_record::Status::Done,
            Ok(_) => paceline_record::Status::Stopped,
            Err(e) => paceline_record::Status::Failed { why: e.message().into() },
        };
        if let Ok(Outcome { ended: Ended::Early, progress }) = &outcome {
            s.reasons.push(format!(
                "stopped after epoch {}: no better {} for {}",
                progress.epoch,
                progress.monitor.words(),
                counted(progress.since_better as usize, "epoch")
            ));
        }
        if let Ok(outcome) = &outcome {
            let limited = outcome.ended == Ended::Done && outcome.progress.epoch < r.options.epochs;
            s.step_limit = limited.then_some(outcome.progress.step);
            s.partial = partial(r, &outcome.progress);
        }
        s.settle();
        s.best_checkpoint = s.best_step.map(|step| format!("checkpoints/step-{step}"));
        s.best_checkpoint = s.best_checkpoint.filter(|path| self.dir.path().join(path).is_dir());
        if r.data.validates_on_test && s.test_accuracy.is_none() {
            (s.test_accuracy, s.test_loss) = s.best().map_or((None, None), |best| (best.val_accuracy, best.val_loss));
        }
        s.seconds_total = before + self.begin.elapsed().as_secs_f64();
        let unfinished = outcome.as_ref().map_or(Progress::default(), |o| o.progress);
        s.seconds_train += unfinished.seconds;
        let examples = s.epochs.iter().fold(unfinished.scores.count, |sum, e| sum + e.examples_per_s * e.seconds);
        if s.seconds_train > 0.0 {
            s.examples_per_s = examples / s.seconds_train;
        }
        s.warnings.extend(r.data.cache_outcomes());
        s.peak_rss_bytes = machine::peak_rss_bytes();
        let saved = self.dir.write_summary(&s);
        let ended = outcome?.ended;
        saved?;
        let checkpoints = (r.options.checkpoint != CheckpointEvery::Never).then(|| self.dir.checkpoints());
        Ok(Finished { dir: self.dir.path().into(), summary: s, checkpoints, ended })
    }

    /// Where the time of this process's ranks went, and what it got of the machine.
    fn times(&self, ends: &[RankEnd]) -> (Vec<TimeSplit>, CpuShare) {
        (ends.iter().map(|e| e.times).collect(), self.cores.share())
    }

    fn all_ranks(
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
                |why: &str| RankEnd { outcome: Err(Error::internal(why)), times: TimeSplit::default(), test: None };
            handles
                .into_iter()
                .map(|h| match h {
                    Ok(handle) => handle.join().unwrap_or_else(|_| gone("a rank panicked")),
                    Err(e) => RankEnd { outcome: Err(e), times: TimeSplit::default(), test: None },
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
        let outcome = make_device(&r.layout, Some(&r.tuning))
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
        RankEnd { outcome, times: observer.total, test }
    }

    fn train_and_test<C: Comm>(
        &self,
        rank: &mut Rank<paceline_kernels::Cpu, C>,
        observer: &mut RankObserver<'_>,
        saver: Option<&Saver>,
        feeds: &Feeds<'_>,
    ) -> Result<(Outcome, Option<Scores>)> {
        let r = self.resolved;
        match self.start {
            Some(checkpoint) => restore(rank, checkpoint, true)?,
            None => initialize(rank, &r.graph, r.options.seed)?,
        }
        let job = Job {
            graph: &r.graph,
            training: feeds.training()?,
            validation: feeds.validation()?,
            options: &r.options,
            saver,
        };
        let outcome = train_rank(rank, &job, self.progress, observer)?;
        // Without checkpoints there is nothing to go back to: the last parameters are tested.
        let test = feeds.test()?.map(|test| evaluate(rank, test, 0, &r.options)).transpose()?;
        Ok((outcome, test))
    }

    /// Whether each process tests the best checkpoint on samples of its own.
    fn tests_apart(&self) -> bool {
        let r = self.resolved;
        r.options.checkpoint != CheckpointEvery::Never
            && !r.data.validates_on_test
            && r.data.test_pool().is_some_and(|pool| pool.own)
    }

    /// Scores of the best checkpoint, which process 0 knows, on the test samples of all processes.
    fn test_together(&self, crew: &mut Crew, best: Option<u64>) -> Result<Option<Scores>> {
        let best = crew.tell(&best)?;
        let scores = crew.exchange(&self.test_best(best)?)?;
        Ok(scores.into_iter().collect::<Option<Vec<Scores>>>().map(|all| all.into_iter().sum()))
    }

    /// Scores of the best checkpoint on the test part that this process has.
    fn test_best(&self, best: Option<u64>) -> Result<Option<Scores>> {
        let r = self.resolved;
        let tested = r.data.test_pool().is_some() && !r.data.validates_on_test;
        let (Some(test), Some(step), true) = (&r.data.set.test, best, tested) else {
            return Ok(None);
        };
        let path = self.dir.checkpoints().join(format!("step-{step}"));
        if !path.exists() {
            return Ok(None);
        }
        let checkpoint = checkpoint::load(&path)?;
        let (size, count) = (r.options.eval_batch, test.len());
        let evaluate_sizes = [size.min(count), count % size].into_iter().filter(|&n| n > 0).collect();
        let batches = Batches { train: Vec::new(), evaluate: evaluate_sizes };
        let device = Cpu::new(CpuOptions { tuning: Some(r.tuning.clone()), ..CpuOptions::default() })?;
        let plan = Plan::data_parallel(1);
        let schedule = Arc::new(lower(&r.graph, &plan, &batches, r.schedule.rule, device.fusions())?);
        let mut rank = Rank::new(device, single(), schedule)?;
        restore(&mut rank, &checkpoint, false)?;
        let pool = Pool { pass: count, own: false };
        let fed = input::evaluation(&r.config, test, pool, &r.options, &rank.schedule, &(0..1), 0..1)?;
        evaluate(&mut rank, fed.input()?, 0, &r.options).map(Some)
    }
}

/// The outcome of rank 0, or the error that was the cause of the others.
fn first_outcome(ends: &[RankEnd]) -> Result<Outcome> {
    match Error::first_cause(ends.iter().filter_map(|e| e.outcome.as_ref().err())) {
        Some(cause) => Err(cause.clone()),
        None => ends[0].outcome.clone(),
    }
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
