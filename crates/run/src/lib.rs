//! Whole runs, from a configuration to a summary: what users of the library call.
//!
//! ```no_run
//! use paceline_config::Config;
//! use paceline_run::{Place, Silent, train};
//! let sets = ["data.name=fashion-sample", "model.hidden=[64]", "train.epochs=3", "strategy.name=mirrored"];
//! let config = Config::from_parts(None, &sets)?;
//! let finished = train(&config, &Place::Auto, &Silent, &false.into())?;
//! println!("{:?}", finished.summary.best_val_accuracy);
//! # Ok::<(), paceline_base::Error>(())
//! ```

mod bench;
mod demo;
mod devices;
mod forecast;
mod input;
mod limits;
mod local_data;
mod model_info;
mod monitor;
mod prepare;
mod process_group;
mod repeat;
mod resolve;
pub mod speedtest;
mod train;
mod tune;
mod watch;

pub use bench::{BenchSetting, BenchSettingNames, KernelBench, KernelLine, KernelReport, bench_kernels, bench_model};
pub use demo::{DemoStep, demo};
pub use forecast::{Forecast, Measured};
pub use input::{RunData, open_data};
pub use local_data::{Holding, Local, Pool, Stock};
pub use model_info::{ImageInfo, ModelInfo, Values};
pub use prepare::{DataEngine, PrepareFinished, PrepareOptions, PrepareWatcher, prepare};
pub use process_group::{ProcessGroup, Workers};
pub use repeat::Recorded;
pub use resolve::{Layout, Resolved, build_graph, build_model, read_text, resolve, resolve_on};
pub use train::{Finished, Place, request_stop, saved, title, train, train_among};
pub use tune::kernels::{Forgotten, forget_kernels};
pub use tune::memory::Needs;
pub use watch::{Live, Silent, Started, Watcher};
