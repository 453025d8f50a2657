//! A command as one of the processes that `paceline launch` started: its line to it, and its output told from that of the
//! others.

use crate::commands::launch;
use crate::screen;
use paceline::Result;
use paceline::launch::{ExitReport, Facts, LaunchClient, VARIABLE};
use std::io::Write;
use std::sync::OnceLock;

/// Does a command's work, and tells the `launch` that started this process, if one did, what must agree and how it ended.
/// (Training does so itself, because it has more to tell.)
pub(crate) fn work_under_launch<T>(work: impl FnOnce(Option<&LaunchClient>) -> Result<T>) -> Result<T> {
    let Some(client) = LaunchClient::from_env(end_process)? else { return work(None) };
    let words: Vec<String> = std::env::args().skip(1).collect();
    let result = client.check_in(Facts::collect(&words.join(" "))).and_then(|_| work(Some(&client)));
    match &result {
        Ok(_) => client.done(),
        Err(e) => client.failed(e),
    }
    result
}

/// Ends this process at once, because `launch` is lost. Not by `exit`: its handlers may wait for processes that are gone.
pub(crate) fn end_process(report: &ExitReport) {
    let _ = std::io::stderr().write_all(report.line().as_bytes());
    paceline::system::process::end_at_once(report.code);
}

/// Ends the program because of its flags. Under `launch`, whose own flags were right, this is another program than on the
/// first host: `launch` says so.
pub(crate) fn refuse_flags(error: &clap::Error) -> ! {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or("").trim_start_matches("error: ").to_string();
    if error.use_stderr()
        && let Some(words) = paceline::launch::exit_report(&paceline::Error::user(first))
    {
        eprint!("{words}");
        std::process::exit(2);
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(words) = Some(error).filter(|e| e.use_stderr()).and_then(|_| launch::without_separator(&words)) {
        screen::warn(&format!("paceline: {words}"));
        std::process::exit(2);
    }
    if let Some(words) = key_for(error) {
        screen::warn(&format!("paceline: {words}"));
        std::process::exit(2);
    }
    error.exit()
}

/// Flags of other tools are keys here: `--epochs`, `--lr`, `--batch-size`.
fn key_for(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let trains = std::env::args().any(|word| word == "train");
    let key = paceline::config::key_for_flag(flag).filter(|_| error.kind() == ErrorKind::UnknownArgument && trains)?;
    Some(format!("there is no flag {flag}; write --set {key}=… (paceline config explain {key})"))
}

/// Whether this is one of several processes.
pub(crate) fn several() -> bool {
    paceline::comm::Started::from_env().is_some_and(|s| s.processes > 1)
}

/// Whether this is the first process of its job, or the only one.
pub(crate) fn is_first() -> bool {
    paceline::comm::Started::from_env().is_none_or(|s| s.process == 0)
}

/// `[1 host] `, before every line of a process that is not the first; nothing otherwise.
pub(crate) fn prefix() -> &'static str {
    static PREFIX: OnceLock<String> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let number = paceline::comm::Started::from_env().map_or(0, |s| s.process);
        if number == 0 || std::env::var_os(VARIABLE).is_none() {
            return String::new();
        }
        format!("[{number} {}] ", paceline::system::host_name())
    })
}

/// Text with the prefix before each of its lines.
pub(crate) fn prefixed(text: &str) -> String {
    text.split_inclusive('\n').map(|line| format!("{}{line}", prefix())).collect()
}

/// Standard error, with the prefix.
pub(crate) struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = prefixed(&String::from_utf8_lossy(bytes));
        std::io::stderr().write_all(text.as_bytes())?; // at once: lines of many processes meet in one pipe
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Panics of this process under its prefix.
pub(crate) fn name_panics() {
    if !prefix().is_empty() {
        std::panic::set_hook(Box::new(|panic| {
            let _ = Log.write(format!("{panic}\n").as_bytes());
        }));
    }
}
