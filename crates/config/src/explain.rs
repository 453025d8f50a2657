//! `paceline config explain`: the schema in words.

use crate::declare::{Key, Section};
use crate::elsewhere;
use crate::schema::{Config, KEYS, SECTIONS};
use paceline_base::layout::{hanging, wrap};
use paceline_base::text::did_you_mean;
use paceline_base::{Error, Result};

/// What the meaning wants for itself, to stand beside key and default.
const MEANING: usize = 40;
/// Narrower than this, lines would hold a word or two.
const NARROWEST: usize = 40;

/// Every key, in the order of the file.
pub fn keys() -> &'static [Key] {
    KEYS
}

/// What can be written: everything, one section (`train`), or one key (`train.batch`); in lines of at most `width`.
///
/// # Errors
/// If there is no such key or section; the nearest is suggested.
pub fn explain(what: Option<&str>, width: usize) -> Result<String> {
    let width = width.max(NARROWEST);
    let Some(what) = what else {
        let intro = "A configuration is a TOML file that begins with `format = 1`. A key is written as `key = value` \
                     below its [section], or given on the command line as `--set section.key=value`.";
        let mut text = wrap(intro, width).join("\n") + "\n";
        for section in SECTIONS {
            text.push('\n');
            text += &explain_section(section, width);
        }
        return Ok(text);
    };
    if let Some(section) = SECTIONS.iter().find(|section| section.name == what) {
        return Ok(explain_section(section, width));
    }
    match KEYS.iter().find(|key| key.path == what) {
        Some(key) => Ok(table(&[key], width)),
        None => Err(Error::user(unknown_key(what))),
    }
}

/// What [`explain`] says, for programs: a list of keys with `section`, `key`, `values`, `default` (as in a file; null if the
/// key may be absent) and `meaning`.
pub fn explain_json(what: Option<&str>) -> Result<serde_json::Value> {
    let chosen = |key: &&Key| what.is_none_or(|what| what == key.section || what == key.path);
    let entry = |key: &Key| {
        let default = (key.write)(&Config::default());
        serde_json::json!({
            "key": key.path,
            "section": key.section,
            "values": key.kind(),
            "default": default,
            "meaning": key.meaning(),
        })
    };
    let found: Vec<_> = KEYS.iter().filter(chosen).map(entry).collect();
    match what {
        Some(what) if found.is_empty() => Err(Error::user(unknown_key(what))),
        _ => Ok(found.into()),
    }
}

/// How messages about unknown keys end.
pub(super) const LISTS_ALL: &str = "`paceline config explain` lists all keys";

/// "there is no key trian.batch; did you mean train.batch? …"
pub(super) fn unknown_key(path: &str) -> String {
    if let Some(here) = elsewhere::key(path) {
        return format!("there is no key {path}{}", here.words());
    }
    if let Some(section) = elsewhere::section(path) {
        return format!("there is no key {path}; its keys are in [{section}]: `paceline config explain {section}`");
    }
    let names = SECTIONS.iter().map(|section| section.name).chain(KEYS.iter().map(|key| key.path));
    then(&format!("there is no key {path}{}", did_you_mean(path, names)), LISTS_ALL)
}

/// Two parts of a message, with what belongs between them.
pub(super) fn then(first: &str, second: &str) -> String {
    format!("{first}{} {second}", if first.ends_with('?') { "" } else { ";" })
}

fn explain_section(section: &Section, width: usize) -> String {
    let keys: Vec<_> = KEYS.iter().filter(|key| key.section == section.name).collect();
    let title = hanging(&format!("[{}]  ", section.name), &section.meaning(), width);
    format!("{title}\n{}", table(&keys, width))
}

/// Three columns: key, default, and what may be written with its meaning below; where that leaves too little room, the key and its
/// default in a line of their own.
fn table(keys: &[&Key], width: usize) -> String {
    // Widths of all keys, so that sections line up with each other.
    let column = |text: fn(&Key) -> usize| KEYS.iter().map(text).max().unwrap_or(0) + 2;
    let (first, second) = (column(|key| key.path.len()), column(|key| key.default_text().chars().count()));
    let beside = width >= 2 + first + second + MEANING;
    let indent = if beside { 2 + first + second } else { 6 };
    let mut text = String::new();
    if beside {
        text = format!("  {:first$}{:second$}values and meaning\n", "key", "default");
    }
    for key in keys {
        let lines = wrap(&key.kind(), width - indent).into_iter().chain(wrap(&key.meaning(), width - indent));
        let mut head = format!("  {:first$}{:second$}", key.path, key.default_text());
        if !beside {
            text += format!("  {:first$}{}", key.path, key.default_text()).trim_end();
            text += "\n";
            head = " ".repeat(indent);
        }
        for (i, line) in lines.enumerate() {
            text += if i == 0 { head.clone() } else { " ".repeat(indent) }.as_str();
            text += &line;
            text += "\n";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_explained_within_the_width() {
        for width in [60, 80, 100, 120] {
            let text = explain(None, width).unwrap();
            let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for key in keys() {
                assert!(text.contains(key.path), "{} is missing", key.path);
                assert!(text.contains(&key.default_text()), "the default of {} is missing", key.path);
                assert!(!key.meaning().is_empty(), "{} has no meaning", key.path);
                assert!(explain(Some(key.path), width).unwrap().contains(key.path));
            }
            for section in SECTIONS {
                assert!(flat.contains(&format!("[{}] {}", section.name, section.meaning())));
            }
            for line in text.lines() {
                assert!(line.chars().count() <= width, "too wide for {width}: {line}");
            }
        }
    }

    #[test]
    fn a_section_or_a_key_is_explained_alone() {
        let train = explain(Some("train"), 100).unwrap();
        assert!(train.contains("train.batch") && !train.contains("model.preset"));
        let batch = explain(Some("train.batch"), 100).unwrap();
        assert!(batch.contains("32*workers") && !batch.contains("train.epochs"));
    }

    #[test]
    fn programs_get_the_same_keys() {
        let all = explain_json(None).unwrap();
        assert_eq!(all.as_array().unwrap().len(), keys().len());
        let train = explain_json(Some("train")).unwrap();
        let epochs = train.as_array().unwrap().iter().find(|key| key["key"] == "train.epochs").unwrap();
        assert_eq!((epochs["default"].as_i64(), epochs["section"].as_str()), (Some(5), Some("train")));
        assert!(explain_json(Some("model.file")).unwrap()[0]["default"].is_null());
        assert!(explain_json(Some("train.epoch")).unwrap_err().message().contains("did you mean train.epochs?"));
    }

    #[test]
    fn wrong_names_are_answered_with_the_nearest() {
        let check = |what, expected: &str| {
            let error = explain(Some(what), 100).unwrap_err();
            assert!(error.message().contains(expected), "{error}");
        };
        check("train.bacth", "there is no key train.bacth; did you mean train.batch?");
        check("epochs", "it is train.epochs here");
        check("optimiser", "it is optimizer.name here");
        check("quux.corge.grault", "`paceline config explain` lists all keys");
    }
}
