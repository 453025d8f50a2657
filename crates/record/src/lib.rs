//! The run directory: what a run writes down, and how it is read back.
//!
//! ```text
//! runs/<name>/
//!   run.toml       resolved configuration, seed, versions, machine
//!   steps-1.jsonl  the same for the ranks of process 1, and so on, where a run has several processes
//!   steps.jsonl    a header per attempt, then one line per step (or few steps) and rank, and one per epoch
//!   progress.jsonl a line a second, of a run that prepares data
//!   summary.json   the run in one object; what comparisons read first
//!   lock           who writes here, now or last
//!   checkpoints/   written by the engine; `best` is a link to the best one
//! ```
//!
//! What holds for every file here:
//!
//! - It says `format = 1`. Newer formats are refused with an error that says so; older ones are read.
//! - Nothing that was recorded is taken back: a restarted run appends a header with the next *attempt* number and the
//!   step it starts from, and readers drop what earlier attempts wrote at or beyond that step.
//! - One process writes at a time (those that follow it only their own `steps-N.jsonl`). It holds a lock that ends with it.
//! - A process killed at any moment leaves a directory that can be read and resumed: whole files are replaced by
//!   rename, and a torn last line is tolerated by readers and cut off before anything is appended.
//!
//! ```
//! use paceline_record::{RunDir, StepRecord, read_run};
//!
//! # let folder = std::env::temp_dir().join(format!("paceline-record-doc-{}", std::process::id()));
//! let dir = RunDir::create(&folder)?;
//! dir.write_run_toml(&std::collections::BTreeMap::from([("seed", 7)]))?;
//! let writer = dir.begin_steps()?;
//! writer.push(StepRecord { epoch: 1, step: 0, loss: 2.3, ..StepRecord::default() });
//! writer.finish()?;
//!
//! let run = read_run(&folder)?;
//! assert_eq!(run.steps[0].loss, 2.3);
//! assert_eq!(run.config["seed"].as_integer(), Some(7));
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok::<(), paceline_base::Error>(())
//! ```

mod attempts;
mod cpu;
mod dir;
mod every;
mod fold;
mod folder;
mod line;
mod lock;
mod progress;
mod read;
mod step;
mod study;
mod summary;
mod without;
mod writer;

pub use cpu::{CpuShare, CpuUse, CpuWatch, cpu_of_job};
pub use dir::RunDir;
pub use every::{Every, Interval, choose_every};
pub use fold::StepFold;
pub use folder::{RunEntry, list_runs, runs_in};
pub(crate) use line::Header;
pub use lock::Patience;
pub(crate) use lock::Writer;
pub use progress::{ProgressRecord, ProgressWriter};
pub use read::{RunData, read_run, read_run_toml, read_summary};
pub use step::{EpochRecord, StepRecord};
pub use study::{Cell, Form, Measurement, MeasurementWriter, PageCache, Study, Variant, read_study, work_of};
pub use summary::{Exactness, InputFacts, PartialEpoch, PreparedSummary, Status, StepTimes, Summary, Work};
pub use writer::{StepWriter, Written};

/// The format that this version writes, and the newest that it reads.
pub(crate) const FORMAT: u32 = 1;

/// Refuses a file of a newer format; `format` is what the file says.
pub(crate) fn check_format(path: &std::path::Path, format: u64) -> paceline_base::Result<()> {
    if format > u64::from(FORMAT) {
        return Err(paceline_base::Error::user(format!(
            "{} has format {format}, and this version of Paceline reads formats up to {FORMAT}; read it with the newer \
             Paceline that wrote it",
            path.display()
        )));
    }
    Ok(())
}
