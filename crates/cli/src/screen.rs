//! What a person sees of a run: a bar with rate and time left on a terminal, plain lines otherwise.

use crate::commands::Begun;
use indicatif::{ProgressBar, ProgressStyle};
use paceline::launch::{Line, Progress};
use paceline::record::EpochRecord;
use paceline::report::Style;
use paceline::{Live, Started, Watcher, text};
use std::io::{IsTerminal, Write};
use std::sync::Mutex;

/// Writes a line (or several) to standard output. A reader that went away (`| head`) is no error: a training that it
/// watched goes on, and a report is still written.
pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let _ = write!(out, "{}{end}", crate::tethered::prefixed(text)).and_then(|()| out.flush());
}

/// [`print`] with the arguments of `format!`; `println!` would panic when the reader is gone.
macro_rules! say {
    ($($words:tt)*) => { $crate::screen::print(&format!($($words)*)) };
}
pub(crate) use say;

/// A table: a head, a rule, and rows; the first `left` columns begin at the left, the others end at the right.
pub fn columns(rows: &[Vec<String>], left: usize) -> String {
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

struct View {
    bar: ProgressBar,
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
            view: Mutex::new(View { bar: ProgressBar::hidden(), started: None }),
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

    fn view(&self) -> std::sync::MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Watcher for Screen {
    fn begins(&self) {
        self.begun.set();
    }

    fn started(&self, started: &Started) {
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
