//! `paceline report RUN…`

use crate::flags::Report;
use crate::screen::{self, say};
use paceline::{Error, Result, report};
use std::path::{Path, PathBuf};

/// The run directories directly in a folder that is none itself, such as `runs` or `runs/demo`, by name.
fn runs_below(folder: &Path) -> Vec<PathBuf> {
    let is_run = |path: &Path| path.join("run.toml").is_file();
    if is_run(folder) {
        return Vec::new();
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(std::result::Result::ok);
    let mut found: Vec<PathBuf> = entries.map(|e| e.path()).filter(|p| is_run(p)).collect();
    found.sort();
    found
}

/// Runs the command.
pub fn run(flags: &Report) -> Result<()> {
    let mut runs = Vec::new();
    for path in &flags.runs {
        // With `runs/demo/*` the shell also hands over files beside the runs.
        if path.is_file() && flags.runs.len() > 1 {
            tracing::info!("{} is not a run directory: left out", path.display());
            continue;
        }
        let below = runs_below(path);
        if below.is_empty() {
            runs.push(paceline::record::read_run(path)?);
        }
        for path in below {
            runs.push(paceline::record::read_run(path)?);
        }
    }
    if runs.is_empty() {
        return Err(Error::user("none of these is a run directory; give folders such as runs/mlp-fashion-sample-1"));
    }
    if flags.json {
        let summaries: Vec<_> = runs.iter().map(report::digest).collect();
        let text = serde_json::to_string_pretty(&summaries).map_err(|e| Error::internal(e.to_string()))?;
        screen::print(&text);
        return Ok(());
    }
    let (preparations, trainings): (Vec<_>, Vec<_>) = runs.iter().cloned().partition(report::is_preparation);
    if !trainings.is_empty() {
        screen::print(&report::comparison_table(&report::compare(&trainings), screen::style()));
    }
    for run in &trainings {
        for verdict in report::verdicts(run) {
            say!("{}: {verdict}", run.name);
        }
    }
    let summaries: Vec<_> = preparations.iter().filter_map(|run| run.summary.as_ref()).collect();
    if !summaries.is_empty() {
        screen::print(&report::preparations_table(&summaries, screen::style()));
    }
    for summary in summaries {
        if let Some(words) = report::preparation_words(summary) {
            say!("{}: {words}", summary.name);
        }
    }
    report::write_html(&flags.html, &runs)?;
    say!("\nreport: {}", flags.html.display());
    Ok(())
}
