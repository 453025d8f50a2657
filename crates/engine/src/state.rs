//! Where training stands.

use crate::metrics::Metrics;
use paceline_base::metric::{self, Metric};
use paceline_base::{Error, Monitor, Result};
use serde::{Deserialize, Serialize};

/// What a loss counts over some samples. Sums that it does not count are none, and stay none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Sum of losses.
    pub loss_sum: f64,
    /// Samples classified rightly, where targets are classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correct: Option<f64>,
    /// Samples that were counted, over all ranks.
    pub count: f64,
    /// Sum of distances from the target, where targets are numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absolute_error_sum: Option<f64>,
}

impl Scores {
    /// No samples yet, of a loss that counts these.
    pub(crate) fn zero(counted: &[Metric]) -> Self {
        let zero = |name| counted.iter().any(|metric| metric.name == name).then_some(0.0);
        Self {
            loss_sum: 0.0,
            correct: zero(metric::ACCURACY),
            count: 0.0,
            absolute_error_sum: zero(metric::ABSOLUTE_ERROR),
        }
    }

    /// Mean loss of a sample; NaN without samples.
    pub fn loss(&self) -> f64 {
        self.loss_sum / self.count
    }

    /// Share classified rightly; NaN without samples, none if the loss does not count it.
    pub fn accuracy(&self) -> Option<f64> {
        self.correct.map(|sum| sum / self.count)
    }

    /// Mean distance from the target; NaN without samples, none if the loss does not count it.
    pub fn absolute_error(&self) -> Option<f64> {
        self.absolute_error_sum.map(|sum| sum / self.count)
    }

    /// Adds what a step counted.
    pub(crate) fn add(&mut self, metrics: &Metrics) {
        let sum = |name| metrics.sum(name).unwrap_or(0.0);
        self.loss_sum += sum(metric::LOSS);
        self.correct = self.correct.map(|so_far| so_far + sum(metric::ACCURACY));
        self.count += sum(metric::SAMPLES);
        self.absolute_error_sum = self.absolute_error_sum.map(|so_far| so_far + sum(metric::ABSOLUTE_ERROR));
    }
}

impl std::iter::Sum for Scores {
    /// Of several parts of one set; what one of them does not count, the sum does not either.
    fn sum<I: Iterator<Item = Self>>(scores: I) -> Self {
        let both = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
        let sum = scores.reduce(|a, b| Self {
            loss_sum: a.loss_sum + b.loss_sum,
            correct: both(a.correct, b.correct),
            count: a.count + b.count,
            absolute_error_sum: both(a.absolute_error_sum, b.absolute_error_sum),
        });
        sum.unwrap_or_default()
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
    /// Ready to go on with a loss that counts these: what older versions did not keep is made from what they did.
    ///
    /// # Errors
    /// If the loss does not count what decides which epoch is the best.
    pub(crate) fn completed(mut self, monitor: Monitor, counted: &[Metric]) -> Result<Self> {
        match (self.best, self.reference) {
            (None, _) => self.monitor = monitor,
            (Some(best), None) => {
                self.reference = Some(best);
                self.since_better = self.epoch.saturating_sub(best.epoch);
            }
            _ => {}
        }
        if !counted.iter().any(|metric| metric.name == self.monitor.metric()) {
            let (asked, metric) = (self.monitor, self.monitor.metric());
            return Err(Error::user(format!(
                "the monitor of the training options is {}, but the loss counts no {metric}; give {}",
                asked.name(),
                Monitor::ValLoss.name()
            )));
        }
        if self.scores.count == 0.0 {
            self.scores = Scores::zero(counted);
        }
        Ok(self)
    }
}

/// An epoch and its validation results: the best one, or the one that early stopping counts from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Epoch, from 1.
    pub epoch: u64,
    /// Steps done at its end.
    pub step: u64,
    /// Validation accuracy; none if the loss does not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Validation loss.
    pub loss: f64,
}

impl Best {
    /// As [`Monitor`] compares them.
    pub(crate) fn scores(&self) -> (f64, f64) {
        (self.accuracy.unwrap_or(f64::NAN), self.loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_base::metric::Reduction;

    /// `[progress]` of a manifest as it was written before losses said what they count.
    const OLD: &str = r#"epoch = 1
position = 160
step = 11
seconds = 0.25
monitor = "val-accuracy"
since_lowest = 0

[scores]
loss_sum = 191.95890045166016
correct = 32.0
count = 160.0

[best]
epoch = 1
step = 6
accuracy = 0.25
loss = 1.2117649078369142

[reference]
epoch = 1
step = 6
accuracy = 0.25
loss = 1.2117649078369142
"#;

    fn counting(second: &str) -> [Metric; 3] {
        [
            Metric::new(metric::LOSS, Reduction::Mean),
            Metric::new(second, Reduction::Mean),
            Metric::new(metric::SAMPLES, Reduction::Sum),
        ]
    }

    #[test]
    fn an_old_state_is_read_and_written_in_the_same_bytes() {
        let state: TrainState = toml::from_str(OLD).unwrap();
        assert_eq!((state.scores.accuracy(), state.scores.absolute_error()), (Some(0.2), None));
        assert_eq!(state.best.unwrap().accuracy, Some(0.25));
        let state = state.completed(Monitor::ValAccuracy, &counting(metric::ACCURACY)).unwrap();
        assert_eq!(toml::to_string(&state).unwrap(), OLD);
        // Nor does an epoch's beginning, where nothing is counted yet, look different.
        let begun = TrainState::default().completed(Monitor::ValAccuracy, &counting(metric::ACCURACY)).unwrap();
        assert!(toml::to_string(&begun).unwrap().contains("loss_sum = 0.0\ncorrect = 0.0\ncount = 0.0\n"));
    }

    #[test]
    fn a_state_without_accuracy_comes_back_without_one() {
        let counted = counting(metric::ABSOLUTE_ERROR);
        let mut state = TrainState::default().completed(Monitor::ValLoss, &counted).unwrap();
        assert_eq!((state.scores.accuracy(), state.scores.absolute_error_sum), (None, Some(0.0)));
        state.scores = Scores { loss_sum: 6.0, absolute_error_sum: Some(3.0), count: 4.0, ..state.scores };
        state.best = Some(Best { epoch: 1, step: 4, accuracy: None, loss: 1.5 });
        let text = toml::to_string(&state).unwrap();
        assert!(!text.contains("accuracy") && !text.contains("correct") && !text.contains("nan"), "{text}");
        let back: TrainState = toml::from_str(&text).unwrap();
        assert_eq!(back, state);
        assert_eq!(back.scores.absolute_error(), Some(0.75));
        let other = Scores { absolute_error_sum: Some(1.0), count: 4.0, ..Scores::zero(&counted) };
        let sum: Scores = [back.scores, other].into_iter().sum();
        assert_eq!((sum.accuracy(), sum.absolute_error()), (None, Some(0.5)));
    }

    #[test]
    fn what_is_not_counted_cannot_decide() {
        let numbers = counting(metric::ABSOLUTE_ERROR);
        let error = TrainState::default().completed(Monitor::ValAccuracy, &numbers).unwrap_err();
        assert!(error.message().contains("val-accuracy") && error.message().contains("give val-loss"), "{error}");
    }
}
