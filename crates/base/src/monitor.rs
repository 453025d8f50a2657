//! What "best" means in a run. One value decides which epoch is the best, whose checkpoint is kept, when early stopping ends the
//! run, and which epoch advice names: if each had its own idea, the epoch that one of them names would not be on disk.

use crate::metric;
use serde::{Deserialize, Serialize};

/// The value that decides: `train.monitor`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Monitor {
    /// Highest validation accuracy; of equal ones the lower validation loss.
    #[default]
    ValAccuracy,
    /// Lowest validation loss; of equal ones the higher validation accuracy.
    ValLoss,
}

impl Monitor {
    /// As `train.monitor` names it, and files do: `val-accuracy`.
    pub fn name(self) -> &'static str {
        match self {
            Monitor::ValAccuracy => "val-accuracy",
            Monitor::ValLoss => "val-loss",
        }
    }

    /// In a sentence: `validation accuracy`.
    pub fn words(self) -> &'static str {
        match self {
            Monitor::ValAccuracy => "validation accuracy",
            Monitor::ValLoss => "validation loss",
        }
    }

    /// The [`metric`] that it looks at, which a loss may not count: `accuracy`.
    pub fn metric(self) -> &'static str {
        match self {
            Monitor::ValAccuracy => metric::ACCURACY,
            Monitor::ValLoss => metric::LOSS,
        }
    }

    /// The monitored value of a result, given as (accuracy, loss), and the one that tells equal ones apart: larger is better. What
    /// is NaN was not measured, and is worse than anything.
    fn key(self, (accuracy, loss): (f64, f64)) -> (f64, f64) {
        let known = |x: f64| if x.is_nan() { f64::NEG_INFINITY } else { x };
        match self {
            Monitor::ValAccuracy => (known(accuracy), known(-loss)),
            Monitor::ValLoss => (known(-loss), known(accuracy)),
        }
    }

    /// Whether one result, as (accuracy, loss), is better than another: what makes an epoch the best.
    ///
    /// ```
    /// use paceline_base::Monitor;
    /// assert!(Monitor::ValAccuracy.better((0.9, 0.4), (0.8, 0.3)));
    /// assert!(!Monitor::ValLoss.better((0.9, 0.4), (0.8, 0.3)));
    /// ```
    pub fn better(self, new: (f64, f64), old: (f64, f64)) -> bool {
        let (new, old) = (self.key(new), self.key(old));
        new.0 > old.0 || (new.0 == old.0 && new.1 > old.1)
    }

    /// Whether the monitored value itself is better by more than `margin`: what early stopping waits for. Equal is not better, or a
    /// run whose accuracy is perfect would never end.
    pub fn improved(self, new: (f64, f64), old: (f64, f64), margin: f64) -> bool {
        self.key(new).0 > self.key(old).0 + margin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ones_are_told_apart_and_margins_count() {
        let by = Monitor::ValAccuracy;
        assert!(by.better((0.8, 0.3), (0.8, 0.4)) && !by.improved((0.8, 0.3), (0.8, 0.4), 0.0));
        assert!(!by.improved((0.805, 0.3), (0.8, 0.4), 0.01) && by.improved((0.82, 0.3), (0.8, 0.4), 0.01));
        assert!(Monitor::ValLoss.improved((0.1, 0.3), (0.9, 0.4), 0.05));
        assert!(!Monitor::ValLoss.improved((0.9, 0.38), (0.1, 0.4), 0.05));
    }

    #[test]
    fn what_is_no_number_never_wins() {
        for by in [Monitor::ValAccuracy, Monitor::ValLoss] {
            assert!(by.better((0.1, 2.0), (f64::NAN, f64::NAN)));
            assert!(!by.better((f64::NAN, f64::NAN), (0.1, 2.0)));
        }
    }
}
