//! A command as one of the processes that `paceline launch` started: its output told from that of the others.

use paceline::launch::VARIABLE;
use std::io::Write;
use std::sync::OnceLock;

/// `[1 host] `, before every line of a process that is not the first; nothing otherwise.
pub fn prefix() -> &'static str {
    static PREFIX: OnceLock<String> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let number = paceline::comm::world::started(|name| std::env::var(name).ok()).map_or(0, |s| s.process);
        if number == 0 || std::env::var_os(VARIABLE).is_none() {
            return String::new();
        }
        format!("[{number} {}] ", paceline::comm::world::host_name())
    })
}

/// Text with the prefix before each of its lines.
pub fn prefixed(text: &str) -> String {
    text.split_inclusive('\n').map(|line| format!("{}{line}", prefix())).collect()
}

/// Standard error, with the prefix.
pub struct Log;

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
pub fn name_panics() {
    if !prefix().is_empty() {
        std::panic::set_hook(Box::new(|panic| {
            let _ = Log.write(format!("{panic}\n").as_bytes());
        }));
    }
}
