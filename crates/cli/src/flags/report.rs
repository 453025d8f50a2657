//! The flags of `paceline report` and `paceline runs`.

use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "Examples:\n  paceline report runs/demo\n  paceline report runs/a runs/b --html compare.html")]
pub(crate) struct Report {
    /// Run directories, or folders of runs, of which all are taken
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Where the HTML page goes [default: report.html; report-2.html and so on if that is there and no report of these runs]
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Replace the page, whatever is there
    #[arg(long)]
    pub force: bool,
    /// The summaries as JSON, and no page
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  paceline runs\n  paceline runs /share/runs --json\n\nThe oldest run comes first. Folders of runs within the folder, such as runs/demo, are listed below it."
)]
pub(crate) struct Runs {
    /// A folder of runs
    #[arg(default_value = "runs", value_name = "DIR")]
    pub folder: PathBuf,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}
