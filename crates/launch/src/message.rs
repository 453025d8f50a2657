//! What processes and `launch` say to each other: one JSON object a line, over TCP, outside MPI.
//!
//! 1. A process connects, before it reads anything else. `launch` says `Challenge`; the process answers by `Hello`, which
//!    proves that it knows the token of its attempt; `launch` proves the same by `Welcome`. From now on the process sends a `Heartbeat` twice a second, and each is answered by `Heard`: either side that hears nothing for too long
//!    takes the other for lost.
//! 2. It says its `Facts` and waits. When all have, and they agree, `launch` says `Look`: is the file there that process 0
//!    put where checkpoints go? Each answers `Seen`. Then `launch` says `Begin`, or to all `Refuse`.
//! 3. `RunDir` (what a restart goes on from), `Progress` (what a person is shown): from process 0, whenever it likes.
//! 4. `AskedToStop`: a signal reached a process, such as one that a scheduler sends to all. `Stop` asks every process to end after this step with a checkpoint.
//! 5. `Done`, `Stopped` or `Failed` is the last message. A connection that ends without one belongs to a process that died.
//!
//! A process that fails also leaves an [`ExitReport`] on standard error: it may have failed to connect, or have lost its connection.

use crate::facts::Facts;
use crate::stop_signals::StopSignal;
use paceline_base::Peer;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The variable that carries `address:port:token` to processes.
pub const VARIABLE: &str = "PACELINE_LAUNCH";

/// The exit code of a process that ended itself because it no longer heard from `launch`: try again later, in the words of
/// `sysexits.h`.
pub(crate) const LOST: u8 = 75;

/// Before the last words of a process, on standard error.
const MARK: &str = "paceline-launch: ";

/// What a process that fails says on standard error, as one line that no other text looks like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitReport {
    /// The process's number.
    pub process: usize,
    /// The exit code that it ends with.
    pub code: u8,
    /// The error.
    pub why: String,
    /// Whose failure it passes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Peer>,
}

impl ExitReport {
    /// With a line end.
    pub fn line(&self) -> String {
        format!("{MARK}{}", line(self))
    }

    /// From a line of standard error; a starter may have written before it. None if it is any other line.
    pub(super) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text.split_once(MARK)?.1).ok()
    }
}

/// From a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ClientMessage {
    /// The first word.
    Hello(Hello),
    /// What must agree.
    Facts(Box<Facts>),
    /// Whether the file is visible here.
    Seen(bool),
    /// Alive.
    Heartbeat(Heartbeat),
    /// Where the run is.
    RunDir(PathBuf),
    /// For a person.
    Progress(Progress),
    /// It failed, and ends with this exit code.
    Failed {
        /// The exit code.
        code: u8,
        /// The error.
        why: String,
        /// Whose failure it passes on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        peer: Option<Peer>,
    },
    /// A signal that asks for the end has reached it: all are to stop.
    AskedToStop(StopSignal),
    /// It did its work.
    Done,
    /// It ended before its work was done, because it was asked to, and kept what it had.
    Stopped,
}

/// Who speaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// A random number, for `launch` to answer.
    pub nonce: String,
    /// The answer to that of `launch`.
    pub proof: String,
    /// The process's number.
    pub process: usize,
    /// How many there are, as its launcher told it.
    pub processes: usize,
    /// Its host, as that calls itself.
    pub host: String,
    /// Its process id there.
    pub pid: u32,
}

/// A sign of life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Steps done.
    pub step: u64,
    /// What it is at.
    pub doing: Doing,
    /// Seconds since the last step or change of work.
    pub since: f64,
    /// Memory that it holds, in bytes.
    pub resident: u64,
    /// Processes of its control group that the kernel has killed for memory since it started.
    pub oom_kills: u64,
}

/// What a process is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Doing {
    /// Before its first step: reading, connecting, measuring.
    #[default]
    Starting,
    /// Computing steps.
    Training,
    /// Waiting for other ranks.
    Waiting,
    /// Evaluating.
    Evaluating,
    /// Writing a checkpoint.
    Saving,
    /// After its last step.
    Ending,
}

impl Doing {
    const ALL: [Self; 6] =
        [Self::Starting, Self::Training, Self::Waiting, Self::Evaluating, Self::Saving, Self::Ending];

    /// From its number; unknown ones are `Starting`.
    pub(super) fn from_number(n: u8) -> Self {
        Self::ALL.get(usize::from(n)).copied().unwrap_or_default()
    }

    /// "evaluating", for a sentence.
    pub fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Training => "training",
            Self::Waiting => "waiting for other ranks",
            Self::Evaluating => "evaluating",
            Self::Saving => "writing a checkpoint",
            Self::Ending => "ending",
        }
    }
}

/// How far a run is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Steps done.
    pub done: u64,
    /// Steps in all; 0: the bar goes away.
    pub total: u64,
    /// The words before the bar.
    pub words: String,
}

/// From `launch`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ServerMessage {
    /// To whoever connects.
    Challenge {
        /// A random number to answer.
        nonce: String,
    },
    /// The answer is right.
    Welcome {
        /// Seconds of silence after which the other side is lost.
        timeout: f64,
        /// The answer to the process's number.
        proof: String,
        /// The folder that `launch` was called in, and processes should be.
        folder: PathBuf,
    },
    /// The answer is wrong, or of an attempt that is over.
    Unknown,
    /// A heartbeat has come.
    Heard,
    /// Look for the file.
    Look,
    /// Leave to begin.
    Begin(StartInfo),
    /// The facts do not agree.
    Refuse {
        /// Why, and what to do.
        why: String,
    },
    /// End after this step, with a checkpoint.
    Stop,
}

/// What a process is told when it may begin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartInfo {
    /// This start of the job, from 1.
    pub attempt: u32,
    /// Things to know, for the run's summary.
    pub notes: Vec<String>,
}

/// One line of JSON.
pub(super) fn line<T: Serialize>(message: &T) -> String {
    let mut text = serde_json::to_string(message).unwrap_or_default();
    text.push('\n');
    text
}

/// `address:port:token`, parted from the right because an address may have colons.
pub(super) fn parse_variable(text: &str) -> Option<(&str, u16, &str)> {
    let (rest, token) = text.rsplit_once(':')?;
    let (address, port) = rest.rsplit_once(':')?;
    let address = address.trim_start_matches('[').trim_end_matches(']');
    (!address.is_empty() && !token.is_empty()).then_some((address, port.parse().ok()?, token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_parted_from_the_right() {
        assert_eq!(parse_variable("10.0.0.1:4000:ab"), Some(("10.0.0.1", 4000, "ab")));
        assert_eq!(parse_variable("[fe80::1]:4000:ab"), Some(("fe80::1", 4000, "ab")));
        for wrong in ["", "a", "a:b", "a:b:c", "a:70000:c", ":1:c", "a:1:"] {
            assert_eq!(parse_variable(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn last_words_are_found_behind_what_a_starter_wrote() {
        let words =
            ExitReport { process: 3, code: 2, why: "cfg.toml:\nno such file".into(), peer: Some(Peer::Process(1)) };
        let text = words.line();
        assert_eq!(text.matches('\n').count(), 1, "{text}");
        assert_eq!(ExitReport::parse(&text), Some(words.clone()));
        assert_eq!(ExitReport::parse(&format!("[1,3]<stderr>: {text}")), Some(words));
        for other in ["paceline: no such file", "paceline-launch: began", ""] {
            assert_eq!(ExitReport::parse(other), None, "{other}");
        }
    }

    #[test]
    fn words_are_one_line_and_come_back() {
        let words = [
            ClientMessage::Failed { code: 2, why: "two\nlines".into(), peer: Some(Peer::Rank(3)) },
            ClientMessage::Seen(false),
            ClientMessage::Done,
            ClientMessage::Stopped,
            ClientMessage::AskedToStop(StopSignal::User1),
            ClientMessage::Heartbeat(Heartbeat { step: 7, doing: Doing::Saving, since: 0.5, ..Heartbeat::default() }),
            ClientMessage::Facts(Box::default()),
        ];
        for word in words {
            let text = line(&word);
            assert_eq!(text.matches('\n').count(), 1, "{text}");
            assert_eq!(serde_json::from_str::<ClientMessage>(&text).unwrap(), word);
        }
        let older = r#"{"failed":{"code":1,"why":"disk full"}}"#;
        let failed = ClientMessage::Failed { code: 1, why: "disk full".into(), peer: None };
        assert_eq!(serde_json::from_str::<ClientMessage>(older).unwrap(), failed);
        for n in 0..8 {
            assert_eq!(Doing::from_number(n) as u8, if n < 6 { n } else { 0 });
        }
    }
}
