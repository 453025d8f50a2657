//! The operating system's side of an attempt: the starter in a process group of its own, its output as events, and an end
//! that leaves nobody behind.

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use paceline_base::{Error, Result};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Which stream a line came on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// The starter and, through it, all processes.
pub(crate) struct ChildProcesses {
    child: Child,
    token: String,
    end_signal: Signal,
    ended: Option<ExitStatus>,
    readers: Vec<std::thread::JoinHandle<()>>,
}

impl ChildProcesses {
    /// Starts a command whose processes carry `token` in their environment, and which `end_signal` ends with all of them.
    pub(crate) fn start<T: Send + 'static>(
        mut command: Command,
        token: &str,
        end_signal: Signal,
        lines: &Sender<T>,
        event: fn(Stream, String) -> T,
    ) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0); // Ctrl-C is ours to hear, not theirs
        let mut child = command
            .spawn()
            .map_err(|e| Error::user(format!("cannot run {}: {e}", command.get_program().to_string_lossy())))?;
        let readers = [
            child.stdout.take().map(|s| forward(s, Stream::Out, lines.clone(), event)),
            child.stderr.take().map(|s| forward(s, Stream::Err, lines.clone(), event)),
        ];
        Ok(Self {
            child,
            token: token.into(),
            end_signal,
            ended: None,
            readers: readers.into_iter().flatten().flatten().collect(),
        })
    }

    /// Whether the starter has ended, and how.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Ends everything. The starter may end its processes in its own way for so long.
    pub(crate) fn end(&mut self, patience: Duration) {
        let pid = Pid::from_raw(self.child.id() as i32);
        if self.ended().is_none() {
            let _ = kill(pid, self.end_signal);
            let begin = Instant::now();
            while self.ended().is_none() && begin.elapsed() < patience {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        self.kill();
    }

    /// Ends everything at once.
    pub(crate) fn kill(&mut self) {
        let pid = Pid::from_raw(self.child.id() as i32);
        let _ = killpg(pid, Signal::SIGKILL);
        sweep(&self.token);
        if self.ended.is_none() {
            self.ended = self.child.wait().ok();
        }
        for reader in self.readers.drain(..) {
            let begin = Instant::now();
            // Whoever still holds the pipe is not ours; its words are not waited for.
            while !reader.is_finished() && begin.elapsed() < Duration::from_millis(500) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

impl Drop for ChildProcesses {
    fn drop(&mut self) {
        self.kill();
    }
}

fn forward<T: Send + 'static>(
    stream: impl Read + Send + 'static,
    which: Stream,
    lines: Sender<T>,
    event: fn(Stream, String) -> T,
) -> Option<std::thread::JoinHandle<()>> {
    let work = move || {
        let mut reader = BufReader::new(stream);
        let mut bytes = Vec::new();
        while reader.read_until(b'\n', &mut bytes).is_ok_and(|n| n > 0) {
            if bytes.last() == Some(&b'\n') {
                bytes.pop();
            }
            let text = String::from_utf8_lossy(&bytes).into_owned();
            bytes.clear();
            if lines.send(event(which, text)).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("output".into()).spawn(work).ok()
}

/// Kills every process of this machine that carries the token: also those that were stopped, or lost by their starter.
fn sweep(token: &str) {
    let Ok(entries) = std::fs::read_dir("/proc") else { return };
    let own = std::process::id();
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
        if pid as u32 == own {
            continue;
        }
        // Other people's processes cannot be read, and are not ours.
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.windows(token.len()).any(|w| w == token.as_bytes()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

/// "ended with exit code 1", "was killed by signal 9".
pub(crate) fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        _ => "ended".into(),
    }
}
