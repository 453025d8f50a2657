//! Verdicts: what a run's records mean, with the reason and what to do.
//!
//! Each verdict is a pure function of records. [`learning`] looks at losses and accuracies, [`time`] at where the time
//! went and at what more replicas gained, [`input`] at the stages that samples pass on their way in,
//! [`prediction`] at what a step was expected to take. The thresholds stand beside the functions that use them.

use std::fmt;

use paceline_record::{RunData, Summary};

use crate::digest;

pub(crate) mod input;
pub(crate) mod learning;
pub(crate) mod prediction;
pub(crate) mod time;

/// What a verdict is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// The loss is not finite, or beyond that of guessing.
    Diverged,
    /// Better on what it has seen than on what it has not.
    OverFitting,
    /// No better than guessing.
    AtChance,
    /// More epochs would help.
    NotConverged,
    /// Ranks wait for others.
    Waiting,
    /// Training waits for samples.
    InputBound,
    /// Training waits for bytes between ranks.
    TransferBound,
    /// Checkpoints take a large part of the time.
    CheckpointBound,
    /// Other programs, a hypervisor or a limit had the cores.
    Shortage,
    /// Nearly all time is computing.
    ComputeBound,
    /// Steps took much longer or shorter than was predicted.
    Predicted,
    /// What more replicas gained.
    Scaling,
    /// Files against records.
    Form,
    /// What a parameter of reading does to throughput.
    Parameter,
    /// Cold against warm.
    PageCache,
    /// What caching and partitioning gain.
    Variants,
    /// One engine or machine against another.
    Engines,
    /// How much repetitions differ.
    Noise,
    /// The machine became faster or slower during the study.
    Drift,
    /// What could not be measured.
    NotMeasured,
}

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// As it should be.
    Good,
    /// Worth knowing.
    Note,
    /// Something is wrong.
    Warning,
}

impl Level {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Level::Good => "good",
            Level::Note => "note",
            Level::Warning => "warning",
        }
    }
}

/// A verdict with its reason. It reads as `title: reason; advice`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What it is about.
    pub topic: Topic,
    /// How much it matters.
    pub level: Level,
    /// The verdict in a few words.
    pub title: String,
    /// The figures behind it.
    pub reason: String,
    /// What to do; empty if nothing needs doing.
    pub advice: String,
}

impl Verdict {
    pub(crate) fn new(
        topic: Topic,
        level: Level,
        title: impl Into<String>,
        reason: String,
        advice: impl Into<String>,
    ) -> Self {
        Self { topic, level, title: title.into(), reason, advice: advice.into() }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.title, self.reason)?;
        if self.advice.is_empty() { Ok(()) } else { write!(f, "; {}", self.advice) }
    }
}

/// All verdicts on one run, what matters most first.
pub fn verdicts(run: &RunData) -> Vec<Verdict> {
    of_summary(&digest(run))
}

pub(crate) fn of_summary(summary: &Summary) -> Vec<Verdict> {
    let epochs = &summary.epochs;
    let evaluation = summary.test_accuracy;
    let accuracy = summary.best_val_accuracy.or(evaluation);
    let loss = summary.best_val_loss.or(summary.test_loss);
    let trained = summary.train_accuracy;
    let best = summary.best_epoch.map(|epoch| (epoch, summary.best_checkpoint.as_deref()));
    // What has run away is neither at chance nor over-fitting, and what learnt nothing cannot over-fit: one of the three.
    let diverged = learning::diverged(epochs, summary.classes);
    let at_chance = accuracy
        .filter(|_| diverged.is_none())
        .and_then(|accuracy| learning::at_chance(accuracy, loss, summary.classes, trained));
    let over_fitting = match diverged.is_some() || at_chance.is_some() {
        true => None,
        false => learning::over_fitting(epochs, evaluation, summary.classes, best),
    };
    // A run that has gone wrong needs no advice to go on.
    let wrong = diverged.is_some() || over_fitting.is_some() || at_chance.is_some();
    let not_converged = if wrong { None } else { learning::not_converged(epochs) };
    let mut all: Vec<Verdict> = [diverged, over_fitting, at_chance, not_converged].into_iter().flatten().collect();
    all.extend(time::verdicts(&summary.split, &summary.cpu));
    all.extend(summary.step_times.as_ref().and_then(prediction::far_off));
    if let Some(facts) = &summary.input {
        // Where the stages are known, they say more than the share of the time alone.
        all.retain(|verdict| verdict.topic != Topic::InputBound);
        all.extend(input::input_bound(&summary.split, facts, &summary.stages));
    }
    all.sort_by_key(|verdict| std::cmp::Reverse(verdict.level));
    all
}
