//! What is recorded while a run trains: steps and epochs.
//!
//! All of it is `Copy`, so that handing a record to the writer costs the training thread a copy and nothing else.

use paceline_base::TimeSplit;
use paceline_base::number;
use serde::{Deserialize, Serialize};

/// One rank's part of one step, or of several steps in a row when not every step is recorded.
///
/// With `steps > 1` the record stands for the steps `step + 1 - steps ..= step`: loss, accuracy and absolute error are means over all
/// their samples, samples and times are sums, batch and rate are those of the last.
///
/// Over the records of an epoch, of one rank or of all, `Σ loss · samples / Σ samples` is the epoch's training loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepRecord {
    /// The attempt that did it; the writer fills it in.
    pub attempt: u32,
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// The (last) step, counted from 0 over the whole run.
    pub step: u64,
    /// How many steps the record stands for.
    pub steps: u64,
    /// Whose part it is.
    pub rank: u32,
    /// Samples of all ranks, over which loss, accuracy and absolute error are means.
    pub samples: u64,
    /// Samples of these that this rank processed. Older versions wrote none, and that number as `samples`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<u64>,
    /// The global batch of one step.
    pub batch: u64,
    /// Mean loss over the global batch.
    #[serde(with = "number")]
    pub loss: f64,
    /// Share of the global batch that was classified rightly; none where the loss does not count it. (Older versions may have
    /// written NaN.)
    #[serde(with = "number::option", skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Mean distance from the target over the global batch; none where the loss does not count it.
    #[serde(with = "number::option", skip_serializing_if = "Option::is_none")]
    pub absolute_error: Option<f64>,
    /// Learning rate, of the last step where a line stands for several.
    #[serde(with = "number")]
    pub rate: f64,
    /// Samples per second over all ranks.
    #[serde(with = "number")]
    pub examples_per_s: f64,
    /// Where this rank's time went.
    pub split: TimeSplit,
}

impl StepRecord {
    /// Samples that this rank processed.
    pub fn own_samples(&self) -> u64 {
        self.share.unwrap_or(self.samples)
    }
}

impl Default for StepRecord {
    fn default() -> Self {
        Self {
            attempt: 1,
            epoch: 1,
            step: 0,
            steps: 1,
            rank: 0,
            samples: 0,
            share: None,
            batch: 0,
            loss: f64::NAN,
            accuracy: None,
            absolute_error: None,
            rate: f64::NAN,
            examples_per_s: f64::NAN,
            split: TimeSplit::default(),
        }
    }
}

/// One epoch of the whole run, written after its evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EpochRecord {
    /// The attempt that finished it; the writer fills it in.
    pub attempt: u32,
    /// The epoch, counted from 1.
    pub epoch: u64,
    /// How many steps the run had done at its end.
    pub step: u64,
    /// Learning rate at its end.
    #[serde(with = "number")]
    pub rate: f64,
    /// Mean loss over the epoch's training batches.
    #[serde(with = "number")]
    pub train_loss: f64,
    /// Accuracy over the epoch's training batches; none where the loss does not count it.
    #[serde(with = "number::option", skip_serializing_if = "Option::is_none")]
    pub train_accuracy: Option<f64>,
    /// Mean distance from the target over the epoch's training batches; none where the loss does not count it.
    #[serde(with = "number::option", skip_serializing_if = "Option::is_none")]
    pub train_absolute_error: Option<f64>,
    /// Loss on the validation samples, if there are any.
    #[serde(with = "number::option")]
    pub val_loss: Option<f64>,
    /// Accuracy on the validation samples, if there are any and the loss counts it.
    #[serde(with = "number::option", skip_serializing_if = "Option::is_none")]
    pub val_accuracy: Option<f64>,
    /// Mean distance from the target on the validation samples, if there are any and the loss counts it.
    #[serde(with = "number::option", skip_serializing_if = "Option::is_none")]
    pub val_absolute_error: Option<f64>,
    /// Seconds of training alone.
    #[serde(with = "number")]
    pub seconds: f64,
    /// Seconds of evaluation.
    #[serde(with = "number")]
    pub eval_seconds: f64,
    /// Training samples per second over all ranks.
    #[serde(with = "number")]
    pub examples_per_s: f64,
}

impl Default for EpochRecord {
    fn default() -> Self {
        Self {
            attempt: 1,
            epoch: 1,
            step: 0,
            rate: f64::NAN,
            train_loss: f64::NAN,
            train_accuracy: None,
            train_absolute_error: None,
            val_loss: None,
            val_accuracy: None,
            val_absolute_error: None,
            seconds: 0.0,
            eval_seconds: 0.0,
            examples_per_s: f64::NAN,
        }
    }
}
