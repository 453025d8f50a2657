//! End-to-end tests: the program as a person or a script uses it, in folders of their own.
//!
//! One room per topic; [`session`] is the shell they all use.

mod accuracy;
mod bad_files;
mod bad_input;
mod convolutions;
mod damaged;
mod doctor;
mod first_use;
mod interrupted;
mod launch;
mod matmul;
#[path = "../../../../tests/not_run.rs"]
mod not_run;
mod prepare;
mod processes;
mod refused;
mod repeatable;
mod resume;
mod session;
mod shards;
mod speedtest;
