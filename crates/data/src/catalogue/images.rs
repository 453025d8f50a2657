//! Sets of images that are decoded as they are read: record shards and image files.

use super::{DataSet, Options};
use crate::photos::Photos;
use crate::shards::{INDEX, Index, Open, record_files};
use crate::{FileImages, Part, RecordImages, Result};
use std::path::Path;
use std::sync::Arc;

/// Whether a folder holds shards.
pub(super) fn is_shards(folder: &Path) -> bool {
    folder.join(INDEX).is_file() || record_files(folder).is_ok()
}

/// Whether a folder may hold images: it has folders in it, or images.
pub(super) fn is_photos(folder: &Path) -> bool {
    let image = |path: &Path| {
        path.extension()
            .and_then(|e| e.to_str())
            .is_some_and(|e| ["jpg", "jpeg", "png"].iter().any(|known| e.eq_ignore_ascii_case(known)))
    };
    std::fs::read_dir(folder)
        .is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(|e| e.path().is_dir() || image(&e.path()))))
}

/// Opens shards: with an index by its parts, without one all of them as the training part.
pub(super) fn open_shards(name: &str, path: &Path, options: &Options) -> Result<DataSet> {
    let index = if path.is_dir() { Index::read(path)? } else { None };
    let parts: Vec<String> = index.iter().flat_map(|index| index.parts()).map(String::from).collect();
    let has = |part: &str| parts.iter().any(|p| p == part);
    let mut skipped = Vec::new();
    let mut open = |part: Option<&str>| -> Result<Part> {
        let part = part.map(String::from);
        let left = options.skip_bad - skipped.len();
        let records = Open { part, verify: options.verify, skip_bad: left, ..Open::default() }.records(path)?;
        skipped.extend(records.skipped().list().iter().cloned());
        Ok(Part::Stream(Arc::new(RecordImages::new(records, options.size, options.fit)?)))
    };
    let train = open(has("train").then_some("train"))?;
    let validation = (has("train") && has("validation")).then(|| open(Some("validation"))).transpose()?;
    let set = set(name, train, path);
    Ok(DataSet { validation, skipped, ..set })
}

/// Opens image files.
pub(super) fn open_photos(name: &str, path: &Path, options: &Options) -> Result<DataSet> {
    let images = FileImages::new(Photos::list(path)?, options.size, options.fit)?;
    Ok(set(name, Part::Stream(Arc::new(images)), path))
}

fn set(name: &str, train: Part, path: &Path) -> DataSet {
    super::data_set(name, train, None, path.display().to_string(), None)
}
