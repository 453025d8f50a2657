//! Sets of images that are decoded as they are read: record shards and image files.

use super::{DataSet, Options};
use crate::photos::{Listing, Photos};
use crate::shards::{INDEX, Index, Records, ShardOptions, record_files};
use crate::tfrecord::Memory;
use crate::{DataError, DataPart, FileImages, Labelled, RecordImages, Result, Role, ShardError, Source, Subset};
use std::path::Path;
use std::sync::Arc;

/// Whether a folder holds shards.
pub(super) fn is_shards(folder: &Path) -> bool {
    folder.join(INDEX).is_file() || record_files(folder).is_ok()
}

/// Opens shards: by the parts of their index, or else by those that the names of the files say; without either all of
/// them are to train on.
pub(super) fn open_shards(name: &str, path: &Path, options: &Options) -> Result<DataSet> {
    let index = if path.is_dir() { Index::read(path)? } else { None };
    let memory = Arc::new(Memory::up_to(options.records_memory()));
    let mut skipped = Vec::new();
    let mut open = |part: Option<&str>| -> Result<Records> {
        let part = part.map(String::from);
        let skip_bad = options.skip_bad - skipped.len();
        let open = ShardOptions {
            part,
            verify: options.verify,
            skip_bad,
            memory: memory.clone(),
            names: options.names.clone(),
            ..ShardOptions::default()
        };
        let records = open.records(path)?;
        skipped.extend(records.skipped().list().iter().cloned());
        Ok(records)
    };
    let images = |records| Ok::<_, DataError>(Arc::new(RecordImages::new(records, options.size, options.fit)?));
    let Some(index) = index else {
        let records = open(None)?;
        let parts = if path.is_dir() { records.parts() } else { Vec::new() };
        check_parts(path, &records, &parts)?;
        let all: Arc<dyn Source> = images(records)?;
        let part = |role: Role| -> Result<Option<DataPart>> {
            let range = parts.iter().find(|(found, _)| *found == role).map(|(_, range)| range.clone());
            range.map(|range| Ok(DataPart::Stream(Arc::new(Subset::range(all.clone(), range)?)))).transpose()
        };
        let alone = parts.len() < 2;
        let train = if alone { None } else { part(Role::Train)? };
        let train = train.unwrap_or_else(|| DataPart::Stream(all.clone()));
        let (validation, test) = (part(Role::Validation)?, part(Role::Test)?);
        let notes = match alone {
            true => Vec::new(),
            false => {
                let parts: Vec<String> = parts.iter().map(|(role, range)| format!("{} {role}", range.len())).collect();
                vec![format!("the shards are in parts by their names: {}", parts.join(", "))]
            }
        };
        return Ok(DataSet { validation, test, notes, skipped, ..set(name, train, path) });
    };
    let has = |part: &str| index.parts().contains(&part);
    let mut part = |part: &str| -> Result<DataPart> { Ok(DataPart::Stream(images(open(Some(part))?)?)) };
    if !has("train") {
        let train = DataPart::Stream(images(open(None)?)?);
        return Ok(DataSet { skipped, ..set(name, train, path) });
    }
    let train = part("train")?;
    let validation = has("validation").then(|| part("validation")).transpose()?;
    let test = has("test").then(|| part("test")).transpose()?;
    Ok(DataSet { validation, test, skipped, ..set(name, train, path) })
}

/// There must be something to train on, and every class that is validated or tested on must be learned.
fn check_parts(path: &Path, records: &Records, parts: &[(Role, std::ops::Range<usize>)]) -> Result<()> {
    let place = || path.display().to_string();
    let Some((first, training)) = parts.first() else { return Ok(()) };
    if *first != Role::Train {
        let names: Vec<&str> = parts.iter().map(|(role, _)| role.name()).collect();
        return Err(ShardError::NoTraining { path: place(), parts: names.join(" and ") }.into());
    }
    let mut learned = vec![false; records.class_names().len()];
    training.clone().for_each(|index| learned[records.label(index) as usize] = true);
    for (role, range) in &parts[1..] {
        if let Some(index) = range.clone().find(|&index| !learned[records.label(index) as usize]) {
            let class = records.class_names()[records.label(index) as usize].clone();
            return Err(ShardError::ExtraClass { path: place(), part: role.name(), class }.into());
        }
    }
    Ok(())
}

/// Opens image files: all parts of the shape that the training part has.
pub(super) fn open_photos(name: &str, path: &Path, options: &Options) -> Result<DataSet> {
    let listing = Listing::of(path)?;
    let notes = listing.notes();
    let Listing { train, validation, test, .. } = listing;
    let train = FileImages::new(train, options.size, options.fit)?;
    let (shape, fit) = (train.shape().to_vec(), options.size.map(|_| options.fit));
    let part = |photos: Photos| -> DataPart {
        DataPart::Stream(Arc::new(FileImages::shaped(photos, [shape[0], shape[1], shape[2]], fit)))
    };
    let (validation, test) = (validation.map(part), test.map(part));
    Ok(DataSet { validation, test, notes, ..set(name, DataPart::Stream(Arc::new(train)), path) })
}

fn set(name: &str, train: DataPart, path: &Path) -> DataSet {
    super::data_set(name, train, None, path.display().to_string(), None)
}
