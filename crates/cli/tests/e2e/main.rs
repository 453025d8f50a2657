//! End-to-end tests: the program as a person or a script uses it, in folders of their own.
//!
//! One room per topic; [`session`] is the shell they all use.

mod accuracy;
mod bad_files;
mod bad_input;
mod busy;
mod configuration;
mod convolutions;
mod csv;
mod damaged;
mod data_cache;
mod doctor;
mod first_use;
mod interrupted;
mod launch;
mod lock;
mod matmul;
mod monitor;
mod names;
#[path = "../../../../tests/not_run.rs"]
mod not_run;
mod numbers;
mod parts;
mod predict;
mod predicted_time;
mod prepare;
mod processes;
mod records;
mod refused;
mod repeatable;
mod resume;
mod runs;
mod screens;
mod session;
mod shards;
mod signals;
mod speedtest;
