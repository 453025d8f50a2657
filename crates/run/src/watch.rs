//! How a run tells what happens: to a person (the command line implements [`Watcher`]) and to the run directory.

use paceline_base::{Result, TimeSplit};
use paceline_engine::{Control, EpochEvent, Observer, StepEvent};
use paceline_launch::{Connection, Doing};
use paceline_record::{EpochRecord, Every, RunDir, StepFold, StepRecord, StepWriter, choose_every};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// What a run is about to do.
#[derive(Clone, Debug)]
pub struct Started {
    /// Name of the run.
    pub name: String,
    /// Its directory.
    pub dir: PathBuf,
    /// One line: model, data, strategy.
    pub title: String,
    /// Epochs in all, and done before (on resume).
    pub epochs: u64,
    /// Epochs done before.
    pub epochs_done: u64,
    /// Steps per epoch.
    pub steps_per_epoch: u64,
    /// Samples per epoch.
    pub samples: u64,
    /// Decisions in words.
    pub reasons: Vec<String>,
    /// Things to know.
    pub notes: Vec<String>,
    /// Things to know also for who asked for silence: what was asked for could not be done as it was asked.
    pub warnings: Vec<String>,
}

/// Where a run stands, some ten times a second.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    /// Epoch, from 1.
    pub epoch: u64,
    /// Steps done in all.
    pub steps: u64,
    /// Loss, averaged over the last moment.
    pub loss: f64,
    /// Accuracy, averaged over the last moment; none if the loss does not count it.
    pub accuracy: Option<f64>,
    /// Mean distance from the target, averaged over the last moment; none if the loss does not count it.
    pub absolute_error: Option<f64>,
    /// Samples per second over all ranks.
    pub examples_per_s: f64,
}

/// Is shown a run while it goes. Called from the thread of rank 0.
pub trait Watcher: Sync {
    /// While it cannot begin yet: what it waits for, in words.
    fn waiting(&self, _: &str) {}
    /// All is decided, and the run directory is about to be made: until here nothing would be lost if the program ended.
    /// Called in every process of a run.
    fn begins(&self) {}
    /// Before the first step.
    fn started(&self, _: &Started) {}
    /// Some ten times a second.
    fn live(&self, _: &Live) {}
    /// After every epoch.
    fn epoch(&self, _: &EpochRecord) {}
    /// After the last step.
    fn ended(&self) {}
}

/// A watcher that looks away.
pub struct Silent;

impl Watcher for Silent {}

/// What the observers of all ranks of a run share.
pub(crate) struct Shared<'a> {
    /// Takes the records.
    pub writer: &'a StepWriter,
    /// Where they go; asked, before checkpoints, whether it is still this run's.
    pub dir: &'a RunDir,
    /// The person's view.
    pub watcher: &'a dyn Watcher,
    /// Set to end the run after the current step.
    pub stop: &'a AtomicBool,
    /// Where `launch` sees how far this process came, and asks it to stop.
    pub connection: Option<Connection>,
    /// Recording interval: asked for, or chosen by rank 0 from its first steps.
    pub every: Every,
    /// The chosen interval; 0 until it is.
    pub interval: AtomicU64,
    /// Why.
    pub interval_reason: Mutex<String>,
    /// Called after every epoch, so that a killed run has a summary.
    pub on_epoch: &'a (dyn Fn(&EpochRecord) + Sync),
    /// Number of ranks.
    pub ranks: usize,
    /// The first rank of this process.
    pub first: u32,
}

/// The observer of one rank.
pub(crate) struct RankObserver<'a> {
    shared: &'a Shared<'a>,
    rank: u32,
    fold: StepFold,
    every: u64,
    /// Where this rank's time went in all.
    pub total: TimeSplit,
    /// In the first [`WARM`] steps, in which memory is touched for the first time.
    pub warm_up: TimeSplit,
    since: Instant,
    seen: u64,
    moment: Moment,
}

/// Steps that do not count where a step's usual time is asked for: an update that is left to the next step touches its memory in the second.
pub(crate) const WARM: u64 = 2;

#[derive(Default)]
struct Moment {
    seconds: f64,
    samples: f64,
    loss: f64,
    correct: Option<f64>,
    absolute_error: Option<f64>,
}

/// Steps before the interval is chosen.
const FIRST_STEPS: u64 = 30;
/// Seconds between two looks of the person.
const LOOK: f64 = 0.1;

impl<'a> RankObserver<'a> {
    /// The observer of rank `rank`.
    pub(crate) fn new(shared: &'a Shared<'a>, rank: usize) -> Self {
        let every = match shared.every {
            Every::Steps(n) => n.get(),
            Every::Auto => 1,
        };
        Self {
            shared,
            rank: rank as u32,
            fold: StepFold::new(every),
            every,
            total: TimeSplit::default(),
            warm_up: TimeSplit::default(),
            since: Instant::now(),
            seen: 0,
            moment: Moment::default(),
        }
    }

    fn choose_interval(&mut self, record: &StepRecord) {
        if self.shared.every != Every::Auto {
            return;
        }
        if self.rank == self.shared.first && self.seen == FIRST_STEPS {
            let step = self.since.elapsed().as_secs_f64() / FIRST_STEPS as f64;
            let begin = Instant::now();
            let text = serde_json::to_string(record).unwrap_or_default();
            // Formatting is most of a record's cost; the write and the hand-over are taken as as much again.
            let cost = 2.0 * begin.elapsed().as_secs_f64();
            std::hint::black_box(text.len());
            let interval = choose_every(step, cost, self.shared.ranks);
            self.shared.interval.store(interval.every, Ordering::Relaxed);
            *self.shared.interval_reason.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = interval.reason;
        }
        if self.seen >= FIRST_STEPS && self.every == 1 {
            let chosen = self.shared.interval.load(Ordering::Relaxed);
            if chosen > 1 {
                self.every = chosen;
                self.fold.set_every(chosen);
            }
        }
    }

    fn look(&mut self, event: &StepEvent) {
        let m = &mut self.moment;
        m.seconds += event.split.total();
        m.samples += event.batch as f64;
        m.loss += event.loss * event.batch as f64;
        let add = |sum: Option<f64>, mean: Option<f64>| {
            mean.map(|mean| sum.unwrap_or(0.0) + mean * event.batch as f64) // the same ones are counted in every step
        };
        m.correct = add(m.correct, event.accuracy);
        m.absolute_error = add(m.absolute_error, event.absolute_error);
        if m.seconds >= LOOK {
            self.shared.watcher.live(&Live {
                epoch: event.epoch,
                steps: event.step + 1,
                loss: m.loss / m.samples,
                accuracy: m.correct.map(|sum| sum / m.samples),
                absolute_error: m.absolute_error.map(|sum| sum / m.samples),
                examples_per_s: m.samples / m.seconds,
            });
            *m = Moment::default();
            if self.shared.writer.check().is_err() {
                self.shared.stop.store(true, Ordering::Relaxed); // the error itself comes from `finish`
            }
        }
    }

    /// Hands over what is still folded.
    pub(crate) fn flush(&mut self) {
        if let Some(record) = self.fold.finish() {
            self.shared.writer.push(record);
        }
    }
}

impl Observer for RankObserver<'_> {
    fn step(&mut self, event: &StepEvent) {
        self.total += event.split;
        if self.seen < WARM {
            self.warm_up += event.split;
        }
        self.seen += 1;
        if let (Some(line), true) = (&self.shared.connection, self.rank == self.shared.first) {
            line.step(event.step + 1);
            line.doing(Doing::Training);
        }
        let record = StepRecord {
            epoch: event.epoch,
            step: event.step,
            rank: self.rank,
            samples: event.batch as u64,
            share: Some(event.share as u64),
            batch: event.batch as u64,
            loss: event.loss,
            accuracy: event.accuracy,
            absolute_error: event.absolute_error,
            rate: event.rate,
            examples_per_s: event.batch as f64 / event.split.total(),
            split: event.split,
            ..StepRecord::default()
        };
        if self.seen <= FIRST_STEPS || (self.every == 1 && self.shared.every == Every::Auto) {
            self.choose_interval(&record);
        }
        if let Some(record) = self.fold.add(record) {
            self.shared.writer.push(record);
        }
        if self.rank == 0 {
            self.look(event);
        }
    }

    fn epoch(&mut self, event: &EpochEvent) {
        self.flush();
        if self.rank == 0 {
            let record = EpochRecord {
                epoch: event.epoch,
                step: event.step,
                rate: event.rate,
                train_loss: event.train.loss(),
                train_accuracy: event.train.accuracy(),
                train_absolute_error: event.train.absolute_error(),
                val_loss: Some(event.validation.loss()),
                val_accuracy: event.validation.accuracy(),
                val_absolute_error: event.validation.absolute_error(),
                seconds: event.seconds,
                eval_seconds: event.eval_seconds,
                examples_per_s: event.train.count / event.seconds,
                ..EpochRecord::default()
            };
            self.shared.writer.push_epoch(record); // in the file before the checkpoint that may follow
            self.shared.watcher.epoch(&record);
            (self.shared.on_epoch)(&record);
        }
    }

    fn evaluating(&mut self) {
        if let (Some(line), true) = (&self.shared.connection, self.rank == self.shared.first) {
            line.doing(Doing::Evaluating);
        }
    }

    fn before_checkpoint(&mut self) -> Result<()> {
        self.flush();
        self.shared.writer.flush();
        self.shared.dir.check_lock()?;
        self.shared.writer.check()
    }

    fn checkpoint(&mut self, seconds: f64) {
        self.total.checkpoint += seconds;
    }

    fn wish(&mut self) -> Control {
        let asked = self.shared.connection.as_ref().is_some_and(Connection::is_stopped);
        Control { stop: asked || self.shared.stop.load(Ordering::Relaxed), checkpoint: false }
    }
}
