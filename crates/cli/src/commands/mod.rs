//! One file per command: from flags to calls of the library, and from results to the terminal.

pub(crate) mod bench;
pub(crate) mod config;
pub(crate) mod data;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod evaluate;
pub(crate) mod launch;
pub(crate) mod matmul;
pub(crate) mod predict;
pub(crate) mod prepare;
pub(crate) mod report;
pub(crate) mod runs;
pub(crate) mod speedtest;
pub(crate) mod train;
