//! One self-contained page: no network, no external script, readable in ten years.
//!
//! The page's own content policy forbids loading anything, so that this is enforced and not only promised. Markup is made by
//! `maud`, which escapes whatever is put into it; [`without_unseen`] takes out what no markup needs.

mod axis;
mod chart;
mod curves;
mod identity;
mod preparation;

mod study;
mod study_charts;
mod table;
mod times;
mod words;

use std::path::Path;

use maud::{Markup, PreEscaped, Render, html as markup};
use paceline_base::Result;
use paceline_base::text::is_unseen;
use paceline_record::{RunData, StepRecord, Summary, Work};
use paceline_system::atomic;

use crate::compare::compare_summaries;
use crate::digest;
use crate::settings::Settings;
pub use identity::PageIdentity;
pub use study::{study_html, study_identity, write_study_html};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page for these runs: trainings first, then other work.
pub fn html(runs: &[RunData]) -> String {
    let summaries: Vec<Summary> = runs.iter().map(digest).collect();
    let title = match &summaries[..] {
        [only] => only.name.clone(),
        many => format!("{} runs compared", many.len()),
    };
    let of = |work: Work| {
        let wanted = runs.iter().zip(&summaries).filter(move |(_, summary)| summary.work == work);
        wanted.map(|(run, _)| run).collect::<Vec<&RunData>>()
    };
    let (trained, prepared) = (of(Work::Train), of(Work::Prepare));
    let content = markup! {
        @if !trained.is_empty() { (trainings(&trained)) }
        @if !prepared.is_empty() { (section("Preparation", preparation::section(&prepared))) }
    };
    let content = if runs.is_empty() {
        markup! { p.card.empty { "no runs were given" } }
    } else {
        content
    };
    page(&title, &subtitle(&summaries), &page_identity(runs), content)
}

/// Everything about runs that trained.
fn trainings(runs: &[&RunData]) -> Markup {
    let summaries: Vec<Summary> = runs.iter().map(|run| digest(run)).collect();
    let steps: Vec<&[StepRecord]> = runs.iter().map(|run| run.steps.as_slice()).collect();
    let settings: Vec<Settings> = runs.iter().map(|run| Settings::of(&run.config)).collect();
    let comparison = compare_summaries(&summaries, &settings);
    let only = runs.len() == 1;
    let charts = markup! {
        (legend(&summaries))
        div.charts { @for chart in curves::charts(&summaries, &steps) { (chart) } }
    };
    let details = markup! {
        @for (i, (run, summary)) in runs.iter().zip(&summaries).enumerate() { (words::run(i, run, summary, only)) }
    };
    markup! {
        (words::tiles(&summaries, &comparison))
        (section(if only { "Result" } else { "Comparison" }, table::table(&comparison)))
        (section("Findings", words::findings(&summaries, &comparison)))
        (section("Curves", charts))
        (section("Where the time went", times::section(&summaries)))
        (section(if only { "The run" } else { "The runs" }, details))
    }
}

/// Forbids the page to load anything.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// A whole page.
fn page(title: &str, subtitle: &str, identity: &PageIdentity, content: Markup) -> String {
    let page = markup! {
        (PreEscaped("<!doctype html>"))
        html lang="en" {
            head {
                meta charset="utf-8";
                title { (title) " – Paceline" }
                (identity)
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    // Three riders in a line.
                    div.brand {
                        svg viewBox="0 0 34 16" aria-hidden="true" { path d="M2 2l6 6-6 6M13 2l6 6-6 6M24 2l6 6-6 6" {} }
                        "Paceline"
                    }
                    h1 { (title) }
                    p.muted { (subtitle) }
                }
                main { (content) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    without_unseen(page)
}

/// Control characters and marks of direction have no place in HTML; line ends and tabs do, in configurations.
fn without_unseen(markup: Markup) -> String {
    markup.into_string().replace(|c| is_unseen(c) && c != '\n' && c != '\t', "\u{fffd}")
}

/// By what the page for these runs is known.
pub fn page_identity(runs: &[RunData]) -> PageIdentity {
    PageIdentity::runs(runs.iter().map(|run| (run.name.as_str(), run.summary.as_ref().map_or(0, |s| s.started))))
}

/// Writes the page for these runs to `path`, at once or not at all.
pub fn write_html(path: &Path, runs: &[RunData]) -> Result<()> {
    atomic::write(path, html(runs).as_bytes())
}

fn section(title: &str, content: Markup) -> Markup {
    markup! { section { h2 { (title) } (content) } }
}

/// The colour of a run in all charts and lists.
fn key(run: usize) -> Markup {
    markup! { span.key.{ "r" (run % chart::COLOURS) } {} }
}

fn subtitle(summaries: &[Summary]) -> String {
    let mut parts = Vec::new();
    if let [only] = summaries {
        parts.extend([only.model.clone(), only.data.clone(), only.strategy.clone()]);
    }
    when_and_where(parts, &summaries.iter().collect::<Vec<_>>())
}

/// Joins the parts of a subtitle, with the newest date and the machine that all share.
fn when_and_where(mut parts: Vec<String>, summaries: &[&Summary]) -> String {
    if let Some(started) = summaries.iter().map(|s| s.started).filter(|&t| t > 0).max() {
        parts.push(paceline_base::text::date(started));
    }
    if let Some(first) = summaries.first()
        && summaries.iter().all(|s| s.machine == first.machine)
    {
        parts.push(first.machine.cpu.clone());
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
}

/// One legend for all charts: a colour per run, which can be switched off, and what dashed and solid mean.
fn legend(summaries: &[Summary]) -> Markup {
    markup! {
        ul.legend {
            @if summaries.len() > 1 {
                @for (run, summary) in summaries.iter().enumerate() { (legend_switch(run, &summary.name)) }
            }
            (legend_line(None, "validation"))
            (legend_line(Some("5 4"), "training"))
        }
    }
}

/// An entry of a legend that shows or hides a run.
fn legend_switch(run: usize, name: impl Render) -> Markup {
    markup! {
        li { button data-run=(run) aria-pressed="true" title="show or hide" { (key(run)) (name) } }
    }
}

/// An entry of a legend that says what a kind of line means.
fn legend_line(dashes: Option<&str>, what: &str) -> Markup {
    markup! {
        li.how { svg viewBox="0 0 28 8" { path d="M0 4h28" stroke-dasharray=[dashes] {} } (what) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        let text = "<a b=\"c\" d='e'>&\u{1b}";
        let page = without_unseen(markup! { i title=(text) { (text) } });
        let escaped = "&lt;a b=&quot;c&quot; d='e'&gt;&amp;\u{fffd}";
        assert_eq!(page, format!("<i title=\"{escaped}\">{escaped}</i>"));
    }
}
