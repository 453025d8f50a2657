//! Errors, split by who can do something about them.
//!
//! A *user* error names the file, key, layer or rank and ends in what to do; the command line answers it with one line
//! and exit code 2. A *failure* is something the world did (a full disk, a dead rank): exit code 1. An *internal* error
//! is our bug. *Stopped* is no error of anyone: the work was asked to end, and the exit code says by which signal.

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

/// An error that is ready to be shown: lower case, named, with what to do.
pub struct Error {
    kind: Kind,
    message: String,
}

/// The result type of every fallible function that crosses a crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of this kind: for one that is handed on, or told more than once.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// An error the user can correct.
    pub fn user(message: impl Into<String>) -> Self {
        Self { kind: Kind::User, message: message.into() }
    }

    /// A failure of the world during correct work.
    pub fn failure(message: impl Into<String>) -> Self {
        Self { kind: Kind::Failure, message: message.into() }
    }

    /// A bug in Paceline.
    pub fn internal(message: impl Into<String>) -> Self {
        Self { kind: Kind::Internal, message: message.into() }
    }

    /// The end of work that was asked to end; what is kept of it is said.
    pub fn stopped(message: impl Into<String>) -> Self {
        Self { kind: Kind::Stopped, message: message.into() }
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
