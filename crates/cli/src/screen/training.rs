//! A training while it goes: a bar on a terminal, a line for each epoch, and what to know before the first step.

use super::{bar, complain, print, say};
use crate::signals::Begun;
use indicatif::ProgressBar;
use paceline::base::layout::figures;
use paceline::launch::{Connection, Progress};
use paceline::record::EpochRecord;
use paceline::{Live, Started, Watcher, text};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Mutex;

struct View {
    bar: ProgressBar,
    /// Of the run, once there is one.
    dir: Option<PathBuf>,
    started: Option<Started>,
}

/// The watcher of the command line.
pub(crate) struct Screen {
    quiet: bool,
    /// To the `launch` that has the terminal and draws the bar.
    connection: Option<Connection>,
    terminal: bool,
    /// Set when there is something to keep.
    begun: Begun,
    view: Mutex<View>,
}

impl Screen {
    /// A screen, or one that shows nothing.
    pub(crate) fn new(quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self {
            quiet,
            connection: None,
            terminal,
            begun: Begun::default(),
            view: Mutex::new(View { bar: ProgressBar::hidden(), dir: None, started: None }),
        }
    }

    /// The same, shown by the `launch` at the other end of the line, if there is one.
    pub(crate) fn through(self, connection: Option<Connection>) -> Self {
        Self { connection: connection.filter(|_| !self.quiet), ..self }
    }

    /// The same; sets this when the run begins.
    pub(crate) fn beginning(self, begun: Begun) -> Self {
        Self { begun, ..self }
    }

    /// The directory of the run that is shown, once there is one.
    pub(crate) fn run_dir(&self) -> Option<PathBuf> {
        self.view().dir.clone()
    }

    fn view(&self) -> std::sync::MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Watcher for Screen {
    fn waiting(&self, words: &str) {
        if !self.quiet {
            say!("{words}");
        }
    }

    fn begins(&self) {
        self.begun.set();
    }

    fn started(&self, started: &Started) {
        self.view().dir = Some(started.dir.clone());
        if self.quiet {
            started.warnings.iter().for_each(|warning| complain(&format!("paceline: warning: {warning}")));
            return;
        }
        say!("{}", started.title);
        for reason in &started.reasons {
            say!("  why: {reason}");
        }
        for warning in &started.warnings {
            say!("  warning: {warning}");
        }
        for note in &started.notes {
            say!("  note: {note}");
        }
        let mut view = self.view();
        view.started = Some(started.clone());
        if self.terminal {
            view.bar = bar::new(started.epochs * started.steps_per_epoch, bar::PERCENT);
            view.bar.set_position(started.epochs_done * started.steps_per_epoch);
            view.bar.reset_eta();
        }
    }

    fn live(&self, live: &Live) {
        let view = self.view();
        let Some(started) = &view.started else { return };
        let accuracy = live.accuracy.map(|accuracy| format!("accuracy {:.1} %", accuracy * 100.0));
        let error = live.absolute_error.map(|error| format!("absolute error {error:.4}"));
        let words = bar::message(&[
            (0, &format!("epoch {}/{}", live.epoch, started.epochs)),
            (1, &format!("loss {:.4}", live.loss)),
            (3, &accuracy.or(error).unwrap_or_default()),
            (2, &format!("{} examples/s", text::si(live.examples_per_s))),
        ]);
        match &self.connection {
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
        let line = epoch_line(record, started.epochs, super::known_width());
        if self.terminal {
            view.bar.suspend(|| print(&line));
        } else {
            print(&line);
        }
    }

    fn ended(&self) {
        if let Some(line) = &self.connection {
            line.progress(Progress::default());
        }
        self.view().bar.finish_and_clear();
    }
}

/// A line of figures, those that have room; all of them where there is no terminal.
fn epoch_line(record: &EpochRecord, epochs: u64, width: Option<usize>) -> String {
    let digits = epochs.to_string().len();
    let percent = |accuracy: f64| format!("{:.2} %", accuracy * 100.0);
    let beside_loss = |accuracy: Option<f64>, error: Option<f64>| match (accuracy, error) {
        (Some(accuracy), _) => Some(("accuracy", percent(accuracy))),
        (None, Some(error)) => Some(("absolute error", format!("{error:.4}"))),
        (None, None) => None,
    };
    let trained = beside_loss(record.train_accuracy, record.train_absolute_error);
    let validated = beside_loss(record.val_accuracy, record.val_absolute_error);
    let validation = record.val_loss.zip(validated).map(|(loss, (_, value))| format!("validation {loss:.4} {value}"));
    let all = [
        (0, format!("epoch {:>digits$}/{epochs}", record.epoch)),
        (2, format!("loss {:.4}", record.train_loss)),
        (3, trained.map_or(String::new(), |(name, value)| format!("{name} {value}"))),
        (1, validation.unwrap_or_default()),
        (4, text::duration(record.seconds)),
        (5, format!("{} examples/s", text::si(record.examples_per_s))),
    ];
    let all: Vec<(u8, &str)> = all.iter().map(|(weight, text)| (*weight, text.as_str())).collect();
    figures(&all, width.unwrap_or(usize::MAX)).join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_one_line_at_any_width() {
        let record = EpochRecord {
            epoch: 7,
            train_loss: 0.41,
            train_accuracy: Some(0.8512),
            val_loss: Some(0.44),
            val_accuracy: Some(0.84375),
            seconds: 12.34,
            examples_per_s: 23_456.0,
            ..EpochRecord::default()
        };
        let all = "epoch  7/10  loss 0.4100  accuracy 85.12 %  validation 0.4400 84.38 %  12.3 s  23.5 k examples/s";
        assert_eq!(epoch_line(&record, 10, None), all);
        assert_eq!(epoch_line(&record, 10, Some(120)), all);
        let narrow = "epoch  7/10  loss 0.4100  validation 0.4400 84.38 %  12.3 s";
        assert_eq!(epoch_line(&record, 10, Some(60)), narrow);
        let untested = EpochRecord { val_loss: None, ..record };
        assert_eq!(epoch_line(&untested, 10, Some(60)), "epoch  7/10  loss 0.4100  accuracy 85.12 %  12.3 s");
        let numbers = EpochRecord {
            train_accuracy: None,
            val_accuracy: None,
            train_absolute_error: Some(0.5),
            val_absolute_error: Some(0.5312),
            ..record
        };
        let all =
            "epoch  7/10  loss 0.4100  absolute error 0.5000  validation 0.4400 0.5312  12.3 s  23.5 k examples/s";
        assert_eq!(epoch_line(&numbers, 10, None), all);
    }
}
