//! `paceline predict RUN DATA…`

use crate::flags::predict::{Format, ModelFlags, Predict};
use crate::screen;
use crate::signals::stop_on_signal;
use paceline::data::TargetKind;
use paceline::predict::{Counts, Options, Prediction, Predictor, lines};
use paceline::system::atomic::Replacing;
use paceline::{Error, Result, text};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::Ordering;

/// Bad inputs that are named at the end.
const NAMED: usize = 20;
/// Characters of a class name that a table shows.
const NAME: usize = 20;
/// Text that is collected before it is printed, where nobody watches.
const PRINTED: usize = 1 << 16;

/// Runs the command.
pub(crate) fn run(flags: &Predict) -> Result<()> {
    let stop = stop_on_signal("stopping").heard_from_the_start();
    let mut predictor = open(&flags.run, &flags.model)?;
    let inputs = predictor.inputs(&flags.data)?.only(flags.part)?;
    let mut out = Out::new(flags.output.as_deref())?;
    if !flags.quiet {
        say_model(&predictor);
        inputs.notes.iter().for_each(|note| screen::complain(&format!("  note: {note}")));
    }
    let top = (flags.top as usize).min(predictor.classes().len());
    let table = Table::new(&predictor, inputs.has_labels(predictor.classes()), flags.output.is_none());
    let numbers = match predictor.info().sample_kind().targets {
        TargetKind::Numbers { .. } => predictor.info().target_names(),
        TargetKind::Classes { .. } => Vec::new(),
    };
    let is_numbers = !numbers.is_empty();
    out.put(&match flags.format {
        Format::Table if is_numbers => numbers_head(&numbers),
        Format::Csv if is_numbers => lines::csv_head_of_numbers(&numbers),
        Format::Table => table.head(),
        Format::Csv => lines::csv_head(top),
        Format::Jsonl => String::new(),
    })?;
    let mut bad = Vec::new();
    let counts = predictor.predict(&inputs, top, &mut |prediction| {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::stopped("stopped on request; --output was not written"));
        }
        if let (Some(error), true) = (&prediction.error, bad.len() < NAMED) {
            bad.push((prediction.input.clone(), error.clone()));
        }
        out.put(&match flags.format {
            Format::Table if is_numbers => numbers_row(prediction, numbers.len()),
            Format::Csv if is_numbers => lines::csv_line_of_numbers(prediction, numbers.len()),
            Format::Table => table.rows(prediction),
            Format::Csv => lines::csv_line(prediction, top),
            Format::Jsonl => lines::json_line(prediction, top),
        })
    })?;
    out.finish()?;
    if !flags.quiet {
        screen::complain(&closing(&counts));
    }
    say_bad(&bad, counts.bad, counts.inputs, flags.model.skip_bad)
}

/// Opens the model of a run.
pub(crate) fn open(run: &Path, flags: &ModelFlags) -> Result<Predictor> {
    let threads = flags.threads.map(|n| n as usize);
    Predictor::open(run, &Options { checkpoint: flags.checkpoint.clone(), threads, batch: None })
}

/// Says on standard error which model it is.
pub(crate) fn say_model(predictor: &Predictor) {
    screen::complain(&format!(
        "{} of {}, trained for {}",
        predictor.info().name,
        predictor.dir().display(),
        predictor.trained()
    ));
    predictor.notes().iter().for_each(|note| screen::complain(&format!("  note: {note}")));
}

fn closing(counts: &Counts) -> String {
    let mut words = text::counted(counts.inputs as usize, "input");
    if counts.labelled > 0 {
        let share = 100.0 * counts.right as f64 / counts.labelled as f64;
        words += &format!(", {} of {} with a label predicted rightly ({share:.2} %)", counts.right, counts.labelled);
    }
    words
}

/// Names bad inputs on standard error; an error if there are more than `allowed`.
pub(crate) fn say_bad(first: &[(String, String)], bad: u64, inputs: u64, allowed: u64) -> Result<()> {
    for (input, reason) in first {
        screen::complain(&format!("bad: {}", with_name(input, reason)));
    }
    if bad > first.len() as u64 {
        screen::complain(&format!("bad: and {} more", bad - first.len() as u64));
    }
    match bad > allowed {
        false => Ok(()),
        true => Err(Error::failure(format!(
            "{bad} of {} could not be used{}; mend or remove what is bad, or accept it with --skip-bad {bad}",
            text::counted(inputs as usize, "input"),
            if bad < inputs { ", all others were" } else { "" }
        ))),
    }
}

/// The reason, which mostly begins with the name already.
fn with_name(input: &str, reason: &str) -> String {
    if reason.contains(input) { reason.into() } else { format!("{input}: {reason}") }
}

/// Characters of a predicted number, and of the name above it.
const NUMBER: usize = 14;

/// The head of a table of predicted numbers: each with what the data says beside it.
fn numbers_head(names: &[String]) -> String {
    let head = |name: &String| format!("{:>NUMBER$}  {:>NUMBER$}  ", shortened(&text::visible(name), NUMBER), "known");
    let line = format!("{0}  {0}  ", "─".repeat(NUMBER)).repeat(names.len());
    format!("{}input\n{line}─────\n", names.iter().map(head).collect::<String>())
}

/// A row of it.
fn numbers_row(prediction: &Prediction<'_>, count: usize) -> String {
    let mut row = String::new();
    for place in 0..count {
        let number = prediction.numbers.get(place);
        let shown = |value: Option<f32>| value.map_or("–".into(), |value| value.to_string());
        let (value, known) = (shown(number.map(|n| n.value)), shown(number.and_then(|n| n.known)));
        row += &format!("{value:>NUMBER$}  {known:>NUMBER$}  ");
    }
    let input = match &prediction.error {
        Some(error) => with_name(&prediction.input, error),
        None => prediction.input.clone(),
    };
    format!("{row}{}\n", text::visible(&input))
}

/// Columns of known width, so that nothing has to be collected: the input, which may be long, comes last.
struct Table {
    class: usize,
    labels: bool,
    /// Room for the input on a terminal.
    input: Option<usize>,
}

impl Table {
    fn new(predictor: &Predictor, labels: bool, shown: bool) -> Self {
        let names = predictor.classes().iter().map(|name| text::visible(name).chars().count());
        let class = names.max().unwrap_or(0).clamp(5, NAME);
        let used = class + 2 + 11 + 2 + if labels { class + 4 } else { 0 };
        let terminal = shown && std::io::stdout().is_terminal();
        let input = terminal.then(|| screen::style().width.saturating_sub(used)).filter(|&room| room >= 12);
        Self { class, labels, input }
    }

    fn head(&self) -> String {
        let class = self.class;
        let label = if self.labels { format!("  {:<1$}", "label", class + 2) } else { String::new() };
        let head = format!("{:<class$}  {:>11}{label}  input\n", "class", "probability");
        let widths = [class, 11].into_iter().chain(self.labels.then_some(class + 2)).chain([5]);
        head + &widths.map(|width| "─".repeat(width)).collect::<Vec<_>>().join("  ") + "\n"
    }

    fn rows(&self, prediction: &Prediction<'_>) -> String {
        let class = self.class;
        let name = |name: &str| shortened(&text::visible(name), class);
        let label = match (self.labels, prediction.label) {
            (false, _) => String::new(),
            (true, None) => format!("  {:1$}", "", class + 2),
            (true, Some(label)) => {
                let mark = if prediction.is_right() == Some(true) { " " } else { "✗" };
                format!("  {mark} {:<class$}", name(label))
            }
        };
        let Some(first) = prediction.top.first() else {
            let reason = with_name(&prediction.input, prediction.error.as_deref().unwrap_or_default());
            return format!("{:<class$}  {:>11}{label}  {}\n", "–", "–", text::visible(&reason));
        };
        let percent = |p: f64| format!("{:.2} %", 100.0 * p);
        let input = text::visible(&prediction.input);
        let input = self.input.map_or_else(|| input.to_string(), |room| shortened_left(&input, room));
        let mut rows = format!("{:<class$}  {:>11}{label}  {input}\n", name(first.name), percent(first.probability));
        for score in &prediction.top[1..] {
            rows += &format!("{:<class$}  {:>11}\n", name(score.name), percent(score.probability));
        }
        rows
    }
}

/// At most so many characters, the end cut off.
pub(crate) fn shortened(text: &str, room: usize) -> String {
    match text.chars().count() > room {
        true => text.chars().take(room.saturating_sub(1)).chain(['…']).collect(),
        false => text.into(),
    }
}

/// At most so many characters, the beginning cut off: the end of a path says more.
fn shortened_left(text: &str, room: usize) -> String {
    let count = text.chars().count();
    match count > room {
        true => std::iter::once('…').chain(text.chars().skip(count + 1 - room)).collect(),
        false => text.into(),
    }
}

/// Where records go: a file that is there whole or not at all, or standard output.
enum Out {
    File(Replacing),
    Screen { text: String, at_once: bool },
}

impl Out {
    fn new(path: Option<&Path>) -> Result<Self> {
        match path {
            Some(path) if path.is_dir() => {
                Err(Error::user(format!("--output {} is a folder; give the name of a file", path.display())))
            }
            Some(path) => Ok(Self::File(Replacing::create(path)?)),
            None => Ok(Self::Screen { text: String::new(), at_once: std::io::stdout().is_terminal() }),
        }
    }

    fn put(&mut self, words: &str) -> Result<()> {
        match self {
            Self::File(file) => {
                // The same bytes as on standard output.
                let words = text::visible_lines(words);
                file.write_all(words.as_bytes()).map_err(|e| Error::io("write", file.path(), &e))
            }
            Self::Screen { text, at_once } => {
                text.push_str(words);
                if (*at_once || text.len() > PRINTED) && !text.is_empty() {
                    screen::print(text);
                    text.clear();
                }
                Ok(())
            }
        }
    }

    fn finish(self) -> Result<()> {
        match self {
            Self::File(file) => file.finish(),
            Self::Screen { text, .. } if text.is_empty() => Ok(()),
            Self::Screen { text, .. } => {
                screen::print(&text);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_where_they_say_least() {
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(shortened("abcd", 4), "abcd");
        assert_eq!(shortened_left("photos/a/b.jpg", 8), "…a/b.jpg");
        assert_eq!(shortened_left("b.jpg", 8), "b.jpg");
    }
}
