//! Configuration files: reading with line numbers, and writing in full.
//!
//! A saved configuration holds every value, so that a later version with other defaults reads the same run. The list
//! `given` in it says which of them the user wrote; without that list (a file written by hand) it is all of them.

use crate::declare::Key;
use crate::elsewhere;
use crate::explain::{LISTS_ALL, then};
use crate::schema::{Config, KEYS, SECTIONS};
use crate::{describe, find};
use paceline_base::text::did_you_mean;
use paceline_base::{Error, Result};
use paceline_data::{Catalogue, Split};
use serde::{Deserialize, Serialize};
use std::path::Path;
use toml::de::{DeTable, ValueDeserializer};
use toml::{Spanned, Table, Value};

/// The version of the format that this program writes, and the newest that it reads.
pub const FORMAT: i64 = 1;

impl Config {
    /// Reads the text of a configuration file and checks it; `path` is for messages.
    ///
    /// # Errors
    /// With the line, the key, and what to do.
    pub fn from_toml(text: &str, path: &str) -> Result<Self> {
        let config = Self::read(text, path)?;
        config.check().map_err(|e| e.context(path))?;
        Ok(config)
    }

    /// Takes the files that this configuration names (model.file, strategy.plan, data.name and data.validation where they are
    /// paths) as relative to the folder that it lies in, and not to the one that the program was started in. Call it before
    /// [`Config::set`], whose paths are the user's own.
    pub fn beside(&mut self, folder: &Path) {
        for file in [&mut self.model.file, &mut self.strategy.plan].into_iter().flatten() {
            *file = folder.join(&*file);
        }
        self.data_beside(folder);
    }

    /// The part of [`Config::beside`] that speaks of the data.
    pub fn data_beside(&mut self, folder: &Path) {
        if let Split::Path(path) = &mut self.data.validation {
            *path = folder.join(&*path);
        }
        if self.is_given("data.name") && Catalogue::is_path(&self.data.name) {
            self.data.name = folder.join(&self.data.name).to_string_lossy().into_owned();
        }
    }

    /// As [`Config::from_toml`], without checking that the keys fit together: flags may still change them.
    pub fn read(text: &str, path: &str) -> Result<Self> {
        let place = |offset: usize| {
            let line = text.as_bytes()[..offset.min(text.len())].iter().filter(|&&b| b == b'\n').count() + 1;
            format!("{path}, line {line}")
        };
        let document = DeTable::parse(text).map_err(|e| {
            let place = e.span().map_or_else(|| path.to_string(), |span| place(span.start));
            Error::user(format!("{place}: this is not TOML: {}; correct the line", e.message().replace('\n', " ")))
        })?;
        let mut entries = Vec::new();
        for (name, value) in document.into_inner() {
            let at = name.span().start;
            entries.push((at, name.into_inner().into_owned(), value));
        }
        // The table is sorted by name; mistakes are told in the order of the file.
        entries.sort_by_key(|(at, ..)| *at);
        // The version first: a newer file may well have keys that this program does not know.
        let format = entries.iter().find(|(_, name, _)| name == "format");
        let format = match format {
            Some((at, _, value)) => Some((place(*at), plain(&place(*at), value.clone())?)),
            None => None,
        };
        check_format(path, format)?;
        let mut reader = Reader { config: Self::default(), listed: None };
        for (at, name, value) in entries {
            let at = place(at);
            if name == "format" {
                continue;
            } else if name == "given" {
                reader.given(&at, &plain(&at, value)?)?;
            } else if SECTIONS.iter().any(|section| section.name == name) && value.get_ref().is_table() {
                let mut keys = Vec::new();
                if let toml::de::DeValue::Table(table) = value.into_inner() {
                    keys.extend(table.into_iter().map(|(key, value)| (key.span().start, key.into_inner(), value)));
                }
                keys.sort_by_key(|(offset, ..)| *offset);
                for (offset, key, value) in keys {
                    let at = place(offset);
                    reader.put(&at, &name, &key, &plain(&at, value)?)?;
                }
            } else {
                return Err(reader.not_a_section(&at, &name, value.get_ref().is_table()));
            }
        }
        Ok(reader.finish())
    }

    /// Reads what [`Config::to_table`] made.
    pub fn from_table(table: &Table, path: &str) -> Result<Self> {
        let format = table.get("format").cloned().unwrap_or(Value::Integer(FORMAT));
        check_format(path, Some((path.into(), format)))?;
        let mut reader = Reader { config: Self::default(), listed: None };
        for (name, value) in table {
            match value {
                _ if name == "format" => {}
                _ if name == "given" => reader.given(path, value)?,
                Value::Table(keys) if SECTIONS.iter().any(|section| section.name == name) => {
                    keys.iter().try_for_each(|(key, value)| reader.put(path, name, key, value))?;
                }
                _ => return Err(reader.not_a_section(path, name, value.is_table())),
            }
        }
        Ok(reader.finish())
    }

    /// The whole configuration as a table: `given`, then the sections. Optional keys that are absent are left out.
    pub fn to_table(&self) -> Table {
        let mut table = Table::new();
        table.insert("given".into(), Value::Array(self.given().map(|key| Value::String(key.into())).collect()));
        for section in SECTIONS {
            let values = |key: &Key| Some((key.name().to_string(), (key.write)(self)?));
            let keys = KEYS.iter().filter(|key| key.section == section.name).filter_map(values).collect();
            table.insert(section.name.into(), Value::Table(keys));
        }
        table
    }

    /// The whole configuration as the text of a file, in the order of the schema.
    pub fn to_toml(&self) -> String {
        let given = Value::Array(self.given().map(|key| Value::String(key.into())).collect());
        let mut text = format!(
            "format = {FORMAT}\n# The keys that were set; the others have the defaults of the time.\ngiven = {given}\n"
        );
        for section in SECTIONS {
            text += &format!("\n[{}]\n", section.name);
            for key in KEYS.iter().filter(|key| key.section == section.name) {
                if let Some(value) = (key.write)(self) {
                    text += &format!("{} = {value}\n", key.name());
                }
            }
        }
        text
    }
}

/// Serialises as [`Config::to_table`], to be a part of another file.
impl Serialize for Config {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.to_table().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let table = Table::deserialize(deserializer)?;
        Config::from_table(&table, "saved configuration").map_err(serde::de::Error::custom)
    }
}

/// A parsed value without the places of its parts.
fn plain(at: &str, value: Spanned<toml::de::DeValue<'_>>) -> Result<Value> {
    Value::deserialize(ValueDeserializer::from(value))
        .map_err(|e| Error::user(format!("{at}: {}; correct the value", e.message().replace('\n', " "))))
}

/// A configuration that is being read.
struct Reader {
    config: Config,
    listed: Option<Vec<&'static str>>,
}

impl Reader {
    fn put(&mut self, at: &str, section: &str, name: &str, value: &Value) -> Result<()> {
        let key = find(&format!("{section}.{name}")).map_err(|e| e.context(at))?;
        (key.read)(&mut self.config, value).map_err(|wrong| describe(key, value, &wrong).context(at))?;
        self.config.given.insert(key.path);
        Ok(())
    }

    fn given(&mut self, at: &str, value: &Value) -> Result<()> {
        let fail = || Error::user(format!("{at}: given = {value} is not a list of keys; remove the line"));
        let names = value.as_array().ok_or_else(fail)?;
        let find = |name: &Value| find(name.as_str().ok_or_else(fail)?).map(|key| key.path).map_err(|e| e.context(at));
        self.listed = Some(names.iter().map(find).collect::<Result<_>>()?);
        Ok(())
    }

    /// For a name at the top of the file that is no section: a key without its section, or a wrong name.
    fn not_a_section(&self, at: &str, name: &str, is_table: bool) -> Error {
        if SECTIONS.iter().any(|section| section.name == name) {
            return Error::user(format!("{at}: {name} is a section; write its keys below a line [{name}]"));
        }
        let homes: Vec<_> = KEYS.iter().filter(|key| key.name() == name).map(|key| key.section).collect();
        if !homes.is_empty() {
            let homes: Vec<_> = homes.iter().map(|home| format!("[{home}]")).collect();
            return Error::user(format!("{at}: {name} is outside its section; move it below {}", homes.join(" or ")));
        }
        if let (Some(here), false) = (elsewhere::key(name), is_table) {
            return Error::user(format!("{at}: there is no key {name}{}", here.words()));
        }
        if let Some(section) = elsewhere::section(name) {
            return Error::user(format!("{at}: there is no section {name}; it is [{section}] here"));
        }
        let hint = did_you_mean(name, SECTIONS.iter().map(|section| section.name));
        Error::user(then(&format!("{at}: there is no section {name}{hint}"), LISTS_ALL))
    }

    fn finish(mut self) -> Config {
        if let Some(listed) = self.listed.take() {
            self.config.given = listed.into_iter().collect();
        }
        self.config
    }
}

/// Refuses a file without a version, or with one that this program does not know; `format` is its place and value.
fn check_format(path: &str, format: Option<(String, Value)>) -> Result<()> {
    let text = match format {
        Some((_, Value::Integer(FORMAT))) => return Ok(()),
        None => format!("{path}: the line `format = {FORMAT}` is missing; add it at the top of the file"),
        Some((at, Value::Integer(n))) if n > FORMAT => {
            format!("{at}: format = {n} is newer than this program reads ({FORMAT}); update paceline")
        }
        Some((at, other)) => format!("{at}: format = {other} is not a version; write format = {FORMAT}"),
    };
    Err(Error::user(text))
}
