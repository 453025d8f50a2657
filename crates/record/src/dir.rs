//! The folder of one run: creating it, opening it, and writing its whole files.
//!
//! Whoever creates or continues a run holds its lock (`lock.rs`) as long as the [`RunDir`] or a clone of it lives; without
//! it only the steps of processes that follow the first can be written.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use paceline_base::{Error, Result, text};
use paceline_system::atomic;
use serde::Serialize;

use crate::folder::{FILES, nearby, runs_in};
use crate::line::{Line, mend_tail};
use crate::lock::{self, LOCK, Patience, RunLock, Writer};
use crate::{FORMAT, Header, ProgressWriter, StepWriter, Summary};

/// A new run's name is shown by every tool that lists folders, most of which print it as it is; and its path is written into files of
/// text.
fn check_name(path: &Path) -> Result<()> {
    if std::path::absolute(path).is_ok_and(|path| path.to_str().is_none()) {
        return Err(Error::user(format!(
            "the path {} is not UTF-8, which the files of a run are; choose another run.dir or --run-dir, or rename the folder",
            path.display()
        )));
    }
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
#[derive(Clone, Debug)]
pub struct RunDir {
    path: PathBuf,
    /// The right to write, of whoever created or continues the run.
    lock: Option<Arc<RunLock>>,
}

impl RunDir {
    /// Makes a new run directory and takes its lock. An existing one must be empty: a run never overwrites another.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        check_name(&path)?;
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            create_folders(parent)?;
        }
        match fs::create_dir(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && path.is_dir() => is_unused(&path)?,
            Err(error) => return Err(not_created(&path, &error)),
        }
        let lock = RunLock::take(&path, Patience::Short, &mut |_| {})?;
        is_unused(&path)?; // once more: another may have begun and ended a run here meanwhile
        Ok(Self { path, lock: Some(Arc::new(lock)) })
    }

    /// Makes `runs/prepare-3` and takes its lock: the first number of a stem that is free in a folder. Of several that ask at
    /// the same time each gets a folder of its own.
    pub fn create_next(folder: &Path, stem: &str) -> Result<Self> {
        check_name(Path::new(stem))?;
        create_folders(folder)?;
        for number in 1u64.. {
            let path = folder.join(format!("{stem}-{number}"));
            match fs::create_dir(&path) {
                Ok(()) => {
                    let lock = RunLock::take(&path, Patience::Short, &mut |_| {})?;
                    return Ok(Self { path, lock: Some(Arc::new(lock)) });
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io("create", &path, &error)),
            }
        }
        Err(Error::failure(format!("all numbers of {stem} are taken in {}", folder.display())))
    }

    /// Opens a run directory to go on writing, and takes its lock; `waiting` is told what is waited for.
    ///
    /// # Errors
    /// A user's error that names the process which writes there, if one does.
    pub fn reopen(path: impl Into<PathBuf>, patience: Patience, waiting: &mut dyn FnMut(&str)) -> Result<Self> {
        let dir = Self::open(path)?;
        let lock = RunLock::take(&dir.path, patience, waiting)?;
        Ok(Self { lock: Some(Arc::new(lock)), ..dir })
    }

    /// Who writes into it now.
    pub(crate) fn writer(&self) -> Writer {
        lock::writer_of(&self.path)
    }

    /// What the user should know of the lock that is held.
    pub fn lock_note(&self) -> Option<&str> {
        self.lock.as_ref().and_then(|lock| lock.note())
    }

    /// An error if another has taken the run over. Nothing is asked of who does not hold the lock.
    pub fn check_lock(&self) -> Result<()> {
        self.lock.as_ref().map_or(Ok(()), |lock| lock.check())
    }

    /// An error unless the lock is held, which is needed to write all but the steps of processes that follow the first.
    fn must_be_ours(&self) -> Result<()> {
        match self.lock {
            Some(_) => self.check_lock(),
            None => Err(Error::internal(format!("{} is written without its lock", self.path.display()))),
        }
    }

    /// Opens a run directory that was made before, to read it.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let dir = Self { path: path.into(), lock: None };
        if !dir.path.is_dir() {
            return Err(Error::user(format!("there is no run at {}{}", dir.path.display(), neighbours(&dir.path))));
        }
        if !FILES.iter().any(|file| dir.path.join(file).is_file()) {
            let inside = runs_inside(&dir.path);
            return Err(Error::user(format!(
                "{} is not a run directory: it has no run.toml, steps.jsonl or summary.json; give the folder of one run{}",
                dir.path.display(),
                if inside.is_empty() { nearby(&dir.path) } else { inside }
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
    pub(crate) fn steps(&self) -> PathBuf {
        self.path.join("steps.jsonl")
    }

    /// Path of `progress.jsonl`.
    pub(crate) fn progress(&self) -> PathBuf {
        self.path.join("progress.jsonl")
    }

    /// Begins `progress.jsonl`.
    pub fn begin_progress(&self) -> Result<ProgressWriter> {
        ProgressWriter::create(self.progress())
    }

    /// Path of `summary.json`.
    pub(crate) fn summary(&self) -> PathBuf {
        self.path.join("summary.json")
    }

    /// Path of the folder of checkpoints, which the engine fills.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join("checkpoints")
    }

    /// Writes `run.toml`: `format = 1`, then the value, which must serialise to a table.
    pub fn write_run_toml<T: Serialize + ?Sized>(&self, value: &T) -> Result<()> {
        self.must_be_ours()?;
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

    /// Replaces `summary.json` as a whole; only by whoever holds the lock.
    pub fn write_summary(&self, summary: &Summary) -> Result<()> {
        self.must_be_ours()?;
        let path = self.summary();
        let mut text = serde_json::to_vec_pretty(&Summary { format: FORMAT, ..summary.clone() })
            .map_err(|e| Error::internal(format!("{}: {e}", path.display())))?;
        text.push(b'\n');
        atomic::write(&path, &text)
    }

    /// Path of the steps of the ranks of one process: `steps.jsonl` of the first, `steps-1.jsonl` of the next.
    pub(crate) fn steps_of(&self, process: usize) -> PathBuf {
        if process == 0 { self.steps() } else { self.path.join(format!("steps-{process}.jsonl")) }
    }

    /// All files of steps, process 0 first.
    pub(crate) fn all_steps(&self) -> Vec<PathBuf> {
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
        self.must_be_ours()?;
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
        self.must_be_ours()?;
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
            writer.note(format!(
                "attempt {} cut off a torn last line of {}",
                last + 1,
                text::counted(cut as usize, "byte")
            ));
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

fn create_folders(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|e| not_created(path, &e))
}

fn not_created(path: &Path, error: &std::io::Error) -> Error {
    use std::io::ErrorKind as K;
    match error.kind() {
        K::AlreadyExists | K::NotADirectory => {
            let file = path.ancestors().find(|part| part.is_file()).unwrap_or(path);
            Error::user(format!("{} is a file, and a run needs a folder; choose another name", file.display()))
        }
        _ => Error::io("create", path, error),
    }
}

/// Refuses a folder that holds anything but a lock.
fn is_unused(path: &Path) -> Result<()> {
    let entries = fs::read_dir(path).map_err(|e| Error::io("read", path, &e))?;
    match entries.flatten().any(|entry| entry.file_name() != LOCK) {
        false => Ok(()),
        true => Err(Error::user(format!(
            "{} already holds a run; choose another folder with --run-dir (a training can be continued with --resume)",
            path.display()
        ))),
    }
}

/// Names what is there instead of a run that is not.
fn neighbours(path: &Path) -> String {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let names = if folder.is_dir() { runs_inside(folder) } else { String::new() };
    if names.is_empty() { nearby(folder) } else { names }
}

fn runs_inside(folder: &Path) -> String {
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut names: Vec<String> = runs_in(folder).iter().map(name).collect();
    let more = names.len().saturating_sub(8);
    names.truncate(8);
    match (names.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!("; {} holds the runs {}", folder.display(), names.join(", ")),
        (false, more) => format!("; {} holds the runs {} and {more} more", folder.display(), names.join(", ")),
    }
}
