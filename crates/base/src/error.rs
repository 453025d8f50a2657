//! Errors, split by who can do something about them.
//!
//! A *user* error names the file, key, layer or rank and ends in what to do; the command line answers it with one line
//! and exit code 2. A *failure* is something the world did (a full disk, a dead rank): exit code 1. An *internal* error
//! is our bug. *Stopped* is no error of anyone: the work was asked to end, and the exit code says by which signal.
//!
//! When one rank fails, all others fail with it. What these say is an echo, and says so by its type ([`Peer`]), so that
//! whoever has the errors of several ranks or processes shows the one that was the cause:
//!
//! ```
//! use paceline_base::{Error, Peer};
//! let ends = [
//!     Error::failure("rank 1 failed: the disk is full").of_peer(Peer::Rank(1)),
//!     Error::failure("the disk is full").context("writing runs/mlp"),
//! ];
//! let cause = Error::first_cause(&ends).unwrap();
//! assert_eq!((cause.message(), cause.peer()), ("writing runs/mlp: the disk is full", None));
//! ```

use serde::{Deserialize, Serialize};
use std::fmt;

/// Who can mend it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Wrong input: a key, path, value or file that the user can correct.
    User,
    /// The input was right, yet the work failed: disk full, peer lost, loss not finite.
    Failure,
    /// A broken promise inside Paceline.
    Internal,
    /// The work was asked to end before it was done, and did.
    Stopped,
}

/// Whose failure an error passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// Of this rank, counted through all processes.
    Rank(usize),
    /// Of a rank of this process, or of what the process did before it had ranks.
    Process(usize),
    /// Of the launcher that started the process.
    Launcher,
    /// Of a process that nobody can name: a connection ended.
    Unknown,
}

/// An error that is ready to be shown: lower case, named, with what to do.
#[derive(Clone)]
pub struct Error {
    kind: Kind,
    message: String,
    peer: Option<Peer>,
}

/// The result type of every fallible function that crosses a crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of this kind, where that is not known when the program is written.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), peer: None }
    }

    /// An error the user can correct.
    pub fn user(message: impl Into<String>) -> Self {
        Self::new(Kind::User, message)
    }

    /// A failure of the world during correct work.
    pub fn failure(message: impl Into<String>) -> Self {
        Self::new(Kind::Failure, message)
    }

    /// A bug in Paceline.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }

    /// The end of work that was asked to end; what is kept of it is said.
    pub fn stopped(message: impl Into<String>) -> Self {
        Self::new(Kind::Stopped, message)
    }

    /// A failed file operation, with the path and what was being done ("read", "create", …).
    pub fn io(doing: &str, path: &std::path::Path, source: &std::io::Error) -> Self {
        use std::io::ErrorKind as K;
        let path = path.display();
        match source.kind() {
            K::NotFound => Self::user(format!("cannot {doing} {path}: no such file or folder")),
            K::PermissionDenied => Self::user(format!(
                "cannot {doing} {path}: permission denied; choose a folder that you may write to, or change its owner"
            )),
            K::StorageFull => {
                Self::failure(format!("cannot {doing} {path}: the disk is full; free some space and run again"))
            }
            _ => Self::failure(format!("cannot {doing} {path}: {source}")),
        }
    }

    /// Who can mend it.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The text alone.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whose failure this error passes on; none if it is the failure of whoever returns it.
    pub fn peer(&self) -> Option<Peer> {
        self.peer
    }

    /// The same error as the echo of a peer's failure. The message has to name the peer.
    #[must_use]
    pub fn of_peer(mut self, peer: Peer) -> Self {
        self.peer = Some(peer);
        self
    }

    /// The same error in other words.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Of the errors with which ranks or processes ended, the one that made the others fail: the first that is not the echo
    /// of a peer's, or if all are, the first. None if there are none.
    pub fn first_cause<'a>(errors: impl IntoIterator<Item = &'a Error>) -> Option<&'a Error> {
        let mut errors = errors.into_iter().peekable();
        let first = errors.peek().copied();
        errors.find(|e| e.peer.is_none()).or(first)
    }

    /// Puts `outer` before the message: "outer: message".
    #[must_use]
    pub fn context(mut self, outer: impl fmt::Display) -> Self {
        self.message = format!("{outer}: {}", self.message);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Internal => write!(f, "internal error: {} (this is a bug in Paceline)", self.message),
            _ => f.write_str(&self.message),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.message)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    fn echo(rank: usize) -> Error {
        Error::failure(format!("rank {rank} failed: the disk is full")).of_peer(Peer::Rank(rank))
    }

    fn cause(errors: &[Error]) -> Option<&str> {
        Error::first_cause(errors).map(Error::message)
    }

    #[test]
    fn the_cause_is_the_first_error_that_is_nobodys_echo() {
        let own = Error::user("no such file");
        assert_eq!(cause(&[echo(2), own.clone(), Error::internal("later")]), Some("no such file"));
        assert_eq!(cause(&[own]), Some("no such file"));
        assert_eq!(cause(&[echo(2), echo(1)]), Some("rank 2 failed: the disk is full"), "nobody knows better");
        assert_eq!(cause(&[]), None);
    }

    /// It is the type that tells, whatever the words are.
    #[test]
    fn words_about_failing_make_no_echo() {
        let own = Error::failure("decoding a.jpg failed: not a jpeg");
        assert_eq!((own.peer(), cause(&[echo(1), own.clone()])), (None, Some("decoding a.jpg failed: not a jpeg")));
    }

    #[test]
    fn an_echo_stays_one_in_other_words() {
        let changed = [echo(3).context("step 7"), echo(3).with_message("other words"), echo(3).clone()];
        for error in changed {
            assert_eq!((error.peer(), error.kind()), (Some(Peer::Rank(3)), Kind::Failure), "{error}");
        }
        assert_eq!(echo(3).context("step 7").message(), "step 7: rank 3 failed: the disk is full");
        assert_eq!(Error::user("wrong").of_peer(Peer::Process(1)).kind(), Kind::User);
    }
}
