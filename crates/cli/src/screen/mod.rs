//! The only way to the terminal: how wide it is, and words that cannot act on it. [`training`] shows a run while it goes, [`bar`]
//! has the progress bars of all commands.

pub(crate) mod bar;
pub(crate) mod training;

use paceline::base::layout;
use paceline::report::Style;
use paceline::text;
use std::io::{IsTerminal, Write};
use std::sync::OnceLock;
pub(crate) use training::Screen;

/// Writes a line (or several) to standard output. A reader that went away (`| head`) is no error: a training that it
/// watched goes on, and a report is still written.
///
/// Whatever it is made of (names of runs, classes and files, words of other processes) cannot act on the terminal: this, with
/// [`print_table`] and [`warn`], is the only way out of this program.
pub(crate) fn print(text: &str) {
    put(&text::visible_lines(text));
}

/// [`print`] for tables that `report` has set in bold; all else in them is treated alike.
pub(crate) fn print_table(table: &str) {
    put(&bold_kept(table));
}

/// Writes a line (or several) to standard error, as safe as [`print`].
pub(crate) fn warn(text: &str) {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let text = format!("{}{end}", crate::launched::prefixed(&text::visible_lines(text)));
    let _ = std::io::stderr().write_all(text.as_bytes()); // at once: lines of many processes meet in one pipe
}

fn put(text: &str) {
    let mut out = std::io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let _ = write!(out, "{}{end}", crate::launched::prefixed(text)).and_then(|()| out.flush());
}

/// What [`layout::table`] writes around a cell that is marked.
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

/// Words for people: lines that are wider than the terminal are broken between words and set in. Where there is none, a line stays
/// a line, as what reads files and pipes expects.
pub(crate) fn tell(text: &str) {
    match known_width() {
        Some(width) => print(&layout::paragraphs(&text::visible_lines(text), width)),
        None => print(text),
    }
}

/// [`tell`] on standard error.
pub(crate) fn complain(text: &str) {
    match terminal_size::terminal_size_of(std::io::stderr()) {
        Some((width, _)) => {
            let width = usize::from(width.0).max(NARROWEST);
            warn(&layout::paragraphs(&text::visible_lines(text), width));
        }
        None => warn(text),
    }
}

/// [`tell`] with the arguments of `format!`; `println!` would panic when the reader is gone.
macro_rules! say {
    ($($words:tt)*) => { $crate::screen::tell(&format!($($words)*)) };
}
pub(crate) use say;

/// Narrower terminals are written to as if they had so many columns.
const NARROWEST: usize = 40;

/// Columns of the terminal that standard output goes to, or of whoever set `COLUMNS`, if either is known.
pub(crate) fn known_width() -> Option<usize> {
    static WIDTH: OnceLock<Option<usize>> = OnceLock::new();
    *WIDTH.get_or_init(|| {
        let terminal = terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0));
        width_from(std::env::var("COLUMNS").ok().as_deref(), terminal)
    })
}

fn width_from(columns: Option<&str>, terminal: Option<usize>) -> Option<usize> {
    let columns = columns.and_then(|text| text.trim().parse::<u16>().ok()).map(usize::from);
    columns.filter(|&width| width > 0).or(terminal.filter(|&width| width > 0)).map(|width| width.max(NARROWEST))
}

/// [`style`], but files and pipes get every name in full, however wide that is.
pub(crate) fn style_in_full() -> Style {
    Style { width: known_width().unwrap_or(usize::MAX), ..style() }
}

/// A word of a command line, quoted where a shell would take it apart.
pub(crate) fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:,=@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Bold and as wide as the terminal, or plain and of the width that files and pipes get.
pub(crate) fn style() -> Style {
    let bold = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    Style { bold, width: known_width().unwrap_or(Style::default().width) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_marks_pass() {
        let table = "\x1b[1m91.2\x1b[0m  evil\x1b[2J\x1b]0;title\x07\n";
        assert_eq!(bold_kept(table), "\x1b[1m91.2\x1b[0m  evil\\u001b[2J\\u001b]0;title\\u0007\n");
    }

    #[test]
    fn words_can_be_pasted_into_a_shell() {
        for (word, quoted) in [("--np", "--np"), ("a:2,b:2", "a:2,b:2"), ("", "''"), ("my run", "'my run'")] {
            assert_eq!(shell_word(word), quoted);
        }
        assert_eq!(shell_word("it's"), "'it'\\''s'");
        assert_eq!(shell_word("model.hidden=[8]"), "'model.hidden=[8]'");
    }

    #[test]
    fn the_width_is_that_of_columns_then_of_the_terminal() {
        assert_eq!(width_from(Some("72"), Some(90)), Some(72));
        assert_eq!(width_from(None, Some(90)), Some(90));
        assert_eq!(width_from(None, None), None);
        for wrong in ["", "0", "wide", "-3", "99999999999999999999"] {
            assert_eq!(width_from(Some(wrong), Some(90)), Some(90), "{wrong:?}");
        }
        // Lines of a few letters help nobody.
        assert_eq!(width_from(Some("5"), None), Some(NARROWEST));
    }
}
