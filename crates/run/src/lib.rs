//! Configuration, strategies by name, and whole runs: what users of the library call.

pub mod config;
