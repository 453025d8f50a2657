//! Process 0 of a run: it makes or reopens the run directory, tells the others, watches, and writes the summary.

use super::directory::{create_auto, finished_before, write_settings};
use super::ranks::{OneRun, RankEnd, RankTimes, first_outcome};
use super::resume::{find_checkpoint, held_back_note, rate_note};
use super::summary::{first_summary, partial};
use super::{Begun, Finished, Place, Ready, title};
use crate::forecast::{Forecast, add_measured};
use crate::process_group::ProcessGroup;
use crate::watch::{Started, WARM, Watcher};
use paceline_base::text::counted;
use paceline_base::{Error, Result, TimeSplit};
use paceline_config::Config;
use paceline_engine::checkpoint::Saver;
use paceline_engine::{CheckpointEvery, Ended, Outcome, TrainState};
use paceline_launch::Doing;
use paceline_record::{CpuShare, CpuWatch, EpochRecord, RunDir, Status, StepWriter, Summary, cpu_of_job};
use paceline_system::machine;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What process 0 holds of the run that it resumes.
pub(super) struct Held {
    /// Its directory, locked.
    pub dir: Option<RunDir>,
    /// Its configuration before this attempt.
    pub before: Option<Config>,
}

/// The part of process 0: the directory, then training.
pub(super) fn lead(
    group: &mut ProcessGroup,
    config: &Config,
    place: &Place,
    ready: Ready,
    held: Held,
    watcher: &dyn Watcher,
    stop: &AtomicBool,
) -> Result<Finished> {
    let Ready { mut resolved, local, identity, begin, forecast } = ready;
    let (mut notes, mut warnings) = (resolved.data.notes.clone(), Vec::new());
    if let Place::Repeat(recorded, _) = place {
        resolved.reasons.push(format!("layout and kernels as in {}", recorded.dir.display()));
        notes.extend(recorded.differences(&resolved, config, &identity)?);
    }
    let (dir, start) = match place {
        Place::Resume(path) => {
            let dir = held.dir.ok_or_else(|| Error::internal(format!("{} is not locked", path.display())))?;
            let start = find_checkpoint(&dir, &identity, resolved.options.monitor, &mut notes, &mut warnings)?;
            notes.extend(held.before.as_ref().zip(start.as_ref()).and_then(|(b, c)| rate_note(b, &resolved, c)));
            let sparse = resolved.schedule.buckets.iter().any(|bucket| bucket.held_back(0).is_some());
            let held = start.as_ref().map(|c| c.held_back_ranks());
            notes.extend(held.and_then(|held| held_back_note(held, sparse, resolved.layout.plan.ranks)));
            (dir, start)
        }
        Place::New(path) | Place::Repeat(_, Some(path)) => (RunDir::create(path)?, None),
        Place::Auto | Place::Repeat(_, None) => (create_auto(&resolved)?, None),
    };
    notes.extend(dir.lock_note().map(String::from));
    let progress = start.as_ref().map_or(TrainState::default(), |c| c.manifest.progress);
    let resumed = matches!(place, Place::Resume(_));
    if let Some(finished) = finished_before(&dir, &resolved.options, progress, resumed)? {
        group.tell(&Begun { dir: dir.path().into(), attempt: 0, from: None, finished: true })?;
        return Ok(finished);
    }
    write_settings(&resolved, &dir)?;
    resolved.reasons.push(crate::repeat::words(config, &resolved, dir.path()));
    tracing::info!("run directory {}, from step {}", dir.path().display(), progress.step);
    // Last, so that a run killed before this point is either an empty folder or one that can be resumed.
    let writer = if resumed { dir.resume_steps(progress.step)? } else { dir.begin_steps()? };
    if let Some(client) = group.client() {
        client.run_dir(dir.path());
    }
    let path = std::path::absolute(dir.path()).map_err(|e| Error::io("find", dir.path(), &e))?;
    let from = start.as_ref().map(|c| path.join(c.path.strip_prefix(dir.path()).unwrap_or(&c.path)));
    group.tell(&Begun { dir: path, attempt: writer.attempt(), from, finished: false })?;
    let mut summary = first_summary(&resolved, &dir, &writer, resumed, progress)?;
    summary.step_times = forecast.as_ref().map(Forecast::step_times);
    let start = start.as_ref();
    let cores = CpuWatch::start();
    let run = OneRun { resolved: &resolved, dir: &dir, identity, start, progress, local, watcher, stop, begin, cores };
    run.lead(group, summary, writer, notes, warnings)
}

impl OneRun<'_> {
    /// Trains, tests, and keeps the summary up to date until its last line is written.
    fn lead(
        self,
        group: &mut ProcessGroup,
        summary: Summary,
        writer: StepWriter,
        notes: Vec<String>,
        warnings: Vec<String>,
    ) -> Result<Finished> {
        let checkpoint = self.resolved.options.checkpoint != CheckpointEvery::Never;
        let before = summary.seconds_total;
        self.announce(&summary, &notes, &warnings);
        self.dir.write_summary(&summary)?;
        let keep = self.resolved.config.checkpoint.keep;
        let saver = checkpoint.then(|| Saver::new(self.dir.checkpoints(), keep, self.identity.clone())).transpose()?;
        let living = LivingSummary { summary: Mutex::new(summary), written: Mutex::new(Instant::now()), before };
        let on_epoch = |record: &EpochRecord| {
            self.add_epoch(&living, EpochRecord { attempt: writer.attempt(), ..*record });
        };
        let shared = self.shared(&writer, group, &on_epoch);
        let feeds = self.feeds()?;
        let comms = group.world()?.ranks_within(self.local.len(), self.timeout())?;
        group.doing(Doing::Training);
        let ends = self.all_ranks(comms, &shared, saver.as_ref(), &feeds);
        group.doing(Doing::Ending);
        self.watcher.ended();
        let reason = std::mem::take(&mut *lock(&shared.interval_reason));
        let mut summary = living.summary.into_inner().unwrap_or_else(PoisonError::into_inner);
        summary.reasons.extend((!reason.is_empty()).then_some(reason));
        summary.warnings.extend(warnings);
        summary.warnings.extend(notes);
        summary.warnings.extend(group.told().iter().cloned()); // which launch has shown
        summary.stages = feeds.stages();
        drop(feeds); // what still decodes ahead is not needed
        let times = self.gather_times(group, &ends, &mut summary)?;
        let outcome = finish_writing(first_outcome(&ends), saver, writer, &mut summary);
        self.test(group, &ends, &outcome, &mut summary)?;
        self.add_outcome(&outcome, &mut summary);
        self.add_totals(&outcome, before, &mut summary);
        self.add_step_times(&outcome, &times, &mut summary);
        let saved = self.dir.write_summary(&summary);
        let ended = outcome?.ended;
        saved?;
        let checkpoints = checkpoint.then(|| self.dir.checkpoints());
        Ok(Finished { dir: self.dir.path().into(), summary, checkpoints, ended })
    }

    /// Tells the watcher what begins.
    fn announce(&self, summary: &Summary, notes: &[String], warnings: &[String]) {
        let r = self.resolved;
        self.watcher.started(&Started {
            name: summary.name.clone(),
            dir: self.dir.path().into(),
            title: title(r),
            epochs: r.config.train.epochs,
            epochs_done: self.progress.epoch,
            steps_per_epoch: r.layout.batch.steps_per_epoch(r.data.samples()) as u64,
            samples: r.data.samples() as u64,
            reasons: r.reasons.clone(),
            notes: notes.to_vec(),
            warnings: warnings.to_vec(),
        });
    }

    /// An epoch has ended: it is in the summary, and once a second also in the file.
    fn add_epoch(&self, living: &LivingSummary, record: EpochRecord) {
        let mut s = lock(&living.summary);
        s.epochs.push(record);
        s.partial = None; // what a resume began in the middle of is whole now
        drop(s);
        // Small networks have many epochs a second; the summary on disk need not be that fresh.
        let mut written = lock(&living.written);
        if written.elapsed().as_secs_f64() > 1.0 {
            *written = Instant::now();
            let mut s = lock(&living.summary);
            s.seconds_total = living.before + self.begin.elapsed().as_secs_f64();
            s.cpu = vec![self.cores.so_far()];
            s.derive_figures();
            let _ = self.dir.write_summary(&s); // the final write reports errors
        }
    }

    /// Where the time of all ranks went, and what all processes had of the cores; if a rank failed, of this process alone.
    fn gather_times(&self, group: &mut ProcessGroup, ends: &[RankEnd], s: &mut Summary) -> Result<Vec<RankTimes>> {
        let mut times = vec![self.times(ends)];
        if ends.iter().all(|e| e.outcome.is_ok()) {
            times = group.exchange(&times[0])?; // in the order of ranks
        }
        let ranks: Vec<RankTimes> = times.iter().flat_map(|(ranks, _)| ranks).copied().collect();
        s.split = ranks.iter().map(|times| times.all).collect();
        let shares: Vec<CpuShare> = times.into_iter().map(|(_, share)| share).collect();
        s.cpu = cpu_of_job(&shares, group.world()?.hosts());
        Ok(ranks)
    }

    /// The scores on the test part, of the best epoch if there is one.
    fn test(
        &self,
        group: &mut ProcessGroup,
        ends: &[RankEnd],
        outcome: &Result<Outcome>,
        s: &mut Summary,
    ) -> Result<()> {
        let best = outcome.as_ref().ok().and_then(|o| o.progress.best).map(|b| b.step);
        // All processes take part, also if this one could not write what is to be tested.
        let apart = match ends.iter().all(|e| e.outcome.is_ok()) && self.tests_apart() {
            true => self.test_together(group, best)?,
            false => None,
        };
        if outcome.is_ok() {
            let test = match ends[0].test {
                Some(scores) => Some(scores),
                None if self.tests_apart() => apart,
                None => self.test_best(best)?,
            };
            s.test_accuracy = test.and_then(|t| t.accuracy());
            s.test_absolute_error = test.and_then(|t| t.absolute_error());
            s.test_loss = test.map(|t| t.loss());
        }
        Ok(())
    }

    /// How it ended, and why it did not go on.
    fn add_outcome(&self, outcome: &Result<Outcome>, s: &mut Summary) {
        s.status = match outcome {
            Ok(Outcome { ended: Ended::Done, .. }) => Status::Done,
            Ok(_) => Status::Stopped,
            Err(e) => Status::Failed { why: e.message().into() },
        };
        if let Ok(Outcome { ended: Ended::Early, progress }) = outcome {
            s.reasons.push(format!(
                "stopped after epoch {}: no better {} for {}",
                progress.epoch,
                progress.monitor.words(),
                counted(progress.since_better as usize, "epoch")
            ));
        }
        if let Ok(outcome) = outcome {
            let limited = outcome.ended == Ended::Done && outcome.progress.epoch < self.resolved.options.epochs;
            s.step_limit = limited.then_some(outcome.progress.step);
            s.partial = partial(self.resolved, &outcome.progress);
        }
    }

    /// The figures of the whole run; `before`: seconds of earlier attempts.
    fn add_totals(&self, outcome: &Result<Outcome>, before: f64, s: &mut Summary) {
        let data = &self.resolved.data;
        s.derive_figures();
        s.best_checkpoint = s.best_step.map(|step| format!("checkpoints/step-{step}"));
        s.best_checkpoint = s.best_checkpoint.take().filter(|path| self.dir.path().join(path).is_dir());
        if data.validates_on_test && s.test_loss.is_none() {
            let best = s.best().copied();
            s.test_loss = best.and_then(|best| best.val_loss);
            s.test_accuracy = best.and_then(|best| best.val_accuracy);
            s.test_absolute_error = best.and_then(|best| best.val_absolute_error);
        }
        s.seconds_total = before + self.begin.elapsed().as_secs_f64();
        let unfinished = outcome.as_ref().map_or(TrainState::default(), |o| o.progress);
        s.seconds_train += unfinished.seconds;
        let examples = s.epochs.iter().fold(unfinished.scores.count, |sum, e| sum + e.examples_per_s * e.seconds);
        if s.seconds_train > 0.0 {
            s.examples_per_s = examples / s.seconds_train;
        }
        s.warnings.extend(data.cache_outcomes());
        s.peak_rss_bytes = machine::peak_rss_bytes();
    }
}

impl OneRun<'_> {
    /// What a step took, beside what it was predicted to take. The first steps of an attempt do not count.
    fn add_step_times(&self, outcome: &Result<Outcome>, ranks: &[RankTimes], s: &mut Summary) {
        let (Ok(outcome), Some(times), Some(first)) = (outcome, &mut s.step_times, ranks.first()) else { return };
        let own = s.epochs.iter().filter(|e| e.attempt == s.attempt);
        let seconds = own.map(|e| e.seconds).sum::<f64>() + outcome.progress.seconds - self.progress.seconds;
        let steps = outcome.progress.step.saturating_sub(self.progress.step).saturating_sub(WARM);
        let splits: Vec<TimeSplit> = ranks.iter().map(|rank| rank.all - rank.warm_up).collect();
        add_measured(times, seconds - first.warm_up.total(), steps, &splits);
    }
}

/// The summary while ranks train, and when it was last written.
struct LivingSummary {
    summary: Mutex<Summary>,
    written: Mutex<Instant>,
    /// Seconds of earlier attempts.
    before: f64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the threads that write checkpoints and steps. What they could not write is the outcome, if training had a better one.
fn finish_writing(
    mut outcome: Result<Outcome>,
    saver: Option<Saver>,
    writer: StepWriter,
    s: &mut Summary,
) -> Result<Outcome> {
    let written = saver.map(Saver::finish).transpose();
    let recorded = writer.finish();
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
    outcome
}
