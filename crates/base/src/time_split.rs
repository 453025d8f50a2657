//! Where the time of a rank goes: what the engine measures, the run directory records, and reports judge.

use serde::{Deserialize, Serialize};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use crate::number;

/// One way for a rank to spend its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    /// Waiting for the next batch of samples.
    Input,
    /// Forward and backward kernels.
    Compute,
    /// Waiting for other ranks, also inside a collective.
    Wait,
    /// Moving bytes between ranks.
    Transfer,
    /// The optimiser's update.
    Update,
    /// Handing over checkpoints; the writing itself is another thread's.
    Checkpoint,
}

impl Activity {
    /// All activities, in the order in which they are shown.
    pub const ALL: [Activity; 6] = [
        Activity::Input,
        Activity::Compute,
        Activity::Wait,
        Activity::Transfer,
        Activity::Update,
        Activity::Checkpoint,
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Activity::Input => "input",
            Activity::Compute => "compute",
            Activity::Wait => "wait",
            Activity::Transfer => "transfer",
            Activity::Update => "update",
            Activity::Checkpoint => "checkpoint",
        }
    }
}

/// Where time went, in seconds. Waiting is not computing: the two are never mixed.
///
/// ```
/// use paceline_base::TimeSplit;
/// let split = TimeSplit { compute: 3.0, wait: 1.0, ..TimeSplit::default() };
/// assert_eq!((split + split).total(), 8.0);
/// assert_eq!(split.fractions().compute, 0.75);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimeSplit {
    /// Waiting for the next batch of samples.
    #[serde(with = "number")]
    pub input: f64,
    /// Forward and backward kernels.
    #[serde(with = "number")]
    pub compute: f64,
    /// Waiting for other ranks.
    #[serde(with = "number")]
    pub wait: f64,
    /// Moving bytes between ranks.
    #[serde(with = "number")]
    pub transfer: f64,
    /// The optimiser's update.
    #[serde(with = "number")]
    pub update: f64,
    /// Handing over checkpoints.
    #[serde(with = "number")]
    pub checkpoint: f64,
}

impl TimeSplit {
    /// The seconds of one activity.
    pub fn get(&self, activity: Activity) -> f64 {
        match activity {
            Activity::Input => self.input,
            Activity::Compute => self.compute,
            Activity::Wait => self.wait,
            Activity::Transfer => self.transfer,
            Activity::Update => self.update,
            Activity::Checkpoint => self.checkpoint,
        }
    }

    /// The sum of all activities.
    pub fn total(&self) -> f64 {
        Activity::ALL.iter().map(|&activity| self.get(activity)).sum()
    }

    /// Each activity divided by the total; all zero when there is no time to divide.
    #[must_use]
    pub fn fractions(&self) -> TimeSplit {
        let total = self.total();
        if !total.is_finite() || total <= 0.0 {
            return TimeSplit::default();
        }
        self.over(total)
    }

    /// Each activity divided by the same number.
    #[must_use]
    pub fn over(&self, divisor: f64) -> TimeSplit {
        TimeSplit {
            input: self.input / divisor,
            compute: self.compute / divisor,
            wait: self.wait / divisor,
            transfer: self.transfer / divisor,
            update: self.update / divisor,
            checkpoint: self.checkpoint / divisor,
        }
    }
}

impl Add for TimeSplit {
    type Output = TimeSplit;

    fn add(mut self, other: TimeSplit) -> TimeSplit {
        self += other;
        self
    }
}

impl Sub for TimeSplit {
    type Output = TimeSplit;

    fn sub(self, other: TimeSplit) -> TimeSplit {
        self + other.over(-1.0)
    }
}

impl AddAssign for TimeSplit {
    fn add_assign(&mut self, other: TimeSplit) {
        self.input += other.input;
        self.compute += other.compute;
        self.wait += other.wait;
        self.transfer += other.transfer;
        self.update += other.update;
        self.checkpoint += other.checkpoint;
    }
}

impl Sum for TimeSplit {
    fn sum<I: Iterator<Item = TimeSplit>>(splits: I) -> TimeSplit {
        splits.fold(TimeSplit::default(), Add::add)
    }
}
