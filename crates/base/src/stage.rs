//! A stage of a pipeline in figures: what every pipeline counts, and what reports read.

use serde::{Deserialize, Serialize};

/// One stage in figures; times are seconds, summed over its threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// By which reports and verdicts know it: `read`, `decode`, `write`.
    pub name: String,
    /// Threads that work on it (stages of one pool share their threads).
    pub threads: usize,
    /// Items that came out of it.
    pub items: u64,
    /// Bytes of the results.
    pub bytes: u64,
    /// Seconds of working, over all threads.
    pub busy: f64,
    /// Waiting for input.
    pub starved: f64,
    /// Waiting for room at the output.
    pub blocked: f64,
}

impl Stage {
    /// Adds the counts of the same stage elsewhere.
    pub fn add(&mut self, other: &Self) {
        self.items += other.items;
        self.bytes += other.bytes;
        self.busy += other.busy;
        self.starved += other.starved;
        self.blocked += other.blocked;
    }
}
