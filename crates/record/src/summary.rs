//! `summary.json`: the run in one object, rewritten after every epoch and at the end.
//!
//! Fields that a reader does not find take their default, so that summaries written by older versions stay readable.

use paceline_base::stage::StageFigures;
use paceline_base::text::counted;
use paceline_base::{Monitor, TimeSplit, metric, number};
use paceline_system::Machine;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::without::Without;
use crate::{CpuUse, EpochRecord, FORMAT};

/// How a run stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It trains. In a file: it did when it was last heard; [`read_run`](crate::read_run) looks whether it still does.
    #[default]
    Running,
    /// It ended without a word: it was killed, or its machine stopped. No run writes this; readers find it out.
    Interrupted,
    /// All planned epochs are done.
    Done,
    /// It ended early on request or by an early-stopping rule.
    Stopped,
    /// It ended in an error.
    Failed {
        /// The error in words.
        why: String,
    },
}

impl Status {
    /// The word that screens and pages show.
    pub fn name(&self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Interrupted => "interrupted",
            Status::Done => "done",
            Status::Stopped => "stopped",
            Status::Failed { .. } => "failed",
        }
    }
}

/// What kind of work a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// It trained a network.
    #[default]
    Train,
    /// It turned images into shards.
    Prepare,
    /// It studied how fast data can be read.
    Speedtest,
}

/// What a run that prepared data has made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PreparedSummary {
    /// Where the shards are.
    pub destination: String,
    /// Shards in all.
    pub shards: usize,
    /// Of these, shards that an earlier run had finished.
    pub kept: usize,
    /// Records in all shards.
    pub records: u64,
    /// Images that this run handled.
    pub images: u64,
    /// Images that were left out.
    pub skipped: u64,
    /// Bytes of image files read.
    pub bytes_read: u64,
    /// Bytes of records written.
    pub bytes_written: u64,
}

/// Whether the strategy promises the mathematics of one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exactness {
    /// Equal to one worker at the same global batch, to rounding.
    #[default]
    Exact,
    /// Equal only in distribution: asynchronous, lossy or per-replica statistics.
    Statistical,
}

impl Exactness {
    /// The word that is shown.
    pub fn name(self) -> &'static str {
        match self {
            Exactness::Exact => "Exact",
            Exactness::Statistical => "Statistical",
        }
    }

    /// What it promises, and no more.
    pub fn words(self) -> &'static str {
        match self {
            Exactness::Exact => "every step computes what one worker computes from the same parameters, to rounding",
            Exactness::Statistical => "not to rounding what one worker computes",
        }
    }
}

/// How training input was made, for the verdict on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InputFacts {
    /// What samples are stored as: `records`, `raw`, `files` or `memory`.
    pub stored: String,
    /// Where decoded samples were kept: `none`, `memory` or `disk`.
    pub cache: String,
    /// Input threads.
    pub threads: usize,
    /// Cores that the process might use.
    pub cores: usize,
    /// Bytes that all samples take when they are decoded.
    pub decoded_bytes: u64,
    /// Shape of a sample.
    pub shape: Vec<usize>,
}

/// What a training step was predicted to take, and what it took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepTimes {
    /// The cluster file that the prediction was made from.
    pub cluster_file: String,
    /// Seconds of a step as predicted: the mean over an epoch.
    #[serde(with = "number")]
    pub predicted_s: f64,
    /// Where each rank's time of a step was predicted to go.
    pub predicted_split: Vec<TimeSplit>,
    /// Seconds of a step as measured: the mean over the attempt, without evaluation and checkpoints. None before any was done.
    #[serde(with = "number::option", skip_serializing_if = "Option::is_none")]
    pub measured_s: Option<f64>,
    /// Steps that it is the mean of.
    pub steps: u64,
    /// Where each rank's time of a step went.
    pub measured_split: Vec<TimeSplit>,
}

/// An epoch that was begun and not finished: its steps so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartialEpoch {
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// Steps done in it.
    pub steps: u64,
    /// Steps that the whole of it has; 0 if that is not known.
    pub of_steps: u64,
    /// Training samples in these steps.
    pub samples: u64,
    /// Mean loss over them.
    #[serde(with = "number")]
    pub train_loss: f64,
    /// Share of them that was classified rightly; none where the loss does not count it.
    #[serde(with = "number::option", skip_serializing_if = "Option::is_none")]
    pub train_accuracy: Option<f64>,
    /// Mean distance from the target over them; none where the loss does not count it.
    #[serde(with = "number::option", skip_serializing_if = "Option::is_none")]
    pub train_absolute_error: Option<f64>,
}

/// The run in one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, remote = "Self")] // the traits themselves are below: what is written depends on what the loss counts
pub struct Summary {
    /// Format of the file.
    pub format: u32,
    /// What kind of work it did.
    pub work: Work,
    /// Name of the run.
    pub name: String,
    /// Name of the model.
    pub model: String,
    /// Name of the data set.
    pub data: String,
    /// Name of the strategy.
    pub strategy: String,
    /// Number of replicas (ranks).
    pub replicas: usize,
    /// Compute threads per replica.
    pub threads: usize,
    /// The plan, if one was given or found.
    pub plan: Option<String>,
    /// Samples of a step over all replicas.
    pub batch: u64,
    /// Epochs that were asked for.
    pub epochs_planned: u64,
    /// How the run stands.
    pub status: Status,
    /// The last attempt.
    pub attempt: u32,
    /// What decides which epoch is the best.
    pub monitor: Monitor,
    /// Epoch with the best validation result, by `monitor`.
    pub best_epoch: Option<u64>,
    /// Steps done at the end of the best epoch.
    pub best_step: Option<u64>,
    /// The checkpoint of the best epoch, below the run directory: `checkpoints/step-500`. None if it is not on disk.
    pub best_checkpoint: Option<String>,
    /// What the loss counts, where that is not loss and accuracy: `loss`, `absolute error`, `samples`. Empty in runs of
    /// classification, as in all of older versions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
    /// Validation accuracy of the best epoch.
    #[serde(with = "number::option")]
    pub best_val_accuracy: Option<f64>,
    /// Validation absolute error of the best epoch.
    #[serde(with = "number::option", skip_serializing_if = "Option::is_none")]
    pub best_val_absolute_error: Option<f64>,
    /// The lowest validation loss of all epochs; that of the best epoch stands among its figures in `epochs`.
    #[serde(with = "number::option")]
    pub best_val_loss: Option<f64>,
    /// Validation accuracy of the last epoch.
    #[serde(with = "number::option")]
    pub final_val_accuracy: Option<f64>,
    /// Validation absolute error of the last epoch.
    #[serde(with = "number::option", skip_serializing_if = "Option::is_none")]
    pub final_val_absolute_error: Option<f64>,
    /// Validation loss of the last epoch.
    #[serde(with = "number::option")]
    pub final_val_loss: Option<f64>,
    /// Training accuracy of the last whole epoch; of `partial` if there is none.
    #[serde(with = "number::option")]
    pub train_accuracy: Option<f64>,
    /// Training absolute error of the last whole epoch; of `partial` if there is none.
    #[serde(with = "number::option", skip_serializing_if = "Option::is_none")]
    pub train_absolute_error: Option<f64>,
    /// Training loss of the last whole epoch; of `partial` if there is none.
    #[serde(with = "number::option")]
    pub train_loss: Option<f64>,
    /// Accuracy on the test samples, if they were evaluated.
    #[serde(with = "number::option")]
    pub test_accuracy: Option<f64>,
    /// Absolute error on the test samples, if they were evaluated.
    #[serde(with = "number::option", skip_serializing_if = "Option::is_none")]
    pub test_absolute_error: Option<f64>,
    /// Loss on the test samples, if they were evaluated.
    #[serde(with = "number::option")]
    pub test_loss: Option<f64>,
    /// Samples of a validation; 0 if that is not known, as in runs of older versions.
    pub validation_samples: u64,
    /// Samples of a test; 0 if that is not known or there is none.
    pub test_samples: u64,
    /// Wall-clock seconds of the run, all attempts.
    #[serde(with = "number")]
    pub seconds_total: f64,
    /// Seconds of training alone.
    #[serde(with = "number")]
    pub seconds_train: f64,
    /// Training samples per second of training; NaN, in the file `null`, if nothing was trained.
    #[serde(with = "number::known")]
    pub examples_per_s: f64,
    /// Number of trainable parameters.
    pub parameters: u64,
    /// Number of classes, where the task has them; the verdict on chance needs it.
    pub classes: Option<u64>,
    /// Largest resident memory of the process.
    pub peak_rss_bytes: u64,
    /// Size of the planned arena of one rank.
    pub arena_bytes: u64,
    /// Where the time went, per rank.
    pub split: Vec<TimeSplit>,
    /// Where the time went over all ranks, as fractions of 1.
    pub split_fractions: TimeSplit,
    /// What the processes got of their hosts' cores, in the last attempt, those on the same cores together; empty where nobody
    /// looked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpu: Vec<CpuUse>,
    /// What a step was predicted to take, where a cluster file says what the hosts can do, and what it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_times: Option<StepTimes>,
    /// The stages that samples went through on their way in, or images on their way to shards.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageFigures>,
    /// How training input was made, where samples were decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<InputFacts>,
    /// What was prepared, for a run that prepared data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepared: Option<PreparedSummary>,
    /// Every whole epoch.
    pub epochs: Vec<EpochRecord>,
    /// The epoch that the run ended in, if that was not at an epoch's end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<PartialEpoch>,
    /// Steps after which `train.max_steps` ended it, before all epochs were done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_limit: Option<u64>,
    /// Decisions that were taken, in words.
    pub reasons: Vec<String>,
    /// What the user should know.
    pub warnings: Vec<String>,
    /// Whether the run promises the mathematics of one worker.
    pub exactness: Exactness,
    /// The seed of everything random.
    pub seed: u64,
    /// When the first attempt began, in Unix seconds.
    pub started: u64,
    /// Where it ran.
    pub machine: Machine,
}

impl Default for Summary {
    fn default() -> Self {
        Self {
            format: FORMAT,
            work: Work::Train,
            name: String::new(),
            model: String::new(),
            data: String::new(),
            strategy: String::new(),
            replicas: 1,
            threads: 1,
            plan: None,
            batch: 0,
            epochs_planned: 0,
            status: Status::Running,
            attempt: 1,
            monitor: Monitor::default(),
            best_epoch: None,
            best_step: None,
            best_checkpoint: None,
            metrics: Vec::new(),
            best_val_accuracy: None,
            best_val_absolute_error: None,
            best_val_loss: None,
            final_val_accuracy: None,
            final_val_absolute_error: None,
            final_val_loss: None,
            train_accuracy: None,
            train_absolute_error: None,
            train_loss: None,
            test_accuracy: None,
            test_absolute_error: None,
            test_loss: None,
            validation_samples: 0,
            test_samples: 0,
            seconds_total: 0.0,
            seconds_train: 0.0,
            examples_per_s: f64::NAN,
            parameters: 0,
            classes: None,
            peak_rss_bytes: 0,
            arena_bytes: 0,
            split: Vec::new(),
            split_fractions: TimeSplit::default(),
            cpu: Vec::new(),
            step_times: None,
            stages: Vec::new(),
            input: None,
            prepared: None,
            epochs: Vec::new(),
            partial: None,
            step_limit: None,
            reasons: Vec::new(),
            warnings: Vec::new(),
            exactness: Exactness::Exact,
            seed: 0,
            started: 0,
            machine: Machine::default(),
        }
    }
}

impl Serialize for Summary {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        const ACCURACIES: [&str; 4] = ["best_val_accuracy", "final_val_accuracy", "train_accuracy", "test_accuracy"];
        match self.counts_accuracy() {
            true => Summary::serialize(self, to),
            false => Summary::serialize(self, Without { fields: &ACCURACIES, to }),
        }
    }
}

impl<'de> Deserialize<'de> for Summary {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Summary::deserialize(from)
    }
}

impl Summary {
    /// "stopped after 300 steps: train.max_steps", if that ended the run.
    pub fn step_limit_words(&self) -> Option<String> {
        let steps = self.step_limit.map(|steps| counted(steps as usize, "step"))?;
        Some(format!("stopped after {steps}: train.max_steps"))
    }

    /// Whether its loss counts accuracy. Where it does not, no accuracy is written, not even as `null`.
    pub fn counts_accuracy(&self) -> bool {
        self.metrics.is_empty() || self.metrics.iter().any(|name| name == metric::ACCURACY)
    }

    /// Whether its loss counts absolute errors.
    pub fn counts_absolute_error(&self) -> bool {
        self.metrics.iter().any(|name| name == metric::ABSOLUTE_ERROR)
    }

    /// The figures of the best epoch.
    pub fn best(&self) -> Option<&EpochRecord> {
        self.epochs.iter().find(|epoch| Some(epoch.epoch) == self.best_epoch)
    }

    /// Fills in what follows from the epochs and the time splits: best, final and training figures, fractions, training
    /// seconds. The caller sets the rest.
    ///
    /// The best epoch is the first that none is better than by `monitor`; without validation there is none.
    pub fn derive_figures(&mut self) {
        let best = self
            .epochs
            .iter()
            .filter(|epoch| {
                epoch.val_accuracy.is_some_and(|a| !a.is_nan()) || epoch.val_loss.is_some_and(|l| !l.is_nan())
            })
            .reduce(|best, epoch| if better(self.monitor, epoch, best) { epoch } else { best });
        self.best_epoch = best.map(|epoch| epoch.epoch);
        self.best_step = best.map(|epoch| epoch.step);
        self.best_val_absolute_error = best.and_then(|epoch| epoch.val_absolute_error);
        let accuracies = self.epochs.iter().filter_map(|e| e.val_accuracy).filter(|a| !a.is_nan());
        self.best_val_accuracy = accuracies.reduce(f64::max);
        self.best_val_loss = self.epochs.iter().filter_map(|e| e.val_loss).filter(|l| !l.is_nan()).reduce(f64::min);
        if let (Some(partial), true) = (self.partial, self.epochs.is_empty()) {
            (self.train_accuracy, self.train_loss) = (partial.train_accuracy, Some(partial.train_loss));
            self.train_absolute_error = partial.train_absolute_error;
        }
        if let Some(last) = self.epochs.last() {
            self.final_val_accuracy = last.val_accuracy;
            self.final_val_loss = last.val_loss;
            self.final_val_absolute_error = last.val_absolute_error;
            self.train_accuracy = last.train_accuracy;
            self.train_absolute_error = last.train_absolute_error;
            self.train_loss = Some(last.train_loss);
            self.seconds_train = self.epochs.iter().map(|epoch| epoch.seconds).sum();
        }
        self.split_fractions = self.split.iter().copied().sum::<TimeSplit>().fractions();
    }
}

fn better(monitor: Monitor, a: &EpochRecord, b: &EpochRecord) -> bool {
    let scores = |epoch: &EpochRecord| (epoch.val_accuracy.unwrap_or(f64::NAN), epoch.val_loss.unwrap_or(f64::NAN));
    monitor.better(scores(a), scores(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(epoch: u64, val_accuracy: f64, val_loss: f64) -> EpochRecord {
        let (val_accuracy, val_loss) = (Some(val_accuracy), Some(val_loss));
        EpochRecord { epoch, train_loss: 1.5, val_accuracy, val_loss, ..EpochRecord::default() }
    }

    #[test]
    fn the_best_loss_is_the_lowest_of_all_epochs() {
        let epochs = vec![epoch(1, 0.7, 0.4), epoch(2, 0.8, 0.5), epoch(3, 0.75, f64::NAN)];
        let mut summary = Summary { epochs, ..Summary::default() };
        summary.derive_figures();
        assert_eq!((summary.best_val_loss, summary.best().unwrap().val_loss), (Some(0.4), Some(0.5)));
        assert_eq!((summary.best_epoch, summary.best_val_accuracy), (Some(2), Some(0.8)));
    }

    #[test]
    fn a_partial_epoch_tells_the_loss_only_where_no_whole_one_does() {
        let partial = PartialEpoch { epoch: 1, train_loss: 2.5, train_accuracy: Some(0.3), ..PartialEpoch::default() };
        let mut summary = Summary { partial: Some(partial), ..Summary::default() };
        summary.derive_figures();
        assert_eq!((summary.train_loss, summary.train_accuracy), (Some(2.5), Some(0.3)));
        summary.epochs = vec![epoch(1, 0.7, 0.4)];
        summary.derive_figures();
        assert_eq!(summary.train_loss, Some(1.5));
    }
}
