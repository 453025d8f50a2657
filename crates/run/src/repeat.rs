//! Repeating a run from its `run.toml`: the configuration with every "auto" as it was decided, and the kernels that were measured.
//!
//! On the same kind of processor, and by the same version, that gives the same bits. What stands against it (another processor, a key that was
//! changed, other samples, other ranks) does not stop the run, but is said.

use crate::resolve::Resolved;
use paceline_base::text::counted;
use paceline_base::{Error, Result};
use paceline_config::{Auto, Config, PlacementName, StrategyName};
use paceline_engine::checkpoint;
use paceline_kernels::Tuning;
use paceline_record::{RunDir, read_run, read_run_toml};
use paceline_system::machine;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// `run.toml`, besides `format = 1`.
#[derive(Serialize, Deserialize)]
pub(crate) struct RunToml {
    pub(crate) version: String,
    pub(crate) machine: machine::Machine,
    pub(crate) tuning: Tuning,
    pub(crate) plan: String,
    /// The working directory of the run, which relative paths in `config` start from; older versions did not write it.
    #[serde(default)]
    pub(crate) folder: Option<PathBuf>,
    pub(crate) config: Table,
}

/// Copies of the files that a configuration names, so that the run directory is complete.
pub(crate) const MODEL_COPY: &str = "model.toml";
pub(crate) const PLAN_COPY: &str = "plan.toml";

/// Keys that change no bit of the parameters: where a run lies, what it records, how its input is kept, how many threads compute.
const HARMLESS: [&str; 5] = ["run.", "record.", "checkpoint.", "data.cache", "strategy.threads"];

/// A run as it was recorded.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its directory.
    pub dir: PathBuf,
    /// Its configuration, decided; a name that it had is left out, because the directory of that name exists.
    pub config: Config,
    /// Its kernels.
    pub tuning: Tuning,
    plan: String,
    version: String,
    machine: machine::Machine,
    /// The table that `config` was read from, to see what was changed since.
    table: Table,
}

impl Recorded {
    /// Reads the record of the run in this directory.
    pub fn open(dir: &Path) -> Result<Self> {
        let run = RunDir::open(dir)?;
        let path = run.run_toml();
        let fail = |e: String| Error::user(format!("{}: {e}; it was not written by paceline train", path.display()));
        let parsed: RunToml =
            Value::Table(read_run_toml(&run)?).try_into().map_err(|e: toml::de::Error| fail(e.message().into()))?;
        let mut config = Config::from_table(&parsed.config, &path.display().to_string())?;
        // The run directory has its own copies: the originals may be gone or changed since.
        for (file, copy) in [(&mut config.model.file, MODEL_COPY), (&mut config.strategy.plan, PLAN_COPY)] {
            if file.is_some() {
                *file = Some(run.path().join(copy));
            }
        }
        if let Some(folder) = &parsed.folder {
            find_data(&mut config, folder);
        }
        let table = config.to_table();
        let RunToml { version, machine, tuning, plan, .. } = parsed;
        Ok(Self { dir: run.path().into(), config, tuning, plan, version, machine, table })
    }

    /// The run that this file is the record of; none if it is a configuration like any other.
    pub fn at(file: &Path) -> Result<Option<Self>> {
        let Ok(text) = std::fs::read_to_string(file) else { return Ok(None) }; // whoever reads it as a configuration says why
        let Ok(table) = text.parse::<Table>() else { return Ok(None) };
        if !["config", "tuning", "machine"].iter().all(|key| table.contains_key(*key)) {
            return Ok(None);
        }
        let dir = file.parent().filter(|p| *p != Path::new("")).unwrap_or(Path::new("."));
        if !RunDir::open(dir).is_ok_and(|run| run.run_toml().file_name() == file.file_name()) {
            return Err(Error::user(format!(
                "{} is the record of a run, but not in its folder, where the model and the plan are; give RUN/run.toml",
                file.display()
            )));
        }
        let mut recorded = Self::open(dir)?;
        recorded.config.run.name = None;
        Ok(Some(recorded))
    }

    /// Whether this processor can compute with the recorded kernels.
    pub fn fits(&self) -> bool {
        self.tuning.isa.is_available()
    }

    /// What stands against equal bits.
    pub(crate) fn differences(
        &self,
        now: &Resolved,
        asked: &Config,
        identity: &checkpoint::Identity,
    ) -> Result<Vec<String>> {
        let mut notes = Vec::new();
        let here = machine::describe();
        if !self.fits() {
            notes.push(format!(
                "this processor has no {}, which {} was computed with: kernels are chosen anew, and bits will differ",
                self.tuning.isa,
                self.dir.display()
            ));
        } else if here.cpu != self.machine.cpu {
            notes.push(format!(
                "{} was computed on {}, this is {}: bits may differ",
                self.dir.display(),
                self.machine.cpu,
                here.cpu
            ));
        }
        let version = env!("CARGO_PKG_VERSION");
        if self.version != version {
            notes.push(format!(
                "{} was computed by version {}, this is {version}: bits may differ",
                self.dir.display(),
                self.version
            ));
        }
        let changed = changed(&self.table, &asked.to_table());
        if !changed.is_empty() {
            notes.push(format!("not the same run again: {} changed", changed.join(", ")));
        }
        if changed.iter().any(|c| ["model.", "data.", "train.batch"].iter().any(|k| c.starts_with(k))) {
            notes.push(
                "replicas and threads are those that were chosen for the run as it was; \
                 strategy.replicas=auto and strategy.threads=auto choose anew"
                    .into(),
            );
        }
        let ranks = paceline_plan::parse(&self.plan, "run.toml").map(|p| p.ranks).ok();
        if changed.is_empty() && paceline_plan::to_toml(&now.layout.plan)? != self.plan {
            let (before, now) = (ranks.map_or("other ranks".into(), |n| counted(n, "rank")), now.layout.plan.ranks);
            notes.push(format!("the run had {before}, this one has {now}: equal to rounding, not in bits"));
        }
        let summary = read_run(&self.dir)?.summary;
        if let Some(attempts) = summary.map(|s| s.attempt).filter(|n| *n > 1) {
            notes.push(format!(
                "the run was resumed ({attempts} attempts): these are the choices of its last one; where an earlier one had \
                 others, bits differ"
            ));
        }
        if let Ok(Some((found, _))) = checkpoint::latest(&RunDir::open(&self.dir)?.checkpoints())
            && changed.is_empty()
            && found.manifest.identity.data != identity.data
        {
            notes.push("the training samples are not those that the run had: the result will be another".into());
        }
        Ok(notes)
    }
}

/// Data that lies where it did, whatever the folder this program was started in; a run directory that was moved together with its
/// data finds it from here. Data of their own (data.placement = "local") processes have each in its own folder.
fn find_data(config: &mut Config, folder: &Path) {
    if config.data.placement == PlacementName::Local {
        return;
    }
    let mut there = config.clone();
    there.data_beside(folder);
    let here = std::env::current_dir().is_ok_and(|here| here == folder);
    if !here && (Path::new(&there.data.name).exists() || !Path::new(&config.data.name).exists()) {
        *config = there;
    }
}

/// What gives the bits of this run again, and what another fresh run would measure anew.
pub(crate) fn words(asked: &Config, now: &Resolved, dir: &Path) -> String {
    let strategy = &asked.strategy;
    let layout = strategy.plan.is_none()
        && strategy.name == StrategyName::Mirrored
        && (strategy.replicas == Auto::Auto || strategy.update == Auto::Auto);
    let open: Vec<&str> = [(layout, "replicas and update"), (!now.tuning.convs.is_empty(), "convolution kernels")]
        .into_iter()
        .filter_map(|(open, what)| open.then_some(what))
        .collect();
    let record = dir.join("run.toml");
    match open.join(", ") {
        none if none.is_empty() => format!(
            "the same bits again: the same settings, or paceline train {}, on this kind of processor and any number of threads",
            record.display()
        ),
        open => format!(
            "the same bits again: paceline train {}, on this kind of processor and any number of threads; a run from the \
             settings alone may choose otherwise by measuring ({open}) and then rounds otherwise",
            record.display()
        ),
    }
}

/// The keys that differ and change bits, as `key (before → now)`.
fn changed(before: &Table, now: &Table) -> Vec<String> {
    let mut list = Vec::new();
    for (section, keys) in now {
        let (Value::Table(keys), old) = (keys, before.get(section).and_then(Value::as_table)) else { continue };
        let names = keys.keys().chain(old.into_iter().flat_map(Table::keys));
        let mut names: Vec<&String> = names.collect();
        names.sort();
        names.dedup();
        for name in names {
            let path = format!("{section}.{name}");
            let (was, is) = (old.and_then(|t| t.get(name)), keys.get(name));
            if was != is && !HARMLESS.iter().any(|harmless| path.starts_with(harmless)) {
                let show = |v: Option<&Value>| v.map_or("none".into(), Value::to_string);
                list.push(format!("{path} ({} → {})", show(was), show(is)));
            }
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_that_change_bits_are_named() {
        let before = Config::default();
        let mut now = before.clone();
        for (key, value) in
            [("run.name", "b"), ("record.every", "1"), ("data.cache", "memory"), ("strategy.threads", "2")]
        {
            now.set(key, value).unwrap();
        }
        assert_eq!(changed(&before.to_table(), &now.to_table()), [""; 0]);
        now.set("train.seed", "7").unwrap();
        now.set("strategy.plan", "p.toml").unwrap();
        let list = changed(&before.to_table(), &now.to_table());
        assert_eq!(list.len(), 2, "{list:?}");
        assert!(list[0].starts_with("strategy.plan (none → ") && list[1].starts_with("train.seed ("), "{list:?}");
    }
}
