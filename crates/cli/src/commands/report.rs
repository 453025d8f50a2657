//! `paceline report RUN…`

use crate::flags::Report;
use crate::screen::{self, say};
use paceline::record::{RunData, Study, Work, read_run, read_study, runs_in, work_of};
use paceline::{Error, Result, report, text};
use std::path::{Path, PathBuf};

/// Runs the command.
pub(crate) fn run(flags: &Report) -> Result<()> {
    let mut runs = Vec::new();
    let mut studies = Vec::new();
    let mut add = |path: &Path| -> Result<()> {
        match work_of(path)? {
            Work::Speedtest => studies.push(read_study(path)?),
            Work::Train | Work::Prepare => runs.push(read_run(path)?),
        }
        Ok(())
    };
    for path in &flags.runs {
        // With `runs/demo/*` the shell also hands over files beside the runs.
        if path.is_file() && flags.runs.len() > 1 {
            tracing::info!("{} is not a run directory: left out", path.display());
            continue;
        }
        let below = runs_in(path);
        if below.is_empty() {
            add(path)?;
        }
        for path in below {
            add(&path)?;
        }
    }
    if runs.is_empty() && studies.is_empty() {
        return Err(Error::user("none of these is a run directory; give folders such as runs/mlp-fashion-sample-1"));
    }
    if flags.json {
        return json(&runs, &studies);
    }
    if !runs.is_empty() {
        show(&runs);
        let page = page(flags, flags.html.as_deref().unwrap_or(Path::new(PAGE)), &report::page_identity(&runs))?;
        report::write_html(&page, &runs)?;
        say!("\nreport: {}", page.display());
    }
    if !studies.is_empty() {
        // Studies have other plots: a page of their own, beside the first where there are both.
        let page_path = flags.html.clone().unwrap_or_else(|| PAGE.into());
        let page_path = if runs.is_empty() { page_path } else { beside(&page_path, "speedtest") };
        let page = page(flags, &page_path, &report::study_identity(&studies))?;
        super::speedtest::show(&studies);
        report::write_study_html(&page, &studies)?;
        say!("\nreport: {}", page.display());
    }
    Ok(())
}

/// Where the page goes, if nobody says.
const PAGE: &str = "report.html";

/// The path, if a page of these runs may be written there. Otherwise, if nobody named it, the next free name.
fn page(flags: &Report, path: &Path, of: &report::PageIdentity) -> Result<PathBuf> {
    if flags.force || of.may_replace(path) {
        return Ok(path.into());
    }
    if flags.html.is_some() {
        return Err(Error::user(format!(
            "--html {}: it is there already and is no report of these runs; give another name, or --force to replace it",
            path.display()
        )));
    }
    let free = of.free_path(path);
    say!("\n{} is there already and is no report of these runs: it is kept", path.display());
    Ok(free)
}

fn show(runs: &[RunData]) {
    let (preparations, trainings): (Vec<_>, Vec<_>) = runs.iter().cloned().partition(report::is_preparation);
    if !trainings.is_empty() {
        screen::print_table(&report::comparison_table(&report::compare(&trainings), screen::style()));
    }
    for run in &trainings {
        for verdict in report::verdicts(run) {
            say!("{}: {verdict}", text::visible(&run.name));
        }
    }
    let summaries: Vec<_> = preparations.iter().filter_map(|run| run.summary.as_ref()).collect();
    if !summaries.is_empty() {
        screen::print_table(&report::preparations_table(&summaries, screen::style()));
    }
    for summary in summaries {
        if let Some(words) = report::preparation_words(summary) {
            say!("{}: {words}", text::visible(&summary.name));
        }
    }
    for run in runs {
        run.notes.iter().for_each(|note| say!("{}: note: {note}", run.name));
    }
}

fn json(runs: &[RunData], studies: &[Study]) -> Result<()> {
    if runs.is_empty() {
        return super::speedtest::json(studies);
    }
    let mut summaries: Vec<_> = runs.iter().map(report::digest).collect();
    summaries.extend(studies.iter().filter_map(|study| study.summary.clone()));
    let text = serde_json::to_string_pretty(&summaries).map_err(|e| Error::internal(e.to_string()))?;
    screen::print(&text);
    Ok(())
}

/// `report.html` → `report-speedtest.html`.
fn beside(path: &Path, word: &str) -> PathBuf {
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_else(|| "report".into());
    let end = path.extension().map(|s| format!(".{}", s.to_string_lossy())).unwrap_or_default();
    path.with_file_name(format!("{stem}-{word}{end}"))
}
