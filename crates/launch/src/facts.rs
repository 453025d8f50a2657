//! What the processes of a job must agree on before any of them begins, and the comparison: a pure function.

use paceline_base::text;
use paceline_system::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// What one process found on its host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// Its number.
    pub process: usize,
    /// Its host, as that calls itself.
    pub host: String,
    /// The version of the program.
    pub version: String,
    /// SHA-256 of the program's file.
    pub binary: String,
    /// SHA-256 of the configuration, after flags.
    pub configuration: String,
    /// Fingerprint of the training data, where it is known and must be the same.
    pub data: Option<String>,
    /// The folder that run directories, and so checkpoints, go to.
    pub place: Option<PathBuf>,
    /// Free bytes there.
    pub free_disk: Option<u64>,
    /// What one checkpoint takes.
    pub checkpoint_bytes: Option<u64>,
    /// Seconds since 1970 when this was said.
    pub clock: f64,
    /// Cores that the process may use.
    pub cores: usize,
    /// Threads that it will compute with; 0 if not known.
    pub threads: usize,
    /// The processor's model.
    pub cpu: String,
}

impl Facts {
    /// Facts about this process and its host. `configuration` is everything that the user wrote, in any form that is the
    /// same for the same meaning.
    pub fn collect(configuration: &str) -> Self {
        let machine = paceline_system::machine::describe();
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            binary: own_digest(),
            configuration: hex(&Sha256::digest(configuration.as_bytes())),
            clock: clock(),
            cores: machine.cores,
            cpu: machine.cpu,
            host: paceline_system::host_name(),
            ..Self::default()
        }
    }

    /// Adds where checkpoints go and what one takes.
    #[must_use]
    pub fn with_place(mut self, folder: &Path, checkpoint_bytes: Option<u64>) -> Self {
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.into());
        self.free_disk = free_disk(&folder);
        self.place = Some(folder);
        self.checkpoint_bytes = checkpoint_bytes;
        self
    }

    fn name(&self) -> String {
        format!("{} ({})", self.process, self.host)
    }
}

/// Seconds since 1970.
pub(super) fn clock() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

/// SHA-256 of the file that this process runs; empty where the system does not show it.
fn own_digest() -> String {
    let Ok(mut file) = fs::File::open("/proc/self/exe") else { return String::new() };
    let mut digest = Sha256::new();
    let mut block = vec![0; 1 << 20];
    loop {
        match std::io::Read::read(&mut file, &mut block) {
            Ok(0) => return hex(&digest.finalize()),
            Ok(n) => digest.update(&block[..n]),
            Err(_) => return String::new(),
        }
    }
}

/// Bytes that may still be written below the nearest folder that exists.
fn free_disk(folder: &Path) -> Option<u64> {
    let there = folder.ancestors().find(|p| p.exists())?;
    let stat = nix::sys::statvfs::statvfs(there).ok()?;
    Some(stat.blocks_available() * stat.fragment_size())
}

/// One thing that is wrong, or that one should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Whether the job must not begin.
    pub fatal: bool,
    /// In words, with what to do.
    pub words: String,
}

/// Seconds by which clocks may differ before it is said.
const SKEW: f64 = 1.0;

/// Compares what all processes found. `skews` are their clocks less the clock of `launch`.
pub fn check(all: &[Facts], skews: &[f64]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut fatal = |words: String| problems.push(Problem { fatal: true, words });
    if let Some(words) = apart(all, |f| Some((&f.version, &f.binary))) {
        fatal(format!(
            "processes {words} run another program than process 0 ({}); put the same paceline file on all hosts",
            all.first().map_or("", |f| &f.version)
        ));
    }
    if let Some(words) = apart(all, |f| Some(&f.configuration)) {
        fatal(format!(
            "processes {words} read another configuration than process 0; give all hosts the same files, or a shared folder"
        ));
    }
    if let Some(words) = apart(all, |f| f.data.as_ref()) {
        fatal(format!(
            "processes {words} have other training data than process 0; copy the same files to all hosts, or set \
             data.placement = \"local\" if each is to train on its own"
        ));
    }
    problems.extend(disk(all.first()));
    let mut warn = |words: String| problems.push(Problem { fatal: false, words });
    let late: Vec<String> = all
        .iter()
        .zip(skews)
        .filter(|(_, skew)| skew.abs() > SKEW)
        .map(|(f, skew)| format!("{} by {skew:+.1} s", f.host))
        .collect();
    if !late.is_empty() {
        warn(format!(
            "clocks differ from the one here: {}; times in records will not fit together (start chrony or ntpd)",
            distinct(late).join(", ")
        ));
    }
    if let Some(words) = apart(all, |f| Some(&f.cpu)) {
        warn(format!(
            "processes {words} have another processor than process 0: the slower one sets the pace, and results may \
             differ in the last bits from those on equal machines"
        ));
    }
    problems.extend(crowded(all));
    problems
}

/// Free disk where process 0 writes checkpoints.
fn disk(first: Option<&Facts>) -> Option<Problem> {
    let first = first?;
    let (free, place) = (first.free_disk?, first.place.as_ref()?.display());
    // A new checkpoint is written whole before an old one goes.
    let need = first.checkpoint_bytes?;
    let sizes = format!("{} free at {place} on {}", text::bytes(free), first.host);
    if free < need {
        let words = format!("{sizes}, but a checkpoint takes {}; free some space, or set run.dir", text::bytes(need));
        return Some(Problem { fatal: true, words });
    }
    // The newest two, the best, and the one being written.
    (free < 4 * need)
        .then(|| Problem { fatal: false, words: format!("only {sizes}, and a checkpoint takes {}", text::bytes(need)) })
}

/// Hosts with more threads than cores.
fn crowded(all: &[Facts]) -> Option<Problem> {
    let hosts = distinct(all.iter().map(|f| f.host.clone()).collect());
    let words: Vec<String> = hosts
        .iter()
        .filter_map(|host| {
            let here: Vec<&Facts> = all.iter().filter(|f| f.host == *host).collect();
            let threads: usize = here.iter().map(|f| f.threads.max(1)).sum();
            let cores = here.iter().map(|f| f.cores).max()?;
            (cores > 0 && threads > cores)
                .then(|| format!("{host} has {} for {threads} threads", text::counted(cores, "core")))
        })
        .collect();
    (!words.is_empty()).then(|| Problem {
        fatal: false,
        words: format!("{}: they take turns, which costs more than it gives", words.join(", ")),
    })
}

/// "1 (a), 3 (b)": the processes whose value differs from that of process 0.
fn apart<'a, T: PartialEq>(all: &'a [Facts], value: impl Fn(&'a Facts) -> Option<T>) -> Option<String> {
    let first = value(all.first()?);
    let others: Vec<String> = all.iter().filter(|f| value(f) != first).map(Facts::name).collect();
    (!others.is_empty()).then(|| others.join(", "))
}

fn distinct(mut names: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|n| seen.insert(n.clone()));
    names
}

/// What to say when the checkpoint folder is not seen everywhere; none if it is.
pub fn unseen(all: &[Facts], seen: &[bool]) -> Option<String> {
    let blind: Vec<String> = all.iter().zip(seen).filter(|(_, s)| !**s).map(|(f, _)| f.name()).collect();
    let place = all.first()?.place.as_ref()?.display();
    (!blind.is_empty()).then(|| {
        format!(
            "processes {} cannot see {place} of {}, where checkpoints go; give a folder that all hosts share (run.dir on NFS \
             or the like)",
            blind.join(", "),
            all[0].host
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn four() -> Vec<Facts> {
        let one = |process: usize| Facts {
            process,
            host: ["a", "a", "b", "b"][process].into(),
            cores: 2,
            threads: 1,
            place: Some("/runs".into()),
            ..Facts::default()
        };
        (0..4).map(one).collect()
    }

    fn said(all: &[Facts], skews: &[f64], fatal: bool, words: &[&str]) {
        let problems = check(all, skews);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].fatal, fatal);
        words.iter().for_each(|w| assert!(problems[0].words.contains(w), "{w} in {}", problems[0].words));
    }

    #[test]
    fn equal_processes_may_begin() {
        assert_eq!(check(&four(), &[0.0, 0.2, -0.4, 0.9]), []);
    }

    #[test]
    fn differences_are_named() {
        let with = |change: &dyn Fn(&mut Facts)| {
            let mut all = four();
            change(&mut all[3]);
            all
        };
        said(&with(&|f| f.binary = "x".into()), &[0.0; 4], true, &["3 (b)", "another program"]);
        said(&with(&|f| f.configuration = "x".into()), &[0.0; 4], true, &["3 (b)", "configuration"]);
        said(&with(&|f| f.data = Some("x".into())), &[0.0; 4], true, &["3 (b)", "training data", "data.placement"]);
        said(&with(&|f| f.cpu = "x".into()), &[0.0; 4], false, &["3 (b)", "processor"]);
        said(&with(&|f| f.threads = 2), &[0.0; 4], false, &["b has 2 cores for 3 threads"]);
        said(&four(), &[0.0, 0.0, -7.0, -7.0], false, &["b by -7.0 s", "chrony"]);
    }

    #[test]
    fn a_checkpoint_must_fit() {
        let with = |free: u64| {
            let mut all = four();
            (all[0].free_disk, all[0].checkpoint_bytes) = (Some(free), Some(1000));
            all
        };
        said(&with(999), &[0.0; 4], true, &["/runs", "a checkpoint takes", "free some space"]);
        said(&with(3000), &[0.0; 4], false, &["only", "/runs"]);
        assert_eq!(check(&with(4000), &[0.0; 4]), []);
    }

    #[test]
    fn a_host_that_does_not_see_checkpoints_is_named() {
        assert_eq!(unseen(&four(), &[true; 4]), None);
        let words = unseen(&four(), &[true, true, false, false]).unwrap();
        assert!(words.contains("2 (b), 3 (b) cannot see /runs of a"), "{words}");
    }

    #[test]
    fn this_process_has_facts() {
        let facts = Facts::collect("x").with_place(Path::new("/nowhere/runs"), None);
        assert_eq!(facts.binary.len(), 64);
        assert!(facts.free_disk.is_some() && facts.cores > 0 && facts.clock > 1e9);
        assert_ne!(facts.configuration, Facts::collect("y").configuration);
    }
}
