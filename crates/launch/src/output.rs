//! A log file for each process of a job (`--log-dir`): all that it writes on standard output and standard error, in the order
//! in which it came, beside what is shown.
//!
//! MPI libraries hand on what processes write, each in its own way, and not which process wrote a line. So a process sees to it
//! itself, before all else: its two streams become pipes to helpers, which write everything to the file and to where it would
//! have gone. Helpers are processes of their own, so that also the last words of one that crashes or is killed are there. They
//! end when the process has.

use crate::message::VARIABLE;
use nix::unistd::{dup2_stderr, dup2_stdout};
use paceline_base::{Error, Result};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// The variable that carries `attempt:folder` to processes.
pub(crate) const LOG_VARIABLE: &str = "PACELINE_LAUNCH_LOG";

/// The hidden command of the helpers; the path of the log follows.
pub const COPY_COMMAND: &str = "copy-output";

/// `process-1-HOST-attempt-2.log`
pub(crate) fn log_name(process: usize, host: &str, attempt: u32) -> String {
    // A name of a host may hold what a name of a file may not.
    let host: String = host.chars().map(|c| if c.is_alphanumeric() || "-._".contains(c) { c } else { '_' }).collect();
    format!("process-{process}-{host}-attempt-{attempt}.log")
}

/// From here on, what this process writes also goes to its log file, if `launch` was asked for one.
///
/// # Errors
/// If the file cannot be written.
pub fn keep_output() -> Result<()> {
    let given = std::env::var(LOG_VARIABLE).ok().filter(|text| !text.is_empty());
    let Some((attempt, folder)) = given.as_deref().and_then(parse) else { return Ok(()) };
    let started = paceline_comm::Started::from_env();
    let (process, processes) = started.map_or((0, 1), |s| (s.process, s.processes));
    let host = paceline_system::host_name();
    std::fs::create_dir_all(folder).map_err(|e| Error::io("create the folder of logs", folder, &e))?;
    let path = folder.join(log_name(process, &host, attempt));
    let words: Vec<String> = std::env::args().skip(1).collect();
    let head = format!(
        "--- attempt {attempt}, process {process} of {processes} on {host}, process id {}: paceline {}\n",
        std::process::id(),
        words.join(" ")
    );
    open(&path).and_then(|mut file| file.write_all(head.as_bytes())).map_err(|e| Error::io("write", &path, &e))?;
    let program = std::env::current_exe().map_err(|e| Error::failure(format!("this program's file is gone: {e}")))?;
    let failed = |e: std::io::Error| Error::failure(format!("cannot write the log {}: {e}", path.display()));
    // Both are started before either stream changes: each inherits where it is to go.
    let out = pipe_to(helper(&program, &path)).map_err(failed)?;
    let mut command = helper(&program, &path);
    command.stdout(std::io::stderr());
    let err = pipe_to(command).map_err(failed)?;
    dup2_stdout(out).map_err(|e| failed(e.into()))?;
    dup2_stderr(err).map_err(|e| failed(e.into()))
}

fn parse(text: &str) -> Option<(u32, &Path)> {
    let (attempt, folder) = text.split_once(':')?;
    Some((attempt.parse().ok()?, Path::new(folder)))
}

/// What [`LOG_VARIABLE`] is for an attempt.
pub(super) fn variable(attempt: u32, folder: &Path) -> String {
    format!("{attempt}:{}", folder.display())
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

fn helper(program: &Path, path: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg(COPY_COMMAND).arg(path).stdin(Stdio::piped());
    // What ends the process, or is swept away with it, is not to end its helpers before they have written the rest.
    command.env_remove(VARIABLE).env_remove(LOG_VARIABLE).process_group(0);
    command
}

fn pipe_to(mut command: Command) -> std::io::Result<OwnedFd> {
    let mut child: Child = command.spawn()?;
    let stdin: Option<ChildStdin> = child.stdin.take();
    stdin.map(OwnedFd::from).ok_or_else(|| std::io::Error::other("no pipe"))
}

/// What a helper does: copies standard input to a log file and to standard output, until it ends. A reader of standard output
/// that is gone does not keep the rest from the file.
pub fn copy_output(path: &Path) -> Result<()> {
    let mut file = open(path).map_err(|e| Error::io("write", path, &e))?;
    let (mut from, mut to) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut block = vec![0; 1 << 16];
    let mut shown = true;
    loop {
        let n = match from.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Error::failure(format!("cannot read the output of a process: {e}"))),
        };
        // The screen first: a full disk is not to hold back what a person reads.
        shown = shown && to.write_all(&block[..n]).and_then(|()| to.flush()).is_ok();
        file.write_all(&block[..n]).map_err(|e| Error::io("write", path, &e))?;
    }
}

/// A folder for logs as an absolute path, made if it is not there.
pub(super) fn folder(given: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(given).map_err(|e| Error::io("create the folder of logs", given, &e))?;
    std::path::absolute(given).map_err(|e| Error::io("find", given, &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_process_host_and_attempt() {
        assert_eq!(log_name(1, "node-7.cluster", 2), "process-1-node-7.cluster-attempt-2.log");
        assert_eq!(log_name(0, "fe80::1/x", 1), "process-0-fe80__1_x-attempt-1.log");
    }

    #[test]
    fn the_variable_comes_back() {
        let text = variable(3, Path::new("/share/logs: of today"));
        assert_eq!(parse(&text), Some((3, Path::new("/share/logs: of today"))));
        assert_eq!((parse("x:/a"), parse("")), (None, None));
    }
}
