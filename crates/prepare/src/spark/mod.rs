//! Running this program's tasks on a Spark cluster.
//!
//! Spark does what it is good at (schedules, retries, replaces lost executors, speculates); the work itself is this same
//! program, shipped with the job. A small PySpark driver is part of the program and is submitted with `spark-submit`.
//!
//! ```text
//! paceline ──spark-submit──► driver.py ──► Spark ──► partition: paceline < tasks > results
//!        ◄──────── events, one JSON object a line ────────┘
//! ```
//!
//! The driver and its request are written into a folder that this process has made and nobody else may enter ([`folder`]):
//! `spark-submit` runs what lies there, and temporary directories are shared.
//!
//! What is absent: no Spark library is linked, and nothing falls back to local threads when Spark is not there.

use paceline_base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const DRIVER: &str = include_str!("driver.py");
const MARK: &str = "paceline-event ";

/// Where and how to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// As Spark writes it: `spark://host:7077`, `yarn`, `k8s://…`, `local[2]`.
    pub master: String,
    /// Partitions; none is three for each core.
    pub partitions: Option<usize>,
    /// More settings of Spark, each `key=value`.
    pub conf: Vec<String>,
}

/// Tasks for the cluster.
#[derive(Clone, Debug, Serialize)]
pub struct Request {
    /// The name of the application, as Spark shows it.
    pub name: String,
    /// The program that each partition runs: this one, unless a test says otherwise.
    pub program: PathBuf,
    /// Arguments of the program, the same for every partition.
    pub arguments: Vec<String>,
    /// What it gets as lines on its standard input, spread over the partitions.
    pub tasks: Vec<String>,
}

/// What happens on the cluster.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// Spark has answered.
    Connected {
        /// Address of the master, as Spark states it.
        master: String,
        /// Version of Spark on the cluster.
        version: String,
    },
    /// Tasks are under way.
    Started {
        /// Cores of the cluster.
        cores: usize,
        /// Partitions that were wanted.
        wanted: usize,
        /// Partitions that there are: not more than tasks.
        partitions: usize,
        /// Lines that are spread over the partitions.
        tasks: usize,
    },
    /// A partition's result.
    Partition(Answer),
    /// All is done.
    Done,
}

/// What one partition gave.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// Number of the partition, from 0.
    pub partition: usize,
    /// Where it ran.
    pub host: String,
    /// Which attempt succeeded, from 0.
    pub attempt: usize,
    /// How many tasks it had.
    pub tasks: usize,
    /// How long it took.
    pub seconds: f64,
    /// The lines that the program printed.
    pub lines: Vec<String>,
    /// Input that the program refused.
    pub wrong: Option<String>,
}

/// Submits the request and waits for all partitions. `log` keeps what Spark says; `watch` is told of events and called
/// some times a second.
///
/// # Errors
/// If Spark is not there (with how to install it), if the job fails (with the last words of its log), or if the program
/// refused its input.
pub fn submit(
    cluster: &Cluster,
    request: &Request,
    log: &Path,
    watch: &mut dyn FnMut(Option<&Event>),
    stop: &dyn Fn() -> bool,
) -> Result<Vec<Answer>> {
    submit_with(&spark_submit()?, cluster, request, log, watch, stop)
}

/// A new folder in the temporary directory, with a name that cannot be foreseen, which only this user may enter. It is
/// removed when the value is dropped.
///
/// # Errors
/// If it cannot be made.
pub fn folder() -> Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    let made = builder.prefix("paceline-spark-").permissions(Permissions::from_mode(0o700)).tempdir();
    made.map_err(|e| Error::io("create a folder in", &std::env::temp_dir(), &e))
}

fn submit_with(
    submit: &Path,
    cluster: &Cluster,
    request: &Request,
    log: &Path,
    watch: &mut dyn FnMut(Option<&Event>),
    stop: &dyn Fn() -> bool,
) -> Result<Vec<Answer>> {
    let folder = folder()?;
    let (driver, file) = (folder.path().join("paceline_driver.py"), folder.path().join("request.json"));
    let mut body = serde_json::to_value(request).map_err(|e| Error::internal(e.to_string()))?;
    body["partitions"] = cluster.partitions.into();
    for (path, text) in [(&driver, DRIVER.to_string()), (&file, body.to_string())] {
        std::fs::write(path, text).map_err(|e| Error::io("write", path, &e))?;
    }
    let out = File::create(log).map_err(|e| Error::io("create", log, &e))?;
    let mut command = Command::new(submit);
    command.args(["--master", &cluster.master]);
    for setting in &cluster.conf {
        command.args(["--conf", setting]);
    }
    command.arg(&driver).arg(&file).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(out);
    let mut child = command.spawn().map_err(|e| Error::io("start", submit, &e))?;
    let stdout = child.stdout.take().ok_or_else(|| Error::internal("spark-submit has no output"))?;
    let (sender, events) = mpsc::channel();
    // Ends by itself when the child's output ends.
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(std::result::Result::ok) {
            let Some(text) = line.strip_prefix(MARK) else { continue };
            if let Ok(event) = serde_json::from_str::<Event>(text)
                && sender.send(event).is_err()
            {
                break;
            }
        }
    });
    let (mut answers, mut done) = (Vec::new(), false);
    loop {
        match events.recv_timeout(Duration::from_millis(200)) {
            Ok(event) => {
                watch(Some(&event));
                match event {
                    Event::Partition(answer) => answers.push(answer),
                    Event::Done => done = true,
                    Event::Connected { .. } | Event::Started { .. } => {}
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => watch(None),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
        if stop() {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Error::stopped("stopped; what is finished is kept: run the same command again"));
        }
    }
    let status = child.wait().map_err(|e| Error::io("wait for", submit, &e))?;
    if let Some(wrong) = answers.iter().find_map(|a| a.wrong.clone()) {
        return Err(Error::user(wrong.trim_start_matches("paceline: ").to_string()));
    }
    if !status.success() || !done {
        return Err(Error::failure(format!(
            "Spark at {} did not finish the job ({status}): {}; all of what it said is in {}",
            cluster.master,
            last_words(log),
            log.display()
        )));
    }
    Ok(answers)
}

/// Finds `spark-submit`: `$SPARK_HOME`, the path, or the Python package.
///
/// # Errors
/// With how to install Spark, if it is not there.
pub fn spark_submit() -> Result<PathBuf> {
    if let Some(home) = std::env::var_os("SPARK_HOME").filter(|h| !h.is_empty()) {
        let path = Path::new(&home).join("bin/spark-submit");
        if path.is_file() {
            return Ok(path);
        }
        return Err(Error::user(format!(
            "SPARK_HOME is {}, but there is no bin/spark-submit in it; correct SPARK_HOME or unset it",
            Path::new(&home).display()
        )));
    }
    let on_path = std::env::var_os("PATH")
        .and_then(|path| std::env::split_paths(&path).map(|p| p.join("spark-submit")).find(|p| p.is_file()));
    if let Some(path) = on_path {
        return Ok(path);
    }
    let python = std::env::var("PYSPARK_PYTHON").unwrap_or_else(|_| "python3".into());
    let asked = Command::new(&python)
        .args(["-c", "import pyspark, os; print(os.path.dirname(pyspark.__file__))"])
        .stdin(Stdio::null())
        .output();
    if let Ok(output) = asked
        && output.status.success()
    {
        let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()).join("bin/spark-submit");
        if path.is_file() {
            return Ok(path);
        }
    }
    Err(Error::user(
        "Spark is not on this machine: no SPARK_HOME, no spark-submit on the path, no pyspark in python3; install it \
         with `pip install pyspark` (3.5 or newer; it needs Java 17) or set SPARK_HOME, or do without the Spark engine",
    ))
}

/// The lines of a log that say why.
fn last_words(log: &Path) -> String {
    let text = std::fs::read(log).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default();
    let telling = |line: &&str| {
        ["Error", "Exception", "error", "refused", "exit code"].iter().any(|word| line.contains(word))
            && !line.trim_start().starts_with("at ")
    };
    let line = text.lines().rfind(telling).or_else(|| text.lines().last()).unwrap_or("it said nothing");
    line.trim().chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before, the folder had a name that anybody could foresee, and was used if it was there.
    #[test]
    fn the_driver_lies_where_nobody_else_can_put_one() {
        // Says what it is given, and where that lies.
        let program = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake-spark-submit"));
        let here = tempfile::tempdir().unwrap();
        let request = Request { name: "n".into(), program: "p".into(), arguments: Vec::new(), tasks: vec!["1".into()] };
        let cluster = Cluster { master: "local[1]".into(), ..Cluster::default() };
        let mut folders = Vec::new();
        for number in 0..2 {
            let log = here.path().join(format!("{number}.log"));
            let answers = submit_with(program, &cluster, &request, &log, &mut |_| (), &|| false).unwrap();
            assert!(answers.is_empty());
            let said = std::fs::read_to_string(&log).unwrap();
            let [mode, folder] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
            assert_eq!(mode, "700");
            assert!(!folder.contains(&std::process::id().to_string()), "{folder}");
            assert!(!Path::new(folder).exists(), "{folder} is left behind");
            folders.push(folder.to_string());
        }
        assert_ne!(folders[0], folders[1]);
    }
}
