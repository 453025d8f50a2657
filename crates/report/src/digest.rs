//! One summary per run, whatever the run left behind.
//!
//! A run that was killed has no summary, or one that is older than its records. The records are the truth: what they say
//! in addition is taken from them.

use std::collections::BTreeMap;

use paceline_base::{Monitor, TimeSplit, metric};
use paceline_record::{PartialEpoch, RunData, Status, StepRecord, Summary};

/// The run's summary, completed from its records; made from them alone if there is none.
pub fn digest(run: &RunData) -> Summary {
    let mut summary = run.summary.clone().unwrap_or_else(|| Summary { name: run.name.clone(), ..Summary::default() });
    if summary.name.is_empty() {
        summary.name = run.name.clone();
    }
    summary.attempt = summary.attempt.max(run.attempt);
    let told = run.summary.is_some();
    if !told && run.steps.iter().any(|step| step.absolute_error.is_some()) {
        summary.monitor = Monitor::ValLoss; // there is nothing else to go by
        summary.metrics = [metric::LOSS, metric::ABSOLUTE_ERROR, metric::SAMPLES].map(String::from).to_vec();
    }
    if summary.split.is_empty() {
        summary.split = splits_by_rank(run);
        summary.replicas = summary.replicas.max(summary.split.len());
    }
    let behind = run.epochs.len() > summary.epochs.len();
    if behind {
        summary.epochs = run.epochs.clone();
    }
    let ended = matches!(summary.status, Status::Done | Status::Stopped | Status::Failed { .. });
    let partial = if ended { summary.partial } else { partial(run) };
    let changed = partial != summary.partial;
    summary.partial = partial;
    if !told || behind || changed {
        summary.derive_figures();
    } else if summary.split_fractions.total() <= 0.0 {
        summary.split_fractions = summary.split.iter().copied().sum::<TimeSplit>().fractions();
    }
    if summary.batch == 0 {
        summary.batch = run.steps.last().map_or(0, |step| step.batch);
    }
    if !summary.examples_per_s.is_finite() {
        summary.examples_per_s = throughput(run, summary.seconds_train);
    }
    if summary.seconds_train <= 0.0 {
        summary.seconds_train = summary.split.iter().map(TimeSplit::total).fold(0.0, f64::max);
    }
    if summary.seconds_total <= 0.0 {
        let evaluation: f64 = summary.epochs.iter().map(|epoch| epoch.eval_seconds).sum();
        summary.seconds_total = summary.seconds_train + evaluation;
    }
    summary
}

/// The epoch that the last steps belong to and that no epoch's record ends, from the steps of one rank.
fn partial(run: &RunData) -> Option<PartialEpoch> {
    let rank = run.steps.iter().map(|step| step.rank).min()?;
    let epoch = run.steps.iter().map(|step| step.epoch).max()?;
    let lines = || run.steps.iter().filter(|step| (step.rank, step.epoch) == (rank, epoch));
    let samples: u64 = lines().map(|step| step.samples).sum();
    let mean = |value: fn(&StepRecord) -> f64| {
        lines().map(|step| value(step) * step.samples as f64).sum::<f64>() / samples as f64
    };
    let mean_if_counted = |value: fn(&StepRecord) -> Option<f64>| {
        let sum: Option<f64> = lines().map(|step| value(step).map(|value| value * step.samples as f64)).sum();
        sum.map(|sum| sum / samples as f64)
    };
    let whole = run.epochs.iter().any(|record| record.epoch == epoch);
    (!whole && samples > 0).then(|| PartialEpoch {
        epoch,
        steps: lines().map(|step| step.steps).sum(),
        of_steps: 0,
        samples,
        train_loss: mean(|step| step.loss),
        train_accuracy: mean_if_counted(|step| step.accuracy),
        train_absolute_error: mean_if_counted(|step| step.absolute_error),
    })
}

fn splits_by_rank(run: &RunData) -> Vec<TimeSplit> {
    let mut ranks: BTreeMap<u32, TimeSplit> = BTreeMap::new();
    for step in &run.steps {
        *ranks.entry(step.rank).or_default() += step.split;
    }
    ranks.into_values().collect()
}

/// Mean throughput over the epochs, weighted by their time; else over the steps.
fn throughput(run: &RunData, seconds: f64) -> f64 {
    let known = run.epochs.iter().filter(|epoch| epoch.examples_per_s.is_finite() && epoch.seconds > 0.0);
    let (samples, time) = known.fold((0.0, 0.0), |(n, t), e| (n + e.examples_per_s * e.seconds, t + e.seconds));
    if time > 0.0 {
        return samples / time;
    }
    let samples: u64 = run.steps.iter().map(StepRecord::own_samples).sum();
    let time =
        if seconds > 0.0 { seconds } else { splits_by_rank(run).iter().map(TimeSplit::total).fold(0.0, f64::max) };
    if samples > 0 && time > 0.0 { samples as f64 / time } else { f64::NAN }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_record::EpochRecord;

    #[test]
    fn a_killed_run_is_told_from_its_records() {
        let step = |step, rank, compute| StepRecord {
            step,
            rank,
            samples: 16,
            share: Some(8),
            batch: 16,
            loss: 2.0 + step as f64,
            split: TimeSplit { compute, wait: 1.0, ..TimeSplit::default() },
            ..StepRecord::default()
        };
        let run = RunData {
            name: "killed".into(),
            steps: vec![step(0, 0, 1.0), step(0, 1, 3.0), step(1, 0, 1.0), step(1, 1, 3.0)],
            attempt: 2,
            ..RunData::default()
        };
        let summary = digest(&run);
        assert_eq!((summary.name.as_str(), summary.replicas, summary.batch, summary.attempt), ("killed", 2, 16, 2));
        assert_eq!(summary.split[1].compute, 6.0);
        assert_eq!((summary.seconds_train, summary.examples_per_s), (8.0, 4.0));
        let partial = summary.partial.unwrap();
        assert_eq!((partial.epoch, partial.steps, partial.samples, partial.train_loss), (1, 2, 32, 2.5));
        assert_eq!(summary.train_loss, Some(2.5), "of the epoch that it did not finish");
    }

    #[test]
    fn epochs_after_the_last_summary_count() {
        let epoch = |epoch, val| EpochRecord { epoch, val_accuracy: Some(val), seconds: 2.0, ..EpochRecord::default() };
        let old = Summary { epochs: vec![epoch(1, 0.5)], best_epoch: Some(1), ..Summary::default() };
        let run = RunData { summary: Some(old), epochs: vec![epoch(1, 0.5), epoch(2, 0.6)], ..RunData::default() };
        let summary = digest(&run);
        assert_eq!((summary.best_epoch, summary.best_val_accuracy, summary.seconds_train), (Some(2), Some(0.6), 4.0));
    }
}
