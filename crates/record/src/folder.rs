//! Folders of runs: which runs lie in one, how each stands, and where there are some when there are none.
//!
//! Summaries alone are read, so that a folder of hundreds of runs is listed at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use paceline_base::text::counted;
use paceline_base::{Error, Result, number};
use serde::Serialize;

use crate::read::correct_status;
use crate::{RunDir, Status, Work, Writer, read_summary, work_of};

/// The files of which a run directory has at least one.
pub(crate) const FILES: [&str; 3] = ["run.toml", "steps.jsonl", "summary.json"];

/// A run as a list shows it.
#[derive(Clone, Debug, Serialize)]
pub struct RunEntry {
    /// Its folder.
    pub path: PathBuf,
    /// The folder's name.
    pub name: String,
    /// The folder within the list that it lies in, such as `demo`; none if it lies there itself.
    pub group: Option<String>,
    /// What kind of work it did.
    pub work: Work,
    /// How it stands; none if that cannot be read.
    pub status: Option<Status>,
    /// Name of the model; empty if it has none.
    pub model: String,
    /// Name of the data set.
    pub data: String,
    /// Epochs that were trained to their end.
    pub epochs: u64,
    /// Epochs asked for.
    pub epochs_planned: u64,
    /// Best validation accuracy.
    #[serde(with = "number::option")]
    pub best_val_accuracy: Option<f64>,
    /// Best validation loss.
    #[serde(with = "number::option")]
    pub best_val_loss: Option<f64>,
    /// Validation absolute error of the best epoch, of a run that counts it.
    #[serde(with = "number::option", skip_serializing_if = "Option::is_none")]
    pub best_val_absolute_error: Option<f64>,
    /// Accuracy on the test samples.
    #[serde(with = "number::option")]
    pub test_accuracy: Option<f64>,
    /// Absolute error on the test samples, of a run that counts it.
    #[serde(with = "number::option", skip_serializing_if = "Option::is_none")]
    pub test_absolute_error: Option<f64>,
    /// Samples (of a preparation: images) a second.
    #[serde(with = "number::option")]
    pub examples_per_s: Option<f64>,
    /// When it began, in Unix seconds; of a run without a summary, when its folder was last written.
    pub started: u64,
    /// What its files take.
    pub bytes: u64,
    /// Why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The runs in a folder and in the folders directly below it, by the time they began. A run directory is no folder of runs.
///
/// # Errors
/// If there are none: the error names folders nearby that have some.
pub fn list_runs(folder: &Path) -> Result<Vec<RunEntry>> {
    if is_run(folder) {
        return Err(Error::user(format!(
            "{} is one run; give the folder that it lies in, or: paceline report {}",
            folder.display(),
            folder.display()
        )));
    }
    if !folder.is_dir() {
        let what = if folder.exists() { "is no folder" } else { "does not exist" };
        return Err(Error::user(format!("{} {what}{}", folder.display(), nearby(folder))));
    }
    let mut found: Vec<RunEntry> = runs_in(folder).iter().map(|path| entry(path, None)).collect();
    for group in folders_in(folder).iter().filter(|path| !is_run(path)) {
        let name = name(group);
        found.extend(runs_in(group).iter().map(|path| entry(path, Some(name.clone()))));
    }
    if found.is_empty() {
        return Err(Error::user(format!("{} holds no runs{}", folder.display(), nearby(folder))));
    }
    found.sort_by(|a, b| (a.started, &a.path).cmp(&(b.started, &b.path)));
    Ok(found)
}

/// The run directories directly in a folder, by name; none if it is a run itself.
pub fn runs_in(folder: &Path) -> Vec<PathBuf> {
    if is_run(folder) {
        return Vec::new();
    }
    folders_in(folder).into_iter().filter(|path| is_run(path)).collect()
}

fn is_run(path: &Path) -> bool {
    FILES.iter().any(|file| path.join(file).is_file())
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn entry(path: &Path, group: Option<String>) -> RunEntry {
    let mut entry = RunEntry {
        path: path.to_path_buf(),
        name: name(path),
        group,
        work: Work::default(),
        status: None,
        model: String::new(),
        data: String::new(),
        epochs: 0,
        epochs_planned: 0,
        best_val_accuracy: None,
        best_val_loss: None,
        best_val_absolute_error: None,
        test_accuracy: None,
        test_absolute_error: None,
        examples_per_s: None,
        started: written(path),
        bytes: size(path),
        problem: None,
    };
    if let Err(error) = fill(&mut entry, path) {
        entry.problem = Some(error.message().into());
    }
    entry
}

fn fill(entry: &mut RunEntry, path: &Path) -> Result<()> {
    let dir = RunDir::open(path)?;
    entry.work = work_of(path)?;
    let writer = dir.writer(); // first: a run that ends now has then written its last word
    let Some(mut summary) = read_summary(dir.summary())? else {
        entry.status = Some(match writer {
            Writer::Alive { .. } => Status::Running,
            Writer::Gone { .. } => Status::Interrupted,
        });
        return Ok(());
    };
    correct_status(&dir, &writer, Some(&mut summary));
    entry.epochs = summary.epochs.last().map_or(0, |last| last.epoch);
    entry.epochs_planned = summary.epochs_planned;
    entry.best_val_accuracy = summary.best().map_or(summary.best_val_accuracy, |best| best.val_accuracy);
    entry.best_val_loss = summary.best_val_loss;
    entry.best_val_absolute_error = summary.best_val_absolute_error;
    entry.test_accuracy = summary.test_accuracy;
    entry.test_absolute_error = summary.test_absolute_error;
    entry.examples_per_s = Some(summary.examples_per_s).filter(|rate| rate.is_finite() && *rate > 0.0);
    entry.started = if summary.started > 0 { summary.started } else { entry.started };
    (entry.model, entry.data, entry.status) = (summary.model, summary.data, Some(summary.status));
    Ok(())
}

fn written(path: &Path) -> u64 {
    let time = fs::metadata(path).and_then(|meta| meta.modified()).ok();
    time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map_or(0, |since| since.as_secs())
}

/// Bytes of all files below; links are not followed.
fn size(path: &Path) -> u64 {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => size(&entry.path()),
            Ok(meta) if meta.is_file() => meta.len(),
            _ => 0,
        })
        .sum()
}

/// "; runs were found in runs (3 runs) and runs/demo (5 runs)": in this folder, beside it, and two levels below where it lies.
pub(crate) fn nearby(folder: &Path) -> String {
    let above = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    };
    let mut places = vec![folder.to_path_buf(), above.clone()];
    for path in folders_in(folder).into_iter().chain(folders_in(&above)) {
        places.push(path.clone());
        if !is_run(&path) {
            places.extend(folders_in(&path));
        }
    }
    let shown = |path: &Path| path.strip_prefix(".").unwrap_or(path).to_path_buf();
    let mut found: Vec<(PathBuf, usize)> =
        places.into_iter().map(|path| (shown(&path), runs_in(&path).len())).filter(|(_, runs)| *runs > 0).collect();
    found.sort();
    found.dedup();
    const MOST: usize = 6;
    let more = found.len().saturating_sub(MOST);
    let words: Vec<String> = found
        .iter()
        .take(MOST)
        .map(|(path, runs)| {
            let path = if path.as_os_str().is_empty() { ".".into() } else { path.display().to_string() };
            format!("{path} ({})", counted(*runs, "run"))
        })
        .collect();
    match (words.is_empty(), more) {
        (true, _) => "; none were found nearby either".into(),
        (false, 0) => format!("; runs were found in {}", words.join(", ")),
        (false, more) => format!("; runs were found in {} and {}", words.join(", "), counted(more, "further folder")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EpochRecord, Summary};

    fn run(folder: &Path, name: &str, started: u64, status: Status) {
        let dir = RunDir::create(folder.join(name)).unwrap();
        let epoch = EpochRecord { epoch: 1, val_accuracy: Some(0.5), val_loss: Some(1.0), ..EpochRecord::default() };
        let mut summary = Summary { started, status, epochs_planned: 2, epochs: vec![epoch], ..Summary::default() };
        summary.derive_figures();
        dir.write_summary(&summary).unwrap();
    }

    #[test]
    fn runs_are_listed_by_time_with_their_groups() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs");
        run(&runs, "late", 30, Status::Done);
        run(&runs, "early", 10, Status::Running); // its writer is gone
        run(&runs.join("demo"), "middle", 20, Status::Failed { why: "of the disk".into() });
        fs::create_dir_all(runs.join("empty")).unwrap();
        fs::create_dir_all(runs.join("broken")).unwrap();
        fs::write(runs.join("broken/summary.json"), "{").unwrap();
        let found = list_runs(&runs).unwrap();
        let seen: Vec<_> = found.iter().map(|e| (e.name.as_str(), e.group.as_deref())).collect();
        assert_eq!(seen, [("early", None), ("middle", Some("demo")), ("late", None), ("broken", None)]);
        assert_eq!(found[0].status, Some(Status::Interrupted));
        assert_eq!((found[2].epochs, found[2].epochs_planned, found[2].best_val_accuracy), (1, 2, Some(0.5)));
        assert!(found[2].bytes > 100);
        assert!(found[3].status.is_none() && found[3].problem.as_ref().unwrap().contains("damaged"));
    }

    #[test]
    fn an_empty_folder_says_where_runs_are() {
        let folder = tempfile::tempdir().unwrap();
        let (here, empty) = (folder.path(), folder.path().join("empty"));
        fs::create_dir_all(&empty).unwrap();
        let message = |path: &Path| list_runs(path).unwrap_err().message().to_string();
        assert!(message(&empty).contains("none were found nearby"), "{}", message(&empty));
        run(&here.join("runs"), "one", 1, Status::Done);
        run(&here.join("other/study"), "two", 1, Status::Done);
        for path in [empty.clone(), here.join("missing")] {
            let words = message(&path);
            assert!(words.contains("runs (1 run)") && words.contains("other/study (1 run)"), "{words}");
        }
        assert!(message(&here.join("runs/one")).contains("is one run"));
    }
}
