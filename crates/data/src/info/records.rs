//! What is in files of records: one pass over every record, in memory that does not grow with their number.

use super::{ClassCount, DiskFile, InfoOptions, disk_file, shown};
use crate::example::{Example, Feature, FeatureKind, Sequence};
use crate::shards::one_hot;
use crate::shards::{Encoding, FeatureNames, Index, Layout, Range, by_part, record_files};
use crate::tfrecord::{Contents, Limits, Packing};
use crate::{Result, Skipped};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// More names than that are counted, not listed: a hostile file could have one for every record.
const MAX_NAMES: usize = 4096;

/// Files of records.
#[derive(Clone, Debug, Serialize)]
pub struct RecordsInfo {
    /// The folder or file.
    pub path: PathBuf,
    /// What the records hold.
    pub content: Content,
    /// How many records.
    pub records: usize,
    /// Bytes of the files, packed as they are.
    pub bytes: u64,
    /// Bytes of the records, unpacked, without their frames: all, the shortest, the longest.
    pub data: Spread,
    /// Whether the checksums of the data were checked.
    pub verified: bool,
    /// The features of Examples; those of the whole sequence in a SequenceExample.
    pub features: Vec<FeatureInfo>,
    /// The features of the steps of a SequenceExample.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepInfo>,
    /// Which features are image and class, if some are.
    pub layout: Option<Layout>,
    /// How many of each class.
    pub classes: Vec<ClassCount>,
    /// Records of each part, where there is no index and the names of the files say what they are for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ClassCount>,
    /// What is wrong with the parts that the names say: such shards cannot be trained on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ambiguous: Option<String>,
    /// What the index says, if there is one.
    pub index: Option<IndexInfo>,
    /// Every file that was looked at, with its own figures.
    pub files: Vec<RecordFile>,
    /// The first records.
    pub first: Vec<RecordShown>,
    /// What was left out.
    pub skipped: Vec<String>,
}

/// What records hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// There are none.
    Nothing,
    /// `tf.train.Example`.
    Example,
    /// `tf.train.SequenceExample`.
    Sequence,
    /// Bytes that are neither.
    Unknown,
    /// Not all of them the same.
    Mixed,
}

/// A sum and its ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// The sum over all records.
    pub sum: u64,
    /// The smallest; 0 where nothing was counted.
    pub min: u64,
    /// The largest; 0 where nothing was counted.
    pub max: u64,
    #[serde(skip)]
    count: u64,
}

impl Spread {
    fn add(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.sum += value;
        self.count += 1;
    }
}

/// A feature over all records that have it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FeatureInfo {
    /// Its name.
    pub name: String,
    /// What it is a list of.
    pub kind: FeatureKind,
    /// How many records have it.
    pub records: usize,
    /// Values in a record.
    pub values: Spread,
    /// Bytes of a byte string; nothing for numbers.
    pub bytes: Option<Spread>,
}

/// A feature of the steps of sequences.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StepInfo {
    /// Its name.
    pub name: String,
    /// What each step is a list of.
    pub kind: FeatureKind,
    /// How many records have it.
    pub records: usize,
    /// Steps in a record.
    pub steps: Spread,
    /// Values in a record.
    pub values: Spread,
}

/// What an index says.
#[derive(Clone, Debug, Serialize)]
pub struct IndexInfo {
    /// `jpeg` or `raw`.
    pub encoding: String,
    /// Height, width, channels.
    pub shape: [usize; 3],
    /// Records of each part.
    pub parts: Vec<ClassCount>,
    /// How many inputs were left out when it was made.
    pub skipped: usize,
}

/// A file of records.
#[derive(Clone, Debug, Serialize)]
pub struct RecordFile {
    /// The file and its size.
    #[serde(flatten)]
    pub file: DiskFile,
    /// How it is packed.
    pub packing: Packing,
    /// How many records.
    pub records: usize,
}

/// A record, shortened.
#[derive(Clone, Debug, Serialize)]
pub struct RecordShown {
    /// Its file, by name.
    pub file: String,
    /// Where it begins, in unpacked bytes.
    pub offset: u64,
    /// Length of its data, without the frame.
    pub bytes: usize,
    /// Its features: name and values. A record that is no Example has one without a name: its first bytes.
    pub features: Vec<(String, String)>,
}

/// The files of a folder (of its index, if it has one), or the one given.
pub(super) fn files(path: &Path) -> Result<(Vec<PathBuf>, Option<Index>)> {
    if !path.is_dir() {
        return Ok((vec![path.to_path_buf()], None));
    }
    match Index::read(path)? {
        Some(index) => Ok((index.shards.iter().map(|shard| path.join(&shard.file)).collect(), Some(index))),
        None => Ok((record_files(path)?, None)),
    }
}

/// Looks at every record.
pub(super) fn look(path: &Path, look: &InfoOptions) -> Result<RecordsInfo> {
    let (files, index) = files(path)?;
    let mut info = RecordsInfo {
        path: path.to_path_buf(),
        content: Content::Nothing,
        records: 0,
        bytes: 0,
        data: Spread::default(),
        verified: look.verify,
        features: Vec::new(),
        steps: Vec::new(),
        layout: None,
        classes: Vec::new(),
        parts: Vec::new(),
        ambiguous: None,
        index: index.as_ref().map(index_info),
        files: Vec::new(),
        first: Vec::new(),
        skipped: Vec::new(),
    };
    let mut skipped = Skipped::up_to(look.skip_bad);
    let mut seen = Seen::default();
    let roles = match (path.is_dir(), &index) {
        (true, None) => by_part(path, files.clone()),
        _ => Ok(Vec::new()),
    };
    for path in files {
        let file = disk_file(path)?;
        let contents = Contents::open(&file.path, &Limits::default(), look.skip_bad > 0)?;
        let before = info.records;
        for record in contents.scan(look.verify) {
            match record {
                Ok((offset, record)) => info.add(&file.path, offset, record, look, &mut seen),
                Err(error) => skipped.skip(error.into())?,
            }
        }
        info.bytes += file.bytes;
        info.files.push(RecordFile { file, packing: contents.packing(), records: info.records - before });
    }
    match roles {
        Ok(roles) => {
            let records = |path: &Path| info.files.iter().find(|f| f.file.path == *path).map_or(0, |f| f.records);
            for (role, path) in roles.iter().filter_map(|(role, path)| Some((role.as_ref()?.name(), path))) {
                let count = records(path);
                match info.parts.last_mut() {
                    Some(part) if part.name == role => part.count += count,
                    _ => info.parts.push(ClassCount { name: role.into(), count }),
                }
            }
        }
        Err(error) => info.ambiguous = Some(error.to_string()),
    }
    info.features = seen.features.into_values().collect();
    info.steps = seen.steps.into_values().collect();
    info.classes = classes(seen.classes, index.map(|index| index.classes));
    info.skipped = skipped.list().to_vec();
    Ok(info)
}

fn index_info(index: &Index) -> IndexInfo {
    let count = |part: &str| index.shards.iter().filter(|s| s.part == part).map(|s| s.records).sum();
    let parts = index.parts().into_iter().map(|part| ClassCount { name: part.into(), count: count(part) }).collect();
    IndexInfo { encoding: index.encoding.clone(), shape: index.shape, parts, skipped: index.skipped.len() }
}

/// What was seen so far, by name.
#[derive(Default)]
struct Seen {
    features: BTreeMap<String, FeatureInfo>,
    steps: BTreeMap<String, StepInfo>,
    /// By number and name.
    classes: BTreeMap<(Option<i64>, Option<String>), usize>,
}

/// The entry of a name; none for a new one when there are too many.
fn entry<'a, T: Default>(map: &'a mut BTreeMap<String, T>, name: &str) -> Option<&'a mut T> {
    // Looked up first: a name seen before needs no copy.
    if !map.contains_key(name) {
        if map.len() >= MAX_NAMES {
            return None;
        }
        map.insert(name.to_string(), T::default());
    }
    map.get_mut(name)
}

impl Seen {
    fn feature(&mut self, feature: &Feature<'_, '_>) {
        let Some(info) = entry(&mut self.features, feature.name()) else { return };
        if info.records == 0 {
            info.name = feature.name().to_string();
        }
        info.kind = info.kind.max(feature.kind());
        info.records += 1;
        info.values.add(feature.len() as u64);
        if feature.kind() == FeatureKind::Bytes {
            let bytes = info.bytes.get_or_insert_default();
            feature.byte_strings().for_each(|string| bytes.add(string.len() as u64));
        }
    }

    fn class(&mut self, layout: &Layout, example: &Example<'_>) {
        let number = layout.class.as_ref().and_then(|name| match layout.one_hot {
            Some(_) => one_hot(example, name).map(i64::from),
            None => example.int(name),
        });
        let name = layout.name.as_ref().and_then(|name| example.bytes(name));
        let name = name.map(|name| String::from_utf8_lossy(&name[..name.len().min(64)]).into_owned());
        if number.is_some() || name.is_some() {
            let full = self.classes.len() >= MAX_NAMES;
            match self.classes.get_mut(&(number, name.clone())) {
                Some(count) => *count += 1,
                None if full => {}
                None => drop(self.classes.insert((number, name), 1)),
            }
        }
    }
}

impl RecordsInfo {
    fn add(&mut self, file: &Path, offset: u64, record: &[u8], look: &InfoOptions, seen: &mut Seen) {
        self.records += 1;
        self.data.add(record.len() as u64);
        let mut features = Vec::new();
        let show = self.first.len() < look.first;
        let content = match (Sequence::parse(record), Example::parse(record)) {
            (Ok(Some(sequence)), Ok(context)) => {
                for list in &sequence.lists {
                    if let Some(info) = entry(&mut seen.steps, list.name) {
                        info.name = list.name.to_string();
                        info.kind = info.kind.max(list.kind);
                        info.records += 1;
                        info.steps.add(list.steps as u64);
                        info.values.add(list.values as u64);
                    }
                    if show {
                        let words = match list.steps {
                            0 => "no steps".into(),
                            steps => format!("{steps} steps, {} {} values", list.values, list.kind.name()),
                        };
                        features.push((list.name.to_string(), words));
                    }
                }
                context.features().for_each(|feature| seen.feature(&feature));
                if show {
                    features.extend(context.features().map(|f| (f.name().to_string(), shown::feature(&f))));
                }
                Content::Sequence
            }
            (_, Ok(example)) => {
                example.features().for_each(|feature| seen.feature(&feature));
                if self.layout.is_none() {
                    self.layout = Layout::of(&example, &FeatureNames::default());
                }
                if let Some(layout) = &self.layout {
                    seen.class(layout, &example);
                }
                if show {
                    features.extend(example.features().map(|f| (f.name().to_string(), shown::feature(&f))));
                }
                Content::Example
            }
            _ => {
                if show {
                    features.push((String::new(), shown::bytes(record)));
                }
                Content::Unknown
            }
        };
        self.content = match self.content {
            Content::Nothing => content,
            same if same == content => same,
            _ => Content::Mixed,
        };
        if show {
            features.sort();
            let file = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.first.push(RecordShown { file, offset, bytes: record.len(), features });
        }
    }
}

/// The classes with their counts: those of the index also where none was seen.
fn classes(seen: BTreeMap<(Option<i64>, Option<String>), usize>, names: Option<Vec<String>>) -> Vec<ClassCount> {
    let Some(names) = names else {
        let name = |key: (Option<i64>, Option<String>)| match key {
            (Some(number), Some(name)) => format!("{number} {name}"),
            (Some(number), None) => number.to_string(),
            (None, name) => name.unwrap_or_default(),
        };
        return seen.into_iter().map(|(key, count)| ClassCount { name: name(key), count }).collect();
    };
    let mut counts: Vec<ClassCount> = names.into_iter().map(|name| ClassCount { name, count: 0 }).collect();
    for ((number, name), count) in seen {
        let place = match number {
            Some(number) => usize::try_from(number).ok().filter(|&n| n < counts.len()),
            None => counts.iter().position(|class| Some(&class.name) == name.as_ref()),
        };
        match place {
            Some(place) => counts[place].count += count,
            None => counts.push(ClassCount { name: format!("{number:?} (not in the index)"), count }),
        }
    }
    counts
}

/// Calls `each` for the first records that hold images, or are damaged, with file, image and layout, until it says that
/// it is enough.
pub(super) fn images(
    path: &Path,
    look: &InfoOptions,
    mut each: impl FnMut(&Path, Result<(&[u8], &Layout)>) -> Result<bool>,
) -> Result<()> {
    let (files, index) = files(path)?;
    let mut layout = None;
    for path in files {
        let contents = Contents::open(&path, &Limits::default(), look.skip_bad > 0)?;
        for record in contents.scan(look.verify) {
            let record = match record {
                Ok((_, record)) => record,
                Err(error) => {
                    if !each(&path, Err(error.into()))? {
                        return Ok(());
                    }
                    continue;
                }
            };
            let Ok(example) = Example::parse(record) else { continue };
            if layout.is_none() {
                layout = Layout::of(&example, &FeatureNames::default())
                    .map(|layout| crate::shards::with_index(layout, index.as_ref()));
            }
            let Some(layout) = &layout else { continue };
            let mut pixels = Vec::new();
            let image = match (layout.encoding, example.feature(&layout.image)) {
                (Encoding::Numbers(_), Some(list)) => {
                    // By the range of this image alone: the others are not looked at.
                    let Some(scale) = Range::of(&list).and_then(Range::scale) else { continue };
                    scale.bytes(&list, &mut pixels);
                    Some(&pixels[..])
                }
                _ => example.bytes(&layout.image),
            };
            if let Some(image) = image
                && !each(&path, Ok((image, layout)))?
            {
                return Ok(());
            }
        }
    }
    Ok(())
}
