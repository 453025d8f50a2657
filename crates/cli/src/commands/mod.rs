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
pub mod speedtest;
pub mod train;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a signal asks for.
pub struct Stop {
    asked: Arc<AtomicBool>,
    begun: Begun,
}

/// Set when a command has begun what it is to keep.
#[derive(Clone, Default)]
pub struct Begun(Arc<AtomicBool>);

impl Begun {
    /// From here on a signal asks the work to end in its own time, and does not end the program.
    pub fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Stop {
    /// To be set when the work begins.
    pub fn begun(&self) -> Begun {
        self.begun.clone()
    }

    /// The same, for a command that hears its flag from the start.
    pub fn heard_from_the_start(self) -> Self {
        self.begun.set();
        self
    }
}

impl std::ops::Deref for Stop {
    type Target = Arc<AtomicBool>;

    fn deref(&self) -> &Arc<AtomicBool> {
        &self.asked
    }
}

/// The exit code after Ctrl-C, as shells have it; also after other signals that ask a program to end.
const INTERRUPTED: i32 = 130;

/// A flag that Ctrl-C (or a termination signal) sets, saying `words`; the second time, the program ends at once. So it does
/// the first time as long as the work has not [`Begun`]: whatever it is doing (opening data, lowering, trying layouts, measuring
/// kernels), there is nothing to save.
pub fn stop_on_signal(words: &'static str) -> Stop {
    let stop = Stop { asked: Arc::default(), begun: Begun::default() };
    let (seen, begun) = (stop.asked.clone(), stop.begun.0.clone());
    let result = ctrlc::set_handler(move || {
        if !begun.load(Ordering::SeqCst) {
            let words = crate::tethered::prefixed("paceline: stopped on request before the work began\n");
            let _ = std::io::Write::write_all(&mut std::io::stderr(), words.as_bytes()); // nobody may be listening
            std::process::exit(INTERRUPTED);
        }
        if seen.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED);
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
