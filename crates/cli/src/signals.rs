//! Signals that ask this program to end, and the exit codes that follow.
//!
//! As long as a command has not [`Begun`] what it is to keep, a signal ends the program at once. After that the first one asks
//! the work to end in its own time; what later ones mean is decided by [`StopRequests`]. Signals belong to the process, so that
//! what has been heard is kept in one place for all of it.

use paceline::Error;
use paceline::launch::{Connection, VARIABLE};
use paceline::{Kind, Meaning, StopRequests, StopSignal};
use signal_hook::iterator::Signals;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

/// How a command ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It did its work.
    Done,
    /// It was asked to end before that, and kept what it had.
    Stopped,
}

impl From<()> for End {
    fn from((): ()) -> Self {
        Self::Done
    }
}

impl From<paceline::engine::Ended> for End {
    fn from(ended: paceline::engine::Ended) -> Self {
        match ended {
            paceline::engine::Ended::Stopped => Self::Stopped,
            _ => Self::Done,
        }
    }
}

/// What this process has heard.
static REQUESTS: LazyLock<Arc<StopRequests>> = LazyLock::new(Arc::default);

/// Where `launch` is told of signals that reach one of its processes.
static LAUNCH: OnceLock<Connection> = OnceLock::new();

/// What a signal asks for.
pub(crate) struct Stop {
    asked: Arc<AtomicBool>,
    begun: Begun,
}

/// Set when a command has begun what it is to keep.
#[derive(Clone, Default)]
pub(crate) struct Begun(Arc<AtomicBool>);

impl Begun {
    /// From here on a signal asks the work to end in its own time, and does not end the program.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Stop {
    /// To be set when the work begins.
    pub(crate) fn begun(&self) -> Begun {
        self.begun.clone()
    }

    /// The same, for a command that hears its flag from the start.
    pub(crate) fn heard_from_the_start(self) -> Self {
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

/// A flag that a signal sets, saying `words`; another signal ends the program at once. So does the first as long as the work
/// has not [`Begun`]: whatever it is doing (opening data, lowering, trying layouts, measuring kernels), there is nothing to save.
pub(crate) fn stop_on_signal(words: &'static str) -> Stop {
    let stop = Stop { asked: Arc::default(), begun: Begun::default() };
    let (asked, begun) = (stop.asked.clone(), stop.begun.0.clone());
    on_signal(move |signal| {
        if !begun.load(Ordering::SeqCst) {
            let words = crate::launched::prefixed("paceline: stopped on request before the work began\n");
            let _ = std::io::Write::write_all(&mut std::io::stderr(), words.as_bytes()); // nobody may be listening
            paceline_system::process::end_at_once(signal.exit_code());
        }
        match REQUESTS.hear(signal) {
            Meaning::Stop => {}
            Meaning::Echo => return,
            Meaning::AtOnce => paceline_system::process::end_at_once(signal.exit_code()),
        }
        asked.store(true, Ordering::Relaxed);
        // `launch` asks all processes of its job to stop, and says so itself. But what starts several of them sends these two to end the
        // others when one has failed: that is no wish of anybody.
        let own = matches!(signal, StopSignal::Terminate | StopSignal::HangUp) && crate::launched::several();
        match (LAUNCH.get(), std::env::var_os(VARIABLE)) {
            (Some(_), _) if own => {}
            (Some(line), _) => line.asked_to_stop(signal),
            (None, Some(_)) => {}
            (None, None) if !crate::launched::is_first() => {} // the first one speaks for all
            (None, None) => {
                let words = crate::launched::prefixed(&format!("\n{words} (again: at once)\n"));
                let _ = std::io::Write::write_all(&mut std::io::stderr(), words.as_bytes());
            }
        }
    });
    stop
}

/// Tells `launch`, over the line to it, of signals that reach this process.
pub(crate) fn forward_to(line: Connection) {
    let _ = LAUNCH.set(line);
}

/// Counts requests to end, for `launch`; should it not act on them, the next one ends this program.
pub(crate) fn requests() -> &'static StopRequests {
    on_signal(|signal| {
        let at_once = matches!(REQUESTS.asked(), Some(paceline::Asked::AtOnce(_)));
        if REQUESTS.hear(signal) == Meaning::AtOnce && at_once {
            paceline_system::process::end_at_once(signal.exit_code());
        }
    });
    &REQUESTS
}

/// Lets signals that ask for the end pass: for a helper that ends by itself, after the process that it serves.
pub(crate) fn outlive() -> paceline::Result<()> {
    on_signal(|_| {});
    Ok(())
}

/// Calls `heard` for every signal that asks for the end, in a thread of its own.
fn on_signal(mut heard: impl FnMut(StopSignal) + Send + 'static) {
    // `nohup` has a program ignore SIGHUP, and that is to stay so.
    let ignored = std::fs::read_to_string("/proc/self/status").is_ok_and(|text| ignores_hang_up(&text));
    let wanted = StopSignal::ALL.into_iter().filter(|s| !(ignored && *s == StopSignal::HangUp));
    let result = Signals::new(wanted.map(StopSignal::number)).and_then(|mut signals| {
        let work = move || signals.forever().filter_map(StopSignal::from_number).for_each(&mut heard);
        std::thread::Builder::new().name("signals".into()).spawn(work)
    });
    if let Err(e) = result {
        tracing::warn!("Ctrl-C will end the program at once: {e}");
    }
}

/// Whether a process with this `/proc/PID/status` was started with SIGHUP ignored.
fn ignores_hang_up(status: &str) -> bool {
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (StopSignal::HangUp.number() - 1)) != 0)
}

/// The exit code of a command that was stopped: that of the signal. Where none was heard (a process of a job that `launch` asked
/// to stop), it is 0: `launch` knows.
pub(crate) fn stopped_code() -> u8 {
    let under_launch = std::env::var_os(VARIABLE).is_some();
    REQUESTS.signal().filter(|_| !under_launch).map_or(0, StopSignal::exit_code)
}

/// The exit code that a failed command ends with.
pub(crate) fn error_code(error: &Error) -> u8 {
    match error.kind() {
        Kind::User => 2,
        Kind::Failure | Kind::Internal => 1,
        Kind::Stopped => REQUESTS.signal().map_or(1, StopSignal::exit_code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nohup_is_seen() {
        let status = |mask: &str| format!("Name:\tx\nSigBlk:\t0000000000000001\nSigIgn:\t{mask}\nSigCgt:\t1\n");
        assert!(ignores_hang_up(&status("0000000000000001")) && ignores_hang_up(&status("0000000000001003")));
        assert!(!ignores_hang_up(&status("0000000000001002")) && !ignores_hang_up(""));
    }
}
