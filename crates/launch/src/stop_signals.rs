//! Requests to end: which signals ask for it, the exit codes they lead to, and what a signal means after others.
//!
//! The first one asks the work to end in its own time, with what is to be kept. Another one ends the program at once, unless it
//! comes within [`ECHO`] of the first: `timeout`, terminals and schedulers send one request to a whole process group and to the
//! process itself, or send two signals for it.

use serde::{Deserialize, Serialize};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A signal that asks a program to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopSignal {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM: what `kill`, `scancel` and Kubernetes send.
    Terminate,
    /// SIGHUP: the terminal is gone.
    HangUp,
    /// SIGUSR1: what a scheduler sends some time before it ends a job (`sbatch --signal`), to be continued later.
    User1,
}

/// The exit code of work that SIGUSR1 stopped before its end, and that can be continued. The same that HTCondor's manual has for
/// programs which end after a checkpoint.
pub const UNFINISHED: u8 = 85;

impl StopSignal {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Interrupt, Self::Terminate, Self::HangUp, Self::User1];

    /// Its number on Linux, on every processor.
    pub fn number(self) -> i32 {
        match self {
            Self::HangUp => 1,
            Self::Interrupt => 2,
            Self::User1 => 10,
            Self::Terminate => 15,
        }
    }

    /// The one with this number.
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.number() == number)
    }

    /// The exit code of a program that it stopped before its end: as shells have it, and [`UNFINISHED`] for SIGUSR1.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::User1 => UNFINISHED,
            other => 128 + other.number() as u8,
        }
    }
}

/// For how long after a request further signals are taken for the same one.
pub const ECHO: Duration = Duration::from_secs(1);

/// What a signal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// End in your own time.
    Stop,
    /// It says what was said before.
    Echo,
    /// End at once.
    AtOnce,
}

/// What has been asked for so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To end in its own time, by this signal.
    Stop(StopSignal),
    /// To end at once, by this signal.
    AtOnce(StopSignal),
}

/// What a signal means at a time since some beginning, given the request before it. SIGUSR1 never ends work at once; so it is with
/// the first other signal after it, which a scheduler sends when the time that it warned of is up.
fn meaning(before: Option<(StopSignal, Duration)>, signal: StopSignal, at: Duration) -> Meaning {
    match before {
        None => Meaning::Stop,
        Some((first, since)) if at.saturating_sub(since) < ECHO || first == StopSignal::User1 => Meaning::Echo,
        Some(_) if signal == StopSignal::User1 => Meaning::Echo,
        Some(_) => Meaning::AtOnce,
    }
}

#[derive(Default)]
struct State {
    asked: Option<Asked>,
    /// What the next signal is compared with.
    last: Option<(StopSignal, Duration)>,
}

/// Requests to end, as signal handlers and processes of a job report them.
pub struct StopRequests {
    begin: Instant,
    state: Mutex<State>,
}

impl Default for StopRequests {
    fn default() -> Self {
        Self { begin: Instant::now(), state: Mutex::default() }
    }
}

impl StopRequests {
    /// Takes a signal that has come now.
    pub fn hear(&self, signal: StopSignal) -> Meaning {
        self.hear_at(signal, self.begin.elapsed())
    }

    fn hear_at(&self, signal: StopSignal, at: Duration) -> Meaning {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let meaning = meaning(state.last, signal, at);
        match meaning {
            Meaning::Stop => (state.asked, state.last) = (Some(Asked::Stop(signal)), Some((signal, at))),
            Meaning::AtOnce => (state.asked, state.last) = (Some(Asked::AtOnce(signal)), Some((signal, at))),
            Meaning::Echo => {
                let again = state.last.is_some_and(|(first, since)| {
                    first == StopSignal::User1 && signal != StopSignal::User1 && at.saturating_sub(since) >= ECHO
                });
                if again {
                    state.last = Some((signal, at));
                }
            }
        }
        meaning
    }

    /// What has been asked for; the exit code is that of the signal in it.
    pub fn asked(&self) -> Option<Asked> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).asked
    }

    /// The signal that the exit code is taken from.
    pub fn signal(&self) -> Option<StopSignal> {
        self.asked().map(|(Asked::Stop(signal) | Asked::AtOnce(signal))| signal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use StopSignal::{HangUp, Interrupt, Terminate, User1};

    /// Signals with the millisecond of their coming, and what each means; then what was asked for in the end.
    fn check(signals: &[(u64, StopSignal, Meaning)], asked: Asked) {
        let requests = StopRequests::default();
        assert_eq!(requests.asked(), None);
        for &(at, signal, meaning) in signals {
            assert_eq!(requests.hear_at(signal, Duration::from_millis(at)), meaning, "{signal:?} at {at} ms");
        }
        assert_eq!(requests.asked(), Some(asked));
    }

    #[test]
    fn the_second_request_ends_at_once() {
        use Meaning::{AtOnce, Echo, Stop};
        check(&[(5000, Interrupt, Stop), (6000, Interrupt, AtOnce)], Asked::AtOnce(Interrupt));
        check(&[(0, Interrupt, Stop), (5000, Terminate, AtOnce)], Asked::AtOnce(Terminate));
        // What comes within a second is an echo, whatever it is; it does not make that second longer.
        let echoes = [(0, Interrupt, Stop), (1, Interrupt, Echo), (600, Terminate, Echo), (999, HangUp, Echo)];
        check(&echoes, Asked::Stop(Interrupt));
        check(&[&echoes[..], &[(1000, Interrupt, AtOnce)]].concat(), Asked::AtOnce(Interrupt));
    }

    #[test]
    fn a_warning_of_the_scheduler_never_ends_at_once() {
        use Meaning::{AtOnce, Echo, Stop};
        check(&[(0, User1, Stop), (5000, User1, Echo), (9000, User1, Echo)], Asked::Stop(User1));
        check(&[(0, Terminate, Stop), (5000, User1, Echo)], Asked::Stop(Terminate));
        // The time is up, while the checkpoint is still being written.
        let up = [(0, User1, Stop), (120_000, Terminate, Echo), (120_500, Terminate, Echo)];
        check(&up, Asked::Stop(User1));
        check(&[&up[..], &[(121_000, Terminate, AtOnce)]].concat(), Asked::AtOnce(Terminate));
    }

    #[test]
    fn exit_codes_are_those_of_shells() {
        assert_eq!([Interrupt, Terminate, HangUp, User1].map(StopSignal::exit_code), [130, 143, 129, 85]);
        for signal in StopSignal::ALL {
            assert_eq!(StopSignal::from_number(signal.number()), Some(signal));
        }
        assert_eq!(StopSignal::from_number(9), None);
    }
}
