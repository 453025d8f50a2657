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
mod parts;
mod prepare;
mod processes;
mod repeatable;
mod resume;
mod session;
mod shards;
mod speedtest;
