//! The page in words: the headline figures, the findings, and all about each run.

use maud::{Markup, html};
use paceline_base::text;
use paceline_record::{RunData, Status, Summary};

use super::key;
use crate::compare::{Comparison, Row, Score, Wins};
use crate::format;
use crate::verdict::{Verdict, of_summary, time};

/// Of more data sets than these, tiles would be a table.
const MOST_SETS: usize = 3;

/// A few large figures: of the run, or of the best among the runs.
pub(crate) fn tiles(summaries: &[Summary], comparison: &Comparison) -> Markup {
    let mut tiles: Vec<(String, String, String)> = Vec::new();
    let mut tile = |label: &str, value: String, note: String| {
        if value != format::NONE {
            tiles.push((label.into(), value, note));
        }
    };
    match summaries {
        [] => return html! {},
        [only] => {
            let best = only.best_epoch.map_or(String::new(), |epoch| {
                format!("epoch {epoch}, the best by {}", only.monitor.words().trim_start_matches("validation "))
            });
            let percent = |accuracy: Option<f64>| accuracy.map_or(format::NONE.into(), format::percent);
            let accuracy = only.best().and_then(|epoch| epoch.val_accuracy);
            tile("validation accuracy", percent(accuracy), best.clone());
            tile("validation absolute error", format::maybe_loss(only.best_val_absolute_error), best);
            let lowest = only.epochs.iter().find(|e| e.val_loss.is_some() && e.val_loss == only.best_val_loss);
            let lowest = lowest.map_or(String::new(), |epoch| format!("lowest, epoch {}", epoch.epoch));
            tile("validation loss", format::maybe_loss(only.best_val_loss), lowest);
            tile("test accuracy", percent(only.test_accuracy), String::new());
            tile("test absolute error", format::maybe_loss(only.test_absolute_error), String::new());
            if only.best_val_accuracy.is_none() {
                tile("training accuracy", percent(only.train_accuracy), String::new());
            }
            if only.best_val_absolute_error.is_none() {
                tile("training absolute error", format::maybe_loss(only.train_absolute_error), String::new());
            }
            tile("training time", text::duration(only.seconds_train), text::counted(only.epochs.len(), "epoch"));
            tile("examples per second", format::rate(only.examples_per_s), format!("batch {}", only.batch));
            if let Some((measured, predicted)) = format::step_times(only) {
                tile("a step", measured, format!("predicted {predicted}"));
            }
        }
        _ => {
            let names = |rows: Vec<&Row>| match &rows[..] {
                [one] => one.name.clone(),
                [one, other] => format!("{} and {}", one.name, other.name),
                [first, more @ ..] => format!("{} and {} more", first.name, more.len()),
                [] => String::new(),
            };
            let evaluations = comparison.evaluations();
            for (label, score, show) in [
                ("best validation accuracy", Score::ValidationAccuracy, format::percent as fn(f64) -> String),
                ("lowest validation loss", Score::ValidationLoss, format::loss),
                ("lowest validation absolute error", Score::ValidationAbsoluteError, format::loss),
                ("best test accuracy", Score::TestAccuracy, format::percent),
                ("lowest test absolute error", Score::TestAbsoluteError, format::loss),
            ] {
                // A best is named only among runs that were measured on the same data, and only where they differ.
                let best = comparison.best(score);
                for &first in evaluations.iter().take(MOST_SETS) {
                    let rows = comparison.rows.iter().zip(&best);
                    let rows: Vec<&Row> =
                        rows.filter(|(row, best)| **best && row.evaluation == first).map(|(row, _)| row).collect();
                    let Some(value) = rows.first().and_then(|row| score.of(row)) else { continue };
                    let on = match evaluations.len() {
                        1 => String::new(),
                        _ => format!(" on {}", comparison.rows[first].data),
                    };
                    tile(&format!("{label}{on}"), show(value), names(rows));
                }
            }
            // Speeds of different work have no winner.
            let fastest = comparison.fastest(Wins::Largest, |row| Some(row.examples_per_s));
            let fastest: Vec<&Row> =
                comparison.rows.iter().zip(fastest).filter(|(_, best)| *best).map(|(row, _)| row).collect();
            if let (true, Some(first)) = (comparison.one_work(), fastest.first()) {
                tile("most examples per second", format::rate(first.examples_per_s), names(fastest.clone()));
                let shortest = comparison.fastest(Wins::Smallest, Row::whole_seconds);
                let shortest = comparison.rows.iter().zip(shortest).filter(|(_, best)| *best).map(|(row, _)| row);
                let shortest: Vec<&Row> = shortest.collect();
                let seconds = shortest.iter().map(|row| row.seconds).reduce(f64::min);
                tile("shortest training", seconds.map_or(format::NONE.into(), text::duration), names(shortest));
            }
        }
    }
    html! {
        div.tiles { @for (label, value, note) in &tiles { (tile_of(label, value, note)) } }
    }
}

/// One large figure.
pub(crate) fn tile_of(label: &str, value: &str, note: &str) -> Markup {
    html! {
        div.card.tile { div.label { (label) } div.value { (value) } div.note { (note) } }
    }
}

/// The verdicts on each run and on what more replicas gained.
pub(crate) fn findings(summaries: &[Summary], comparison: &Comparison) -> Markup {
    let scaling = time::scaling(comparison);
    let verdicts = |run: usize, summary: &Summary| {
        let mut verdicts = of_summary(summary);
        verdicts.extend(scaling.iter().filter(|(row, _)| *row == run).map(|(_, verdict)| verdict.clone()));
        verdicts.sort_by_key(|verdict| std::cmp::Reverse(verdict.level));
        verdicts
    };
    html! {
        div.findings {
            @for (run, summary) in summaries.iter().enumerate() {
                @let verdicts = verdicts(run, summary);
                div.card.finding {
                    h3 { (key(run)) (summary.name) }
                    @if let Status::Failed { why } = &summary.status {
                        p { span.badge.warning { "failed" } " " (why) }
                    }
                    @if verdicts.is_empty() { p.muted { "nothing stands out" } }
                    @for verdict in &verdicts { (finding(verdict)) }
                }
            }
        }
    }
}

/// A verdict as a paragraph.
pub(crate) fn finding(verdict: &Verdict) -> Markup {
    html! {
        p {
            span.badge.(verdict.level.name()) { (verdict.title) } " " (capital(&verdict.reason)) "."
            @if !verdict.advice.is_empty() { " " span.muted { (capital(&verdict.advice)) "." } }
        }
    }
}

/// As a sentence.
pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let text: String = chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect());
    // A line must not begin with a percent sign.
    text.replace(" %", "\u{a0}%")
}

/// All about one run, folded away.
pub(crate) fn run(number: usize, run: &RunData, summary: &Summary, open: bool) -> Markup {
    html! {
        details.card.run open[open] {
            summary { (key(number)) (summary.name) " " span.muted { (summary.status.name()) } }
            (facts_list(facts(run, summary)))
            (end_of_card(summary, &run.notes, &run.config))
        }
    }
}

/// Those facts that are known.
pub(crate) fn facts_list(facts: impl IntoIterator<Item = (&'static str, String)>) -> Markup {
    html! {
        dl {
            @for (label, value) in facts.into_iter().filter(|(_, value)| !value.is_empty()) {
                dt { (label) }
                dd { (value) }
            }
        }
    }
}

/// The end of a run's card: decisions, warnings, notes, configuration.
pub(crate) fn end_of_card(summary: &Summary, notes: &[String], config: &toml::Table) -> Markup {
    html! {
        (list("Decisions", &summary.reasons))
        (list("Warnings", &summary.warnings))
        (list("Notes", notes))
        @if !config.is_empty() {
            @let text = toml::to_string_pretty(config).unwrap_or_else(|_| config.to_string());
            details.config { summary { "Configuration" } pre { (text.trim_end()) } }
        }
    }
}

fn facts(run: &RunData, summary: &Summary) -> Vec<(&'static str, String)> {
    let known = |value: u64, text: String| if value > 0 { text } else { String::new() };
    let machine = &summary.machine;
    let parts = [
        machine.cpu.clone(),
        known(machine.cores as u64, text::counted(machine.cores, "core")),
        known(machine.memory_bytes, text::bytes(machine.memory_bytes)),
        machine.os.clone(),
    ];
    let machine = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    vec![
        ("model", summary.model.clone()),
        ("parameters", known(summary.parameters, format::count(summary.parameters))),
        ("data", summary.data.clone()),
        ("strategy", summary.strategy.clone()),
        ("exactness", format!("{}: {}", summary.exactness.name(), summary.exactness.words())),
        ("replicas", format!("{} with {} each", summary.replicas, text::counted(summary.threads, "thread"))),
        ("plan", summary.plan.clone().unwrap_or_default()),
        ("seed", summary.seed.to_string()),
        ("unfinished epoch", summary.partial.as_ref().map(format::partial).unwrap_or_default()),
        ("attempts", known(u64::from(summary.attempt.saturating_sub(1)), summary.attempt.to_string())),
        ("total time", known(u64::from(summary.seconds_total > 0.0), text::duration(summary.seconds_total))),
        ("cores used", crate::closing::cores_used(summary).unwrap_or_default()),
        ("peak memory", known(summary.peak_rss_bytes, text::bytes(summary.peak_rss_bytes))),
        ("arena per rank", known(summary.arena_bytes, text::bytes(summary.arena_bytes))),
        ("started", known(summary.started, paceline_base::text::date(summary.started))),
        ("machine", machine),
        ("folder", run.path.display().to_string()),
        ("best checkpoint", summary.best_checkpoint.clone().unwrap_or_default()),
    ]
}

pub(crate) fn list(title: &str, items: &[String]) -> Markup {
    html! {
        @if !items.is_empty() {
            h4 { (title) }
            ul { @for item in items { li { (item) } } }
        }
    }
}
