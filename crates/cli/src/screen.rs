//! What a person sees of a run: a bar with rate and time left on a terminal, plain lines otherwise.

use crate::signals::Begun;
use indicatif::{ProgressBar, ProgressStyle};
use paceline::launch::{Line, Progress};
use paceline::record::EpochRecord;
use paceline::report::Style;
use paceline::{Live, Started, Watcher, text};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Mutex;

/// Writes a line (or several) to standard output. A reader that went away (`| head`) is no error: a training that it
/// watched goes on, and a report is still written.
///
/// Whatever it is made of (names of runs, classes and files, words of other processes) cannot act on the terminal: this, with
/// [`print_table`] and [`warn`], is the only way out of this program.
pub fn print(text: &str) {
    put(&text::visible_lines(text));
}

/// [`print`] for tables that `report` has set in bold; all else in them is treated alike.
pub fn print_table(table: &str) {
    put(&bold_kept(table));
}

/// Writes a line (or several) to standard error, as safe as [`print`].
pub fn warn(text: &str) {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let text = format!("{}{end}", crate::tethered::prefixed(&text::visible_lines(text)));
    let _ = std::io::stderr().write_all(text.as_bytes()); // at once: lines of many processes meet in one pipe
}

fn put(text: &str) {
    let mut out = std::io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let _ = write!(out, "{}{end}", crate::tethered::prefixed(text)).and_then(|()| out.flush());
}

/// What `report` writes around a cell that it marks; see its `grid.rs`.
const MARKS: [&str; 2] = ["\x1b[1m", "\x1b[0m"];

fn bold_kept(table: &str) -> String {
    let mut out = String::with_capacity(table.len());
    let mut rest = table;
    while let Some(at) = rest.find('\x1b') {
        out += &text::visible_lines(&rest[..at]);
        rest = &rest[at..];
        let mark = MARKS.into_iter().find(|mark| rest.starts_with(mark));
        out += mark.unwrap_or("\\u001b");
        rest = &rest[mark.map_or(1, str::len)..];
    }
    out + &text::visible_lines(rest)
}

/// [`print`] with the arguments of `format!`; `println!` would panic when the reader is gone.
macro_rules! say {
    ($($words:tt)*) => { $crate::screen::print(&format!($($words)*)) };
}
pub(crate) use say;

/// A table: a head, a rule, and rows; the first `left` columns begin at the left, the others end at the right.
pub fn columns(rows: &[Vec<String>], left: usize) -> String {
    // Before their widths are counted.
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| text::visible(cell).into_owned()).collect()).collect();
    let count = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..count).map(|c| rows.iter().map(|r| r[c].chars().count()).max().unwrap_or(0)).collect();
    let mut out = String::new();
    for (i, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).enumerate().map(|(c, (cell, &width))| {
            let pad = " ".repeat(width - cell.chars().count());
            if c < left { format!("{cell}{pad}") } else { format!("{pad}{cell}") }
        });
        out += cells.collect::<Vec<_>>().join("  ").trim_end();
        out.push('\n');
        if i == 0 {
            out += &widths.iter().map(|&w| "─".repeat(w)).collect::<Vec<_>>().join("  ");
            out.push('\n');
        }
    }
    out
}

/// Bold and as wide as the terminal, or plain.
pub fn style() -> Style {
    let terminal = std::io::stdout().is_terminal();
    Style { bold: terminal && std::env::var_os("NO_COLOR").is_none(), ..Style::default() }
}

/// A word of a command line, quoted where a shell would take it apart.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:,=@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

struct View {
    bar: ProgressBar,
    /// Of the run, once there is one.
    dir: Option<PathBuf>,
    started: Option<Started>,
}

/// The watcher of the command line.
pub struct Screen {
    quiet: bool,
    /// To the `launch` that has the terminal and draws the bar.
    line: Option<Line>,
    terminal: bool,
    /// Set when there is something to keep.
    begun: Begun,
    view: Mutex<View>,
}

impl Screen {
    /// A screen, or one that shows nothing.
    pub fn new(quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self {
            quiet,
            line: None,
            terminal,
            begun: Begun::default(),
            view: Mutex::new(View { bar: ProgressBar::hidden(), dir: None, started: None }),
        }
    }

    /// The same, shown by the `launch` at the other end of the line, if there is one.
    pub fn through(self, line: Option<Line>) -> Self {
        Self { line: line.filter(|_| !self.quiet), ..self }
    }

    /// The same; sets this when the run begins.
    pub fn beginning(self, begun: Begun) -> Self {
        Self { begun, ..self }
    }

    /// The directory of the run that is shown, once there is one.
    pub fn run_dir(&self) -> Option<PathBuf> {
        self.view().dir.clone()
    }

    fn view(&self) -> std::sync::MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Watcher for Screen {
    fn waiting(&self, words: &str) {
        if !self.quiet {
            print(words);
        }
    }

    fn begins(&self) {
        self.begun.set();
    }

    fn started(&self, started: &Started) {
        self.view().dir = Some(started.dir.clone());
        if self.quiet {
            return;
        }
        print(&started.title);
        for reason in &started.reasons {
            say!("  why: {reason}");
        }
        for note in &started.notes {
            say!("  note: {note}");
        }
        let mut view = self.view();
        view.started = Some(started.clone());
        if self.terminal {
            let bar = ProgressBar::new(started.epochs * started.steps_per_epoch);
            if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {percent:>3}% {eta} left") {
                bar.set_style(style);
            }
            bar.set_position(started.epochs_done * started.steps_per_epoch);
            bar.reset_eta();
            view.bar = bar;
        }
    }

    fn live(&self, live: &Live) {
        let view = self.view();
        let Some(started) = &view.started else { return };
        let words = format!(
            "epoch {}/{}  loss {:.4}  accuracy {:.1} %  {} examples/s",
            live.epoch,
            started.epochs,
            live.loss,
            live.accuracy * 100.0,
            text::si(live.examples_per_s)
        );
        match &self.line {
            Some(line) => {
                let total = started.epochs * started.steps_per_epoch;
                line.progress(Progress { done: live.steps, total, words });
            }
            None => {
                view.bar.set_position(live.steps);
                view.bar.set_message(words);
            }
        }
    }

    fn epoch(&self, record: &EpochRecord) {
        let view = self.view();
        let Some(started) = &view.started else { return };
        let validation = match (record.val_loss, record.val_accuracy) {
            (Some(loss), Some(accuracy)) => format!("validation {:.4} {:.2} %", loss, accuracy * 100.0),
            _ => String::new(),
        };
        let width = started.epochs.to_string().len();
        let line = format!(
            "epoch {:>width$}/{}  loss {:.4}  accuracy {:.2} %  {validation}  {}  {} examples/s",
            record.epoch,
            started.epochs,
            record.train_loss,
            record.train_accuracy * 100.0,
            text::duration(record.seconds),
            text::si(record.examples_per_s)
        );
        if self.terminal {
            view.bar.suspend(|| print(&line));
        } else {
            print(&line);
        }
    }

    fn ended(&self) {
        if let Some(line) = &self.line {
            line.progress(Progress::default());
        }
        self.view().bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_can_be_pasted_into_a_shell() {
        for (word, quoted) in [("--np", "--np"), ("a:2,b:2", "a:2,b:2"), ("", "''"), ("my run", "'my run'")] {
            assert_eq!(shell_word(word), quoted);
        }
        assert_eq!(shell_word("it's"), "'it'\\''s'");
        assert_eq!(shell_word("model.hidden=[8]"), "'model.hidden=[8]'");
    }

    #[test]
    fn only_our_own_marks_pass() {
        let table = "\x1b[1m91.2\x1b[0m  evil\x1b[2J\x1b]0;title\x07\n";
        assert_eq!(bold_kept(table), "\x1b[1m91.2\x1b[0m  evil\\u001b[2J\\u001b]0;title\\u0007\n");
        let rows = [vec!["name".to_string()], vec!["a\x1b[2Jb".into()]];
        assert!(columns(&rows, 1).contains("a\\u001b[2Jb\n"), "{}", columns(&rows, 1));
    }
}
