//! A shell session in a temporary folder: commands as one would type them, and what they leave behind.

use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A small set that needs no files: 180 training and 20 validation samples, so that an epoch has 12 steps of 16.
pub(crate) const SMALL: &str =
    "--set data.name=fake:4x4:3:200 --set model.hidden=[8] --set train.batch=16 --set strategy.threads=1";

/// A temporary folder as the working directory, with a cache of its own.
pub(crate) struct Session {
    folder: tempfile::TempDir,
}

/// The newest checkpoint of a run.
#[derive(PartialEq, Eq)]
pub(crate) struct Newest {
    /// Steps done.
    pub step: u64,
    model: Vec<u8>,
    optimizer: Vec<u8>,
}

/// Parameters by name.
pub(crate) struct Model(BTreeMap<String, Vec<f64>>);

impl Model {
    /// Checks that every tensor of `other` is as near as `tolerance`, measured by norms.
    pub(crate) fn near(&self, other: &Model, tolerance: f64, what: &str) {
        let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>().sqrt();
        assert_eq!(self.0.keys().collect::<Vec<_>>(), other.0.keys().collect::<Vec<_>>());
        for (name, a) in &self.0 {
            let b = &other.0[name];
            let apart = norm(&mut a.iter().zip(b).map(|(x, y)| x - y));
            let scale = norm(&mut a.iter().copied());
            assert!(apart <= tolerance * scale, "{what}: {name} is {apart:e} apart, of {scale:e}");
        }
    }
}

impl std::fmt::Debug for Newest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Thousands of bytes would hide what matters.
        let sum = |bytes: &[u8]| bytes.iter().fold(7u64, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(*b)));
        write!(f, "step {}, model {:x}, optimizer {:x}", self.step, sum(&self.model), sum(&self.optimizer))
    }
}

impl Session {
    /// An empty folder.
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file, with the folders above it.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Reads a text file.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// `paceline LINE`, ready to run. Words are parted at spaces; there are no quotes.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = self.program(env!("CARGO_BIN_EXE_paceline"));
        command.args(line.split_whitespace());
        command
    }

    /// Another program in the same surroundings.
    pub(crate) fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env("PACELINE_CACHE", self.path("cache")).stdin(Stdio::null());
        command.env_remove("COLUMNS");
        command
    }

    /// Runs a line that must succeed, and gives what it printed.
    pub(crate) fn ok(&self, line: &str) -> String {
        done(line, &self.command(line).output().unwrap())
    }

    /// Runs a line that must succeed and print JSON.
    pub(crate) fn json(&self, line: &str) -> Value {
        let text = self.ok(line);
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{line}: {e} in\n{text}"))
    }

    /// Runs a line that must fail with this exit code, and gives its message: one line, and no backtrace.
    pub(crate) fn fails(&self, code: i32, line: &str) -> String {
        failed(code, line, &self.command(line).output().unwrap())
    }

    /// Trains a small network on a small set, into the run directory `run`.
    pub(crate) fn train(&self, run: &str, more: &str) -> String {
        self.ok(&format!("train {SMALL} --run-dir {run} {more}"))
    }

    /// `summary.json` of a run.
    pub(crate) fn summary(&self, run: &str) -> Value {
        serde_json::from_str(&self.read(&format!("{run}/summary.json"))).unwrap()
    }

    /// Steps of a run's checkpoints, oldest first.
    pub(crate) fn checkpoints(&self, run: &str) -> Vec<u64> {
        let Ok(entries) = fs::read_dir(self.path(run).join("checkpoints")) else { return Vec::new() };
        let step = |name: std::ffi::OsString| name.to_str()?.strip_prefix("step-")?.parse().ok();
        let mut steps: Vec<u64> = entries.filter_map(|e| step(e.ok()?.file_name())).collect();
        steps.sort_unstable();
        steps
    }

    /// The newest checkpoint of a run, to be compared bit for bit.
    pub(crate) fn newest(&self, run: &str) -> Newest {
        let step = *self.checkpoints(run).last().unwrap_or_else(|| panic!("{run} has no checkpoint"));
        let file = |name| fs::read(self.path(format!("{run}/checkpoints/step-{step}/{name}"))).unwrap();
        Newest { step, model: file("model.safetensors"), optimizer: file("optimizer.safetensors") }
    }

    /// The parameters of a run's newest checkpoint.
    pub(crate) fn model(&self, run: &str) -> Model {
        let bytes = self.newest(run).model;
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let floats =
            |b: &[u8]| b.chunks_exact(4).map(|c| f64::from(f32::from_le_bytes([c[0], c[1], c[2], c[3]]))).collect();
        Model(file.tensors().into_iter().map(|(name, view)| (name, floats(view.data()))).collect())
    }

    /// Writes a set of square images in three classes as the four IDX files, into `folder`.
    pub(crate) fn write_idx(&self, folder: &str, side: u32, train: u32, test: u32) {
        for (part, count) in [("train", train), ("t10k", test)] {
            self.write(&format!("{folder}/{part}-images-idx3-ubyte"), idx_images(count, side));
            self.write(&format!("{folder}/{part}-labels-idx1-ubyte"), idx_labels(count));
        }
    }
}

/// Checks that a command succeeded, and gives what it printed.
pub(crate) fn done(line: &str, output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "paceline {line}\n{} with\n{out}{err}", output.status);
    assert!(!err.contains("panicked"), "paceline {line}\n{err}");
    out.into_owned()
}

/// Checks that a command ended with the exit code of a signal that it was stopped by, and gives what it printed.
pub(crate) fn stopped(code: i32, line: &str, output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "paceline {line}\n{} with\n{out}{err}", output.status);
    assert!(!err.contains("panicked"), "paceline {line}\n{err}");
    out.into_owned()
}

/// Checks that a command failed as it should, and gives its message.
pub(crate) fn failed(code: i32, line: &str, output: &Output) -> String {
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "paceline {line}\n{err}");
    // A run that has begun says in a line of its own how it goes on.
    let lines = err.lines().filter(|line| !line.starts_with("go on with: paceline ")).count();
    assert_eq!(lines, 1, "paceline {line}: not one line:\n{err}");
    assert!(err.starts_with("paceline: "), "paceline {line}\n{err}");
    assert!(!err.contains("panicked") && !err.contains("internal error"), "paceline {line}\n{err}");
    err.into_owned()
}

/// A text as one line, wherever it was wrapped.
pub(crate) fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Checks that all words occur in a text.
pub(crate) fn has(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is not in\n{text}");
    }
}

/// An IDX header of unsigned bytes.
pub(crate) fn idx_header(dims: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, dims.len() as u8];
    bytes.extend(dims.iter().flat_map(|d| d.to_be_bytes()));
    bytes
}

/// Images whose brightness depends on their class, `index % 3`.
pub(crate) fn idx_images(count: u32, side: u32) -> Vec<u8> {
    let pixel = |image: u32, at: u32| ((image % 3) * 90 + (image * 7 + at * 13) % 60) as u8;
    let mut bytes = idx_header(&[count, side, side]);
    bytes.extend((0..count).flat_map(|image| (0..side * side).map(move |at| pixel(image, at))));
    bytes
}

/// Labels of [`idx_images`].
pub(crate) fn idx_labels(count: u32) -> Vec<u8> {
    let mut bytes = idx_header(&[count]);
    bytes.extend((0..count).map(|image| (image % 3) as u8));
    bytes
}
