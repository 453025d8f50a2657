//! `paceline data list | get | info`

use crate::flags::{Data, DataCommand};
use crate::screen::{self, say};
use indicatif::{ProgressBar, ProgressStyle};
use paceline::data::info::PartInfo;
use paceline::data::{Catalogue, Info};
use paceline::{Error, Result};
use std::fmt::Write;

/// Runs the command.
pub fn run(flags: &Data) -> Result<()> {
    let catalogue = Catalogue::from_env();
    match &flags.command {
        DataCommand::List { json } => list(&catalogue, *json),
        DataCommand::Get { name, from, url } => get(&catalogue, name, from.as_deref(), url.as_deref()),
        DataCommand::Info { what, json } => info(&catalogue, what, *json),
    }
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
    let mut out = String::new();
    for e in &entries {
        let _ = writeln!(out, "{:<15} {}", e.name, e.description);
        let counts = format!("{} training and {} test samples", e.train, e.test);
        let place = match (e.present, &e.place) {
            (true, place) => format!("present: {place}"),
            (false, _) => format!("not here: paceline data get {}", e.name),
        };
        let _ = writeln!(out, "{:<15} {counts}; licence {}; {place}", "", e.licence);
    }
    screen::print(&out);
    Ok(())
}

fn get(catalogue: &Catalogue, name: &str, from: Option<&std::path::Path>, url: Option<&str>) -> Result<()> {
    let bar = ProgressBar::new(0);
    if let Ok(style) =
        ProgressStyle::with_template("{msg} {bar:30} {bytes}/{total_bytes} {binary_bytes_per_sec} eta {eta}")
    {
        bar.set_style(style);
    }
    let got = catalogue.get(name, from, url, &mut |p| {
        bar.set_length(p.total);
        bar.set_position(p.done);
        bar.set_message(p.file.to_string());
    })?;
    bar.finish_and_clear();
    match got.from {
        None => say!("{name} is already in {} and its digests are right", got.folder.display()),
        Some(from) => {
            say!("{name}: {} from {from} to {}, digests right", paceline::text::bytes(got.bytes), got.folder.display())
        }
    }
    Ok(())
}

fn part(out: &mut String, name: &str, part: &PartInfo) {
    let v = &part.values;
    let _ = writeln!(
        out,
        "{name}: {} samples, values {:.3} to {:.3}, mean {:.3}, standard deviation {:.3}",
        part.count, v.min, v.max, v.mean, v.std
    );
    for class in &part.classes {
        let _ = writeln!(out, "  {:<14} {:>7}", class.name, class.count);
    }
}

fn info(catalogue: &Catalogue, what: &str, as_json: bool) -> Result<()> {
    let info = catalogue.info(what)?;
    if as_json {
        return json(&info);
    }
    let mut out = String::new();
    match &info {
        Info::Set(set) => {
            let _ = writeln!(out, "{} ({})", set.name, set.origin);
            if let Some(licence) = &set.licence {
                let _ = writeln!(out, "licence: {licence}");
            }
            let _ = writeln!(out, "samples of shape {:?}, {} classes", set.shape, set.classes);
            part(&mut out, "training", &set.train);
            if let Some(test) = &set.test {
                part(&mut out, "test", test);
            }
            for file in &set.files {
                let _ = writeln!(out, "{:>10}  {}", paceline::text::bytes(file.bytes), file.path.display());
            }
        }
        Info::File(file) => {
            let packed = if file.gzip { ", gzip" } else { "" };
            let _ = writeln!(
                out,
                "{}: IDX of {} {:?}{packed}",
                file.file.path.display(),
                format!("{:?}", file.element).to_lowercase(),
                file.dims
            );
            let _ = writeln!(out, "{} on disk", paceline::text::bytes(file.file.bytes));
            if let Some(v) = &file.values {
                let _ =
                    writeln!(out, "values {} to {}, mean {:.3}, standard deviation {:.3}", v.min, v.max, v.mean, v.std);
            }
        }
    }
    screen::print(&out);
    Ok(())
}
