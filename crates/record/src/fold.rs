//! Several steps into one record, without allocating.

use crate::StepRecord;

/// Folds the steps of one rank into one record for every `every` of them.
///
/// ```
/// use paceline_record::{StepFold, StepRecord};
/// let mut fold = StepFold::new(2);
/// assert!(fold.add(StepRecord { step: 0, loss: 3.0, ..StepRecord::default() }).is_none());
/// let record = fold.add(StepRecord { step: 1, loss: 1.0, ..StepRecord::default() }).unwrap();
/// assert_eq!((record.step, record.steps, record.loss), (1, 2, 2.0));
/// assert!(fold.finish().is_none());
/// ```
#[derive(Clone, Debug)]
pub struct StepFold {
    every: u64,
    held: Option<StepRecord>,
}

impl StepFold {
    /// One record for `every` steps; 0 is taken as 1.
    pub fn new(every: u64) -> Self {
        Self { every: every.max(1), held: None }
    }

    /// Changes the interval, from the next record on.
    pub fn set_every(&mut self, every: u64) {
        self.every = every.max(1);
    }

    /// Adds a step; gives the record when it is full.
    pub fn add(&mut self, step: StepRecord) -> Option<StepRecord> {
        let held = match self.held.take() {
            None => step,
            Some(held) => join(&held, &step),
        };
        if held.steps >= self.every {
            return Some(held);
        }
        self.held = Some(held);
        None
    }

    /// Gives what is held, at the end of an epoch, before a checkpoint and at the end.
    pub fn finish(&mut self) -> Option<StepRecord> {
        self.held.take()
    }
}

fn join(a: &StepRecord, b: &StepRecord) -> StepRecord {
    // The last batch of an epoch may be smaller: samples count alike, not steps.
    let weights = if a.samples + b.samples > 0 { (a.samples, b.samples) } else { (a.steps, b.steps) };
    let (n, m) = (weights.0 as f64, weights.1 as f64);
    let mean = |x: f64, y: f64| (x * n + y * m) / (n + m);
    let mean_of_both = |x: Option<f64>, y: Option<f64>| x.zip(y).map(|(x, y)| mean(x, y));
    let (ta, tb) = (a.split.total(), b.split.total());
    // Throughputs are averaged over the time they lasted.
    let examples_per_s = if ta + tb > 0.0 {
        (a.examples_per_s * ta + b.examples_per_s * tb) / (ta + tb)
    } else {
        mean(a.examples_per_s, b.examples_per_s)
    };
    StepRecord {
        steps: a.steps + b.steps,
        samples: a.samples + b.samples,
        share: a.share.zip(b.share).map(|(a, b)| a + b),
        loss: mean(a.loss, b.loss),
        accuracy: mean_of_both(a.accuracy, b.accuracy),
        absolute_error: mean_of_both(a.absolute_error, b.absolute_error),
        examples_per_s,
        split: a.split + b.split,
        ..*b
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_base::TimeSplit;

    #[test]
    fn means_and_sums() {
        let step = |step: u64, loss: f64, seconds: f64, examples_per_s: f64| StepRecord {
            step,
            loss,
            accuracy: Some(loss / 10.0),
            samples: 8,
            examples_per_s,
            split: TimeSplit { compute: seconds, ..TimeSplit::default() },
            ..StepRecord::default()
        };
        let mut fold = StepFold::new(5);
        assert!(fold.add(step(0, 1.0, 1.0, 100.0)).is_none());
        assert!(fold.add(step(1, 2.0, 3.0, 200.0)).is_none());
        assert!(fold.add(step(2, 6.0, 0.0, 900.0)).is_none());
        let record = fold.finish().unwrap();
        assert_eq!((record.step, record.steps, record.samples), (2, 3, 24));
        assert!((record.loss - 3.0).abs() < 1e-12 && (record.accuracy.unwrap() - 0.3).abs() < 1e-12);
        assert_eq!(record.absolute_error, None, "what was not counted is not made up");
        assert_eq!((record.split.compute, record.examples_per_s), (4.0, 175.0));
    }

    #[test]
    fn a_smaller_batch_weighs_less() {
        let step = |samples, share, loss| StepRecord { samples, share: Some(share), loss, ..StepRecord::default() };
        let mut fold = StepFold::new(3);
        fold.add(step(16, 6, 1.0));
        fold.add(step(16, 6, 2.0));
        let record = fold.add(step(4, 0, 5.0)).unwrap();
        assert_eq!((record.samples, record.share, record.loss), (36, Some(12), (16.0 + 32.0 + 20.0) / 36.0));
    }
}
