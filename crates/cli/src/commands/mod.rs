//! One file per command: from flags to calls of the library, and from results to the terminal.

pub mod bench;
pub mod config;
pub mod data;
pub mod demo;
pub mod doctor;
pub mod evaluate;
pub mod launch;
pub mod matmul;
pub mod predict;
pub mod prepare;
pub mod report;
pub mod runs;
pub mod speedtest;
pub mod train;
