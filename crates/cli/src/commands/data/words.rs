//! What `data info` found, in words.

use paceline::data::Info;
use paceline::data::info::{
    ClassCount, Content, CsvFeatures, CsvInfo, CsvTarget, FeatureInfo, FileInfo, ImageInfo, PartInfo, PhotosInfo,
    RecordsInfo, SetInfo, Spread,
};
use paceline::data::tfrecord::Packing;
use paceline::text::{bytes, counted};
use std::fmt::Write;

/// More classes or files than that are not listed one by one.
const MOST: usize = 40;

/// All of it.
pub(super) fn info(info: &Info) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = match info {
        Info::Set(info) => set(&mut out, info),
        Info::File(info) => file(&mut out, info),
        Info::Records(info) => records(&mut out, info),
        Info::Photos(info) => photos(&mut out, info),
        Info::Csv(info) => csv(&mut out, info),
        Info::Image(info) => image(&mut out, info),
    };
    out
}

fn set(out: &mut String, set: &SetInfo) -> std::fmt::Result {
    writeln!(out, "{} ({})", set.name, set.origin)?;
    if let Some(licence) = &set.licence {
        writeln!(out, "licence: {licence}")?;
    }
    writeln!(out, "samples of shape {:?}, {}", set.shape, counted(set.classes, "class"))?;
    part(out, "training", &set.train)?;
    if let Some(test) = &set.test {
        part(out, "test", test)?;
    }
    for file in &set.files {
        writeln!(out, "{:>10}  {}", bytes(file.bytes), file.path.display())?;
    }
    Ok(())
}

fn part(out: &mut String, name: &str, part: &PartInfo) -> std::fmt::Result {
    let v = &part.values;
    writeln!(
        out,
        "{name}: {}, values {:.3} to {:.3}, mean {:.3}, standard deviation {:.3}",
        counted(part.count, "sample"),
        v.min,
        v.max,
        v.mean,
        v.std
    )?;
    classes(out, &part.classes)
}

fn classes(out: &mut String, classes: &[ClassCount]) -> std::fmt::Result {
    let width = classes.iter().take(MOST).map(|class| class.name.chars().count()).max().unwrap_or(0).clamp(14, 40);
    for class in classes.iter().take(MOST) {
        writeln!(out, "  {:<width$} {:>7}", class.name, class.count)?;
    }
    more(out, classes.len(), "classes")
}

fn more(out: &mut String, all: usize, what: &str) -> std::fmt::Result {
    if all > MOST { writeln!(out, "  … {} more {what}; --json lists all", all - MOST) } else { Ok(()) }
}

fn file(out: &mut String, file: &FileInfo) -> std::fmt::Result {
    let packed = if file.gzip { ", gzip" } else { "" };
    let element = format!("{:?}", file.element).to_lowercase();
    writeln!(out, "{}: IDX of {element} {:?}{packed}", file.file.path.display(), file.dims)?;
    writeln!(out, "{} on disk", bytes(file.file.bytes))?;
    if let Some(v) = &file.values {
        writeln!(out, "values {} to {}, mean {:.3}, standard deviation {:.3}", v.min, v.max, v.mean, v.std)?;
    }
    Ok(())
}

/// "3", or "1–5".
fn span(spread: &Spread) -> String {
    if spread.min == spread.max { spread.min.to_string() } else { format!("{}–{}", spread.min, spread.max) }
}

/// "3.0 KiB", or "1.0 KiB – 5.0 KiB".
fn sizes(spread: &Spread) -> String {
    match (bytes(spread.min), bytes(spread.max)) {
        (min, max) if min == max => min,
        (min, max) => format!("{min} – {max}"),
    }
}

fn records(out: &mut String, info: &RecordsInfo) -> std::fmt::Result {
    let what = match info.content {
        Content::Nothing => "no records",
        Content::Example => "tf.train.Example",
        Content::Sequence => "tf.train.SequenceExample",
        Content::Unknown => "records that are no tf.train.Example",
        Content::Mixed => "records of several kinds",
    };
    writeln!(out, "{}: {what}", info.path.display())?;
    let files = counted(info.files.len(), "file");
    let checked = match (info.verified, info.skipped.is_empty()) {
        (true, true) => "checksums right",
        (true, false) => "checksums checked",
        (false, _) => "checksums of data not checked",
    };
    writeln!(out, "{} in {files}, {} on disk, {checked}", counted(info.records, "record"), bytes(info.bytes))?;
    if info.records > 0 {
        writeln!(out, "records of {}, {} in all", sizes(&info.data), bytes(info.data.sum))?;
    }
    if !info.parts.is_empty() {
        let parts: Vec<String> = info.parts.iter().map(|part| format!("{} {}", part.name, part.count)).collect();
        writeln!(out, "parts, by the names of the files: {}", parts.join(", "))?;
    }
    if let Some(why) = &info.ambiguous {
        writeln!(out, "not for training as it is: {why}")?;
    }
    if let Some(index) = &info.index {
        let parts: Vec<String> = index.parts.iter().map(|part| format!("{} {}", part.name, part.count)).collect();
        writeln!(out, "index: {} images of shape {:?}, {}", index.encoding, index.shape, parts.join(", "))?;
        if index.skipped > 0 {
            writeln!(out, "index: {} inputs were left out when it was made", index.skipped)?;
        }
    }
    if !info.features.is_empty() {
        writeln!(out, "features{}", if info.steps.is_empty() { "" } else { " of the whole sequence" })?;
        features(out, &info.features, info.records)?;
    }
    if !info.steps.is_empty() {
        writeln!(out, "features of the steps")?;
        let width = info.steps.iter().map(|step| step.name.chars().count()).max().unwrap_or(0).clamp(8, 32);
        for step in info.steps.iter().take(MOST) {
            let (kind, steps, values) = (step.kind.name(), span(&step.steps), span(&step.values));
            writeln!(out, "  {:<width$} {kind:<7} {steps} steps, {values} values a record", step.name)?;
        }
        more(out, info.steps.len(), "features")?;
    }
    if let Some(layout) = &info.layout {
        writeln!(out, "for training: {}", layout.words())?;
    }
    if !info.classes.is_empty() {
        writeln!(out, "classes")?;
        classes(out, &info.classes)?;
    }
    for record in &info.first {
        writeln!(out, "{} at byte {}, {}", record.file, record.offset, bytes(record.bytes as u64))?;
        let width = record.features.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).min(32);
        for (name, value) in record.features.iter().take(MOST) {
            writeln!(out, "  {name:<width$} {value}")?;
        }
        more(out, record.features.len(), "features")?;
    }
    if info.files.len() > 1 {
        for file in info.files.iter().take(MOST) {
            let packing = if file.packing == Packing::Plain { "" } else { file.packing.name() };
            let (size, path) = (bytes(file.file.bytes), file.file.path.display());
            writeln!(out, "{size:>10} {:>8} records {packing:<4} {path}", file.records)?;
        }
        more(out, info.files.len(), "files")?;
    } else if let Some(file) = info.files.first()
        && file.packing != Packing::Plain
    {
        writeln!(out, "packed by {}", file.packing.name())?;
    }
    if !info.skipped.is_empty() {
        writeln!(out, "left out {}", counted(info.skipped.len(), "bad record"))?;
        info.skipped.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
    }
    Ok(())
}

fn features(out: &mut String, features: &[FeatureInfo], records: usize) -> std::fmt::Result {
    let width = features.iter().take(MOST).map(|f| f.name.chars().count()).max().unwrap_or(0).clamp(8, 32);
    for feature in features.iter().take(MOST) {
        let shape = format!("[{}]", span(&feature.values));
        let sizes = match &feature.bytes {
            Some(spread) if spread.sum > 0 => format!("of {}, {} in all", sizes(spread), bytes(spread.sum)),
            _ => String::new(),
        };
        let missing = match records - feature.records {
            0 => String::new(),
            n => format!("  (not in {n} records)"),
        };
        let line = format!("  {:<width$} {:<7} {shape:<8} {sizes}{missing}", feature.name, feature.kind.name());
        writeln!(out, "{}", line.trim_end())?;
    }
    more(out, features.len(), "features")
}

fn photos(out: &mut String, info: &PhotosInfo) -> std::fmt::Result {
    writeln!(
        out,
        "{}: {} of {}, {}",
        info.path.display(),
        counted(info.images, "image"),
        counted(info.classes.len(), "class"),
        bytes(info.bytes)
    )?;
    if info.parts.is_empty() {
        classes(out, &info.classes)?;
    }
    for part in &info.parts {
        writeln!(out, "{}: {}", part.role, counted(part.images, "image"))?;
        classes(out, &part.classes)?;
    }
    info.notes.iter().try_for_each(|note| writeln!(out, "{note}"))?;
    if info.unreadable > 0 {
        writeln!(out, "{} cannot be read", counted(info.unreadable, "image"))?;
    }
    for photo in &info.first {
        writeln!(out, "{} ({}): {}", photo.path.display(), photo.class, photo.image)?;
    }
    Ok(())
}

fn csv(out: &mut String, info: &CsvInfo) -> std::fmt::Result {
    writeln!(out, "{}: a csv of values", info.path.display())?;
    for part in &info.parts {
        writeln!(out, "{}: {}", part.role, counted(part.rows, "row"))?;
        match &part.features {
            CsvFeatures::Dense { columns, values: v } => writeln!(
                out,
                "  features: dense [{columns}], values {} to {}, mean {:.3}, standard deviation {:.3}",
                v.min as f32, v.max as f32, v.mean, v.std
            )?,
            CsvFeatures::Lists { shortest, mean, longest, largest } => {
                let largest = largest.map_or("no index".into(), |largest| format!("largest index {largest}"));
                writeln!(out, "  features: lists, shortest {shortest}, mean {mean:.1}, longest {longest}, {largest}")?;
            }
        }
        for target in &part.targets {
            match target {
                CsvTarget::Numbers { name, values: v } => {
                    writeln!(
                        out,
                        "  target {name}: numbers, {} to {}, mean {:.3}",
                        v.min as f32, v.max as f32, v.mean
                    )?;
                }
                CsvTarget::Classes { name, classes: list } => {
                    writeln!(out, "  target {name}: {}", counted(list.len(), "class"))?;
                    classes(out, list)?;
                }
            }
        }
    }
    info.notes.iter().try_for_each(|note| writeln!(out, "{note}"))?;
    for file in &info.files {
        writeln!(out, "{:>10}  {}", bytes(file.bytes), file.path.display())?;
    }
    Ok(())
}

fn image(out: &mut String, info: &ImageInfo) -> std::fmt::Result {
    writeln!(out, "{}: {}, {}", info.path.display(), info.words, bytes(info.bytes))
}
