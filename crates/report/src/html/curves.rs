//! Which curves a page shows: loss by epoch and by step; accuracy by epoch and by time, or absolute error where that is counted.

use std::collections::BTreeMap;

use paceline_base::text;
use paceline_record::{EpochRecord, StepRecord, Summary};

use super::axis::Scale;
use super::chart::{Chart, Curve, Stroke};
use crate::format;

/// More points than this would fall on the same pixels.
const POINTS: usize = 400;
/// A loss that spans more than this is drawn by powers of ten.
const LOG_FROM: f64 = 30.0;

/// The charts for these runs; `steps` are the runs' step records, in the same order.
pub(crate) fn charts(summaries: &[Summary], steps: &[&[StepRecord]]) -> Vec<Chart> {
    let counted = |figure: &&Figure| summaries.iter().any(figure.counted);
    let figures: Vec<&Figure> = [&ACCURACY, &ABSOLUTE_ERROR].into_iter().filter(counted).collect();
    let mut charts = vec![by_epoch(summaries, &LOSS)];
    charts.extend(figures.iter().map(|figure| by_epoch(summaries, figure)));
    charts.push(by_step(summaries, steps));
    let timed = if figures.is_empty() { vec![&LOSS] } else { figures };
    charts.extend(timed.iter().map(|figure| by_time(summaries, figure)));
    charts
}

/// A figure of every epoch.
struct Figure {
    by_epoch: &'static str,
    by_time: &'static str,
    /// A share, shown in percent.
    percent: bool,
    /// Whether a run has it.
    counted: fn(&Summary) -> bool,
    train: fn(&EpochRecord) -> Option<f64>,
    validation: fn(&EpochRecord) -> Option<f64>,
}

const LOSS: Figure = Figure {
    by_epoch: "Loss by epoch",
    by_time: "Validation loss by training time",
    percent: false,
    counted: |_| true,
    train: |epoch| Some(epoch.train_loss),
    validation: |epoch| epoch.val_loss,
};
const ACCURACY: Figure = Figure {
    by_epoch: "Accuracy by epoch",
    by_time: "Validation accuracy by training time",
    percent: true,
    counted: Summary::counts_accuracy,
    train: |epoch| epoch.train_accuracy,
    validation: |epoch| epoch.val_accuracy,
};
const ABSOLUTE_ERROR: Figure = Figure {
    by_epoch: "Absolute error by epoch",
    by_time: "Validation absolute error by training time",
    percent: false,
    counted: Summary::counts_absolute_error,
    train: |epoch| epoch.train_absolute_error,
    validation: |epoch| epoch.val_absolute_error,
};

fn by_epoch(summaries: &[Summary], figure: &Figure) -> Chart {
    let &Figure { percent, train, validation, .. } = figure;
    let mut curves = Vec::new();
    for (run, summary) in summaries.iter().enumerate().filter(|(_, summary)| (figure.counted)(summary)) {
        let curve = |what, stroke, value: fn(&EpochRecord) -> Option<f64>| Curve {
            run,
            name: summary.name.clone(),
            what,
            stroke,
            silent: false,
            points: summary.epochs.iter().map(|e| (e.epoch as f64, value(e).unwrap_or(f64::NAN))).collect(),
        };
        curves.push(curve("training", Stroke::Dashed, train));
        if summary.epochs.iter().any(|epoch| validation(epoch).is_some()) {
            curves.push(curve("validation", Stroke::Solid, validation));
        }
    }
    Chart {
        title: figure.by_epoch,
        x_title: "epoch".into(),
        x_scale: Scale::Whole,
        y_scale: if percent { Scale::Linear } else { loss_axis(&curves) },
        percent,
        room: 0.0,
        x_name: |epoch| format!("epoch {epoch}"),
        y_name: if percent { format::percent } else { format::loss },
        curves,
    }
}

fn by_step(summaries: &[Summary], steps: &[&[StepRecord]]) -> Chart {
    let curves: Vec<Curve> = summaries
        .iter()
        .zip(steps)
        .enumerate()
        .map(|(run, (summary, steps))| Curve {
            run,
            name: summary.name.clone(),
            what: "training",
            stroke: Stroke::Solid,
            silent: false,
            points: thin(&mean_over_ranks(steps), POINTS),
        })
        .collect();
    Chart {
        title: "Training loss by step",
        x_title: "step".into(),
        x_scale: Scale::Tight,
        y_scale: loss_axis(&curves),
        percent: false,
        room: 0.0,
        x_name: |step| format!("step {}", format::count(step.round().max(0.0) as u64)),
        y_name: format::loss,
        curves,
    }
}

/// A result against time is the comparison that matters between strategies: the fastest per step need not be the first
/// to be good.
fn by_time(summaries: &[Summary], figure: &Figure) -> Chart {
    let &Figure { percent, validation, .. } = figure;
    let longest = summaries.iter().map(|s| s.epochs.iter().map(|e| e.seconds).sum::<f64>()).fold(0.0, f64::max);
    let (unit, name, x_name): (f64, &str, fn(f64) -> String) = match longest {
        t if t < 180.0 => (1.0, "seconds", |x| text::duration(x)),
        t if t < 3.0 * 3600.0 => (60.0, "minutes", |x| text::duration(x * 60.0)),
        _ => (3600.0, "hours", |x| text::duration(x * 3600.0)),
    };
    let curves = summaries
        .iter()
        .enumerate()
        .filter(|(_, summary)| (figure.counted)(summary))
        .map(|(run, summary)| {
            let mut time = 0.0;
            let point = |epoch: &EpochRecord| {
                time += if epoch.seconds.is_finite() { epoch.seconds } else { 0.0 };
                (time / unit, validation(epoch).unwrap_or(f64::NAN))
            };
            let points = summary.epochs.iter().map(point).collect();
            Curve { run, name: summary.name.clone(), what: "validation", stroke: Stroke::Solid, silent: false, points }
        })
        .collect::<Vec<Curve>>();
    Chart {
        title: figure.by_time,
        x_title: format!("training time, {name}"),
        x_scale: Scale::Tight,
        y_scale: if percent { Scale::Linear } else { loss_axis(&curves) },
        percent,
        room: 0.0,
        x_name,
        y_name: if percent { format::percent } else { format::loss },
        curves,
    }
}

fn loss_axis(curves: &[Curve]) -> Scale {
    let losses = || curves.iter().flat_map(|curve| &curve.points).map(|point| point.1).filter(|loss| loss.is_finite());
    let low = losses().fold(f64::INFINITY, f64::min);
    let high = losses().fold(0.0, f64::max);
    if low > 0.0 && high / low > LOG_FROM { Scale::Log } else { Scale::Linear }
}

/// One loss per step. Ranks of an exact strategy agree; asynchronous ones do not, and their mean is shown.
fn mean_over_ranks(steps: &[StepRecord]) -> Vec<(f64, f64)> {
    let mut sums: BTreeMap<u64, (f64, u32)> = BTreeMap::new();
    for step in steps {
        let entry = sums.entry(step.step).or_default();
        entry.0 += step.loss;
        entry.1 += 1;
    }
    sums.into_iter().map(|(step, (sum, count))| (step as f64 + 1.0, sum / f64::from(count))).collect()
}

/// At most `count` points, each the mean of a stretch; what cannot be averaged stays visible as a gap.
fn thin(points: &[(f64, f64)], count: usize) -> Vec<(f64, f64)> {
    if points.len() <= count {
        return points.to_vec();
    }
    points
        .chunks(points.len().div_ceil(count))
        .map(|part| {
            let n = part.len() as f64;
            (part.iter().map(|p| p.0).sum::<f64>() / n, part.iter().map(|p| p.1).sum::<f64>() / n)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_curves_are_thinned_without_bias() {
        let points: Vec<(f64, f64)> = (0..10_007).map(|i| (f64::from(i), 2.0)).collect();
        let thinned = thin(&points, 400);
        assert!(thinned.len() <= 400 && thinned.iter().all(|p| p.1 == 2.0));
        assert!(thinned.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn ranks_are_averaged() {
        let step = |rank, loss| StepRecord { rank, loss, ..StepRecord::default() };
        assert_eq!(mean_over_ranks(&[step(0, 1.0), step(1, 3.0)]), [(1.0, 2.0)]);
    }
}
