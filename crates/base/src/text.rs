//! Words for people: numbers with units, the nearest right name for a wrong one, and text of others made safe to show.

use std::borrow::Cow;

/// `1234567.0` → `"1.23 M"`.
pub fn si(value: f64) -> String {
    let (v, unit) = match value.abs() {
        x if x >= 1e12 => (value / 1e12, " T"),
        x if x >= 1e9 => (value / 1e9, " G"),
        x if x >= 1e6 => (value / 1e6, " M"),
        x if x >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = if (unit.is_empty() && v.fract() == 0.0) || v.abs() >= 100.0 {
        0
    } else if v.abs() >= 10.0 {
        1
    } else {
        2
    };
    format!("{v:.digits$}{unit}")
}

/// `401408` → `"392 KiB"`.
pub fn bytes(value: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut v, mut u) = (value as f64, 0);
    while v >= 1024.0 && u + 1 < units.len() {
        v /= 1024.0;
        u += 1;
    }
    if u == 0 || v >= 100.0 { format!("{v:.0} {}", units[u]) } else { format!("{v:.1} {}", units[u]) }
}

/// `"512"`, `"1.5GB"`, `"4 GiB"` → bytes; an error says what to write.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let scale = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return Err(format!("{text:?} is no size: give a number and a unit, such as 800MB or 4GiB")),
    };
    match number.parse::<f64>() {
        Ok(n) if n * scale < 1e18 => Ok((n * scale) as u64),
        _ => Err(format!("{text:?} is no size: give a number and a unit, such as 800MB or 4GiB")),
    }
}

/// `1 core`, `2 cores`, `2 processes`.
pub fn counted(number: usize, what: &str) -> String {
    let end = match what {
        _ if number == 1 => "",
        _ if what.ends_with("epoch") => "s", // its ch is a k
        _ if ["s", "x", "ch", "sh"].iter().any(|end| what.ends_with(end)) => "es",
        _ => "s",
    };
    format!("{number} {what}{end}")
}

/// Seconds for a person: `"850 µs"`, `"12.3 s"`, `"4 min 05 s"`.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if !s.is_finite() => "?".into(),
        s if s < 1e-3 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 60.0 => format!("{s:.1} s"),
        s if s < 3600.0 => format!("{} min {:02} s", s as u64 / 60, s as u64 % 60),
        s => format!("{} h {:02} min", s as u64 / 3600, s as u64 % 3600 / 60),
    }
}

/// How long something will still take, for a person; nothing where that is not known: before anything is done, the rate is zero, and a
/// rate from the first moments may give years.
pub fn time_left(seconds: f64) -> Option<String> {
    const LONGEST: f64 = 1000.0 * 3600.0;
    (0.0..LONGEST).contains(&seconds).then(|| duration(seconds))
}

/// Unix seconds as `2026-03-14 15:09 UTC`.
pub fn date(unix: u64) -> String {
    let (days, of_day) = (unix / 86_400, unix % 86_400);
    // Howard Hinnant's civil_from_days: eras of 400 years that begin on the first of March.
    let z = days + 719_468;
    let era = z / 146_097;
    let day_of_era = z % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", of_day / 3600, of_day % 3600 / 60)
}

/// The candidate nearest to `word`, if it is near enough to be a typing error.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let score = |c: &str| strsim::damerau_levenshtein(&word.to_lowercase(), &c.to_lowercase());
    let tail = |c: &'a str| c.rsplit('.').next().unwrap_or(c);
    candidates
        .into_iter()
        .map(|c| (score(c).min(if word.contains('.') { usize::MAX } else { score(tail(c)) + 1 }), c))
        .min_by_key(|(s, _)| *s)
        .filter(|(s, c)| *s <= 1 + word.len().max(c.len()) / 3)
        .map(|(_, c)| c)
}

/// Whether a character acts on what shows it instead of being seen: control characters (escape sequences begin with one), the
/// marks that turn the direction of writing, and line ends that are none of ours.
pub fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// One line of text that others wrote (names of runs, classes and files), safe to show: what acts on a terminal is written
/// out as `\u001b`, as JSON and TOML do.
///
/// ```
/// assert_eq!(paceline_base::text::visible("run\x1b[2J"), "run\\u001b[2J");
/// ```
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, is_unseen)
}

/// [`visible`] for text of several lines: line ends and tabs stay.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_unseen(c) && c != '\n' && c != '\t')
}

fn escaped(text: &str, hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if hidden(c) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// "; did you mean X?" or nothing.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map(|c| format!("; did you mean {c}?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_773_500_940), "2026-03-14 15:09 UTC");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(si(101_770.0), "102 k");
        assert_eq!(si(1_234_567.0), "1.23 M");
        assert_eq!(bytes(401_408), "392 KiB");
        assert_eq!(bytes(12), "12 B");
        assert_eq!(
            [counted(1, "image"), counted(0, "image"), counted(2, "process"), counted(3, "batch"), counted(4, "epoch")]
                .join(", "),
            "1 image, 0 images, 2 processes, 3 batches, 4 epochs"
        );
        assert_eq!(duration(245.0), "4 min 05 s");
        assert_eq!(duration(0.0123), "12 ms");
    }

    #[test]
    fn time_left_is_said_where_it_is_known() {
        assert_eq!(time_left(245.0).as_deref(), Some("4 min 05 s"));
        assert_eq!(time_left(999.0 * 3600.0).as_deref(), Some("999 h 00 min"));
        for unknown in [f64::NAN, f64::INFINITY, -1.0, 1000.0 * 3600.0, 166_666_666.0 * 3600.0] {
            assert_eq!(time_left(unknown), None);
        }
    }

    #[test]
    fn what_acts_on_a_terminal_is_written_out() {
        assert_eq!(visible("plain – ナ"), "plain – ナ");
        assert_eq!(visible("a\x1b[31mb\r\n\u{9b}c\u{202e}gpj"), "a\\u001b[31mb\\u000d\\u000a\\u009bc\\u202egpj");
        assert_eq!(visible_lines("a\n\tb\x07"), "a\n\tb\\u0007");
    }

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse_bytes("512"), Ok(512));
        assert_eq!(parse_bytes("1.5GB"), Ok(1_500_000_000));
        assert_eq!(parse_bytes("4 GiB"), Ok(4 << 30));
        for wrong in ["", "GB", "-1", "4 cows", "1e3", "1..2", "99999999999TB"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn wrong_names_find_the_right_one() {
        let keys = ["train.batch", "train.epochs", "optimizer.rate"];
        assert_eq!(nearest("train.bacth", keys), Some("train.batch"));
        assert_eq!(nearest("epoch", keys), Some("train.epochs"));
        assert_eq!(nearest("zzzzzz", keys), None);
    }
}
