//! Where training stands.

use crate::metrics::Metrics;
use paceline_base::{Monitor, metric};
use serde::{Deserialize, Serialize};

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

    /// Adds what a step counted.
    pub(crate) fn add(&mut self, metrics: &Metrics) {
        let sum = |name| metrics.sum(name).unwrap_or(0.0);
        self.loss_sum += sum(metric::LOSS);
        self.correct += sum(metric::ACCURACY);
        self.count += sum(metric::SAMPLES);
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
    /// Samples of the current epoch that are done, over all ranks.
    pub position: u64,
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
    pub(crate) fn completed(mut self, monitor: Monitor) -> Self {
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
    pub(crate) fn scores(&self) -> (f64, f64) {
        (self.accuracy, self.loss)
    }
}
