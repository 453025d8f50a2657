//! Reading a run directory back, whatever state the run left it in.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use paceline_base::text::{counted, date};
use paceline_base::{Error, Result};

use crate::attempts::CurrentRecords;
use crate::line::Line;
use crate::{EpochRecord, FORMAT, ProgressRecord, RunDir, Status, StepRecord, Summary, Work, Writer, check_format};

/// A run as its directory tells it.
#[derive(Clone, Debug, Default)]
pub struct RunData {
    /// The folder.
    pub path: PathBuf,
    /// The run's name: the summary's, else the folder's.
    pub name: String,
    /// `run.toml`; empty if the run has none.
    pub config: toml::Table,
    /// `summary.json`, if the run has got that far.
    pub summary: Option<Summary>,
    /// What remains of the steps after the attempt rule, in the order of the file.
    pub steps: Vec<StepRecord>,
    /// The epochs after the attempt rule.
    pub epochs: Vec<EpochRecord>,
    /// How a preparation went, second by second.
    pub progress: Vec<ProgressRecord>,
    /// The last attempt; 0 if none began.
    pub attempt: u32,
    /// What a reader should be told: missing files, torn or damaged lines, remarks of the writer.
    pub notes: Vec<String>,
}

/// Reads `runs/<name>/`.
///
/// A missing file or a torn last line is noted, since a killed run leaves such; a newer format is an error.
pub fn read_run(path: impl AsRef<Path>) -> Result<RunData> {
    let dir = RunDir::open(path.as_ref())?;
    let mut notes = Vec::new();
    let writer = dir.writer(); // first: a run that ends now has then written its last word
    let config = read_config(&dir.run_toml(), &mut notes)?;
    let mut summary = read_summary(dir.summary())?;
    if summary.is_none() {
        notes.push("there is no summary.json: the run has not finished its first epoch, or was killed before".into());
    }
    notes.extend(correct_status(&dir, &writer, summary.as_mut()));
    let mut kept = read_steps(&dir.steps(), &mut notes)?;
    for path in &dir.all_steps()[1..] {
        kept.join(read_steps(path, &mut notes)?);
    }
    let progress = crate::progress::read(&dir.progress(), &mut notes)?;
    notes.extend(kept.notes);
    notes.extend(summary.as_ref().and_then(Summary::step_limit_words));
    let name = summary.as_ref().map(|s| s.name.clone()).filter(|name| !name.is_empty()).unwrap_or_else(|| dir.name());
    Ok(RunData {
        path: dir.path().to_path_buf(),
        name,
        config,
        summary,
        steps: kept.steps,
        epochs: kept.epochs,
        progress,
        attempt: kept.attempt,
        notes,
    })
}

/// A run that says that it runs does so only while a process writes into its directory. Gives a note on it.
pub(crate) fn correct_status(dir: &RunDir, writer: &Writer, summary: Option<&mut Summary>) -> Option<String> {
    let summary = summary.filter(|summary| summary.status == Status::Running)?;
    match writer {
        Writer::Alive { holder, heard } => {
            let heard = heard.map_or(String::new(), |seconds| format!(", last heard {seconds} s ago"));
            Some(format!("it is running: process {} on {}{heard}", holder.pid, holder.host))
        }
        Writer::Gone { last } => {
            summary.status = Status::Interrupted;
            let when = last.map_or(String::new(), |time| format!(" at {}", date(time)));
            let resume = match summary.work {
                Work::Train => format!("; go on with: paceline train --resume {}", dir.path().display()),
                _ => String::new(),
            };
            Some(format!("it ended without a word{when} (killed, or its machine stopped){resume}"))
        }
    }
}

/// Reads a `summary.json` alone, as it was written; `None` if it is not there. Its status may be [`Status::Running`] though
/// the run was killed, which [`read_run`] would find out.
pub fn read_summary(path: impl AsRef<Path>) -> Result<Option<Summary>> {
    let path = path.as_ref();
    let Some(text) = read_text(path)? else { return Ok(None) };
    let damaged = |e: serde_json::Error| {
        Error::user(format!(
            "{} is damaged: {e}; move it away, the other files of the run can still be read",
            path.display()
        ))
    };
    let value: serde_json::Value = serde_json::from_str(&text).map_err(damaged)?;
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(format) => check_format(path, format)?,
        None => return Err(no_format(path)),
    }
    serde_json::from_value(value).map(Some).map_err(damaged)
}

/// The table of a run's `run.toml`; empty if there is none. Nothing else is read, and nobody's lock is asked for.
pub fn read_run_toml(dir: &RunDir) -> Result<toml::Table> {
    read_config(&dir.run_toml(), &mut Vec::new())
}

pub(crate) fn read_config(path: &Path, notes: &mut Vec<String>) -> Result<toml::Table> {
    let Some(text) = read_text(path)? else {
        notes.push("there is no run.toml: the configuration is not known".into());
        return Ok(toml::Table::new());
    };
    let table: toml::Table = text.parse().map_err(|e| Error::user(format!("{} is damaged: {e}", path.display())))?;
    match table.get("format").and_then(toml::Value::as_integer) {
        Some(format) => check_format(path, format.unsigned_abs())?,
        None => return Err(no_format(path)),
    }
    Ok(table)
}

fn read_steps(path: &Path, notes: &mut Vec<String>) -> Result<CurrentRecords> {
    let mut kept = CurrentRecords::default();
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            notes.push("there is no steps.jsonl: nothing was recorded".into());
            return Ok(kept);
        }
        Err(error) => return Err(Error::io("read", path, &error)),
    };
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut text = Vec::new();
    let mut damaged: Vec<usize> = Vec::new();
    for number in 1.. {
        text.clear();
        let length = reader.read_until(b'\n', &mut text).map_err(|e| Error::io("read", path, &e))?;
        if length == 0 {
            break;
        }
        let whole = text.ends_with(b"\n");
        if text.trim_ascii().is_empty() {
            continue;
        }
        match Line::parse(path, &text)? {
            Some(line) if number == 1 && !matches!(line, Line::Steps(_)) => return Err(no_format(path)),
            Some(line) => kept.take(line),
            None if !whole => {
                notes.push(format!("the last line of steps.jsonl (line {number}) was torn and is left out"))
            }
            None if number == 1 => return Err(no_format(path)),
            None => damaged.push(number),
        }
    }
    if let [first, ..] = damaged[..] {
        let lines = counted(damaged.len(), "damaged line");
        let verb = if damaged.len() == 1 { "is" } else { "are" };
        notes.push(format!("{lines} of steps.jsonl {verb} left out, the first is line {first}"));
    }
    Ok(kept)
}

fn read_text(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path, &error)),
    }
}

pub(crate) fn no_format(path: &Path) -> Error {
    Error::user(format!(
        "{} does not begin by saying its format (`format = {FORMAT}`): it was not written by Paceline, or its beginning is lost",
        path.display()
    ))
}
