//! The directory of a run: made, reopened, and what is written into it before the first step.

use super::Finished;
use crate::model_info::ModelInfo;
use crate::repeat::{MODEL_COPY, PLAN_COPY, RunToml};
use crate::resolve::Resolved;
use crate::watch::Watcher;
use paceline_base::Result;
use paceline_config::Config;
use paceline_engine::{Ended, TrainOptions, TrainState};
use paceline_record::{Patience, RunDir, read_run};
use paceline_system::machine;
use std::path::Path;

/// Opens a run to go on with it, as its one writer.
pub(super) fn reopen(dir: &Path, patience: Patience, watcher: &dyn Watcher) -> Result<RunDir> {
    RunDir::reopen(dir, patience, &mut |words| watcher.waiting(words))
}

/// Makes the folder that `run.name` names, or `runs/mlp-fashion-sample-3`: the first number that is free.
pub(super) fn create_auto(resolved: &Resolved) -> Result<RunDir> {
    let config = &resolved.config;
    if let Some(name) = &config.run.name {
        return RunDir::create(config.run.dir.join(name));
    }
    let word = |s: &str| s.chars().map(|c| if c.is_alphanumeric() || c == '-' { c } else { '-' }).collect::<String>();
    let data = config.data.name.rsplit('/').find(|p| !p.is_empty()).unwrap_or("data");
    let stem = format!("{}-{}", word(&resolved.graph.name), word(data));
    RunDir::create_next(&config.run.dir, &stem)
}

/// Everything that is needed to resume or repeat the run.
pub(super) fn write_settings(resolved: &Resolved, dir: &RunDir) -> Result<()> {
    keep_copies(&resolved.config, dir)?;
    ModelInfo::of(&resolved.config, &resolved.data, &resolved.graph).write(dir.path())?;
    dir.write_run_toml(&RunToml {
        version: env!("CARGO_PKG_VERSION").into(),
        machine: machine::describe(),
        tuning: resolved.tuning.clone(),
        plan: paceline_plan::to_toml(&resolved.layout.plan)?,
        folder: std::env::current_dir().ok().filter(|folder| folder.to_str().is_some()),
        config: resolved.config.to_table(),
    })
}

fn keep_copies(config: &Config, dir: &RunDir) -> Result<()> {
    for (file, copy) in [(&config.model.file, MODEL_COPY), (&config.strategy.plan, PLAN_COPY)] {
        if let Some(path) = file {
            let text = crate::resolve::read_text("read", path)?;
            paceline_system::atomic::write(&dir.path().join(copy), text.as_bytes())?;
        }
    }
    Ok(())
}

/// A run that has nothing left to do, as it was: its records stay what they are.
pub(super) fn finished_before(
    dir: &RunDir,
    options: &TrainOptions,
    progress: TrainState,
    resumed: bool,
) -> Result<Option<Finished>> {
    let all = progress.epoch >= options.epochs || (options.max_steps > 0 && progress.step >= options.max_steps);
    let earlier = if resumed && all { read_run(dir.path())?.summary } else { None };
    Ok(earlier.filter(|summary| summary.status == paceline_record::Status::Done).map(|mut summary| {
        let more = "give more train.epochs or train.max_steps to go on";
        summary.warnings.push(format!("this run was finished before, and nothing is left to do; {more}"));
        Finished { dir: dir.path().into(), summary, checkpoints: Some(dir.checkpoints()), ended: Ended::Done }
    }))
}
