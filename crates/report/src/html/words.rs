//! The page in words: the headline figures, the findings, and all about each run.

use std::fmt::Write;

use paceline_base::text;
use paceline_record::{RunData, Status, Summary};

use super::chart::COLOURS;
use super::escape::Esc;
use crate::compare::{Comparison, Row, Score, Wins};
use crate::format;
use crate::verdict::{Verdict, of_summary, time};

/// Of more data sets than these, tiles would be a table.
const MOST_SETS: usize = 3;

/// A few large figures: of the run, or of the best among the runs.
pub(crate) fn tiles(summaries: &[Summary], comparison: &Comparison) -> String {
    let mut tiles: Vec<(String, String, String)> = Vec::new();
    let mut tile = |label: &str, value: String, note: String| {
        if value != format::NONE {
            tiles.push((label.into(), value, note));
        }
    };
    match summaries {
        [] => return String::new(),
        [only] => {
            let best = only.best_epoch.map_or(String::new(), |epoch| {
                format!("epoch {epoch}, the best by {}", only.monitor.words().trim_start_matches("validation "))
            });
            let accuracy = only.best().and_then(|epoch| epoch.val_accuracy);
            tile("validation accuracy", accuracy.map_or(format::NONE.into(), format::percent), best);
            let lowest = only.epochs.iter().find(|e| e.val_loss.is_some() && e.val_loss == only.best_val_loss);
            let lowest = lowest.map_or(String::new(), |epoch| format!("lowest, epoch {}", epoch.epoch));
            tile("validation loss", format::maybe_loss(only.best_val_loss), lowest);
            tile("test accuracy", only.test_accuracy.map_or(format::NONE.into(), format::percent), String::new());
            if only.best_val_accuracy.is_none() {
                tile(
                    "training accuracy",
                    only.train_accuracy.map_or(format::NONE.into(), format::percent),
                    String::new(),
                );
            }
            tile("training time", text::duration(only.seconds_train), text::counted(only.epochs.len(), "epoch"));
            tile("examples per second", format::rate(only.examples_per_s), format!("batch {}", only.batch));
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
                ("best test accuracy", Score::TestAccuracy, format::percent),
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
    let mut out = String::from("<div class=\"tiles\">");
    tiles.iter().for_each(|(label, value, note)| push_tile(&mut out, label, value, note));
    out.push_str("</div>");
    out
}

/// One large figure.
pub(crate) fn push_tile(out: &mut String, label: &str, value: &str, note: &str) {
    write!(
        out,
        "<div class=\"card tile\"><div class=\"label\">{}</div><div class=\"value\">{}</div><div class=\"note\">{}</div></div>",
        Esc(label),
        Esc(value),
        Esc(note)
    )
    .unwrap();
}

/// The verdicts on each run and on what more replicas gained.
pub(crate) fn findings(summaries: &[Summary], comparison: &Comparison) -> String {
    let scaling = time::scaling(comparison);
    let mut out = String::from("<div class=\"findings\">");
    for (run, summary) in summaries.iter().enumerate() {
        let mut verdicts = of_summary(summary);
        verdicts.extend(scaling.iter().filter(|(row, _)| *row == run).map(|(_, verdict)| verdict.clone()));
        verdicts.sort_by_key(|verdict| std::cmp::Reverse(verdict.level));
        write!(
            out,
            "<div class=\"card finding\"><h3><span class=\"key r{}\"></span>{}</h3>",
            run % COLOURS,
            Esc(&summary.name)
        )
        .unwrap();
        if let Status::Failed { why } = &summary.status {
            write!(out, "<p><span class=\"badge warning\">failed</span> {}</p>", Esc(why)).unwrap();
        }
        if verdicts.is_empty() {
            out.push_str("<p class=\"muted\">nothing stands out</p>");
        }
        verdicts.iter().for_each(|verdict| push_verdict(&mut out, verdict));
        out.push_str("</div>");
    }
    out.push_str("</div>");
    out
}

pub(crate) fn push_verdict(out: &mut String, verdict: &Verdict) {
    write!(
        out,
        "<p><span class=\"badge {}\">{}</span> {}.",
        verdict.level.name(),
        Esc(&verdict.title),
        Esc(capital(&verdict.reason))
    )
    .unwrap();
    if !verdict.advice.is_empty() {
        write!(out, " <span class=\"muted\">{}.</span>", Esc(capital(&verdict.advice))).unwrap();
    }
    out.push_str("</p>");
}

/// As a sentence.
pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let text: String = chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect());
    // A line must not begin with a percent sign.
    text.replace(" %", "\u{a0}%")
}

/// All about one run, folded away.
pub(crate) fn run(number: usize, run: &RunData, summary: &Summary, open: bool) -> String {
    let mut out = format!(
        "<details class=\"card run\"{}><summary><span class=\"key r{}\"></span>{} <span class=\"muted\">{}</span></summary><dl>",
        if open { " open" } else { "" },
        number % COLOURS,
        Esc(&summary.name),
        Esc(summary.status.name())
    );
    for (label, value) in facts(run, summary) {
        if !value.is_empty() {
            write!(out, "<dt>{}</dt><dd>{}</dd>", Esc(label), Esc(value)).unwrap();
        }
    }
    out.push_str("</dl>");
    end_card(&mut out, summary, &run.notes, &run.config);
    out
}

/// The end of a run's card: decisions, warnings, notes, configuration.
pub(crate) fn end_card(out: &mut String, summary: &Summary, notes: &[String], config: &toml::Table) {
    push_list(out, "Decisions", &summary.reasons);
    push_list(out, "Warnings", &summary.warnings);
    push_list(out, "Notes", notes);
    if !config.is_empty() {
        let config = toml::to_string_pretty(config).unwrap_or_else(|_| config.to_string());
        write!(
            out,
            "<details class=\"config\"><summary>Configuration</summary><pre>{}</pre></details>",
            Esc(config.trim_end())
        )
        .unwrap();
    }
    out.push_str("</details>");
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

pub(crate) fn push_list(out: &mut String, title: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    write!(out, "<h4>{title}</h4><ul>").unwrap();
    items.iter().for_each(|item| write!(out, "<li>{}</li>", Esc(item)).unwrap());
    out.push_str("</ul>");
}
