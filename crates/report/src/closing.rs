//! What a run prints at its end.

use std::path::Path;

use paceline_base::layout::{Column, Style, columns, indent, labelled, paragraphs, table};
use paceline_base::text;
use paceline_base::{Activity, TimeSplit};
use paceline_record::{Exactness, Status, Summary};

use crate::format::{self, plain};
use crate::verdict::of_summary;

/// Characters of a bar, at least and at most.
const BAR: (usize, usize) = (8, 24);
/// Ranks that are shown one by one; beyond, the slowest and fastest are in the verdicts.
const RANKS: usize = 16;

/// The glyph of each activity in a bar, which also stands in the title of its column.
fn glyph(activity: Activity) -> char {
    match activity {
        Activity::Input => '▒',
        Activity::Compute => '█',
        Activity::Wait => '·',
        Activity::Transfer => '▚',
        Activity::Update => '▓',
        Activity::Checkpoint => '░',
    }
}

/// The last words of a run: what it reached, how fast, where the time went, and what to make of it. `checkpoints` is where
/// they are, if any were written.
pub fn closing_table(summary: &Summary, checkpoints: Option<&Path>, style: Style) -> String {
    let mut lines: Vec<(&str, String)> = Vec::new();
    let head = match &summary.status {
        Status::Done => match summary.step_limit_words() {
            Some(words) => format!("done, {words}"),
            None => "done".to_string(),
        },
        Status::Stopped => "stopped early".to_string(),
        Status::Running => "not finished".to_string(),
        Status::Interrupted => "interrupted".to_string(),
        Status::Failed { why } => format!("failed: {}", plain(why)),
    };
    if let Some(epoch) = summary.best_epoch {
        let done = summary.epochs.last().map_or(summary.epochs_planned, |last| last.epoch);
        lines.push(("best epoch", format!("{epoch} of {done}, by {}", summary.monitor.words())));
    }
    let s = summary;
    let validation = match s.best() {
        Some(best) => format::result(best.val_accuracy, best.val_loss, best.val_absolute_error),
        None => format::result(s.best_val_accuracy, s.best_val_loss, s.best_val_absolute_error),
    };
    let test = format::result(s.test_accuracy, s.test_loss, s.test_absolute_error);
    let training = format::result(s.train_accuracy, s.train_loss, s.train_absolute_error);
    let training = training.filter(|_| !s.epochs.is_empty() || s.partial.is_none());
    for (label, result) in [("validation", validation), ("test", test), ("training", training)] {
        lines.extend(result.map(|result| (label, result)));
    }
    if let Some(partial) = &summary.partial {
        lines.push(("training", format::partial(partial)));
    }
    let all = if summary.seconds_total > summary.seconds_train {
        format!(" ({} with evaluation and start)", text::duration(summary.seconds_total))
    } else {
        String::new()
    };
    lines.push(("training time", format!("{}{all}", text::duration(summary.seconds_train))));
    lines.push(("throughput", format!("{} examples/s", format::rate(summary.examples_per_s))));
    if let Some((measured, predicted)) = format::step_times(summary) {
        lines.push(("a step", format!("{measured}; predicted {predicted}")));
    }
    if let Some(words) = cores_used(summary) {
        lines.push(("cores used", words));
    }
    if summary.exactness == Exactness::Statistical {
        lines.push((
            "exactness",
            "statistical: not to rounding what one worker gives (reasons are in summary.json)".into(),
        ));
    }
    if summary.peak_rss_bytes > 0 {
        lines.push(("peak memory", text::bytes(summary.peak_rss_bytes)));
    }
    if let Some(path) = checkpoints {
        let best = summary.best_checkpoint.as_deref().and_then(|best| best.rsplit('/').next());
        let best = best.map_or(String::new(), |best| format!(" (the best is {})", plain(best)));
        lines.push(("checkpoints", format!("{}{best}", plain(&path.display().to_string()))));
    }

    let mut out = paragraphs(&format!("{}: {head}", plain(&summary.name)), style.width) + "\n";
    out.push_str(&labelled(lines, style.width));
    if summary.split.iter().any(|split| split.total() > 0.0) {
        out.push_str("\n  where the time went, percent\n\n");
        out.push_str(&indent(&times(summary, style)));
    }
    let verdicts = of_summary(summary);
    if !verdicts.is_empty() {
        out.push('\n');
    }
    for verdict in verdicts {
        out.push_str(&paragraphs(&format!("  {verdict}"), style.width));
    }
    for warning in &summary.warnings {
        out.push_str(&paragraphs(&format!("  note: {}", plain(warning)), style.width));
    }
    out
}

/// What the run had of the cores, on average: `1.8 of 2`.
pub(crate) fn cores_used(summary: &Summary) -> Option<String> {
    let known = summary.cpu.iter().filter(|cpu| cpu.wall > 0.0);
    let (used, all) = known.fold((0.0, 0), |(used, all), cpu| (used + cpu.cpu / cpu.wall, all + cpu.cores));
    (all > 0).then(|| format!("{used:.1} of {all} on average"))
}

fn times(summary: &Summary, style: Style) -> String {
    let mut splits: Vec<(String, TimeSplit)> = Vec::new();
    if summary.split.len() > 1 {
        splits
            .extend(summary.split.iter().take(RANKS).enumerate().map(|(rank, split)| (format!("rank {rank}"), *split)));
        if summary.split.len() > RANKS {
            splits.push((format!("all {} ranks", summary.split.len()), summary.split.iter().copied().sum()));
        }
    } else {
        splits.extend(summary.split.iter().map(|split| ("all".to_string(), *split)));
    }
    let style = style.narrower(2);
    let names = Column::left("", splits.iter().map(|(name, _)| name.clone()));
    let title = |activity: Activity| format!("{} {}", glyph(activity), activity.name());
    let others: usize = Activity::ALL.iter().map(|&activity| columns(&title(activity)) + 2).sum();
    let others = others + splits.iter().map(|(name, _)| columns(name) + 2).max().unwrap_or(0);
    let length = style.width.saturating_sub(others).clamp(BAR.0, BAR.1);
    let mut all = vec![Column::left("", splits.iter().map(|(_, split)| bar(&split.fractions(), length))).minor(3)];
    if summary.split.len() > 1 {
        all.insert(0, names);
    }
    for activity in Activity::ALL {
        let shares: Vec<f64> = splits.iter().map(|(_, split)| split.fractions().get(activity)).collect();
        let column = Column::right(&title(activity), shares.iter().map(|&share| format::share(share)));
        // What took no time is missed least; what is mostly waiting and computing, most.
        all.push(match activity {
            _ if shares.iter().all(|&share| share == 0.0) => column.minor(4),
            Activity::Checkpoint => column.minor(2),
            Activity::Update => column.minor(1),
            _ => column,
        });
    }
    table(&all, style)
}

/// A bar of a length; the glyphs are shared out so that they always fill it.
fn bar(fractions: &TimeSplit, length: usize) -> String {
    let mut out = String::new();
    let (mut sum, mut drawn) = (0.0, 0);
    for activity in Activity::ALL {
        sum += fractions.get(activity);
        let until = (sum * length as f64).round() as usize;
        out.extend(std::iter::repeat_n(glyph(activity), until.saturating_sub(drawn)));
        drawn = until.max(drawn);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_always_full() {
        for compute in 0..=10 {
            let rest = f64::from(10 - compute) / 5.0;
            let split = TimeSplit {
                compute: f64::from(compute),
                input: rest,
                wait: rest,
                transfer: rest,
                update: rest,
                checkpoint: rest,
            };
            assert_eq!(bar(&split.fractions(), BAR.1).chars().count(), BAR.1);
        }
        assert_eq!(bar(&TimeSplit::default(), 8), "");
    }
}
