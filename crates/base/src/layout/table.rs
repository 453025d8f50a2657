//! Tables that fit: names are shortened, minor columns left out (and named), and where that is not enough every row becomes a
//! block of lines.

use super::prose::hanging;
use super::{Style, columns, shorten};
use crate::text::visible;

/// Which side a column leans to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

#[derive(Clone, Debug)]
struct Cell {
    text: String,
    bold: bool,
}

/// A column with its title. What is in it cannot act on a terminal.
#[derive(Clone, Debug)]
pub struct Column {
    title: String,
    align: Align,
    /// May be shortened down to so many columns of the terminal.
    shrink_to: Option<usize>,
    /// May be left out, the highest first.
    minor: Option<u8>,
    cells: Vec<Cell>,
}

impl Column {
    /// A column of words.
    pub fn left(title: &str, cells: impl IntoIterator<Item = String>) -> Self {
        let cells = cells.into_iter().map(|text| Cell { text: visible(&text).into_owned(), bold: false }).collect();
        Self { title: visible(title).into_owned(), align: Align::Left, shrink_to: None, minor: None, cells }
    }

    /// A column of figures.
    pub fn right(title: &str, cells: impl IntoIterator<Item = String>) -> Self {
        Self { align: Align::Right, ..Self::left(title, cells) }
    }

    /// Names in it may be shortened, down to `to`. Not for numbers.
    pub fn shrinking(mut self, to: usize) -> Self {
        self.shrink_to = Some(to);
        self
    }

    /// May be left out where a table is too wide; the columns with the highest number first.
    pub fn minor(mut self, number: u8) -> Self {
        self.minor = Some(number);
        self
    }

    /// Which cells are the best ones.
    pub fn marking(mut self, bold: &[bool]) -> Self {
        self.cells.iter_mut().zip(bold).for_each(|(cell, &bold)| cell.bold = bold);
        self
    }

    fn width(&self) -> usize {
        self.cells.iter().map(|cell| columns(&cell.text)).max().unwrap_or(0).max(columns(&self.title))
    }

    /// Columns of the terminal that it takes at least.
    fn least(&self) -> usize {
        self.shrink_to.map_or(self.width(), |to| to.max(columns(&self.title)).min(self.width()))
    }
}

/// Renders columns under their titles, within `style.width`. Where they do not fit, in this order: one blank between columns
/// instead of two, shorter names, without minor columns (a last line names them), and as blocks, a line for each cell below the first
/// cell of its row. Lines are never wrapped, and end without blanks.
pub fn table(all: &[Column], style: Style) -> String {
    let mut shown: Vec<&Column> = all.iter().collect();
    let mut left_out = Vec::new();
    let least = |shown: &[&Column]| shown.iter().map(|c| c.least()).sum::<usize>() + shown.len().saturating_sub(1);
    while least(&shown) > style.width {
        let minor = (0..shown.len()).filter(|&i| shown[i].minor.is_some()).max_by_key(|&i| shown[i].minor);
        match minor {
            Some(i) => left_out.push(shown.remove(i).title.clone()),
            None => return blocks(all, style),
        }
    }
    let mut out = grid(&shown, style);
    left_out.retain(|title| !title.is_empty());
    if !left_out.is_empty() {
        left_out.reverse();
        out.push_str(&hanging("", &format!("(no room for: {})", left_out.join(", ")), style.width));
    }
    out
}

fn grid(shown: &[&Column], style: Style) -> String {
    let mut widths: Vec<usize> = shown.iter().map(|column| column.width()).collect();
    let total = |widths: &[usize], gap: usize| widths.iter().sum::<usize>() + gap * widths.len().saturating_sub(1);
    let gap = if total(&widths, 2) <= style.width { 2 } else { 1 };
    while total(&widths, gap) > style.width {
        let widest = (0..shown.len()).filter(|&i| widths[i] > shown[i].least()).max_by_key(|&i| widths[i]);
        match widest {
            Some(i) => widths[i] -= 1,
            None => break,
        }
    }
    let rows = shown.iter().map(|column| column.cells.len()).max().unwrap_or(0);
    let mut out = String::new();
    let titles = shown.iter().map(|column| (column.title.as_str(), false));
    push_row(&mut out, titles, shown, &widths, gap, false);
    let rules: Vec<String> = widths.iter().map(|&w| "─".repeat(w)).collect();
    push_row(&mut out, rules.iter().map(|rule| (rule.as_str(), false)), shown, &widths, gap, false);
    for row in 0..rows {
        let cells = shown
            .iter()
            .map(|column| column.cells.get(row).map_or(("", false), |cell| (cell.text.as_str(), cell.bold)));
        push_row(&mut out, cells, shown, &widths, gap, style.bold);
    }
    out
}

fn push_row<'a>(
    out: &mut String,
    cells: impl Iterator<Item = (&'a str, bool)>,
    shown: &[&Column],
    widths: &[usize],
    gap: usize,
    bold: bool,
) {
    let mut line = String::new();
    for (i, (text, marked)) in cells.enumerate() {
        if i > 0 {
            line.push_str(&" ".repeat(gap));
        }
        let text = shorten(text, widths[i]);
        let pad = " ".repeat(widths[i] - columns(&text));
        let text = if marked { emphasised(&text, bold) } else { text };
        match shown[i].align {
            Align::Left => line.extend([text, pad]),
            Align::Right => line.extend([pad, text]),
        }
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

fn emphasised(text: &str, bold: bool) -> String {
    if bold { format!("\x1b[1m{text}\x1b[0m") } else { text.into() }
}

/// Every row as its first cell, and the others below it with their titles; empty ones are left out.
fn blocks(all: &[Column], style: Style) -> String {
    let Some((first, rest)) = all.split_first() else { return String::new() };
    let widest = rest.iter().map(|column| columns(&column.title)).max().unwrap_or(0);
    let mut out = String::new();
    for (row, head) in first.cells.iter().enumerate() {
        let head = if head.text.is_empty() { &first.title } else { &head.text };
        out.push_str(&hanging("", head, style.width));
        for column in rest {
            let Some(cell) = column.cells.get(row).filter(|cell| !cell.text.is_empty()) else { continue };
            let colon = if column.title.is_empty() { "" } else { ":" };
            let label = format!("  {}{colon}{} ", column.title, " ".repeat(widest - columns(&column.title)));
            let lines = hanging(&label, &cell.text, style.width);
            match (cell.bold && style.bold, lines.strip_suffix(&format!("{}\n", cell.text))) {
                (true, Some(label)) => out.push_str(&format!("{label}{}\n", emphasised(&cell.text, true))),
                _ => out.push_str(&lines),
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(width: usize) -> Style {
        Style { bold: false, width }
    }

    fn example() -> [Column; 4] {
        [
            Column::left("run", ["a-very-long-name".into(), "b\x1b[2J".into()]).shrinking(6),
            Column::right("time s", ["1.5".into(), "120".into()]).marking(&[true, false]),
            Column::right("rate", ["12345".into(), "678".into()]).minor(1),
            Column::left("note", ["all is well".into(), String::new()]).minor(2),
        ]
    }

    #[test]
    fn columns_line_up_and_names_shrink() {
        assert_eq!(
            table(&example()[..2], plain(14)),
            "run     time s\n─────── ──────\na-v…ame    1.5\nb\\u…[2J    120\n"
        );
        let wide = table(&example(), Style { bold: true, width: 60 });
        assert!(wide.contains("a-very-long-name     \x1b[1m1.5\x1b[0m  12345  all is well\n"), "{wide}");
        let kana = [Column::left("x", ["ナ".into(), "ab".into()]), Column::left("y", ["1".into(), "2".into()])];
        assert!(table(&kana, plain(20)).ends_with("ナ  1\nab  2\n"));
    }

    #[test]
    fn minor_columns_are_left_out_and_named() {
        let text = table(&example(), plain(20));
        assert_eq!(text.lines().next(), Some("run     time s  rate"));
        assert!(text.ends_with("(no room for: note)\n"), "{text}");
        let text = table(&example(), plain(17));
        assert!(text.ends_with("120\n(no room for:\nrate, note)\n"), "{text}");
    }

    #[test]
    fn rows_become_blocks_where_nothing_else_helps() {
        let mut columns = example();
        columns[0].shrink_to = None;
        let blocks = "a-very-long-name\n  time s: 1.5\n  rate:   12345\n  note: all is\n    well\n\
                      b\\u001b[2J\n  time s: 120\n  rate:   678\n";
        assert_eq!(table(&columns, plain(16)), blocks);
        assert!(table(&columns, Style { bold: true, width: 16 }).contains("time s: \x1b[1m1.5\x1b[0m\n"));
    }

    #[test]
    fn no_width_loses_a_number_silently() {
        for width in 0..80 {
            let text = table(&example(), plain(width));
            assert!(text.contains("1.5") && text.contains("120"), "{width}: {text}");
            assert!(text.contains("12345") || text.contains("rate"), "{width}: {text}");
            if width > 18 {
                assert!(text.lines().all(|line| columns(line) <= width), "{width}: {text}");
            }
        }
    }
}
