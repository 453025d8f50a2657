//! `paceline data list | get | info | cache`

mod cache;
mod words;

use crate::flags::{Data, DataCommand};
use crate::screen::{self, say};
use indicatif::{ProgressBar, ProgressStyle};
use paceline::base::layout;
use paceline::data::csv::TargetOptions;
use paceline::data::info::InfoOptions;
use paceline::data::{Catalogue, DataError, ShardError};
use paceline::{Error, Result};
use std::path::Path;

/// Runs the command.
pub(crate) fn run(flags: &Data) -> Result<()> {
    let catalogue = Catalogue::from_env();
    match &flags.command {
        DataCommand::List { json } => list(&catalogue, *json),
        DataCommand::Get { name, from, url } => get(&catalogue, name, from.as_deref(), url.as_deref()),
        DataCommand::Info { what, first, png, no_verify, target, targets, skip_bad, json } => {
            let targets = TargetOptions { columns: target.clone(), are: *targets };
            let look = InfoOptions { first: *first, verify: !no_verify, skip_bad: *skip_bad, targets };
            info(&catalogue, what, &look, png.as_deref(), *json)
        }
        DataCommand::Cache(flags) => cache::run(&catalogue, flags),
    }
}

/// What the catalogue says, with the flags that do what it advises.
fn with_flags(error: DataError) -> Error {
    use ShardError::{Class, ClassName, MissingClass, MissingImage, RawSize};
    let flags = match &error {
        DataError::Unreachable { .. } | DataError::NotPlainHttp { .. } => " (--from DIR)",
        DataError::HttpStatus { .. } => " (--url URL, --from DIR)",
        DataError::NoPictures { .. } => ", or leave out --png",
        DataError::Record(_)
        | DataError::Example { .. }
        | DataError::Shards(
            MissingImage { .. } | MissingClass { .. } | Class { .. } | ClassName { .. } | RawSize { .. },
        ) => " (here --skip-bad N)",
        _ => "",
    };
    let error = Error::from(error);
    let words = format!("{}{flags}", error.message());
    error.with_message(words)
}

fn json<T: serde::Serialize>(value: &T) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Error::internal(e.to_string()))?;
    screen::print(&text);
    Ok(())
}

fn list(catalogue: &Catalogue, as_json: bool) -> Result<()> {
    let entries = catalogue.list();
    if as_json {
        return json(&entries);
    }
    let width = screen::known_width().unwrap_or(usize::MAX);
    let mut out = String::new();
    for e in &entries {
        out += &layout::hanging(&format!("{:<15} ", e.name), &e.description, width);
        let counts = format!("{} training and {} test samples", e.train, e.test);
        let place = match (e.present, &e.place) {
            (true, place) => format!("present: {place}"),
            (false, _) => format!("not here: paceline data get {}", e.name),
        };
        out += &layout::hanging(&" ".repeat(16), &format!("{counts}; licence {}; {place}", e.licence), width);
    }
    screen::print(&out);
    Ok(())
}

fn get(catalogue: &Catalogue, name: &str, from: Option<&Path>, url: Option<&str>) -> Result<()> {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec}") {
        bar.set_style(style);
    }
    let got = catalogue.get(name, from, url, &mut |p| {
        bar.set_length(p.total);
        bar.set_position(p.done);
        bar.set_message(p.file.to_string());
    });
    let got = got.map_err(with_flags)?;
    bar.finish_and_clear();
    match got.from {
        None => say!("{name} is already in {} and its digests are right", got.folder.display()),
        Some(from) => {
            say!("{name}: {} from {from} to {}, digests right", paceline::text::bytes(got.bytes), got.folder.display())
        }
    }
    Ok(())
}

fn info(catalogue: &Catalogue, what: &str, look: &InfoOptions, png: Option<&Path>, as_json: bool) -> Result<()> {
    let info = catalogue.look(what, look).map_err(with_flags)?;
    if as_json {
        json(&info)?;
    } else {
        screen::tell(&words::info(&info));
    }
    if let Some(folder) = png {
        let saved = catalogue.save_images(what, look, folder).map_err(with_flags)?;
        // With --json the answer alone goes to standard output.
        if !as_json {
            saved.skipped.iter().for_each(|why| say!("passed over: {why}"));
            say!("wrote {} to {}", paceline::text::counted(saved.files.len(), "image"), folder.display());
        }
    }
    Ok(())
}
