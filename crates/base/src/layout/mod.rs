//! Text laid out for a width: tables, labelled values, prose and lines of figures. The only place that counts columns.
//!
//! Whoever shows text hands in how wide it may be ([`Style`]); nothing here asks a terminal. Two rules hold everywhere: nothing
//! is cut without a `…`, and numbers are not cut at all.

mod prose;
mod table;

pub use prose::{figures, hanging, indent, labelled, paragraphs, wrap};
pub use table::{Column, table};

/// How text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Mark the best values in bold (ANSI escapes); only for terminals.
    pub bold: bool,
    /// Columns to fit into, if the content allows it.
    pub width: usize,
}

impl Style {
    /// The same, with fewer columns: for text that is set in by so many.
    pub fn narrower(self, by: usize) -> Self {
        Self { width: self.width.saturating_sub(by), ..self }
    }
}

impl Default for Style {
    /// Plain and 100 wide: what files and pipes get, whatever terminal a command was typed in.
    fn default() -> Self {
        Self { bold: false, width: 100 }
    }
}

/// How many columns of a terminal a text takes.
pub fn columns(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

/// Takes characters out of the middle, where names differ least, and puts a `…` there.
pub fn shorten(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_string();
    }
    let head = take(text.chars(), width.saturating_sub(1).div_ceil(2));
    let tail = take(text.chars().rev(), width.saturating_sub(1) - columns(&head));
    let mark = if width > 0 { "…" } else { "" };
    head + mark + &tail.chars().rev().collect::<String>()
}

/// As many characters as have room.
fn take(text: impl Iterator<Item = char>, width: usize) -> String {
    let mut used = 0;
    text.take_while(|&c| {
        used += unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
        used <= width
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortens_in_the_middle() {
        assert_eq!(shorten("mirrored-512", 7), "mir…512");
        assert_eq!(shorten("mirrored", 8), "mirrored");
        assert_eq!(shorten("mirrored", 1), "…");
        assert_eq!(shorten("mirrored", 0), "");
        assert_eq!(shorten("ナナナナ", 5), "ナ…ナ");
    }
}
