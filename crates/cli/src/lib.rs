//! Paceline prepares data, trains neural networks in parallel, and says why the training is as fast as it is.
//!
//! This crate is the public face: the `paceline` program, and the library under one name.
//!
//! ```no_run
//! use paceline::{Config, Place, Silent};
//!
//! let config = Config::from_parts(None, &["model.hidden=[128]", "train.epochs=3", "strategy.name=mirrored"])?;
//! let run = paceline::train(&config, &Place::Auto, &Silent, &false.into())?;
//! println!("validation accuracy {:?}", run.summary.best_val_accuracy);
//! # Ok::<(), paceline::Error>(())
//! ```
//!
//! The rooms behind it: [`data`] (samples and their order), [`graph`] (operators and models), [`plan`] (plans,
//! schedules, the simulator), [`kernels`] (devices), [`engine`] (executes schedules), [`predict`] (trained models in use), [`record`] and [`report`] (run
//! directories and what is made of them).

pub use paceline_base as base;
pub use paceline_base::optim::Rule;
pub use paceline_base::{Error, Kind, Result, text};
pub use paceline_comm as comm;
pub use paceline_config::{self as config, Config};
pub use paceline_data as data;
pub use paceline_doctor as doctor;
pub use paceline_engine as engine;
pub use paceline_graph as graph;
pub use paceline_kernels as kernels;
pub use paceline_launch as launch;
pub use paceline_launch::{Asked, Meaning, StopRequests, StopSignal, UNFINISHED};
pub use paceline_matmul as matmul;
pub use paceline_plan as plan;
pub use paceline_predict as predict;
pub use paceline_prepare as prepare;
pub use paceline_record as record;
pub use paceline_report as report;
pub use paceline_run::{
    BenchSetting, DemoStep, Finished, Forecast, KernelBench, KernelLine, KernelReport, Live, Measured, Place,
    ProcessGroup, Recorded, Resolved, Silent, Started, Watcher, bench_kernels, bench_model, demo, forget_kernels,
    request_stop, resolve, resolve_on, saved, train, train_among,
};
pub use paceline_system as system;
