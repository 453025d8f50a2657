//! The configuration: one TOML file, then `--set key=value`, checked key by key against one schema.
//!
//! Each key is declared once, in `schema.rs`; reading, `--set`, `config explain` and saving all come from there. A
//! [`Config`] is what was *written*: `auto` is still `auto`, and it remembers which keys the user gave, so that a
//! default never contradicts anything. Resolving it (how many replicas, which rate) is another step and another type.
//!
//! ```
//! use paceline_config::Config;
//!
//! let file = "format = 1\n[train]\nepochs = 3\n";
//! let config = Config::from_parts(Some((file, "my.toml")), &["train.batch=32*workers", "data.name=mnist"])?;
//! assert_eq!(config.train.epochs, 3);
//! assert_eq!(config.train.batch.resolve(4)?.samples(), 128);
//! assert!(config.is_given("data.name") && !config.is_given("train.seed"));
//!
//! let wrong = Config::from_toml("format = 1\n[train]\nepoch = 3\n", "my.toml").unwrap_err();
//! assert_eq!(
//!     wrong.message(),
//!     "my.toml, line 3: there is no key train.epoch; did you mean train.epochs? \
//!      `paceline config explain` lists all keys"
//! );
//! # Ok::<(), paceline_base::Error>(())
//! ```

mod batch;
mod cadence;
mod choices;
mod contradictions;
mod declare;
mod elsewhere;
mod explain;
mod file;
mod optimizer;
mod rate;
mod schema;
mod setting;
#[cfg(test)]
mod tests;

pub use batch::Batch;
pub use cadence::{Cadence, CpuCore, Size};
pub use choices::{CacheName, CompressName, FitName, OptimizerName, PlacementName, Preset, ScheduleName, StrategyName};
pub use declare::{Key, Section};
pub use explain::{explain, explain_json, keys};
pub use file::FORMAT;
pub use schema::{AugmentKeys, Checkpoint, Config, Data, Model, Optimizer, RateSchedule, Record, Run, Strategy, Train};
pub use setting::Auto;

use paceline_base::{Error, Result};
use setting::Wrong;
use toml::Value;

impl Config {
    /// A whole configuration: the text and path of a file if there is one, then the values of `--set`, in order; then
    /// [`Config::check`].
    pub fn from_parts<S: AsRef<str>>(file: Option<(&str, &str)>, sets: &[S]) -> Result<Self> {
        let mut config = match file {
            Some((text, path)) => Self::read(text, path)?,
            None => Self::default(),
        };
        config.set_all(sets)?;
        config.check()?;
        Ok(config)
    }

    /// Sets keys in order: `key=value` each. Then call [`Config::check`].
    pub fn set_all<S: AsRef<str>>(&mut self, sets: &[S]) -> Result<()> {
        self.set_all_by("", sets)
    }

    /// As [`Config::set_all`], where the user writes `before` ahead of each, as `--set `.
    pub fn set_all_by<S: AsRef<str>>(&mut self, before: &str, sets: &[S]) -> Result<()> {
        sets.iter().map(AsRef::as_ref).try_for_each(|set| {
            let (key, value) = set.split_once('=').ok_or_else(|| {
                Error::user(format!(
                    "{before}{set}: there is no `=`; write {before}key=value, such as {before}train.epochs=3"
                ))
            })?;
            self.set_by(&format!("{before}{set}"), key, value)
        })
    }

    /// For a run in several processes: the strategy for them, where neither another nor a plan was given.
    pub fn spread_over_processes(&mut self) -> Result<()> {
        match self.strategy.plan.is_none() && !self.is_given("strategy.name") {
            true => self.set("strategy.name", "multi-worker-mirrored"),
            false => Ok(()),
        }
    }

    /// Sets one key: the value is TOML, or a string without its quotes. After the last one,
    /// call [`Config::check`].
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        self.set_by(&format!("{key}={value}"), key, value)
    }

    /// As [`Config::set`], where the user wrote `given`, which errors begin with: `set_by("--strategy mirrored", "strategy.name", "mirrored")`.
    pub fn set_by(&mut self, given: &str, key: &str, value: &str) -> Result<()> {
        let (key, text) = (key.trim(), value.trim());
        let bare = Value::String(text.into());
        // TOML wants 0.01 and 1.0; on a command line .01 and 1. are numbers too.
        let number = || Some(Value::Float(text.parse().ok()?)).filter(|_| text.contains(|c: char| c.is_ascii_digit()));
        let parsed = text.parse::<Value>().ok().or_else(number).unwrap_or_else(|| bare.clone());
        let key = find(key).map_err(|e| e.context(given))?;
        // A name such as 2024-05-01 or true is TOML of another type; where the key takes a string, it is one.
        let result = match (key.read)(self, &parsed) {
            Err(Wrong::Type) if parsed != bare && (key.read)(self, &bare).is_ok() => Ok(()),
            result => result,
        };
        result.map_err(|wrong| describe(key, &parsed, &wrong).context(given))?;
        self.given.insert(key.path);
        Ok(())
    }

    /// True if the user wrote this key, in the file or by a flag.
    pub fn is_given(&self, key: &str) -> bool {
        self.given.contains(key)
    }

    /// The keys that the user wrote.
    pub fn given(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.given.iter().copied()
    }
}

/// The key that takes what other tools have a flag for: `optimizer.rate` for `--lr` and for `--learning-rate`.
pub fn key_for_flag(flag: &str) -> Option<&'static str> {
    elsewhere::key(flag).and_then(elsewhere::Here::path)
}

/// The key of this path, or the nearest as an error.
fn find(path: &str) -> Result<&'static Key> {
    if let Some(key) = keys().iter().find(|key| key.path == path) {
        return Ok(key);
    }
    if schema::SECTIONS.iter().any(|section| section.name == path) {
        return Err(Error::user(format!(
            "{path} is a section, not a key; `paceline config explain {path}` lists its keys"
        )));
    }
    Err(Error::user(explain::unknown_key(path)))
}

/// Why a value does not fit its key, and what does.
fn describe(key: &Key, value: &Value, wrong: &Wrong) -> Error {
    let mut shown = value.to_string().replace('\n', " ");
    if shown.chars().count() > 60 {
        shown = shown.chars().take(59).chain(['…']).collect();
    }
    let what = match (wrong, value) {
        (Wrong::Because(why), _) => why.clone(),
        (Wrong::Range, _) => "is out of range".into(),
        (Wrong::Type, Value::String(_)) => "is a string".into(),
        (Wrong::Type, Value::Integer(_)) => "is a whole number".into(),
        (Wrong::Type, Value::Float(_)) => "is a number with a fraction".into(),
        (Wrong::Type, Value::Boolean(_)) => "is true or false".into(),
        (Wrong::Type, Value::Datetime(_)) => "is a date or time".into(),
        (Wrong::Type, Value::Array(_)) => "is a list".into(),
        (Wrong::Type, Value::Table(_)) => "is a table".into(),
    };
    Error::user(explain::then(&format!("{} = {shown} {what}", key.path), &format!("give {}", key.kind())))
}
