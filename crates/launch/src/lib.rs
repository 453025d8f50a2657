//! A job over processes and hosts: started through `mpirun`, watched from outside MPI, restarted from its last checkpoint.
//!
//! [`launch`](launch()) starts and watches; a [`LaunchClient`] is what each process holds. They exchange messages over TCP, so that a
//! process that hangs inside MPI, or a host that is cut off, is still seen, and named. What is decided is decided by functions of data:
//! [`check`] (do the processes agree?), `JobMonitor` (who failed?), [`decide`](decide()) (what follows?). What a signal means,
//! its echo and a second one, is in [`StopRequests`].
//!
//! ```
//! use paceline_launch::{Decision, Failure, Hosts, How, LaunchSettingNames, State, decide};
//!
//! let state = State {
//!     hosts: Hosts::parse("a:2,b:2")?, restarts: 0, waits: 0, max_restarts: 3, elastic: false, min_ranks: 1,
//!     run_dir: Some("runs/first".into()), began: true, trained: true, stopping: false, earlier: Vec::new(),
//!     names: LaunchSettingNames::default(),
//! };
//! let killed = Failure { process: Some(3), host: Some("b".into()), how: How::Died, why: "was killed by signal 9".into(), step: 120 };
//! assert_eq!(killed.words(), "process 3 on b was killed by signal 9");
//! let (decision, why) = decide(&state, &killed);
//! assert!(matches!(decision, Decision::Restart { from: Some(_), counts: true, .. }), "{why}");
//!
//! let wrong = Failure { how: How::Said(2), ..killed }; // wrong input: it would fail again
//! assert_eq!(decide(&state, &wrong).0, Decision::GiveUp);
//! # Ok::<(), paceline_base::Error>(())
//! ```

mod children;
mod client;
mod decide;
mod facts;
mod hosts;
mod job;
mod message;
mod monitor;
mod mpirun;
mod output;
mod ports;
mod reach;
mod scheduler;
mod secret;
mod server;
mod setting;
mod stop_signals;

pub use children::Stream;
pub use client::{Connection, LaunchClient, OnLost, exit_report};
pub use decide::{Decision, Failure, How, State, decide};
pub use facts::{Facts, Problem, check, unseen};
pub use hosts::{Host, Hosts};
pub use job::{Launch, LaunchEnd, LaunchView, Notice, launch};
pub use message::{Doing, ExitReport, Heartbeat, Progress, StartInfo, VARIABLE};
pub use monitor::Limits;
pub use output::{COPY_COMMAND, copy_output, keep_output};
pub use ports::Ports;
pub use scheduler::{Scheduler, detect};
pub use setting::{LaunchSetting, LaunchSettingNames};
pub use stop_signals::{Asked, ECHO, Meaning, StopRequests, StopSignal, UNFINISHED};

#[cfg(test)]
mod tests;
