//! `paceline runs [DIR]`

use crate::flags::Runs;
use crate::screen::{self, say};
use paceline::record::{RunEntry, Work, list_runs};
use paceline::{Error, Result, report};

/// Runs the command.
pub(crate) fn run(flags: &Runs) -> Result<()> {
    let runs = list_runs(&flags.folder)?;
    if flags.json {
        let text = serde_json::to_string_pretty(&runs).map_err(|e| Error::internal(e.to_string()))?;
        screen::print(&text);
        return Ok(());
    }
    let mut groups: Vec<&Option<String>> = Vec::new();
    for run in &runs {
        if !groups.contains(&&run.group) {
            groups.push(&run.group);
        }
    }
    groups.sort_by_key(|group| group.is_some()); // what lies in the folder itself comes first
    for (i, group) in groups.iter().enumerate() {
        let folder = group.as_ref().map_or(flags.folder.clone(), |group| flags.folder.join(group));
        let of: Vec<&RunEntry> = runs.iter().filter(|run| run.group == **group).collect();
        say!("{}{}: {}\n", if i > 0 { "\n" } else { "" }, folder.display(), paceline::text::counted(of.len(), "run"));
        screen::print_table(&report::runs_table(&of, screen::style()));
    }
    for run in &runs {
        if let Some(problem) = &run.problem {
            say!("\n{}: {problem}", run.path.display());
        }
    }
    if let Some(run) = runs.iter().rfind(|run| run.work == Work::Train && run.problem.is_none()) {
        say!("\ncompare them: paceline report {}", run.path.parent().unwrap_or(&flags.folder).display());
    }
    Ok(())
}
