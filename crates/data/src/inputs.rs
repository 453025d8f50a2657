//! Samples that are only to be looked at by a model, not to be learned: labelled or not, of any format, in the order in which
//! they were given.
//!
//! What is asked of a set to train on is not asked here. Images may lie in a folder without classes, a table may list paths
//! alone, records may have no class, and parts need not agree on their classes. What cannot be read keeps its place and fails
//! when it is fetched, so that all the others are still served.

use crate::catalogue::{folder, known};
use crate::csv::{self, CsvKind};
use crate::photos::{self, Photos, is_image_name, table_kind};
use crate::shards::{Encoding, INDEX, Index, ShardOptions, is_record_name, record_files};
use crate::tfrecord::Memory;
use crate::{
    Catalogue, CsvError, DataError, DataPart, FileImages, ImageSet, Options, PhotoError, RecordImages, Result, Role,
    Source, Subset, UNLABELLED, cifar, idx,
};
use paceline_base::text::counted;
use paceline_image::Fit;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How inputs are opened.
#[derive(Clone, Debug)]
pub struct InputOptions {
    /// Height, width and channels of a sample, and how images of another size are brought to it; none if samples are no
    /// images, which are then refused.
    pub image: Option<([usize; 3], Fit)>,
    /// Columns and kind of the csv that the model was trained on; none if it was not, and a csv of values is then refused.
    pub csv: Option<CsvKind>,
    /// Whether images must have a class. Where they need not, folders that are no class folders are read without classes.
    pub labels: bool,
    /// The seed of a made-up set.
    pub seed: u64,
    /// Bytes of memory that are free, as [`Options::memory`].
    pub memory: Option<u64>,
}

/// Inputs that are read one after another: one part of one of the things that were given, or files beside each other.
pub struct Group {
    /// The samples. Which of them are labelled [`Group::label`] knows.
    pub part: DataPart,
    /// What they are for, if that is said.
    pub role: Option<Role>,
    name: Name,
    /// Whether what the part says of classes means anything.
    labelled: bool,
    /// What a person should know of them.
    pub notes: Vec<String>,
}

enum Name {
    /// A file for each.
    Files(Arc<FileImages>),
    /// A record for each, from this one on.
    Records(Arc<RecordImages>, usize),
    /// A number for each, behind what stands for all.
    Numbered(String),
}

impl Group {
    /// Samples in memory, or others that have no names: they are called `name:0`, `name:1`, ….
    pub fn numbered(part: DataPart, role: Option<Role>, name: String) -> Self {
        Self { part, role, name: Name::Numbered(name), labelled: true, notes: Vec::new() }
    }

    /// Whether the inputs have targets to compare with; of single ones [`Group::label`] knows.
    pub fn has_targets(&self) -> bool {
        self.labelled
    }

    /// The class of an input among those of its part, if it is known.
    pub fn label(&self, index: usize) -> Option<u32> {
        Some(self.part.label(index)).filter(|&label| self.labelled && label != UNLABELLED)
    }

    /// What an input is called: its path, or the file and the number of its record.
    pub fn name(&self, index: usize) -> String {
        match &self.name {
            Name::Files(files) => files.place(index),
            Name::Records(records, first) => {
                let (file, number) = records.records().within(first + index);
                format!("{file}:{number}")
            }
            Name::Numbered(name) => format!("{name}:{index}"),
        }
    }

    fn files(photos: Photos, role: Option<Role>, (shape, fit): ([usize; 3], Fit)) -> Self {
        let mut notes = Vec::new();
        if !photos.left_out().is_empty() {
            notes.push(format!("left out, as no images: {}", photos.left_out().words()));
        }
        let files = Arc::new(FileImages::shaped(photos, shape, Some(fit)));
        Self { part: DataPart::Stream(files.clone()), role, name: Name::Files(files), labelled: true, notes }
    }
}

impl Catalogue {
    /// Opens what was given, in that order: image files, folders of them, tables, shards, IDX files, and sets by name.
    ///
    /// # Errors
    /// For what is nothing of all this, holds nothing, or cannot be opened at all; not for single images or records that are
    /// bad.
    pub fn open_inputs(&self, given: &[PathBuf], options: &InputOptions) -> Result<Vec<Group>> {
        let mut groups = Vec::new();
        let mut files: Vec<PathBuf> = Vec::new();
        for path in given {
            if let Some(kind) = self.kind_of(path)? {
                self.flush(&mut files, &mut groups, options)?;
                groups.extend(self.open_one(path, kind, options)?);
            } else {
                files.push(path.clone());
            }
        }
        self.flush(&mut files, &mut groups, options)?;
        Ok(groups)
    }

    fn flush(&self, files: &mut Vec<PathBuf>, groups: &mut Vec<Group>, options: &InputOptions) -> Result<()> {
        let files = std::mem::take(files);
        if let Some(first) = files.first() {
            if options.labels {
                return Err(DataError::NoLabels { what: first.display().to_string() });
            }
            groups.push(Group::files(Photos::of_files(&files), None, images(options, first)?));
        }
        Ok(())
    }

    /// What a path is; none if it is one image, or a file that will turn out to be none.
    fn kind_of(&self, path: &Path) -> Result<Option<InputKind>> {
        if path.to_str().is_some_and(Self::is_name) {
            return Ok(Some(InputKind::Set));
        }
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_dir() {
            return Ok(Some(match () {
                () if !folder::present(path).is_empty() => InputKind::IdxFolder,
                () if cifar::is_cifar(path) => InputKind::Set,
                () if path.join(INDEX).is_file() || record_files(path).is_ok() => InputKind::Shards,
                () if photos::has_images_or_folders(path) => InputKind::Folder,
                () if csv::is_values(path)? => InputKind::Values,
                () => InputKind::Folder,
            }));
        }
        match () {
            () if !path.exists() && !is_image_name(name.as_ref()) => {
                Err(crate::catalogue::unknown(&path.to_string_lossy()))
            }
            () if is_record_name(&name) => Ok(Some(InputKind::Shards)),
            () if csv::is_values(path)? => Ok(Some(InputKind::Values)),
            () if table_kind(path).is_some() => Ok(Some(InputKind::Table)),
            () if is_image_name(name.as_ref()) || photos::begins_like_image(path) => Ok(None),
            () if idx::read_header(path).is_ok() => Ok(Some(InputKind::IdxFile)),
            () => Ok(None), // what is wrong with it is found when it is decoded
        }
    }

    fn open_one(&self, path: &Path, kind: InputKind, options: &InputOptions) -> Result<Vec<Group>> {
        match kind {
            InputKind::Set => self.open_set(path, options),
            InputKind::IdxFolder => {
                let pairs = [(Role::Train, known::TRAIN_IMAGES), (Role::Test, known::TEST_IMAGES)];
                let there = pairs.into_iter().filter_map(|(role, name)| Some((role, folder::find(path, name)?)));
                let groups: Vec<Group> =
                    there.map(|(role, file)| open_idx(&file, Some(role), options)).collect::<Result<_>>()?;
                match groups.is_empty() {
                    true => {
                        Err(DataError::MissingFile { folder: path.display().to_string(), file: known::TEST_IMAGES })
                    }
                    false => Ok(groups),
                }
            }
            InputKind::IdxFile => Ok(vec![open_idx(path, None, options)?]),
            InputKind::Shards => open_shards(path, options),
            InputKind::Table => {
                let parts = photos::table::given(path, table_kind(path).unwrap_or(false))?;
                by_part(parts, path, options)
            }
            InputKind::Folder => open_folder(path, options),
            InputKind::Values => open_values(path, options),
        }
    }

    /// A set that is known by name, or CIFAR-10: all of it is labelled and in memory.
    fn open_set(&self, path: &Path, options: &InputOptions) -> Result<Vec<Group>> {
        let name = path.to_string_lossy().into_owned();
        let set = self.open(&name, &Options { seed: options.seed, memory: options.memory, ..Options::default() })?;
        let parts = [(Role::Train, Some(set.train)), (Role::Validation, set.validation), (Role::Test, set.test)];
        let groups = parts.into_iter().filter_map(|(role, part)| Some((role, part?)));
        Ok(groups.map(|(role, part)| Group::numbered(part, Some(role), format!("{name}/{role}"))).collect())
    }
}

enum InputKind {
    Set,
    IdxFolder,
    IdxFile,
    Shards,
    Table,
    Folder,
    Values,
}

/// How images become samples, or an error if the model takes none.
fn images(options: &InputOptions, what: &Path) -> Result<([usize; 3], Fit)> {
    options.image.ok_or_else(|| DataError::NoImageModel { what: what.display().to_string() })
}

/// One group for each part; a list that is not in parts has no role.
fn by_part(parts: [Option<Photos>; 3], path: &Path, options: &InputOptions) -> Result<Vec<Group>> {
    let image = images(options, path)?;
    let split = parts.iter().flatten().count() > 1 || parts[0].is_none();
    let parts = Role::ALL.into_iter().zip(parts).filter_map(|(role, part)| Some((role, part?)));
    Ok(parts.map(|(role, part)| Group::files(part, split.then_some(role), image)).collect())
}

fn open_folder(path: &Path, options: &InputOptions) -> Result<Vec<Group>> {
    let image = images(options, path)?;
    let without = |note: Option<String>| -> Result<Vec<Group>> {
        let mut group = Group::files(photos::folder::unlabelled(path)?, None, image);
        group.notes.extend(note);
        Ok(vec![group])
    };
    if !options.labels && photos::folder::has_images(path)? {
        return without(None);
    }
    match photos::folder::labelled(path) {
        Ok((parts, left_out)) => {
            let mut groups = by_part(parts, path, options)?;
            if let (Some(first), false) = (groups.first_mut(), left_out.is_empty()) {
                first.notes.push(format!("left out, as no images: {}", left_out.words()));
            }
            Ok(groups)
        }
        // Images are there, but not by class: they can be predicted all the same.
        Err(DataError::Photos(
            error @ (PhotoError::NoClass { .. }
            | PhotoError::PartWithoutClasses { .. }
            | PhotoError::Mixed { .. }
            | PhotoError::TwoFolders { .. }
            | PhotoError::ClassWithoutImages { .. }
            | PhotoError::ClassName { .. }),
        )) if !options.labels => without(Some(format!("read without labels: {error}"))),
        Err(error) => Err(error),
    }
}

/// Rows of a csv, or of those of a folder.
fn open_values(path: &Path, options: &InputOptions) -> Result<Vec<Group>> {
    let kind = options.csv.as_ref().ok_or_else(|| CsvError::NoCsvModel { file: path.display().to_string() })?;
    let room = Options { memory: options.memory, ..Options::default() };
    room.has_room(&path.to_string_lossy(), || csv::bytes(path))?;
    let open = |(role, file): (Role, PathBuf)| {
        let csv::CsvInput { part, has_targets, notes } = kind.open_input(&file, options.labels)?;
        let group = Group::numbered(part, path.is_dir().then_some(role), file.display().to_string());
        Ok(Group { labelled: has_targets, notes, ..group })
    };
    csv::files(path).into_iter().map(open).collect()
}

fn open_shards(path: &Path, options: &InputOptions) -> Result<Vec<Group>> {
    let (shape, fit) = images(options, path)?;
    let memory = Options { memory: options.memory, ..Options::default() }.records_memory();
    let memory = Arc::new(Memory::up_to(memory));
    let open = |part: Option<String>| -> Result<Arc<RecordImages>> {
        let open = ShardOptions { part, lenient: true, memory: memory.clone(), ..ShardOptions::default() };
        let records = open.records(path)?;
        if let Encoding::Raw([height, width, channels]) = records.encoding()
            && channels != shape[2]
        {
            let (file, expected, found) = (path.display().to_string(), shape.to_vec(), vec![height, width, channels]);
            return Err(DataError::ModelShape { file, expected, found });
        }
        Ok(Arc::new(RecordImages::shaped(records, shape, Some(fit))))
    };
    let group = |role: Option<Role>, images: Arc<RecordImages>| Group {
        part: DataPart::Stream(images.clone()),
        role,
        name: Name::Records(images, 0),
        labelled: true,
        notes: Vec::new(),
    };
    let index = if path.is_dir() { Index::read(path)? } else { None };
    if let Some(index) = index {
        let parts: Vec<String> = index.parts().into_iter().map(String::from).collect();
        let open_part = |part: String| Ok(group(Role::of_word(&part), open(Some(part))?));
        return parts.into_iter().map(open_part).collect();
    }
    let all = open(None)?;
    let parts = if path.is_dir() { all.records().parts() } else { Vec::new() };
    if parts.is_empty() {
        return Ok(vec![group(None, all)]);
    }
    let of_all: Arc<dyn Source> = all.clone();
    let mut groups = Vec::new();
    for (role, range) in parts {
        // Names count within the files, whichever part they are of.
        let part = DataPart::Stream(Arc::new(Subset::range(of_all.clone(), range.clone())?));
        groups.push(Group { part, name: Name::Records(all.clone(), range.start), ..group(Some(role), all.clone()) });
    }
    Ok(groups)
}

/// Images of an IDX file, with the labels of the file beside it, if there is one.
fn open_idx(path: &Path, role: Option<Role>, options: &InputOptions) -> Result<Group> {
    let name = path.display().to_string();
    let images = idx::read(path)?;
    if !(3..=4).contains(&images.dims().len()) {
        return Err(DataError::WrongRank {
            file: name,
            expected: "images need 3 (count, rows, columns) or 4 (and channels)",
            found: images.dims().len(),
        });
    }
    let beside = labels_beside(path);
    if beside.is_none() && options.labels {
        return Err(DataError::NoLabels { what: name });
    }
    let count = images.dims()[0];
    let (labels, labels_name, notes) = match beside {
        Some(path) => (idx::read(&path)?, path.display().to_string(), Vec::new()),
        None => {
            let note = format!("{} without labels: no file of labels lies beside {name}", counted(count, "image"));
            (idx::Idx::new(vec![count], vec![0; count])?, name.clone(), vec![note])
        }
    };
    let labelled = notes.is_empty();
    let classes = labels.data().iter().max().map_or(0, |&label| usize::from(label) + 1);
    let classes = (0..classes).map(|class| class.to_string()).collect();
    let set = ImageSet::new(images, &name, labels, &labels_name, classes)?;
    Ok(Group { notes, labelled, ..Group::numbered(set.into(), role, name) })
}

/// `t10k-images-idx3-ubyte.gz` → `t10k-labels-idx1-ubyte.gz`, packed or not, if it is there.
fn labels_beside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let labels = name.replace("images", "labels").replace("idx3", "idx1").replace("idx4", "idx1");
    let plain = labels.strip_suffix(".gz").unwrap_or(&labels);
    let candidates = [labels.clone(), plain.to_string(), format!("{plain}.gz")];
    candidates.iter().filter(|labels| *labels != name).map(|name| path.with_file_name(name)).find(|p| p.is_file())
}
