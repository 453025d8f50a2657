//! A speed study: cells (what is to be measured) and measurements (what came out), one JSON object a line.
//!
//! ```text
//! runs/<name>/
//!   run.toml             work = "speedtest", the settings, the number of planned measurements, the machine
//!   measurements.jsonl   a header, then one line per measurement in the order in which they were made
//!   speedtest.csv        the same as a table, written at the end
//!   summary.json         the run in one object (`work` is "speedtest")
//! ```
//!
//! A [`Cell`] holds all that a worker needs, so that a list of cells can be handed to another process or machine, and a
//! [`Measurement`] holds its cell, so that a line can be read alone. Lines are appended and never changed.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use paceline_base::text::counted;
use paceline_base::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::{FORMAT, RunDir, Summary, Work, check_format, read_summary};

/// How images are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// One file for each.
    Files,
    /// Records in shards.
    Records,
}

impl Form {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Form::Files => "files",
            Form::Records => "records",
        }
    }
}

/// What the system's page cache holds of the files before they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PageCache {
    /// All of them.
    Warm,
    /// Nothing: it was dropped before the measurement.
    Cold,
}

impl PageCache {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            PageCache::Warm => "warm",
            PageCache::Cold => "cold",
        }
    }
}

/// The four ways of reading again and again: with or without caching what was made, with or without partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Variant {
    /// One partition, everything read again.
    Neither,
    /// One partition, images kept in memory.
    Caching,
    /// Many partitions on all threads, everything read again.
    Partitioning,
    /// Many partitions, images kept in memory.
    Both,
}

impl Variant {
    /// All four.
    pub const ALL: [Variant; 4] = [Variant::Neither, Variant::Caching, Variant::Partitioning, Variant::Both];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Neither => "neither",
            Variant::Caching => "caching",
            Variant::Partitioning => "partitioning",
            Variant::Both => "both",
        }
    }

    /// The variant with these two.
    pub(crate) fn of(caching: bool, partitioning: bool) -> Self {
        match (caching, partitioning) {
            (false, false) => Variant::Neither,
            (true, false) => Variant::Caching,
            (false, true) => Variant::Partitioning,
            (true, true) => Variant::Both,
        }
    }

    /// Whether images are kept.
    pub fn caching(self) -> bool {
        matches!(self, Variant::Caching | Variant::Both)
    }

    /// Whether there are many partitions.
    pub fn partitioning(self) -> bool {
        matches!(self, Variant::Partitioning | Variant::Both)
    }
}

/// One measurement to be made: everything that a worker has to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Its place in the order of measuring, from 0.
    pub id: u64,
    /// What the data is called in tables: the path as it was typed.
    pub source: String,
    /// Where the data is.
    pub path: PathBuf,
    /// How it is stored.
    pub form: Form,
    /// Images in a batch.
    pub batch: usize,
    /// Number of batches.
    pub batches: usize,
    /// Which repetition, from 1.
    pub repetition: usize,
    /// What the page cache is to hold before.
    pub page_cache: PageCache,
    /// Images are kept in memory for later measurements of the same variant.
    pub caching: bool,
    /// Partitions that the batches are dealt to.
    pub partitions: usize,
    /// Threads that work on the partitions.
    pub threads: usize,
    /// Decode (and resize) the images, or read their bytes only.
    pub decode: bool,
    /// Width and height of the images that come out.
    pub size: usize,
    /// Check the checksums of records.
    pub verify: bool,
    /// Decides which images are taken.
    pub seed: u64,
    /// So many bad images may be left out of the source.
    pub skip_bad: usize,
}

impl Cell {
    /// Data-set size: batch size × number of batches.
    pub fn images(&self) -> usize {
        self.batch * self.batches
    }

    /// Which of the four variants it belongs to.
    pub fn variant(&self) -> Variant {
        Variant::of(self.caching, self.partitions > 1)
    }
}

/// A cell that was measured once: a line of `measurements.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// What was measured.
    #[serde(flatten)]
    pub cell: Cell,
    /// What scheduled it: `local`, `spark`.
    pub engine: String,
    /// The machine that did it.
    pub host: String,
    /// When it began, in Unix seconds.
    pub started: f64,
    /// How long it took.
    pub seconds: f64,
    /// Images that came out.
    pub images: u64,
    /// Those of them that were in memory already (of a caching variant).
    pub from_cache: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Partitions that had something to do.
    pub partitions_used: usize,
    /// Share of the bytes that was in the page cache just before, where the system tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident: Option<f64>,
    /// Why a measurement that was to be cold was not: it is kept in the file, and counts for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_cold: Option<String>,
    /// Bad images that are left out of the source so far, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
}

impl Measurement {
    /// Images a second.
    pub fn images_per_s(&self) -> f64 {
        self.images as f64 / self.seconds
    }

    /// Megabytes (10⁶) read a second.
    pub fn mb_per_s(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.seconds
    }
}

/// A study as its directory tells it.
#[derive(Clone, Debug, Default)]
pub struct Study {
    /// The folder.
    pub path: PathBuf,
    /// The study's name.
    pub name: String,
    /// `run.toml`; empty if there is none.
    pub config: toml::Table,
    /// `summary.json`, if the study has got that far.
    pub summary: Option<Summary>,
    /// What was measured, in the order of measuring.
    pub measurements: Vec<Measurement>,
    /// What a reader should be told: missing files, torn or damaged lines.
    pub notes: Vec<String>,
}

/// The name of the file of measurements.
const MEASUREMENTS: &str = "measurements.jsonl";

/// A line of `measurements.jsonl`.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum StudyLine {
    Measurements {
        format: u32,
    },
    Measurement(Box<Measurement>),
    /// Written by a later version.
    #[serde(other)]
    Unknown,
}

/// Appends to `measurements.jsonl`, each line at once: a killed study keeps all that it measured.
#[derive(Debug)]
pub struct MeasurementWriter {
    file: File,
    path: PathBuf,
}

impl MeasurementWriter {
    /// Appends a line to `measurements.jsonl`.
    pub fn push(&mut self, measurement: &Measurement) -> Result<()> {
        self.line(&StudyLine::Measurement(Box::new(measurement.clone())))
    }

    fn line(&mut self, line: &StudyLine) -> Result<()> {
        let mut text = serde_json::to_vec(line).map_err(|e| {
            Error::user(format!("{}: {e}; rename the data so that its path is UTF-8", self.path.display()))
        })?;
        text.push(b'\n');
        self.file.write_all(&text).map_err(|e| Error::io("write", &self.path, &e))
    }
}

impl RunDir {
    /// Path of `measurements.jsonl`.
    pub fn measurements(&self) -> PathBuf {
        self.path().join(MEASUREMENTS)
    }

    /// Path of `speedtest.csv`.
    pub fn speedtest_csv(&self) -> PathBuf {
        self.path().join("speedtest.csv")
    }

    /// Begins `measurements.jsonl`.
    pub fn begin_measurements(&self) -> Result<MeasurementWriter> {
        let path = self.measurements();
        let file =
            OpenOptions::new().append(true).create_new(true).open(&path).map_err(|e| Error::io("create", &path, &e))?;
        let mut writer = MeasurementWriter { file, path };
        writer.line(&StudyLine::Measurements { format: FORMAT })?;
        Ok(writer)
    }
}

/// What kind of work a run directory holds: what its `summary.json` says, else its `run.toml`; training if neither does.
pub fn work_of(path: impl AsRef<Path>) -> Result<Work> {
    #[derive(Deserialize)]
    struct Peek {
        #[serde(default)]
        work: Work,
    }
    let dir = RunDir::open(path.as_ref())?;
    if dir.measurements().is_file() {
        return Ok(Work::Speedtest);
    }
    let text = std::fs::read_to_string(dir.summary()).unwrap_or_default();
    if let Ok(peek) = serde_json::from_str::<Peek>(&text) {
        return Ok(peek.work);
    }
    let text = std::fs::read_to_string(dir.run_toml()).unwrap_or_default();
    Ok(toml::from_str::<Peek>(&text).map_or(Work::Train, |peek| peek.work))
}

/// Reads the directory of a speed study, whatever state it was left in.
pub fn read_study(path: impl AsRef<Path>) -> Result<Study> {
    let dir = RunDir::open(path.as_ref())?;
    let mut notes = Vec::new();
    let writer = dir.writer(); // first: a study that ends now has then written its last word
    let config = crate::read::read_config(&dir.run_toml(), &mut notes)?;
    let mut summary = read_summary(dir.summary())?;
    if summary.is_none() {
        notes.push("there is no summary.json: the study was killed before its end".into());
    }
    notes.extend(crate::read::correct_status(&dir, &writer, summary.as_mut()));
    let measurements = read_measurements(&dir.measurements(), &mut notes)?;
    let name = summary.as_ref().map(|s| s.name.clone()).filter(|name| !name.is_empty()).unwrap_or_else(|| dir.name());
    Ok(Study { path: dir.path().to_path_buf(), name, config, summary, measurements, notes })
}

fn read_measurements(path: &Path, notes: &mut Vec<String>) -> Result<Vec<Measurement>> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            notes.push(format!("there is no {MEASUREMENTS}: nothing was measured"));
            return Ok(Vec::new());
        }
        Err(error) => return Err(Error::io("read", path, &error)),
    };
    let mut found = Vec::new();
    let mut damaged = Vec::new();
    let mut began = false;
    for (number, line) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice::<StudyLine>(line) {
            Ok(StudyLine::Measurements { format }) => {
                check_format(path, u64::from(format))?;
                began = true;
            }
            Ok(StudyLine::Measurement(measurement)) if began => found.push(*measurement),
            Ok(StudyLine::Unknown) if began => {}
            _ if !began => return Err(crate::read::no_format(path)),
            _ if !line.ends_with(b"\n") => {
                notes.push(format!("the last line of {MEASUREMENTS} (line {}) was torn and is left out", number + 1));
            }
            _ => damaged.push(number + 1),
        }
    }
    if let [first, ..] = damaged[..] {
        let lines = counted(damaged.len(), "damaged line");
        let verb = if damaged.len() == 1 { "is" } else { "are" };
        notes.push(format!("{lines} of {MEASUREMENTS} {verb} left out, the first is line {first}"));
    }
    Ok(found)
}
