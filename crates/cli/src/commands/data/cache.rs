//! `paceline data cache`: what `--cache disk` keeps, in words, and what was cleared of it.

use super::json;
use crate::flags::DataCache;
use crate::screen;
use paceline::data::Catalogue;
use paceline::prepare::feed::cache::{self, CacheFile, Cleared, Selection, State};
use paceline::{Error, Result, text};
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;

/// The answer as JSON.
#[derive(Serialize)]
struct Answer<'a, T> {
    folder: &'a Path,
    /// Of all files that are left.
    bytes: u64,
    caches: &'a [T],
}

/// Runs the command.
pub(super) fn run(catalogue: &Catalogue, flags: &DataCache) -> Result<()> {
    let folder = catalogue.decoded()?;
    if flags.clear { clear(&folder, flags) } else { show(&folder, flags.json) }
}

fn show(folder: &Path, as_json: bool) -> Result<()> {
    let files = cache::list(folder)?;
    let bytes = files.iter().map(|file| file.bytes).sum();
    if as_json {
        return json(&Answer { folder, bytes, caches: &files });
    }
    let mut out = String::new();
    // Writing to a string cannot fail.
    if files.is_empty() {
        let _ = writeln!(out, "no decoded samples in {}", folder.display());
    } else {
        let count = text::counted(files.len(), "cache");
        let _ = writeln!(out, "{}: {count}, {}", folder.display(), text::bytes(bytes));
    }
    for file in &files {
        let _ = writeln!(out, "\n{}\n  {}", plain(&file.name()), plain(&data(file)));
        let samples = file.samples.map_or(String::new(), |n| format!(", {}", text::counted(n, "sample")));
        let _ = writeln!(out, "  {}{samples}, last used {}; {}", text::bytes(file.bytes), ago(file.idle), state(file));
    }
    screen::tell(&out);
    Ok(())
}

fn clear(folder: &Path, flags: &DataCache) -> Result<()> {
    let which = Selection { names: flags.names.clone(), older_than: flags.older_than, force: flags.force };
    let cleared = cache::clear(folder, &which)?;
    let removed = |c: &&Cleared| c.kept.is_none();
    if flags.json {
        let bytes = cache::list(folder)?.iter().map(|file| file.bytes).sum();
        json(&Answer { folder, bytes, caches: &cleared })?;
    } else {
        let mut out = String::new();
        for Cleared { file, kept, needs_force } in &cleared {
            let _ = match kept {
                None => writeln!(
                    out,
                    "removed {} ({}): {}",
                    plain(&file.name()),
                    text::bytes(file.bytes),
                    plain(&data(file))
                ),
                Some(why) => writeln!(out, "left {}: {}{}", plain(&file.name()), plain(why), force(*needs_force)),
            };
        }
        let bytes = cleared.iter().filter(removed).map(|c| c.file.bytes).sum();
        let _ = match cleared.iter().filter(removed).count() {
            0 => writeln!(out, "nothing was removed from {}", folder.display()),
            n => writeln!(out, "{n} removed, {} freed in {}", text::bytes(bytes), folder.display()),
        };
        screen::tell(&out);
    }
    // Whoever names a file wants that one gone.
    match cleared.iter().find_map(|c| Some((&c.file, c.kept.as_ref()?, c.needs_force))) {
        Some((file, why, needs_force)) if !flags.names.is_empty() => {
            let path = file.path.display().to_string();
            Err(Error::user(format!("{} is not removed: {}{}", plain(&path), plain(why), force(needs_force))))
        }
        _ => Ok(()),
    }
}

/// The flag that removes a file of which it cannot be seen whether it is in use.
fn force(needed: bool) -> &'static str {
    if needed { " (--force)" } else { "" }
}

/// What data it is.
fn data(file: &CacheFile) -> String {
    match (file.state, &file.data) {
        (_, Some(data)) if !data.is_empty() => data.clone(),
        (State::Older, _) => "of an older version, which this one does not use".into(),
        (State::Newer, _) => "of a newer version".into(),
        _ => "of unknown data".into(),
    }
}

/// What it is, and whether it is in use.
fn state(file: &CacheFile) -> String {
    let writer = file.owner.as_ref().map_or("its writer".into(), |o| format!("process {} on {}", o.process, o.host));
    match (file.state, file.in_use) {
        (State::Partial, Some(true)) => format!("partial: {writer} is writing it"),
        (State::Partial, Some(false)) => format!("partial: {writer} is gone"),
        (State::Partial, None) => format!("partial: whether {writer} still writes it cannot be seen from here"),
        (State::Damaged, _) => "damaged: the next run makes it anew".into(),
        (_, Some(true)) => "in use".into(),
        (_, Some(false)) => "not in use".into(),
        (_, None) => "whether it is in use cannot be seen on this file system".into(),
    }
}

/// "3 h 20 min ago", "12 days ago".
fn ago(seconds: u64) -> String {
    match seconds {
        0..60 => "just now".into(),
        60..172_800 => format!("{} ago", text::duration(seconds as f64)),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

/// Without what a terminal would obey: names of files may hold anything.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
