//! Executes schedules: one rank's program on a device and a comm, the training loop, checkpoints and resume.
//!
//! The engine is generic over [`Device`](paceline_kernels::Device) and [`Comm`](paceline_comm::Comm): it holds buffer
//! ids, never memory. It prints nothing; an [`Observer`] is told what happens.
//!
//! A [`Rank`] executes single steps; [`train`] is the loop around them, the same on every rank, with evaluation, early stopping
//! and [checkpoints](checkpoint).
//!
//! ```
//! use paceline_base::kernel::StepArgs;
//! use paceline_engine::checkpoint::initialize;
//! use paceline_engine::{Batch, Rank};
//! use paceline_kernels::{Device, Reference};
//! use std::sync::Arc;
//!
//! let features = (0..240).map(|i| (i * i % 17) as f32 / 17.0).collect();
//! let labels = (0..60).map(|i| i % 3).collect();
//! let data = paceline_data::Table::new(vec![4], features, labels, 3)?;
//! let graph = paceline_graph::Graph::build("softmax", &paceline_graph::presets::softmax(), &[4], 3, 0.0)?;
//! let plan = paceline_plan::Plan::data_parallel(1);
//! let batches = paceline_plan::Batches { train: vec![60], evaluate: vec![] };
//! let settings = paceline_plan::Settings::new(paceline_base::optim::Rule::Sgd, Reference::new().kind());
//! let schedule = paceline_plan::lower(&graph, &plan, &batches, &settings)?;
//!
//! let comm = paceline_comm::threads(1).swap_remove(0);
//! let mut rank = Rank::new(Reference::new(), comm, Arc::new(schedule))?;
//! initialize(&mut rank, &graph, 1)?;
//! let row = |row| row;
//! let mut step = |step| {
//!     let args = StepArgs { seed: 1, step, rate: 0.1, scale: 1.0 / 60.0 };
//!     rank.step_now(0, &Batch::new(&data, &row), &args)
//! };
//! let first = step(0)?.value("loss");
//! assert!(step(1)?.value("loss") < first);
//! # Ok::<(), paceline_base::Error>(())
//! ```

pub mod checkpoint;
mod clock;
mod control;
mod init;
mod input;
mod load;
mod metrics;
mod observer;
mod program;
mod rank;
mod state;
mod train;

pub use control::{Agreed, Agreement, Control};
pub use input::Input;
pub use metrics::Metrics;
pub use observer::{EpochEvent, Observer, StepEvent};
pub use rank::{Batch, Next, Rank, Rows};
pub use state::{Best, Scores, TrainState};
pub use train::{CheckpointEvery, Ended, Outcome, TrainJob, TrainOptions, evaluate, train};
