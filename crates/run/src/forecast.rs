//! What a step will take, from what the hosts were measured to do: a cluster file that was given, or this machine's last `paceline doctor`.

use crate::process_group::Workers;
use crate::resolve::{Resolved, read_text};
use paceline_base::{Error, Result, TimeSplit};
use paceline_data::Catalogue;
use paceline_plan::{Cluster, ClusterFile, PhaseKind, Prediction, Processes, simulate};
use paceline_record::StepTimes;
use paceline_system::host_name;
use std::path::{Path, PathBuf};

/// What hosts were measured to do, and where that stands.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The file.
    pub path: PathBuf,
    /// What it says.
    pub file: ClusterFile,
}

impl Measured {
    /// The file that was given; else this machine's last `doctor`; none if there is none.
    ///
    /// # Errors
    /// If the file is missing or wrong.
    pub fn find(given: Option<&Path>) -> Result<Option<Self>> {
        match given {
            Some(path) => {
                let text = read_text("read the cluster file", path)?;
                let file = ClusterFile::parse(&text, &path.display().to_string())?;
                Ok(Some(Self { path: path.into(), file }))
            }
            None => {
                let Some(cache) = Catalogue::from_env().cache().map(Path::to_path_buf) else { return Ok(None) };
                let last = paceline_doctor::last(&cache)?;
                Ok(last.map(|(path, file)| Self { path, file }))
            }
        }
    }

    /// The host that a run of one process is on: this one, or where the file is about other machines the first.
    fn host(&self) -> String {
        let here = host_name();
        match self.file.hosts.iter().find(|h| h.name == here) {
            Some(host) => host.name.clone(),
            None => self.file.hosts[0].name.clone(),
        }
    }

    /// Processes as they would be started on the file's hosts: one on each, or one in all.
    pub(crate) fn processes(&self, ranks: usize, threads: usize, spread: bool) -> Result<Processes> {
        match spread && self.file.hosts.len() > 1 {
            true => Processes::over(&self.file, ranks, threads).map_err(|e| e.context(self.path.display())),
            false => Ok(Processes::one_process(&self.host(), ranks, threads)),
        }
    }
}

/// What was predicted of a run's training steps.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// The file that it was made from.
    pub path: PathBuf,
    /// Of a step of a full batch.
    pub step: Prediction,
    /// Seconds of a step on average over an epoch, in which the last batch may be smaller.
    pub mean: f64,
    /// What had to be assumed, in words.
    pub notes: Vec<String>,
}

impl Forecast {
    /// Of a run whose ranks lie in these processes.
    ///
    /// # Errors
    /// If the file does not know a host that the run is on.
    pub fn new(run: &Resolved, measured: &Measured, processes: &Processes) -> Result<Self> {
        let within = |e: Error| e.context(format!("cluster file {}", measured.path.display()));
        let cluster = Cluster::of(&measured.file, processes).map_err(within)?;
        let (batch, samples) = (run.layout.batch.samples(), run.data.samples());
        let of = |count: usize| {
            let phase = run.schedule.phase(PhaseKind::Train, count);
            phase.map(|phase| simulate(&run.schedule, phase, &cluster))
        };
        let step = of(batch.min(samples)).ok_or_else(|| Error::internal("a step of the batch was not planned"))?;
        let (full, rest) = ((samples / batch) as f64, samples % batch);
        let mean = match of(rest).filter(|_| rest > 0 && full > 0.0) {
            Some(last) => (full * step.seconds + last.seconds) / (full + 1.0),
            None => step.seconds,
        };
        Ok(Self { path: measured.path.clone(), step, mean, notes: cluster.notes().to_vec() })
    }

    /// Of a run that is about to begin.
    pub(crate) fn of_run(run: &Resolved, measured: &Measured, workers: Option<&Workers>) -> Result<Self> {
        let processes = match workers {
            Some(workers) => {
                Processes { hosts: workers.hosts.clone(), replicas: workers.replicas, threads: run.layout.threads }
            }
            None => Processes::one_process(&host_name(), run.layout.plan.ranks, run.layout.threads),
        };
        Self::new(run, measured, &processes)
    }

    /// As a summary has it before anything was measured.
    pub(crate) fn step_times(&self) -> StepTimes {
        StepTimes {
            cluster_file: self.path.display().to_string(),
            predicted_s: self.mean,
            predicted_split: self.step.split.clone(),
            ..StepTimes::default()
        }
    }
}

/// Puts in what was measured: seconds of so many steps, and where the time of each rank went in them.
pub(crate) fn add_measured(times: &mut StepTimes, seconds: f64, steps: u64, splits: &[TimeSplit]) {
    if steps == 0 {
        return;
    }
    times.measured_s = Some(seconds / steps as f64);
    times.steps = steps;
    times.measured_split = splits.iter().map(|split| split.over(steps as f64)).collect();
}
