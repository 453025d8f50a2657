//! `paceline config explain`

use crate::flags::{Config, ConfigCommand};
use paceline::Result;

/// Runs the command.
pub fn run(flags: &Config) -> Result<()> {
    let ConfigCommand::Explain { key } = &flags.command;
    crate::screen::print(&paceline::config::explain(key.as_deref(), crate::screen::style().width)?);
    Ok(())
}
