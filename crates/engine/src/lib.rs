//! Executes schedules: one rank's program on a device and a comm, the training loop, checkpoints and resume.
//!
//! The engine is generic over [`Device`](paceline_kernels::Device) and [`Comm`](paceline_comm::Comm): it holds buffer
//! ids, never memory. It prints nothing; an [`Observer`] is told what happens.

pub mod checkpoint;
mod init;
mod program;
mod rank;
mod train;

pub use init::initial_values;
pub use rank::{Batch, Next, Rank, Rows, StepResult};
pub use train::{
    Best, CheckpointEvery, Control, Ended, EpochEvent, Input, Job, Observer, Outcome, Progress, Scores, StepEvent,
    TrainOptions, evaluate, train,
};
