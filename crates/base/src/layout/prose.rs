//! Sentences, labelled values, and lines of figures, within a width.

use super::columns;

/// Breaks a text between words into lines of at most `width` columns. A word that is wider (a path) has a line of its own.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    broken(text, width, width)
}

/// The same, where the first line has another width than those that follow.
fn broken(text: &str, first: usize, others: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in words(text) {
        let size = columns(&word);
        let width = if lines.len() == 1 { first } else { others };
        if used > 0 && used + 1 + size > width {
            lines.push(String::new());
            used = 0;
        }
        let line = lines.last_mut().expect("there is always a line");
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(&word);
        used += size;
    }
    lines
}

/// Words of a text; a number and its unit are one.
fn words(text: &str) -> Vec<String> {
    const UNITS: [&str; 14] = ["%", "×", "µs", "ms", "s", "min", "h", "B", "KiB", "MiB", "GiB", "TiB", "k", "M"];
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let bare = word.trim_end_matches([',', ';', ':', '.', ')']);
        let unit = UNITS.contains(&bare) || bare.ends_with("/s");
        match words.last_mut() {
            Some(last) if unit && last.ends_with(|c: char| c.is_ascii_digit()) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.into()),
        }
    }
    words
}

/// Lines of which the first begins with `first`, and all others with as many blanks as `inner`.
fn set_in(first: &str, inner: usize, text: &str, width: usize) -> String {
    let lines = broken(text, width.saturating_sub(columns(first)), width.saturating_sub(inner));
    let blank = " ".repeat(inner);
    let line = |(i, line): (usize, &String)| {
        let lead = if i == 0 { first } else { &blank };
        format!("{}\n", format!("{lead}{line}").trim_end())
    };
    lines.iter().enumerate().map(line).collect()
}

/// `first` and then the text, broken between words; further lines begin under it, or where that is wide two columns further in than
/// `first` begins. Ends with a line end.
pub fn hanging(first: &str, text: &str, width: usize) -> String {
    let lead = columns(first);
    if lead * 2 <= width || lead + columns(text) <= width {
        return set_in(first, lead, text, width);
    }
    // A wide label takes part in the breaking.
    let begin = &first[..first.len() - first.trim_start().len()];
    set_in(begin, begin.len() + 2, &format!("{} {text}", first.trim()), width)
}

/// Every line of a text that is too wide, broken between words and set in two columns further than it begins. Lines that fit stay
/// as they are, with all their blanks.
pub fn paragraphs(text: &str, width: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        if columns(line) <= width {
            out.push_str(line);
            out.push('\n');
            continue;
        }
        let words = line.trim_start();
        // What follows the mark of an item stands under its first word.
        let mark = if words.starts_with("- ") { 2 } else { 0 };
        let begin = &line[..line.len() - words.len() + mark];
        let inner = begin.len() + if mark > 0 { 0 } else { 2 };
        out.push_str(&set_in(begin, inner, &words[mark..], width));
    }
    out
}

/// Labels and their values, one below the other, set in by two; values begin in one column and break between words.
pub fn labelled<'a>(lines: impl IntoIterator<Item = (&'a str, String)>, width: usize) -> String {
    let lines: Vec<_> = lines.into_iter().collect();
    let widest = lines.iter().map(|(label, _)| columns(label)).max().unwrap_or(0).max(LABEL);
    let mut out = String::new();
    for (label, value) in lines {
        let pad = " ".repeat(widest - columns(label));
        out.push_str(&hanging(&format!("  {label}{pad} "), &value, width));
    }
    out
}

/// Labels take at least as much, so that the tables of one command line up with those of another.
const LABEL: usize = 14;

/// Sets every line in by two.
pub fn indent(text: &str) -> String {
    text.lines().map(|line| if line.is_empty() { "\n".into() } else { format!("  {line}\n") }).collect()
}

/// Figures of one line, in the order given and with two blanks between, as many as fit: the most important ones, whose number
/// is lowest. The most important one is always there.
pub fn figures<'a>(figures: &[(u8, &'a str)], width: usize) -> Vec<&'a str> {
    let mut by_weight: Vec<usize> = (0..figures.len()).filter(|&i| !figures[i].1.is_empty()).collect();
    by_weight.sort_by_key(|&i| figures[i].0);
    let mut used = 0;
    let mut chosen: Vec<usize> = by_weight
        .into_iter()
        .filter(|&i| {
            let more = columns(figures[i].1) + if used > 0 { 2 } else { 0 };
            let fits = used == 0 || used + more <= width;
            used += if fits { more } else { 0 };
            fits
        })
        .collect();
    chosen.sort_unstable();
    chosen.into_iter().map(|i| figures[i].1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_break_between_words() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("a/very/long/path is one word", 6), ["a/very/long/path", "is one", "word"]);
        assert_eq!(wrap("", 6), [""]);
        assert_eq!(wrap("falls by 9.4 %, in 12 ms at 5 MB/s", 12), ["falls by", "9.4 %, in", "12 ms at", "5 MB/s"]);
        assert_eq!(hanging("note: ", "one two three four", 20), "note: one two three\n      four\n");
        // A wide label does not squeeze the text into a narrow column.
        assert_eq!(hanging("a-long-name: ", "one two three four", 20), "a-long-name: one two\n  three four\n");
    }

    #[test]
    fn paragraphs_keep_what_fits_and_hang_what_does_not() {
        let text = "a   table  row\n\n  why: one two three four\n- item one two three four\n";
        let narrow = "a   table  row\n\n  why: one two\n    three four\n- item one two\n  three four\n";
        assert_eq!(paragraphs(text, 16), narrow);
        assert_eq!(paragraphs(text, 60), text);
    }

    #[test]
    fn values_of_labels_begin_in_one_column() {
        let lines = [("test", "accuracy 91.2 %, loss 0.25".to_string()), ("a", String::new())];
        assert_eq!(labelled(lines, 34), "  test           accuracy 91.2 %,\n                 loss 0.25\n  a\n");
    }

    #[test]
    fn the_least_important_figures_go_first() {
        let line = [(0, "epoch 1/3"), (2, "loss 0.5"), (1, "validation 91 %"), (3, "1.2 s"), (4, "")];
        assert_eq!(figures(&line, 80).join("  "), "epoch 1/3  loss 0.5  validation 91 %  1.2 s");
        assert_eq!(figures(&line, 34).join("  "), "epoch 1/3  validation 91 %  1.2 s");
        assert_eq!(figures(&line, 26).join("  "), "epoch 1/3  validation 91 %");
        assert_eq!(figures(&line, 3).join("  "), "epoch 1/3");
    }
}
