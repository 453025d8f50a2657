//! The training loop of one rank. Every rank runs the same loop and takes the same decisions, because what it decides on is the
//! same on all: loss and counts are summed over the ranks, and wishes come from rank 0 by [control messages](crate::control).

use crate::checkpoint::{self, Saver};
use crate::control::{Agreed, Agreement};
use crate::input::Input;
use crate::metrics::Metrics;
use crate::observer::{EpochEvent, Observer, StepEvent};
use crate::rank::{Batch, Next, Rank};
use crate::state::{Best, Scores, TrainState};
use paceline_base::kernel::StepArgs;
use paceline_base::sample::FeatureKind;
use paceline_base::units::GlobalBatch;
use paceline_base::{Error, Monitor, Result, metric};
use paceline_comm::Comm;
use paceline_graph::Graph;
use paceline_kernels::Device;
use paceline_plan::{PhaseKind, Phases};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// When checkpoints are written, besides the last one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CheckpointEvery {
    /// Not at all.
    Never,
    /// After every epoch.
    Epoch,
    /// After so many steps, and after an epoch that is the best so far.
    Steps(u64),
    /// After so many seconds, and after an epoch that is the best so far.
    Seconds(f64),
}

/// Everything that steers the loop.
#[derive(Clone)]
pub struct TrainOptions {
    /// Seed of initial values, order and dropout.
    pub seed: u64,
    /// Epochs in all.
    pub epochs: u64,
    /// Samples per step over all ranks, by epoch and position; fewer where an epoch ends before. Every rank must get the same.
    pub batch: Arc<dyn Fn(u64, u64) -> GlobalBatch + Send + Sync>,
    /// Samples per evaluation step over all ranks.
    pub eval_batch: usize,
    /// Learning rate by step.
    pub rate: Arc<dyn Fn(u64) -> f64 + Send + Sync>,
    /// What decides which epoch is the best.
    pub monitor: Monitor,
    /// Epochs in which the monitored value does not get better before it ends; 0 is never.
    pub patience: u64,
    /// By how much the monitored value must be better for `patience` to begin again.
    pub min_delta: f64,
    /// End after so many steps; 0 is no limit.
    pub max_steps: u64,
    /// When checkpoints are written.
    pub checkpoint: CheckpointEvery,
}

/// Why training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All epochs (or `max_steps`) are done.
    Done,
    /// The monitored value stopped getting better.
    Early,
    /// It was asked to.
    Stopped,
}

/// How training ended.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Whether it came to its end, and if not, who ended it.
    pub ended: Ended,
    /// Where it stands.
    pub progress: TrainState,
}

/// What is trained, on what, and how.
#[derive(Clone, Copy)]
pub struct TrainJob<'a> {
    /// The model; the rank's schedule was lowered from it.
    pub graph: &'a Graph,
    /// Samples to train on; a pass of a supply is an epoch.
    pub training: Input<'a>,
    /// Samples to validate on; a pass of a supply is the evaluation after an epoch.
    pub validation: Input<'a>,
    /// The same on every rank.
    pub options: &'a TrainOptions,
    /// Lowers steps that were not planned, if there may be such.
    pub phases: Option<&'a Phases<'a>>,
    /// Writes checkpoints; on rank 0 only.
    pub saver: Option<&'a Saver>,
}

/// Trains from `progress` on. Parameters must be in place (initialised or restored).
pub fn train<D: Device, C: Comm>(
    rank: &mut Rank<D, C>,
    job: &TrainJob<'_>,
    progress: TrainState,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    let progress = progress.completed(job.options.monitor, &rank.schedule.metrics)?;
    let mut training = Training {
        rank,
        job,
        observer,
        agreement: Agreement::new(progress.step),
        under_way: VecDeque::with_capacity(2),
        not_finite: None,
        last_checkpoint: Instant::now(),
        saved_at: progress.step,
        paused: 0.0,
        progress,
    };
    let ended = training.run()?;
    Ok(Outcome { ended, progress: training.progress })
}

/// The loop of one rank.
struct Training<'a, D: Device, C: Comm> {
    rank: &'a mut Rank<D, C>,
    job: &'a TrainJob<'a>,
    progress: TrainState,
    observer: &'a mut dyn Observer,
    agreement: Agreement,
    /// Steps whose metrics are not there yet, oldest first.
    under_way: VecDeque<StepEvent>,
    /// The first step whose loss was not finite. Nothing is counted from it on, and nothing saved.
    not_finite: Option<StepEvent>,
    last_checkpoint: Instant,
    /// Steps that the last checkpoint holds.
    saved_at: u64,
    /// Seconds of this epoch's training that went into checkpoints.
    paused: f64,
}

impl<D: Device, C: Comm> Training<'_, D, C> {
    fn run(&mut self) -> Result<Ended> {
        let options = self.job.options;
        let samples = self.job.training.len() as u64;
        while self.progress.epoch < options.epochs {
            let (begin, before) = (Instant::now(), self.progress.seconds);
            self.paused = 0.0;
            let mut due = false;
            while self.progress.position < samples {
                let seconds = |paused: f64| before + begin.elapsed().as_secs_f64() - paused;
                if options.max_steps > 0 && self.progress.step >= options.max_steps {
                    self.settle()?;
                    self.progress.seconds = seconds(self.paused);
                    if options.checkpoint != CheckpointEvery::Never && self.saved_at != self.progress.step {
                        self.save(false)?;
                    }
                    self.rank.drain()?;
                    return Ok(Ended::Done);
                }
                let agreed = self.step()?;
                due = match options.checkpoint {
                    CheckpointEvery::Steps(n) => self.progress.step.is_multiple_of(n),
                    _ => agreed.checkpoint,
                };
                if (due && self.progress.position < samples) || agreed.stop {
                    let pause = Instant::now();
                    self.settle()?;
                    self.progress.seconds = seconds(self.paused);
                    self.save(false)?;
                    self.paused += pause.elapsed().as_secs_f64();
                    if agreed.stop {
                        return Ok(Ended::Stopped);
                    }
                }
            }
            self.settle()?;
            let seconds = before + begin.elapsed().as_secs_f64() - self.paused;
            if self.end_epoch(seconds, due)? {
                return Ok(Ended::Early);
            }
        }
        Ok(Ended::Done)
    }

    /// One step, and what all ranks do after it.
    fn step(&mut self) -> Result<Agreed> {
        let TrainJob { training, options, .. } = *self.job;
        let TrainState { epoch, step, position, .. } = self.progress;
        self.agreement.before_step(self.rank, step, self.not_finite.is_some(), || {
            let mut wish = self.observer.wish();
            if let CheckpointEvery::Seconds(s) = options.checkpoint {
                wish.checkpoint |= self.last_checkpoint.elapsed().as_secs_f64() >= s;
            }
            wish
        })?;
        let start = position as usize;
        let batch_at = |position: u64| {
            let left = training.len() - position as usize;
            (options.batch)(epoch, position).samples().min(left)
        };
        let samples = batch_at(position);
        let rate = (options.rate)(step);
        let phase = self.phase(samples, start)?;
        let next_samples = batch_at(position + samples as u64);
        let at = |row| training.sample(epoch, start + row);
        let at_next = |row| training.sample(epoch, start + samples + row);
        let batch = match training {
            Input::Memory { samples, .. } => {
                let next = self.rank.schedule.phase(PhaseKind::Train, next_samples);
                let next = next.map(|phase| Next { phase, id: step + 1, at: &at_next });
                Batch { id: Some(step), next, ..Batch::new(samples, &at) }
            }
            Input::Supply { supply, len } => Batch::supplied(supply, epoch * len as u64 + position, samples),
        };
        let args = StepArgs { seed: options.seed, step, rate, scale: 1.0 / samples as f64 };
        self.rank.step(phase, &batch, &args)?;
        self.under_way.push_back(StepEvent {
            epoch: epoch + 1,
            step,
            batch: samples,
            share: self.rank.share(phase),
            loss: f64::NAN,
            accuracy: None,
            absolute_error: None,
            rate,
            split: self.rank.take_times(),
        });
        self.progress.step += 1;
        self.progress.position += samples as u64;
        while let Some(metrics) = self.rank.poll_metrics()? {
            self.count(&metrics);
        }
        let agreed = self.agreement.after_step(self.rank)?;
        if agreed.not_finite || self.not_finite.is_some() && self.rank.schedule.ranks == 1 {
            self.settle()?;
        }
        Ok(agreed)
    }

    /// The phase for so many samples from a position on, which is lowered if it was not planned, or if their lists need more room.
    fn phase(&mut self, samples: usize, start: usize) -> Result<usize> {
        let rows = (self.progress.epoch, start, samples);
        phase(self.rank, self.job.phases, PhaseKind::Train, self.job.training, rows)
    }

    /// Takes the metrics of the oldest step that has none.
    fn count(&mut self, metrics: &Metrics) {
        let Some(event) = self.under_way.pop_front() else { return };
        let event = StepEvent {
            loss: metrics.value(metric::LOSS).unwrap_or(f64::NAN),
            accuracy: metrics.value(metric::ACCURACY),
            absolute_error: metrics.value(metric::ABSOLUTE_ERROR),
            ..event
        };
        if self.not_finite.is_none() && event.loss.is_finite() {
            self.progress.scores.add(metrics);
            self.observer.step(&event);
        } else {
            self.not_finite.get_or_insert(event);
        }
    }

    /// Waits for the metrics of all steps so far. Evaluations, checkpoints and the end come after it, so that none of them sees parameters
    /// that are not finite.
    fn settle(&mut self) -> Result<()> {
        while let Some(metrics) = self.rank.wait_metrics()? {
            self.count(&metrics);
        }
        let Some(StepEvent { loss, step, epoch, rate, .. }) = self.not_finite else { return Ok(()) };
        let kept = if self.saved_at > 0 { "; the last good checkpoint is kept" } else { "" };
        let rate = if (1e-4..1e4).contains(&rate) { rate.to_string() } else { format!("{rate:e}") };
        Err(Error::failure(format!(
            "the loss is {loss} at step {step} (epoch {epoch}){kept}; lower optimizer.rate ({rate}), add schedule.warmup, or look at the data"
        )))
    }

    fn save(&mut self, best: bool) -> Result<()> {
        let begin = Instant::now();
        self.observer.before_checkpoint()?;
        checkpoint::save(self.rank, self.job.graph, &self.progress, best, self.job.saver)?;
        self.observer.checkpoint(begin.elapsed().as_secs_f64());
        (self.last_checkpoint, self.saved_at) = (Instant::now(), self.progress.step);
        Ok(())
    }

    /// Evaluates, and saves what is to be saved. True if training ends here before all epochs are done.
    fn end_epoch(&mut self, seconds: f64, due: bool) -> Result<bool> {
        let TrainJob { validation, options, .. } = *self.job;
        let begin = Instant::now();
        self.observer.evaluating();
        let scores = evaluate(self.rank, validation, self.progress.epoch, options, self.job.phases)?;
        let progress = &mut self.progress;
        let train_scores = progress.scores;
        let (monitor, step) = (progress.monitor, progress.step);
        let this = Best { epoch: progress.epoch + 1, step, accuracy: scores.accuracy(), loss: scores.loss() };
        let now = this.scores();
        let best = progress.best.is_none_or(|b| monitor.better(now, b.scores()));
        let improved = progress.reference.is_none_or(|b| monitor.improved(now, b.scores(), options.min_delta));
        *progress = TrainState {
            epoch: progress.epoch + 1,
            position: 0,
            scores: Scores::zero(&self.rank.schedule.metrics),
            seconds: 0.0,
            since_better: progress.since_better + 1,
            ..*progress
        };
        if best {
            progress.best = Some(this);
        }
        if improved {
            progress.reference = Some(this);
            progress.since_better = 0;
        }
        self.observer.epoch(&EpochEvent {
            epoch: progress.epoch,
            step,
            rate: (options.rate)(step.saturating_sub(1)),
            train: train_scores,
            validation: scores,
            seconds,
            eval_seconds: begin.elapsed().as_secs_f64(),
            best,
        });
        let early = options.patience > 0 && progress.since_better >= options.patience;
        let last = early || progress.epoch == options.epochs;
        if options.checkpoint != CheckpointEvery::Never
            && (best || last || due || options.checkpoint == CheckpointEvery::Epoch)
        {
            self.save(best)?;
        }
        Ok(early && self.progress.epoch < options.epochs)
    }
}

/// Scores over a whole set, in order, the last partial batch included. `pass` says which pass of a supply it is; `phases` lowers what was not planned.
pub fn evaluate<D: Device, C: Comm>(
    rank: &mut Rank<D, C>,
    input: Input<'_>,
    pass: u64,
    options: &TrainOptions,
    phases: Option<&Phases<'_>>,
) -> Result<Scores> {
    rank.drain()?;
    let mut scores = Scores::zero(&rank.schedule.metrics);
    let mut start = 0;
    while start < input.len() {
        let count = options.eval_batch.min(input.len() - start);
        let phase = phase(rank, phases, PhaseKind::Evaluate, input, (pass, start, count))?;
        let at = |row| input.sample(pass, start + row);
        let batch = match input {
            Input::Memory { samples, .. } => Batch::new(samples, &at),
            Input::Supply { supply, len } => Batch::supplied(supply, pass * len as u64 + start as u64, count),
        };
        let args = StepArgs { seed: options.seed, step: 0, rate: 0.0, scale: 1.0 / count as f64 };
        rank.step(phase, &batch, &args)?;
        while let Some(metrics) = rank.poll_metrics()? {
            scores.add(&metrics);
        }
        start += count;
    }
    while let Some(metrics) = rank.wait_metrics()? {
        scores.add(&metrics);
    }
    rank.take_times(); // evaluation is timed as a whole
    Ok(scores)
}

/// The phase for a batch: its pass, its first place there and its number of samples. It is lowered if it was not planned, or if the lists of these
/// samples need more room; all ranks find the same, since all can read all samples.
fn phase<D: Device, C: Comm>(
    rank: &mut Rank<D, C>,
    phases: Option<&Phases<'_>>,
    kind: PhaseKind,
    input: Input<'_>,
    (pass, start, samples): (u64, usize, usize),
) -> Result<usize> {
    let planned = rank.schedule.phase(kind, samples);
    if let Some(phases) = phases {
        let lists = match input {
            Input::Memory { samples, .. } if matches!(samples.feature_kind(), FeatureKind::Lists { .. }) => {
                Some(samples)
            }
            _ => None,
        };
        if let Some(all) = lists {
            let length = |row| all.features(input.sample(pass, start + row)).len();
            let entries = |rows: Range<usize>| rows.map(length).sum();
            let lacks = |phase: usize| !rank.schedule.phases[phase].lists_without_room(entries).is_empty();
            if planned.is_none_or(lacks) {
                rank.extend(phases.with_room(kind, samples, entries)?)?;
            }
        } else if planned.is_none() {
            rank.extend(phases.with(kind, samples)?)?;
        }
    }
    let missing = || Error::internal(format!("no {kind:?} step of {samples} samples was planned"));
    rank.schedule.phase(kind, samples).ok_or_else(missing)
}
