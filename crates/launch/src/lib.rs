//! A job over processes and hosts: started through `mpirun`, watched from outside MPI, restarted from its last checkpoint.
//!
//! [`launch`](launch()) is the watcher; [`LaunchClient`] is what each process holds. They speak over TCP, so that a process that
//! hangs inside MPI, or a host that is cut off, is still seen, and named. What is decided is decided by functions of data:
//! [`check`] (do the processes agree?), `JobMonitor` (who failed?), [`decide`](decide()) (what follows?).

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
mod stop;

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
pub use stop::{Asked, ECHO, Meaning, StopRequests, StopSignal, UNFINISHED};

#[cfg(test)]
mod tests;
