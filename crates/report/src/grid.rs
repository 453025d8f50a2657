//! Text in columns: the only place that counts characters.

/// Which side a column leans to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A cell of text.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub text: String,
    pub bold: bool,
}

/// A column with its title.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub title: String,
    pub align: Align,
    /// May be shortened down to so many characters when the table is too wide.
    pub shrink_to: Option<usize>,
    pub cells: Vec<Cell>,
}

impl Column {
    pub(crate) fn left(title: &str, cells: impl IntoIterator<Item = String>) -> Self {
        let cells = cells.into_iter().map(|text| Cell { text: plain(&text), bold: false }).collect();
        Self { title: plain(title), align: Align::Left, shrink_to: None, cells }
    }

    pub(crate) fn right(title: &str, cells: impl IntoIterator<Item = String>) -> Self {
        Self { align: Align::Right, ..Self::left(title, cells) }
    }

    pub(crate) fn shrinking(mut self, to: usize) -> Self {
        self.shrink_to = Some(to);
        self
    }

    pub(crate) fn marking(mut self, bold: &[bool]) -> Self {
        self.cells.iter_mut().zip(bold).for_each(|(cell, &bold)| cell.bold = bold);
        self
    }

    fn width(&self) -> usize {
        self.cells.iter().map(|cell| chars(&cell.text)).max().unwrap_or(0).max(chars(&self.title))
    }
}

/// Renders the columns under their titles, within `width` characters if the columns that may shrink allow it. Lines are
/// never wrapped, and end without blanks.
pub(crate) fn render(columns: &[Column], width: usize, bold: bool) -> String {
    let mut widths: Vec<usize> = columns.iter().map(Column::width).collect();
    let total = |widths: &[usize], gap: usize| widths.iter().sum::<usize>() + gap * widths.len().saturating_sub(1);
    let gap = if total(&widths, 2) <= width { 2 } else { 1 };
    while total(&widths, gap) > width {
        let widest = (0..columns.len())
            .filter(|&i| columns[i].shrink_to.is_some_and(|least| widths[i] > least))
            .max_by_key(|&i| widths[i]);
        match widest {
            Some(i) => widths[i] -= 1,
            None => break,
        }
    }
    let rows = columns.iter().map(|column| column.cells.len()).max().unwrap_or(0);
    let mut out = String::new();
    let titles = columns.iter().map(|column| (column.title.as_str(), false));
    push_row(&mut out, titles, columns, &widths, gap, false);
    let rules: Vec<String> = widths.iter().map(|&w| "─".repeat(w)).collect();
    push_row(&mut out, rules.iter().map(|rule| (rule.as_str(), false)), columns, &widths, gap, false);
    for row in 0..rows {
        let cells = columns
            .iter()
            .map(|column| column.cells.get(row).map_or(("", false), |cell| (cell.text.as_str(), cell.bold)));
        push_row(&mut out, cells, columns, &widths, gap, bold);
    }
    out
}

fn push_row<'a>(
    out: &mut String,
    cells: impl Iterator<Item = (&'a str, bool)>,
    columns: &[Column],
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
        let pad = " ".repeat(widths[i] - chars(&text));
        let text = if bold && marked { format!("\x1b[1m{text}\x1b[0m") } else { text };
        match columns[i].align {
            Align::Left => line.extend([text, pad]),
            Align::Right => line.extend([pad, text]),
        }
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

/// Takes characters out of the middle, where names differ least.
pub(crate) fn shorten(text: &str, width: usize) -> String {
    let length = chars(text);
    if length <= width {
        return text.to_string();
    }
    let head = width.saturating_sub(1).div_ceil(2);
    let tail = width.saturating_sub(1) - head;
    text.chars().take(head).chain(std::iter::once('…')).chain(text.chars().skip(length - tail)).take(width).collect()
}

/// A name as it may be shown: it must not move the cursor of who reads it.
pub(crate) fn plain(text: &str) -> String {
    paceline_base::text::visible(text).into_owned()
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
    }

    #[test]
    fn columns_line_up_and_fit() {
        let name = Column::left("name", ["a-very-long-name".into(), "b\x1b[2J".into()]).shrinking(6);
        let time = Column::right("time s", ["1.5".into(), "120".into()]).marking(&[true, false]);
        assert_eq!(
            render(&[name.clone(), time.clone()], 14, false),
            "name    time s\n─────── ──────\na-v…ame    1.5\nb\\u…[2J    120\n"
        );
        assert!(render(&[name, time], 40, true).contains("\x1b[1m1.5\x1b[0m"));
    }
}
