//! `paceline config explain | check`

use super::train::from_file;
use crate::flags::{Config, ConfigCommand};
use crate::screen::{self, say};
use paceline::{Error, Result, config, text};
use std::path::Path;

/// Runs the command.
pub(crate) fn run(flags: &Config) -> Result<()> {
    match &flags.command {
        ConfigCommand::Explain { key, json: false } => {
            screen::print(&config::explain(key.as_deref(), screen::style().width)?);
        }
        ConfigCommand::Explain { key, json: true } => {
            let keys = config::explain_json(key.as_deref())?;
            let text = serde_json::to_string_pretty(&keys).map_err(|e| Error::internal(e.to_string()))?;
            screen::print(&text);
        }
        ConfigCommand::Check { file, sets } => check(file, sets)?,
    }
    Ok(())
}

/// Goes as far as training does before it begins, without what is measured.
fn check(file: &Path, sets: &[String]) -> Result<()> {
    let mut config = from_file(file)?;
    config.set_all_by("--set ", sets)?;
    config.check().map_err(|e| e.context(file.display()))?;
    // What is left to a trial fits whatever it finds.
    if config.strategy.name == config::StrategyName::Mirrored && config.strategy.replicas == config::Auto::Auto {
        config.set("strategy.replicas", "1")?;
    }
    if config.strategy.threads == config::Auto::Auto {
        config.set("strategy.threads", "1")?;
    }
    let run = paceline::resolve(&config, None)?;
    say!(
        "{} fits: {} with {} parameters on {}; {} and {}; {} of memory",
        file.display(),
        run.graph.name,
        text::si(run.graph.parameter_count() as f64),
        config.data.name,
        text::counted(run.data.samples(), "training sample"),
        text::counted(run.data.validation_pool().pass, "validation sample"),
        text::bytes(run.needs.total())
    );
    run.data.notes.iter().for_each(|note| say!("note: {note}"));
    Ok(())
}
