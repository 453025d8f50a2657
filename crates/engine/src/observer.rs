//! Who is told what happens on a rank.

use crate::control::Control;
use crate::state::Scores;
use paceline_base::{Result, TimeSplit};

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
    /// Accuracy over the global batch; none if the loss does not count it.
    pub accuracy: Option<f64>,
    /// Mean distance from the target over the global batch; none if the loss does not count it.
    pub absolute_error: Option<f64>,
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
