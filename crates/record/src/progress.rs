//! `progress.jsonl`: how a preparation went, one line a second, after a line that says the format.

use crate::check_format;
use paceline_base::stage::StageFigures;
use paceline_base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// Where a preparation stood at a moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgressRecord {
    /// Seconds since the beginning.
    pub seconds: f64,
    /// Images handled.
    pub images: u64,
    /// Images to be handled.
    pub total: u64,
    /// Bytes of image files read.
    pub bytes_read: u64,
    /// Bytes of records written.
    pub bytes_written: u64,
    /// The stages, counted from the beginning.
    pub stages: Vec<StageFigures>,
}

#[derive(Serialize, Deserialize)]
struct Head {
    format: u32,
}

/// Appends to `progress.jsonl`, for [`RunDir::begin_progress`](crate::RunDir::begin_progress).
#[derive(Debug)]
pub struct ProgressWriter {
    file: File,
    path: PathBuf,
}

impl ProgressWriter {
    pub(crate) fn create(path: PathBuf) -> Result<Self> {
        let file = File::create(&path).map_err(|e| Error::io("create", &path, &e))?;
        let mut writer = Self { file, path };
        writer.line(&Head { format: crate::FORMAT })?;
        Ok(writer)
    }

    /// Appends a record.
    pub fn push(&mut self, record: &ProgressRecord) -> Result<()> {
        self.line(record)
    }

    fn line<T: Serialize>(&mut self, value: &T) -> Result<()> {
        let mut text = serde_json::to_string(value).map_err(|e| Error::internal(e.to_string()))?;
        text.push('\n');
        self.file.write_all(text.as_bytes()).map_err(|e| Error::io("write", &self.path, &e))
    }
}

/// Reads what is there; a torn last line, as a kill leaves it, is left out and noted.
pub(crate) fn read(path: &Path, notes: &mut Vec<String>) -> Result<Vec<ProgressRecord>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io("open", path, &e)),
    };
    let mut lines = BufReader::new(file).lines();
    let Some(first) = lines.next() else { return Ok(Vec::new()) };
    let head: Head = first.map_err(|e| Error::io("read", path, &e)).and_then(|line| {
        serde_json::from_str(&line).map_err(|e| {
            Error::user(format!("{} is damaged: {e}; move it away, the other files can still be read", path.display()))
        })
    })?;
    check_format(path, u64::from(head.format))?;
    let mut records = Vec::new();
    for line in lines {
        match line.ok().and_then(|line| serde_json::from_str(&line).ok()) {
            Some(record) => records.push(record),
            None => notes.push(format!("a damaged line of {} was left out", path.display())),
        }
    }
    Ok(records)
}
