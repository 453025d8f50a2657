//! The training loop of one rank. Every rank runs the same loop and takes the same decisions, because what it decides on is the
//! same on all: loss and counts are summed over the ranks, and wishes come from rank 0 by [control messages](crate::control).

use crate::checkpoint::{self, Saver};
use crate::control::{Agreement, Control};
use crate::rank::{Batch, Next, Rank, StepResult};
use paceline_base::kernel::StepArgs;
use paceline_base::units::GlobalBatch;
use paceline_base::{Error, Monitor, Result, TimeSplit};
use paceline_comm::Comm;
use paceline_data::{Samples, Supply, Visits};
use paceline_graph::Graph;
use paceline_kernels::Device;
use paceline_plan::PhaseKind;
use serde::{Deserialize, Serialize};
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
    /// Samples per step over all ranks.
    pub batch: GlobalBatch,
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

/// Loss and accuracy over some samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Sum of losses.
    pub loss_sum: f64,
    /// Samples classified rightly.
    pub correct: f64,
    /// Samples that were counted, over all ranks.
    pub count: f64,
}

impl Scores {
    /// Mean loss of a sample; NaN without samples.
    pub fn loss(&self) -> f64 {
        self.loss_sum / self.count
    }

    /// Share classified rightly.
    pub fn accuracy(&self) -> f64 {
        self.correct / self.count
    }

    fn add(&mut self, r: &StepResult) {
        self.loss_sum += r.loss;
        self.correct += r.correct;
        self.count += r.count;
    }
}

impl std::iter::Sum for Scores {
    fn sum<I: Iterator<Item = Self>>(scores: I) -> Self {
        scores.fold(Self::default(), |a, b| Self {
            loss_sum: a.loss_sum + b.loss_sum,
            correct: a.correct + b.correct,
            count: a.count + b.count,
        })
    }
}

/// Where training stands: what a checkpoint keeps besides tensors, so that a resume is exact also in mid-epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainState {
    /// Epochs that are completed, with their evaluation.
    pub epoch: u64,
    /// Steps done in the current epoch.
    pub step_in_epoch: u64,
    /// Steps done in all.
    pub step: u64,
    /// Scores of the current epoch so far.
    pub scores: Scores,
    /// Seconds of training in the current epoch so far.
    pub seconds: f64,
    /// The best epoch so far; none before the first evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<Best>,
    /// What decided which epoch is the best. Checkpoints of older versions do not say; for them it was accuracy.
    #[serde(default)]
    pub monitor: Monitor,
    /// The epoch that early stopping counts from: the last one that was better by `min_delta`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Best>,
    /// Epochs since then. (Older versions counted from the lowest loss.)
    #[serde(rename = "since_lowest")]
    pub since_better: u64,
}

impl TrainState {
    /// Ready to go on: what older versions did not keep is made from what they did.
    fn completed(mut self, monitor: Monitor) -> Self {
        match (self.best, self.reference) {
            (None, _) => self.monitor = monitor,
            (Some(best), None) => {
                self.reference = Some(best);
                self.since_better = self.epoch.saturating_sub(best.epoch);
            }
            _ => {}
        }
        self
    }
}

/// An epoch and its validation results: the best one, or the one that early stopping counts from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Epoch, from 1.
    pub epoch: u64,
    /// Steps done at its end.
    pub step: u64,
    /// Validation accuracy.
    pub accuracy: f64,
    /// Validation loss.
    pub loss: f64,
}

impl Best {
    fn scores(&self) -> (f64, f64) {
        (self.accuracy, self.loss)
    }
}

/// One step, as a rank's observer sees it.
#[derive(Clone, Copy, Debug)]
pub struct StepEvent {
    /// Epoch, from 1.
    pub epoch: u64,
    /// Step, from 0 over the whole run.
    pub step: u64,
    /// Samples of the global batch.
    pub batch: usize,
    /// Samples of this rank.
    pub share: usize,
    /// Mean loss over the global batch.
    pub loss: f64,
    /// Accuracy over the global batch.
    pub accuracy: f64,
    /// Learning rate of this step.
    pub rate: f64,
    /// Where this rank's time went.
    pub split: TimeSplit,
}

/// One epoch, as a rank's observer sees it.
#[derive(Clone, Copy, Debug)]
pub struct EpochEvent {
    /// Epoch, from 1.
    pub epoch: u64,
    /// Steps done in all.
    pub step: u64,
    /// Learning rate of its last step.
    pub rate: f64,
    /// Training scores, over its batches as they were trained.
    pub train: Scores,
    /// Validation scores.
    pub validation: Scores,
    /// Seconds of training.
    pub seconds: f64,
    /// Seconds of evaluation.
    pub eval_seconds: f64,
    /// True if it is the best so far.
    pub best: bool,
}

/// Is told what happens on one rank, and may wish (on rank 0).
pub trait Observer {
    /// After every step. Must not allocate.
    fn step(&mut self, event: &StepEvent);

    /// After every epoch.
    fn epoch(&mut self, event: &EpochEvent);

    /// Before an evaluation, which may take long and has no steps.
    fn evaluating(&mut self) {}

    /// Before a checkpoint. What it was told of earlier steps must be where a killed process does not lose it when this
    /// returns: these steps will not be done again.
    fn before_checkpoint(&mut self) -> Result<()> {
        Ok(())
    }

    /// Time spent on a checkpoint outside steps.
    fn checkpoint(&mut self, seconds: f64);

    /// Now and then, before a step: what rank 0 wishes. Wishes of other ranks are not asked for.
    fn wish(&mut self) -> Control;
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

/// Samples to train or to evaluate on.
#[derive(Clone, Copy)]
pub enum Input<'a> {
    /// Decoded and in memory, read at random.
    Memory {
        /// All samples of the set.
        samples: &'a dyn Samples,
        /// Which of them stands where.
        visits: &'a Visits,
    },
    /// Decoded ahead by others, pass after pass.
    Supply {
        /// Whoever decodes them; asked by position.
        supply: &'a dyn Supply,
        /// Samples of one pass, over all ranks.
        len: usize,
    },
}

impl Input<'_> {
    /// Samples of one pass, over all ranks.
    pub fn len(&self) -> usize {
        match self {
            Self::Memory { visits, .. } => visits.len(),
            Self::Supply { len, .. } => *len,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sample at a place of a pass; a supply is not asked, because it knows itself.
    fn sample(&self, pass: u64, place: usize) -> usize {
        match self {
            Self::Memory { visits, .. } => visits.at(pass, place as u64).1,
            Self::Supply { .. } => place,
        }
    }
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
    /// Writes checkpoints; on rank 0 only.
    pub saver: Option<&'a Saver>,
}

/// Trains from `progress` on. Parameters must be in place (initialised or restored).
pub fn train<D: Device, C: Comm>(
    rank: &mut Rank<D, C>,
    job: &TrainJob<'_>,
    mut progress: TrainState,
    observer: &mut dyn Observer,
) -> Result<Outcome> {
    let TrainJob { training, validation, options, .. } = *job;
    progress = progress.completed(options.monitor);
    let steps_per_epoch = options.batch.steps_per_epoch(training.len()) as u64;
    let mut agreement = Agreement::new(progress.step);
    let mut last_checkpoint = Instant::now();
    let mut saved_at = progress.step;
    let save = |rank: &mut Rank<D, C>, progress: &TrainState, best: bool, observer: &mut dyn Observer| -> Result<()> {
        let begin = Instant::now();
        observer.before_checkpoint()?;
        checkpoint::save(rank, job.graph, progress, best, job.saver)?;
        observer.checkpoint(begin.elapsed().as_secs_f64());
        Ok(())
    };
    while progress.epoch < options.epochs {
        let begin = Instant::now();
        let (before, mut paused) = (progress.seconds, 0.0);
        let mut due = false;
        while progress.step_in_epoch < steps_per_epoch {
            if options.max_steps > 0 && progress.step >= options.max_steps {
                progress.seconds = before + begin.elapsed().as_secs_f64() - paused;
                if options.checkpoint != CheckpointEvery::Never && saved_at != progress.step {
                    save(rank, &progress, false, observer)?;
                }
                rank.drain()?;
                return Ok(Outcome { ended: Ended::Done, progress });
            }
            let agreed = agreement.before_step(rank, progress.step, || {
                let mut wish = observer.wish();
                if let CheckpointEvery::Seconds(s) = options.checkpoint {
                    wish.checkpoint |= last_checkpoint.elapsed().as_secs_f64() >= s;
                }
                wish
            })?;
            let index = progress.step_in_epoch as usize;
            let samples = options.batch.at(index, training.len());
            let rate = (options.rate)(progress.step);
            let phase = phase(rank, PhaseKind::Train, samples)?;
            let start = index * options.batch.samples();
            let epoch = progress.epoch;
            let next_samples = options.batch.at(index + 1, training.len());
            let at = |row| training.sample(epoch, start + row);
            let at_next = |row| training.sample(epoch, start + samples + row);
            let batch = match training {
                Input::Memory { samples, .. } => {
                    let next = match next_samples {
                        0 => None,
                        n => {
                            let phase = self::phase(rank, PhaseKind::Train, n)?;
                            Some(Next { phase, id: progress.step + 1, at: &at_next })
                        }
                    };
                    Batch { id: Some(progress.step), next, ..Batch::new(samples, &at) }
                }
                Input::Supply { supply, len } => Batch::supplied(supply, epoch * len as u64 + start as u64, samples),
            };
            let args = StepArgs { seed: options.seed, step: progress.step, rate, scale: 1.0 / samples as f64 };
            let result = rank.step(phase, &batch, &args)?;
            let (loss, accuracy) = (result.loss / result.count, result.correct / result.count);
            if !loss.is_finite() {
                let kept = if saved_at > 0 { "; the last good checkpoint is kept" } else { "" };
                return Err(Error::failure(format!(
                    "the loss is {loss} at step {} (epoch {}){kept}; lower optimizer.rate ({}), add schedule.warmup, or look at the data",
                    progress.step,
                    progress.epoch + 1,
                    if (1e-4..1e4).contains(&rate) { rate.to_string() } else { format!("{rate:e}") }
                )));
            }
            progress.scores.add(&result);
            observer.step(&StepEvent {
                epoch: progress.epoch + 1,
                step: progress.step,
                batch: samples,
                share: rank.share(phase),
                loss,
                accuracy,
                rate,
                split: rank.take_times(),
            });
            progress.step += 1;
            progress.step_in_epoch += 1;
            due = match options.checkpoint {
                CheckpointEvery::Steps(n) => progress.step.is_multiple_of(n),
                _ => agreed.checkpoint,
            };
            if (due && progress.step_in_epoch < steps_per_epoch) || agreed.stop {
                let pause = Instant::now();
                progress.seconds = before + begin.elapsed().as_secs_f64() - paused;
                save(rank, &progress, false, observer)?;
                (last_checkpoint, saved_at) = (Instant::now(), progress.step);
                paused += pause.elapsed().as_secs_f64();
                if agreed.stop {
                    return Ok(Outcome { ended: Ended::Stopped, progress });
                }
            }
        }
        let seconds = before + begin.elapsed().as_secs_f64() - paused;
        let begin = Instant::now();
        observer.evaluating();
        let scores = evaluate(rank, validation, progress.epoch, options)?;
        let train_scores = progress.scores;
        let (monitor, now) = (progress.monitor, (scores.accuracy(), scores.loss()));
        let best = progress.best.is_none_or(|b| monitor.better(now, b.scores()));
        let improved = progress.reference.is_none_or(|b| monitor.improved(now, b.scores(), options.min_delta));
        let step = progress.step;
        progress = TrainState {
            epoch: progress.epoch + 1,
            step_in_epoch: 0,
            scores: Scores::default(),
            seconds: 0.0,
            since_better: progress.since_better + 1,
            ..progress
        };
        let this = Best { epoch: progress.epoch, step, accuracy: now.0, loss: now.1 };
        if best {
            progress.best = Some(this);
        }
        if improved {
            progress.reference = Some(this);
            progress.since_better = 0;
        }
        observer.epoch(&EpochEvent {
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
            save(rank, &progress, best, observer)?;
            (last_checkpoint, saved_at) = (Instant::now(), progress.step);
        }
        if early && progress.epoch < options.epochs {
            return Ok(Outcome { ended: Ended::Early, progress });
        }
    }
    Ok(Outcome { ended: Ended::Done, progress })
}

/// Scores over a whole set, in order, the last partial batch included. `pass` says which pass of a supply it is.
pub fn evaluate<D: Device, C: Comm>(
    rank: &mut Rank<D, C>,
    input: Input<'_>,
    pass: u64,
    options: &TrainOptions,
) -> Result<Scores> {
    rank.drain()?;
    let mut scores = Scores::default();
    let mut start = 0;
    while start < input.len() {
        let count = options.eval_batch.min(input.len() - start);
        let phase = phase(rank, PhaseKind::Evaluate, count)?;
        let at = |row| input.sample(pass, start + row);
        let batch = match input {
            Input::Memory { samples, .. } => Batch::new(samples, &at),
            Input::Supply { supply, len } => Batch::supplied(supply, pass * len as u64 + start as u64, count),
        };
        let args = StepArgs { seed: options.seed, step: 0, rate: 0.0, scale: 1.0 / count as f64 };
        scores.add(&rank.step(phase, &batch, &args)?);
        start += count;
    }
    rank.take_times(); // evaluation is timed as a whole
    Ok(scores)
}

fn phase<D: Device, C: Comm>(rank: &Rank<D, C>, kind: PhaseKind, samples: usize) -> Result<usize> {
    rank.schedule
        .phase(kind, samples)
        .ok_or_else(|| Error::internal(format!("no {kind:?} step of {samples} samples was planned")))
}
