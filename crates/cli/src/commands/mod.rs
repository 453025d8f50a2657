//! One file per command: from flags to calls of the library, and from results to the terminal.

pub mod bench;
pub mod config;
pub mod data;
pub mod demo;
pub mod doctor;
pub mod launch;
pub mod matmul;
pub mod prepare;
pub mod report;
pub mod speedtest;
pub mod train;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that Ctrl-C (or a termination signal) sets, saying `words`; the second time, the program ends at once.
pub fn stop_on_signal(words: &'static str) -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let seen = stop.clone();
    let result = ctrlc::set_handler(move || {
        if seen.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        // Processes of a job are asked to stop by launch, which says so itself.
        if std::env::var_os(paceline::launch::VARIABLE).is_none() {
            eprintln!("\n{words} (again: at once)");
        }
    });
    if let Err(e) = result {
        tracing::warn!("Ctrl-C will end the program at once: {e}");
    }
    stop
}
