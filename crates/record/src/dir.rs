//! The folder of one run: creating it, opening it, and writing its whole files.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use paceline_base::{Error, Result, text};
use serde::Serialize;

use crate::line::{Line, mend_tail};
use crate::{FORMAT, Header, ProgressWriter, StepWriter, Summary, atomic};

/// A new run's name is shown by every tool that lists folders, most of which print it as it is.
fn check_name(path: &Path) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.contains(text::is_unseen) {
        return Err(Error::user(format!(
            "the name {} has control characters in it, which would act on a terminal; choose another run.name or --run-dir",
            text::visible(&name)
        )));
    }
    Ok(())
}

/// A run directory that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Makes a new run directory. An existing one must be empty: a run never overwrites another.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        check_name(&path)?;
        match fs::read_dir(&path) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(Error::user(format!(
                        "{} already holds a run; choose another folder with --run-dir (a training can be continued with --resume)",
                        path.display()
                    )));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                fs::create_dir_all(&path).map_err(|e| Error::io("create", &path, &e))?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
                return Err(Error::user(format!(
                    "{} is a file, and a run needs a folder; choose another name",
                    path.display()
                )));
            }
            Err(error) => return Err(Error::io("create", &path, &error)),
        }
        Ok(Self { path })
    }

    /// `runs/prepare-3`: the first number of a stem that is free in a folder.
    pub fn free_name(folder: &Path, stem: &str) -> PathBuf {
        (1..).map(|n| folder.join(format!("{stem}-{n}"))).find(|path| !path.exists()).unwrap_or_default()
    }

    /// Opens a run directory that was made before.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let dir = Self { path: path.into() };
        if !dir.path.is_dir() {
            return Err(Error::user(format!("there is no run at {}{}", dir.path.display(), neighbours(&dir.path))));
        }
        if ![dir.run_toml(), dir.steps(), dir.summary()].iter().any(|file| file.is_file()) {
            return Err(Error::user(format!(
                "{} is not a run directory: it has no run.toml, steps.jsonl or summary.json; give the folder of one run{}",
                dir.path.display(),
                runs_inside(&dir.path)
            )));
        }
        Ok(dir)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The run's name: the folder's.
    pub fn name(&self) -> String {
        // `runs/x/..` or `.` have no last name of their own until resolved.
        let resolved = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        resolved.file_name().map_or_else(|| "run".into(), |name| name.to_string_lossy().into_owned())
    }

    /// Path of `run.toml`.
    pub fn run_toml(&self) -> PathBuf {
        self.path.join("run.toml")
    }

    /// Path of `steps.jsonl`.
    pub fn steps(&self) -> PathBuf {
        self.path.join("steps.jsonl")
    }

    /// Path of `progress.jsonl`.
    pub fn progress(&self) -> PathBuf {
        self.path.join("progress.jsonl")
    }

    /// Begins `progress.jsonl`.
    pub fn begin_progress(&self) -> Result<ProgressWriter> {
        ProgressWriter::create(self.progress())
    }

    /// Path of `summary.json`.
    pub fn summary(&self) -> PathBuf {
        self.path.join("summary.json")
    }

    /// Path of the folder of checkpoints, which the engine fills.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join("checkpoints")
    }

    /// Writes `run.toml`: `format = 1`, then the value, which must serialise to a table.
    pub fn write_run_toml<T: Serialize + ?Sized>(&self, value: &T) -> Result<()> {
        let path = self.run_toml();
        let text = toml::to_string(value).map_err(|e| Error::internal(format!("{}: {e}", path.display())))?;
        // The header must come before the first table, and only once.
        let table: toml::Table = text.parse().map_err(|e| Error::internal(format!("{}: {e}", path.display())))?;
        let text = if table.contains_key("format") {
            if table["format"].as_integer() != Some(i64::from(FORMAT)) {
                return Err(Error::internal(format!("{}: the value has a `format` of its own", path.display())));
            }
            text
        } else {
            format!("format = {FORMAT}\n{text}")
        };
        atomic::write(&path, text.as_bytes())
    }

    /// Writes `summary.json`.
    pub fn write_summary(&self, summary: &Summary) -> Result<()> {
        let path = self.summary();
        let mut text = serde_json::to_vec_pretty(&Summary { format: FORMAT, ..summary.clone() })
            .map_err(|e| Error::internal(format!("{}: {e}", path.display())))?;
        text.push(b'\n');
        atomic::write(&path, &text)
    }

    /// Path of the steps of the ranks of one process: `steps.jsonl` of the first, `steps-1.jsonl` of the next.
    pub fn steps_of(&self, process: usize) -> PathBuf {
        if process == 0 { self.steps() } else { self.path.join(format!("steps-{process}.jsonl")) }
    }

    /// All files of steps, process 0 first.
    pub fn all_steps(&self) -> Vec<PathBuf> {
        let mut numbers: Vec<usize> = fs::read_dir(&self.path)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                name.strip_prefix("steps-")?.strip_suffix(".jsonl")?.parse().ok()
            })
            .collect();
        numbers.sort_unstable();
        std::iter::once(0).chain(numbers).map(|process| self.steps_of(process)).collect()
    }

    /// Goes on with, or begins, the steps of a process that is not the first. The attempt is that of process 0.
    pub fn follow_steps(&self, process: usize, attempt: u32, start_step: u64) -> Result<StepWriter> {
        let path = self.steps_of(process);
        if path.exists() {
            mend_tail(&path)?;
        }
        let file =
            OpenOptions::new().append(true).create(true).open(&path).map_err(|e| Error::io("create", &path, &e))?;
        StepWriter::start(Box::new(file), path, new_header(attempt, start_step))
    }

    /// Begins `steps.jsonl` of a new run, as attempt 1.
    pub fn begin_steps(&self) -> Result<StepWriter> {
        let path = self.steps();
        let file = OpenOptions::new().append(true).create_new(true).open(&path).map_err(|e| {
            if e.kind() == std::io::ErrorKind::AlreadyExists {
                Error::user(format!(
                    "{} exists already; continue the run with --resume, or choose another name",
                    path.display()
                ))
            } else {
                Error::io("create", &path, &e)
            }
        })?;
        StepWriter::start(Box::new(file), path, new_header(1, 0))
    }

    /// Goes on with `steps.jsonl` after a restart: mends a torn last line, then begins the next attempt at `start_step`,
    /// the number of steps that the checkpoint has done.
    pub fn resume_steps(&self, start_step: u64) -> Result<StepWriter> {
        let path = self.steps();
        if !path.exists() {
            // Killed before its first record: there is nothing to go on from, and nothing to lose.
            let file =
                OpenOptions::new().append(true).create(true).open(&path).map_err(|e| Error::io("create", &path, &e))?;
            return StepWriter::start(Box::new(file), path, new_header(1, start_step));
        }
        let cut = mend_tail(&path)?;
        let last = last_attempt(&path)?;
        let file = OpenOptions::new().append(true).open(&path).map_err(|e| Error::io("open", &path, &e))?;
        let writer = StepWriter::start(Box::new(file), path, new_header(last + 1, start_step))?;
        if cut > 0 {
            writer.note(format!("attempt {} cut off a torn last line of {cut} bytes", last + 1));
        }
        Ok(writer)
    }
}

fn new_header(attempt: u32, start_step: u64) -> Header {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    Header { format: FORMAT, attempt, start_step, started }
}

/// The number of the last attempt in the file; 0 if it has none.
fn last_attempt(path: &Path) -> Result<u32> {
    let file = fs::File::open(path).map_err(|e| Error::io("open", path, &e))?;
    let mut last = 0;
    for line in BufReader::new(file).split(b'\n') {
        let line = line.map_err(|e| Error::io("read", path, &e))?;
        // Headers are few among many lines: look for their mark before parsing.
        if line.windows(7).any(|part| part == b"\"steps\"")
            && let Some(Line::Steps(header)) = Line::parse(path, &line)?
        {
            last = last.max(header.attempt);
        }
    }
    Ok(last)
}

/// Names what is there instead of a run that is not.
fn neighbours(path: &Path) -> String {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if folder.is_dir() {
        let names = runs_inside(folder);
        if names.is_empty() { format!("; {} holds no runs", folder.display()) } else { names }
    } else {
        format!("; {} does not exist either", folder.display())
    }
}

fn runs_inside(folder: &Path) -> String {
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            ["run.toml", "steps.jsonl", "summary.json"].iter().any(|file| entry.path().join(file).is_file())
        })
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let more = names.len().saturating_sub(8);
    names.truncate(8);
    match (names.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!("; {} holds the runs {}", folder.display(), names.join(", ")),
        (false, more) => format!("; {} holds the runs {} and {more} more", folder.display(), names.join(", ")),
    }
}
