//! One self-contained page: no network, no external script, readable in ten years.
//!
//! The page's own content policy forbids loading anything, so that this is enforced and not only promised. All text of
//! runs passes through [`escape::Esc`].

mod axis;
mod chart;
mod curves;
mod escape;
mod identity;
mod preparation;

mod study;
mod study_charts;
mod table;
mod times;
mod words;

use std::fmt::Write;
use std::path::Path;

use paceline_base::Result;
use paceline_record::{RunData, StepRecord, Summary, Work};
use paceline_system::atomic;

use crate::compare::compare_summaries;
use crate::digest;
use crate::settings::Settings;
use escape::Esc;
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
    let mut out = head(&title, &subtitle(&summaries), &page_identity(runs));
    if runs.is_empty() {
        out.push_str("<p class=\"card empty\">no runs were given</p></main></body></html>");
        return out;
    }
    let of = |work: Work| {
        let wanted = runs.iter().zip(&summaries).filter(move |(_, summary)| summary.work == work);
        wanted.map(|(run, _)| run).collect::<Vec<&RunData>>()
    };
    push_trainings(&mut out, &of(Work::Train));
    let preparations = of(Work::Prepare);
    if !preparations.is_empty() {
        section(&mut out, "Preparation", &preparation::section(&preparations));
    }
    write!(out, "</main><script>{SCRIPT}</script></body></html>").unwrap();
    out
}

/// Everything about runs that trained.
fn push_trainings(out: &mut String, runs: &[&RunData]) {
    if runs.is_empty() {
        return;
    }
    let summaries: Vec<Summary> = runs.iter().map(|run| digest(run)).collect();
    let steps: Vec<&[StepRecord]> = runs.iter().map(|run| run.steps.as_slice()).collect();
    let settings: Vec<Settings> = runs.iter().map(|run| Settings::of(&run.config)).collect();
    let comparison = compare_summaries(&summaries, &settings);
    out.push_str(&words::tiles(&summaries, &comparison));
    section(out, if runs.len() == 1 { "Result" } else { "Comparison" }, &table::table(&comparison));
    section(out, "Findings", &words::findings(&summaries, &comparison));
    let mut charts = legend(&summaries);
    charts.push_str("<div class=\"charts\">");
    curves::charts(&summaries, &steps).iter().for_each(|chart| charts.push_str(&chart.svg()));
    charts.push_str("</div>");
    section(out, "Curves", &charts);
    section(out, "Where the time went", &times::section(&summaries));
    let details: String = runs
        .iter()
        .zip(&summaries)
        .enumerate()
        .map(|(i, (run, summary))| words::run(i, run, summary, runs.len() == 1))
        .collect();
    section(out, if runs.len() == 1 { "The run" } else { "The runs" }, &details);
}

/// The page up to the first section.
fn head(title: &str, subtitle: &str, of: &PageIdentity) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0} – Paceline</title>{2}\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\
         <link rel=\"icon\" href=\"data:,\"><style>{STYLE}</style></head><body><header><div class=\"brand\">{LOGO}Paceline</div><h1>{0}</h1>\
         <p class=\"muted\">{1}</p></header><main>",
        Esc(title),
        Esc(subtitle),
        of.mark()
    )
}

/// By what the page for these runs is known.
pub fn page_identity(runs: &[RunData]) -> PageIdentity {
    PageIdentity::runs(runs.iter().map(|run| (run.name.as_str(), run.summary.as_ref().map_or(0, |s| s.started))))
}

/// Writes the page for these runs to `path`, at once or not at all.
pub fn write_html(path: &Path, runs: &[RunData]) -> Result<()> {
    atomic::write(path, html(runs).as_bytes())
}

/// Three riders in a line.
const LOGO: &str =
    "<svg viewBox=\"0 0 34 16\" aria-hidden=\"true\"><path d=\"M2 2l6 6-6 6M13 2l6 6-6 6M24 2l6 6-6 6\"/></svg>";

fn section(out: &mut String, title: &str, content: &str) {
    write!(out, "<section><h2>{title}</h2>{content}</section>").unwrap();
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
fn legend(summaries: &[Summary]) -> String {
    let mut out = String::from("<ul class=\"legend\">");
    if summaries.len() > 1 {
        for (run, summary) in summaries.iter().enumerate() {
            write!(
                out,
                "<li><button data-run=\"{run}\" aria-pressed=\"true\" title=\"show or hide\"><span class=\"key r{}\"></span>{}</button></li>",
                run % chart::COLOURS,
                Esc(&summary.name)
            )
            .unwrap();
        }
    }
    out.push_str(
        "<li class=\"how\"><svg viewBox=\"0 0 28 8\"><path d=\"M0 4h28\"/></svg>validation</li>\
         <li class=\"how\"><svg viewBox=\"0 0 28 8\"><path d=\"M0 4h28\" stroke-dasharray=\"5 4\"/></svg>training</li></ul>",
    );
    out
}
