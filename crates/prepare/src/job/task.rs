//! A job spread over processes: what each is told, what it does, and what it answers. The program that submits tasks and the one
//! that runs them are the same; both sides of the talk are here.

use super::{FinishedShard, JobProgress, Manifest, SettingNames, Threads, output_directory, pipeline};
use paceline_base::stage::StageFigures;
use paceline_base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// What every task of a job is told; which shards are its own it reads from its standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardTask {
    /// Where the job lies: a folder that all hosts see.
    pub(super) work: PathBuf,
    pub(super) readers: usize,
    pub(super) workers: usize,
    /// Bad images that this task alone may leave out; all together are counted when the shards are collected.
    pub(super) skip_bad: usize,
}

/// What a task answers, as one line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskFigures {
    /// Bytes of image files read.
    pub bytes_read: u64,
    /// Bytes of records written.
    pub bytes_written: u64,
    /// Work and waiting of each stage of this task.
    pub stages: Vec<StageFigures>,
}

impl ShardTask {
    /// The command of this program that runs a task.
    pub const COMMAND: &str = "prepare-shards";

    /// What this program is started with to run the task: the command, and what [`ShardTask::parse`] reads.
    ///
    /// # Errors
    /// If the folder of the job has a name that is not UTF-8.
    pub fn arguments(&self) -> Result<Vec<String>> {
        let text = serde_json::to_string(self).map_err(|e| {
            Error::user(format!("{}: {e}; give a destination whose path is UTF-8", self.work.display()))
        })?;
        Ok(vec![Self::COMMAND.into(), text])
    }

    /// Reads the argument behind [`ShardTask::COMMAND`].
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|e| Error::user(format!("`{text}` is no task of a preparation: {e}")))
    }

    /// Makes some shards of the job, by number. The job's lock is held by the process that submitted it; finished shards are left
    /// as they are.
    ///
    /// # Errors
    /// Those of a job.
    pub fn make(&self, shards: &[usize], names: SettingNames) -> Result<TaskFigures> {
        let manifest = Manifest::read(&self.work).map_err(|e| e.named(names))?;
        if let Some(wrong) = shards.iter().find(|&&s| s >= manifest.shards.len()) {
            return Err(Error::user(format!("shard {wrong}: the job has {} shards", manifest.shards.len())));
        }
        let is_finished = |shard: usize| output_directory::finished(&self.work, &manifest.shards[shard].file).is_some();
        let pending: Vec<usize> = shards.iter().copied().filter(|&shard| !is_finished(shard)).collect();
        let threads = Threads { readers: self.readers.max(1), workers: self.workers.max(1) };
        let (watch, stop) = (&mut |_: &JobProgress| (), AtomicBool::new(false));
        let made = pipeline::run(&self.work, &manifest, &pending, threads, self.skip_bad, watch, &stop);
        let (_, progress): (Vec<FinishedShard>, _) = made.map_err(|e| e.named(names))?;
        let JobProgress { bytes_read, bytes_written, stages, .. } = progress;
        Ok(TaskFigures { bytes_read, bytes_written, stages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_submitted_is_what_is_run() {
        let task = ShardTask { work: "/data/shards/.prepare".into(), readers: 1, workers: 4, skip_bad: 3 };
        let arguments = task.arguments().unwrap();
        assert_eq!(arguments[0], ShardTask::COMMAND);
        assert_eq!(ShardTask::parse(&arguments[1]).unwrap(), task);
        assert!(ShardTask::parse("--job x").unwrap_err().message().contains("no task"));
    }
}
