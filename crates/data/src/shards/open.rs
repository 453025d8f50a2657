//! Opening shards: every record is looked at once, by as many threads as there are cores, a file at a time.
//!
//! 1. Which files: those of the index, of the folder, or the one given. Sizes must be those of the index.
//! 2. The layout: of the first record that has an image.
//! 3. Each file: where its records are, checksums, and of each record the class and the place of its image.
//! 4. Put together in the order of the files, so that neither the result nor an error depends on the threads.

use super::layout::{FeatureNames, Layout};
use super::numbers::{self, Range};
use super::records::{Records, ShardFile, place};
use super::{Encoding, Index, by_part, record_files};
use crate::example::Example;
use crate::tfrecord::{File, Limits, Memory, Reader};
use crate::{DataError, RecordError, Result, Role, ShardError, Skipped, UNLABELLED};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A class is below this: names of classes are kept in memory.
const MAX_CLASSES: usize = 1 << 20;

/// How to open shards.
#[derive(Clone, Debug)]
pub(crate) struct ShardOptions {
    /// `train`, `validation` or `test`, by the index or by the names of the files; all where none.
    pub part: Option<String>,
    /// Check the checksums of the data.
    pub verify: bool,
    /// How many bad records may be left out.
    pub skip_bad: usize,
    /// Records are only to be looked at, not to be trained on: bad ones keep their place, however many there
    /// are, and those without a class are [`UNLABELLED`].
    pub lenient: bool,
    /// Compare the files with the digests of the index.
    pub digests: bool,
    /// What is refused before memory is taken for it.
    pub limits: Limits,
    /// What all parts of the set may take together.
    pub memory: Arc<Memory>,
    /// Features that hold the image and the class, where the usual names do not do.
    pub names: FeatureNames,
}

impl Default for ShardOptions {
    fn default() -> Self {
        Self {
            part: None,
            verify: true,
            skip_bad: 0,
            lenient: false,
            digests: false,
            limits: Limits::default(),
            memory: Arc::default(),
            names: FeatureNames::default(),
        }
    }
}

impl ShardOptions {
    /// Opens a folder of shards or one file of records.
    ///
    /// # Errors
    /// [`DataError::Io`], [`DataError::Record`], [`DataError::Example`], [`DataError::Shards`]: with file and offset.
    pub(crate) fn records(&self, path: &Path) -> Result<Records> {
        let index = if path.is_dir() { Index::read(path)? } else { None };
        let files = self.files(path, index.as_ref())?;
        let layout = self.layout(path, index.as_ref(), &files)?;
        let looker = FileScanner { open: self, index: index.as_ref(), layout: &layout };

        let slots: Vec<Mutex<Option<Result<ScannedFile>>>> = files.iter().map(|_| Mutex::new(None)).collect();
        let next = AtomicUsize::new(0);
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(files.len());
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some((file, slot)) = at(&files, &slots, next.fetch_add(1, Ordering::Relaxed)) {
                        let looked = looker.scan(path, file);
                        let failed = looked.is_err();
                        *slot.lock().unwrap_or_else(|e| e.into_inner()) = Some(looked);
                        if failed {
                            // Nobody takes another file; those before this one are taken already.
                            next.store(files.len(), Ordering::Relaxed);
                        }
                    }
                });
            }
        });

        let mut skipped = Skipped::up_to(self.skip_bad);
        let mut all = Vec::with_capacity(files.len());
        for slot in slots {
            // A file without a result comes after one that failed.
            let Some(looked) = slot.into_inner().unwrap_or_else(|e| e.into_inner()) else { break };
            let mut looked = looked?;
            std::mem::take(&mut looked.bad).into_iter().try_for_each(|error| skipped.skip(error))?;
            all.push(looked);
        }
        let classes = match &index {
            Some(index) => index.classes.clone(),
            None => join_classes(&mut all, &layout)?,
        };
        let range = all.iter().fold(Range::default(), |range, looked| range.join(looked.range));
        let scale = match layout.encoding {
            Encoding::Numbers(_) => Some(range.scale().ok_or_else(|| ShardError::Numbers {
                path: path.display().to_string(),
                feature: layout.image.clone(),
                range: format!("{} to {}", range.least, range.most),
            })?),
            _ => None,
        };
        let (mut first, mut bad) = (0, BTreeMap::new());
        let files: Vec<ShardFile> = all
            .into_iter()
            .map(|looked| {
                bad.extend(looked.kept.iter().map(|(local, error)| (first + local, error.to_string())));
                let shelf = ShardFile { first, file: looked.file, images: looked.images, labels: looked.labels };
                first += shelf.labels.len();
                shelf
            })
            .collect();
        if first == 0 {
            return Err(ShardError::Empty { path: path.display().to_string(), files: files.len() }.into());
        }
        let digests = index.iter().flat_map(|index| &index.shards).filter(|shard| self.wants(&shard.part));
        let digests = digests.map(|shard| shard.sha256.clone()).collect();
        Ok(Records { digests, index, layout, files, classes, skipped, verified: self.verify, scale, bad })
    }

    fn wants(&self, part: &str) -> bool {
        self.part.as_deref().is_none_or(|wanted| wanted == part)
    }

    /// The files, with the number of records that the index promises.
    fn files(&self, path: &Path, index: Option<&Index>) -> Result<Vec<(PathBuf, Option<usize>)>> {
        let shown = || path.display().to_string();
        let no_part = |part: &str, known: String| ShardError::NoPart { path: shown(), part: part.into(), known };
        let Some(index) = index else {
            if !path.is_dir() {
                return match self.part.as_deref() {
                    None | Some("train") => Ok(vec![(path.to_path_buf(), None)]),
                    Some(part) => Err(no_part(part, "one file, which is all `train`".into()).into()),
                };
            }
            let by_part = by_part(path, record_files(path)?)?;
            let wanted =
                |role: Option<Role>| self.part.as_deref().is_none_or(|part| part == role.unwrap_or(Role::Train).name());
            let files: Vec<_> =
                by_part.iter().filter(|(role, _)| wanted(*role)).map(|(_, f)| (f.clone(), None)).collect();
            return match (&self.part, files.is_empty()) {
                (Some(part), true) => {
                    let mut known: Vec<&str> = by_part.iter().map(|(r, _)| r.unwrap_or(Role::Train).name()).collect();
                    known.dedup();
                    Err(no_part(part, format!("{} (no index.json, so by names)", known.join(", "))).into())
                }
                _ => Ok(files),
            };
        };
        let mut files = Vec::new();
        for shard in index.shards.iter().filter(|shard| self.wants(&shard.part)) {
            let file = path.join(&shard.file);
            let found = std::fs::metadata(&file).map_err(DataError::io("read", &file))?.len();
            if found != shard.bytes && !self.lenient {
                let path = file.display().to_string();
                return Err(ShardError::Size { path, expected: shard.bytes, found }.into());
            }
            files.push((file, Some(shard.records)));
        }
        match (files.is_empty(), &self.part) {
            (false, _) => Ok(files),
            (true, None) => Err(ShardError::NoShards { path: shown() }.into()),
            (true, Some(part)) => Err(no_part(part, index.parts().join(", ")).into()),
        }
    }

    /// The layout of the first record that has an image.
    fn layout(&self, path: &Path, index: Option<&Index>, files: &[(PathBuf, Option<usize>)]) -> Result<Layout> {
        let passes_over = self.skip_bad > 0 || self.lenient;
        let mut wrong: Option<DataError> = None;
        let mut record = Vec::new();
        for (file, _) in files {
            let name = file.display().to_string();
            let input = crate::open_regular(file).map_err(DataError::io("read", file))?;
            let mut reader = Reader::with_limits(input, &name, self.verify, self.limits)?;
            loop {
                let error = match reader.next(&mut record) {
                    Ok(None) => break,
                    Ok(Some(offset)) => {
                        let place = || format!("{name} record at byte {offset}");
                        match Example::parse(&record) {
                            Err(error) => error.at(place()),
                            Ok(example) => match Layout::of(&example, &self.names) {
                                Some(layout) => return Ok(with_index(layout, index)),
                                None => {
                                    let known = match example.features().map(|f| f.name()).collect::<Vec<_>>() {
                                        names if names.is_empty() => "it has none".to_string(),
                                        names => names.join(", "),
                                    };
                                    let FeatureNames { image, label } = &self.names;
                                    let own = [image, label].into_iter().flatten().cloned().collect::<Vec<_>>();
                                    match own.is_empty() {
                                        true => ShardError::NoImage { place: place(), known }.into(),
                                        false => {
                                            let wanted = own.join("` and `");
                                            ShardError::NoSuchFeatures { place: place(), wanted, known }.into()
                                        }
                                    }
                                }
                            },
                        }
                    }
                    Err(error) => {
                        let goes_on = matches!(error, DataError::Record(RecordError::DataChecksum { .. }));
                        if !goes_on && passes_over {
                            wrong.get_or_insert(error);
                            break;
                        }
                        error
                    }
                };
                if !passes_over {
                    return Err(error);
                }
                wrong.get_or_insert(error);
            }
        }
        Err(wrong.unwrap_or(ShardError::Empty { path: path.display().to_string(), files: files.len() }.into()))
    }
}

/// What the index says of the encoding counts.
pub(crate) fn with_index(mut layout: Layout, index: Option<&Index>) -> Layout {
    if let Some(index) = index {
        layout.encoding = if index.encoding == "raw" { Encoding::Raw(index.shape) } else { Encoding::File };
    }
    layout
}

type Slot = Mutex<Option<Result<ScannedFile>>>;

fn at<'a>(
    files: &'a [(PathBuf, Option<usize>)],
    slots: &'a [Slot],
    index: usize,
) -> Option<(&'a (PathBuf, Option<usize>), &'a Slot)> {
    files.get(index).zip(slots.get(index))
}

/// What was found in a file.
struct ScannedFile {
    file: File,
    images: Vec<(u32, u32)>,
    labels: Vec<u32>,
    /// Names by the number in `labels`, where there is no index, with a record that has it.
    names: BTreeMap<u32, (String, usize)>,
    bad: Vec<DataError>,
    /// Of images that are numbers.
    range: Range,
    /// Bad records that keep their place, by their number in the file.
    kept: BTreeMap<usize, DataError>,
}

struct FileScanner<'a> {
    open: &'a ShardOptions,
    index: Option<&'a Index>,
    layout: &'a Layout,
}

impl FileScanner<'_> {
    fn scan(&self, folder: &Path, (path, promised): &(PathBuf, Option<usize>)) -> Result<ScannedFile> {
        if self.open.digests
            && let Some(shard) = self.index.and_then(|i| i.shards.iter().find(|s| folder.join(&s.file) == *path))
        {
            shard.check_digest(folder)?;
        }
        if self.open.lenient {
            return self.scan_leniently(path);
        }
        let limit = self.open.skip_bad;
        let mut bad = Vec::new();
        // More than the limit are an error in any case: no need to find them all.
        let mut leave_out = |error: DataError| -> Result<()> {
            if bad.len() >= limit {
                return Err(error);
            }
            bad.push(error);
            Ok(())
        };
        let skipping = (limit > 0).then_some(&mut leave_out as &mut dyn FnMut(DataError) -> Result<()>);
        let mut file = File::open_within(path, self.open.verify, &self.open.limits, &self.open.memory, skipping)?;
        if let Some(expected) = *promised
            && bad.is_empty()
            && file.len() != expected
        {
            let (path, found) = (path.display().to_string(), file.len());
            return Err(ShardError::Count { path, expected, found }.into());
        }

        let (mut names, mut range) = (ClassNames::default(), Range::default());
        let (mut images, mut labels) = (Vec::with_capacity(file.len()), Vec::with_capacity(file.len()));
        let mut left_out = Vec::new();
        for local in 0..file.len() {
            match self.record(&file, local, images.len(), &mut names, &mut range) {
                Ok((image, label)) => {
                    images.push(image);
                    labels.push(label);
                }
                Err(error) if bad.len() < limit => {
                    bad.push(error);
                    left_out.push(local);
                }
                Err(error) => return Err(error),
            }
        }
        if !left_out.is_empty() {
            file.retain(|local| left_out.binary_search(&local).is_err());
        }
        let names = names.list;
        Ok(ScannedFile { file, images, labels, names, bad, range, kept: BTreeMap::new() })
    }

    /// The same, with all records in their place.
    fn scan_leniently(&self, path: &Path) -> Result<ScannedFile> {
        let ShardOptions { verify, limits, memory, .. } = self.open;
        let (file, mut kept) = File::open_keeping(path, *verify, limits, memory)?;
        let (mut names, mut range) = (ClassNames::default(), Range::default());
        let (mut images, mut labels) = (Vec::with_capacity(file.len()), Vec::with_capacity(file.len()));
        for local in 0..file.len() {
            let found = match kept.contains_key(&local) {
                true => ((0, 0), UNLABELLED),
                false => self.record(&file, local, local, &mut names, &mut range).unwrap_or_else(|error| {
                    kept.insert(local, error);
                    ((0, 0), UNLABELLED)
                }),
            };
            images.push(found.0);
            labels.push(found.1);
        }
        Ok(ScannedFile { file, images, labels, names: names.list, bad: Vec::new(), range, kept })
    }

    /// The place of the image and the class of a record; `number` is its number if it is good.
    fn record(
        &self,
        file: &File,
        local: usize,
        number: usize,
        names: &mut ClassNames,
        range: &mut Range,
    ) -> Result<((u32, u32), u32)> {
        let (record, layout) = (file.get(local), self.layout);
        let place = || place(file, local);
        let example = Example::parse(record).map_err(|error| error.at(place()))?;
        let missing = || ShardError::MissingImage { place: place(), feature: layout.image.clone() };
        let image = match layout.encoding {
            Encoding::Numbers(shape) => {
                let numbers = example.feature(&layout.image).filter(|f| !f.is_empty()).ok_or_else(missing)?;
                let expected = shape.iter().product();
                if numbers.len() != expected {
                    return Err(ShardError::RawSize { place: place(), shape, expected, found: numbers.len() }.into());
                }
                let seen = Range::of(&numbers)
                    .ok_or_else(|| ShardError::NotFinite { place: place(), feature: layout.image.clone() })?;
                *range = range.join(seen);
                record // the list may be in pieces: it is read from the record
            }
            _ => example.bytes(&layout.image).ok_or_else(missing)?,
        };
        // The image lies in the record: its place is the distance of their beginnings.
        let start = image.as_ptr() as usize - record.as_ptr() as usize;
        let (Ok(start), Ok(length)) = (u32::try_from(start), u32::try_from(image.len())) else {
            let (length, limit) = (record.len() as u64, u64::from(u32::MAX));
            let (file, offset) = (file.contents().name().to_string(), file.offset(local));
            return Err(RecordError::TooLong { file, offset, length, limit }.into());
        };
        if let Encoding::Raw(shape) = layout.encoding {
            let expected = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).unwrap_or(usize::MAX);
            if image.len() != expected {
                return Err(ShardError::RawSize { place: place(), shape, expected, found: image.len() }.into());
            }
        }

        let name = layout.name.as_ref().and_then(|name| example.bytes(name));
        let name = name.map(std::str::from_utf8).transpose().map_err(|_| ShardError::ClassName { place: place() })?;
        let class = match (&layout.class, layout.one_hot) {
            (Some(class), Some(_)) => {
                let place = numbers::one_hot(&example, class);
                Some(i64::from(place.ok_or_else(|| ShardError::OneHot {
                    place: super::records::place(file, local),
                    feature: class.clone(),
                })?))
            }
            (Some(class), None) => example.int(class),
            (None, _) => None,
        };
        let max = self.index.map_or(MAX_CLASSES, |index| index.classes.len()).saturating_sub(1);
        let label = match (class, name, self.index) {
            (Some(class), name, index) => {
                let label = u32::try_from(class).ok().filter(|&label| label as usize <= max);
                let label = label.ok_or_else(|| ShardError::Class { place: place(), class, max })?;
                if let (Some(name), None) = (name, index) {
                    names.learn(label, name, number, place)?;
                }
                label
            }
            (None, Some(name), Some(index)) if layout.class.is_none() => {
                let found = index.classes.iter().position(|known| known == name);
                found.ok_or_else(|| ShardError::MissingClass {
                    place: place(),
                    wanted: format!("`{name}` is not a class of the index"),
                })? as u32
            }
            (None, Some(name), None) if layout.class.is_none() => names.number(name, number, place)?,
            _ if self.open.lenient => UNLABELLED,
            _ => {
                let wanted = match (&layout.class, &layout.name) {
                    (Some(class), _) => format!("feature `{class}` is missing"),
                    (None, Some(name)) => format!("feature `{name}` is missing"),
                    (None, None) => "neither `class` nor `label` nor a like feature is there".into(),
                };
                return Err(ShardError::MissingClass { place: place(), wanted }.into());
            }
        };
        Ok(((start, length), label))
    }
}

/// The names of classes seen so far in a file.
#[derive(Default)]
struct ClassNames {
    list: BTreeMap<u32, (String, usize)>,
    numbers: BTreeMap<String, u32>,
}

impl ClassNames {
    /// The name of a class that has a number.
    fn learn(&mut self, label: u32, name: &str, record: usize, place: impl Fn() -> String) -> Result<()> {
        match self.list.get(&label) {
            Some((known, _)) if known == name => Ok(()),
            Some((other, _)) => {
                let (name, other) = (name.to_string(), other.clone());
                Err(ShardError::Names { place: place(), class: label, name, other }.into())
            }
            None => {
                self.list.insert(label, (name.to_string(), record));
                Ok(())
            }
        }
    }

    /// The number of a class that only has a name: for this file, in order of appearance.
    fn number(&mut self, name: &str, record: usize, place: impl Fn() -> String) -> Result<u32> {
        if let Some(&number) = self.numbers.get(name) {
            return Ok(number);
        }
        let number = self.list.len();
        if number == MAX_CLASSES {
            return Err(ShardError::Class { place: place(), class: number as i64, max: MAX_CLASSES - 1 }.into());
        }
        self.list.insert(number as u32, (name.to_string(), record));
        self.numbers.insert(name.to_string(), number as u32);
        Ok(number as u32)
    }
}

/// The classes of all files. Where they have numbers, names must agree between files, and a number without a name is
/// called by its number. Where they only have names, these are sorted and numbered.
fn join_classes(files: &mut [ScannedFile], layout: &Layout) -> Result<Vec<String>> {
    if layout.class.is_none() {
        let mut names: Vec<String> =
            files.iter().flat_map(|f| f.names.values().map(|(name, _)| name.clone())).collect();
        names.sort();
        names.dedup();
        for file in files {
            // Every name is in the list that was made of them.
            let place: Vec<u32> =
                file.names.values().map(|(name, _)| names.binary_search(name).unwrap_or_default() as u32).collect();
            let labelled = file.labels.iter_mut().filter(|label| **label != UNLABELLED);
            labelled.for_each(|label| *label = place[*label as usize]);
        }
        return Ok(names);
    }
    let mut known: BTreeMap<u32, &str> = BTreeMap::new();
    for file in files.iter() {
        for (&class, (name, record)) in &file.names {
            let other = known.entry(class).or_insert(name);
            if *other != name {
                let (place, name, other) = (place(&file.file, *record), name.clone(), other.to_string());
                return Err(ShardError::Names { place, class, name, other }.into());
            }
        }
    }
    let labels = files.iter().flat_map(|file| &file.labels).filter(|&&label| label != UNLABELLED);
    let classes = labels.max().map_or(0, |&label| label as usize + 1);
    let classes = classes.max(layout.one_hot.unwrap_or(0));
    Ok((0..classes as u32).map(|class| known.get(&class).map_or(class.to_string(), |name| name.to_string())).collect())
}
