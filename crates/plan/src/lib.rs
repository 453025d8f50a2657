//! Plans, lowering to a schedule, and the simulator: *one schedule, two interpreters*.
//!
//! A model graph and a [`Plan`] (how each operator is split and where each part runs, and the [`Store`] that keeps
//! the parameters equal) are lowered to one [`Schedule`]. The engine executes it; [`simulate`] costs the very same schedule. Nothing here does
//! I/O or reads a clock.
//!
//! ```
//! use paceline_base::kernel::DeviceKind;
//! use paceline_graph::{presets, Graph};
//! use paceline_plan::{lower, Batches, Plan, Settings};
//! let graph = Graph::build("softmax", &presets::softmax(), &[28, 28], 10, 0.0)?;
//! let plan = Plan::data_parallel(2);
//! let batches = Batches { train: vec![100, 60], evaluate: vec![500] };
//! let kind = DeviceKind::new(paceline_base::units::DType::F32, &[]);
//! let settings = Settings::new(paceline_base::optim::Rule::Sgd, kind);
//! let schedule = lower(&graph, &plan, &batches, &settings)?;
//! assert_eq!(schedule.phases.len(), 3);
//! println!("{}", paceline_plan::explain(&schedule, &graph, 0));
//! # Ok::<(), paceline_base::Error>(())
//! ```

mod cluster_file;
mod cost;
mod explain;
mod explain_time;
mod hash;
mod key;
mod lower;
mod memory;
mod phases;
mod plan;
mod plan_file;
mod program;
mod schedule;
mod simulate;

pub use cluster_file::{ClusterFile, Host, Link, ProcessLink};
pub use cost::{Cluster, KernelShape, KernelTime, Processes};
pub use explain::{explain, placements};
pub use explain_time::critical_path;
pub use key::{BucketKey, BufferKey, BufferRole, SegmentKey, TaskKey};
pub use lower::{Batches, Devices, ListRoom, Lowering, MicroBatches, Settings, lower};
pub use memory::{Memory, ends, peaks};
#[cfg(feature = "testing")]
pub use memory::{lay_out_again, lay_out_without_loans};
pub use phases::Phases;
pub use plan::{Compression, OpPlan, Parts, Plan, Store, UpdateMode};
pub use plan_file::{parse, to_toml};
pub use program::{Item, Placed, Program, program, programs};
pub use schedule::{Await, Bucket, BucketEntry, Buffer, Phase, PhaseKind, Schedule, Segment, Task, TaskKind, metrics};
pub use simulate::{Prediction, Stretch, What, simulate};
