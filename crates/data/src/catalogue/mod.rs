//! Data sets by name or by path.
//!
//! | name | what |
//! |---|---|
//! | `mnist`, `fashion-mnist`, `cifar10` | the published sets, from the cache folder or from a system package |
//! | `fashion-sample` | 8,000 + 2,000 images of Fashion-MNIST inside the program |
//! | `fake` or `fake:SHAPE:CLASSES:COUNT` | made-up samples, see [`FakeSpec`] |
//! | a folder of IDX files | `train-images-idx3-ubyte` and its three relatives, plain or `.gz` |
//! | a folder of CIFAR-10 batches | the binary version or its PNG form, see `cifar` |
//! | a folder of shards, a file of records | images in TFRecord files, with or without an `index.json` |
//! | a `csv` of values, a folder of `train.csv`, `validation.csv` and `test.csv` | rows of numbers or lists of indices with targets, see [`csv`](mod@crate::csv) |
//! | a folder of class folders, a `csv` or `tsv` of path and label | image files |
//!
//! Shards and image files may be in parts: `train`, `val` and `test` folders, shards named so, a column `split`.
//!
//! The cache is `$PACELINE_CACHE`, else `$XDG_CACHE_HOME/paceline`, else `~/.cache/paceline`; a set lies in
//! `data/<name>` below it. A set that is not there is an error that says how to get it, never another set in its place.

mod fetch;
pub(crate) mod folder;
mod get;
mod images;
pub(crate) mod known;
pub(crate) mod sample;
mod validation;

pub use get::{GetProgress, Got};
pub use validation::ValidationSet;

use crate::csv::{self, Columns, TargetOptions};
use crate::shards::FeatureNames;
use crate::{DataError, DataPart, Fake, FakeSpec, Result, cifar, photos, shards};
use known::KnownSet;
use paceline_image::Fit;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// A set, opened.
#[derive(Clone)]
pub struct DataSet {
    /// Its name, as it was asked for.
    pub name: String,
    /// The training part.
    pub train: DataPart,
    /// The validation part, if the set has one of its own.
    pub validation: Option<DataPart>,
    /// The test part, if the set has one.
    pub test: Option<DataPart>,
    /// Names of the classes.
    pub class_names: Vec<String>,
    /// The columns of a csv of values; none of other sets.
    pub columns: Option<Columns>,
    /// Where it came from, for a person.
    pub origin: String,
    /// Its licence, if known.
    pub licence: Option<String>,
    /// Records that were left out, with what is wrong with them.
    pub skipped: Vec<String>,
    /// What a person should know of it: its parts, files that were passed over.
    pub notes: Vec<String>,
}

impl std::fmt::Debug for DataSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataSet")
            .field("name", &self.name)
            .field("train", &self.train.len())
            .field("test", &self.test.as_ref().map(|test| test.len()))
            .field("shape", &self.train.shape())
            .field("class_names", &self.class_names)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

/// How to open a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The seed of a made-up set; the others do not depend on it.
    pub seed: u64,
    /// Height and width to which images in records and files are brought; as they are if none.
    pub size: Option<[usize; 2]>,
    /// How they are brought to it.
    pub fit: Fit,
    /// Whether the checksums of records are checked.
    pub verify: bool,
    /// How many bad records may be left out.
    pub skip_bad: usize,
    /// Bytes of memory that are free. A set whose samples would lie in memory and take more is refused by its headers,
    /// before it is read, and packed records may unpack to half of it; without a figure only what is unpacked has a limit.
    pub memory: Option<u64>,
    /// Features of records that hold the image and the class, where the usual names do not do.
    pub names: FeatureNames,
    /// Columns of a csv that are targets, and what they are.
    pub targets: TargetOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            size: None,
            fit: Fit::Crop,
            verify: true,
            skip_bad: 0,
            memory: None,
            names: FeatureNames::default(),
            targets: TargetOptions::default(),
        }
    }
}

impl Options {
    /// Bytes that packed records may unpack to, over all files of the set, with 20 for each record: half of what is free.
    pub(crate) fn records_memory(&self) -> u64 {
        self.memory.map_or(4 << 30, |free| free / 2)
    }

    /// An error if there is no room for a set that takes so many bytes, as its files say.
    pub(crate) fn has_room(&self, what: &str, bytes: impl FnOnce() -> Result<u64>) -> Result<()> {
        let Some(free) = self.memory else { return Ok(()) };
        let needs = bytes()?;
        if needs > free {
            return Err(DataError::DoesNotFit { what: what.into(), needs, free });
        }
        Ok(())
    }
}

/// A line of [`Catalogue::list`].
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// What [`Catalogue::open`] takes.
    pub name: String,
    /// What it is.
    pub description: String,
    /// Samples of the training part, whether it is present or not.
    pub train: usize,
    /// Samples of the test part, whether it is present or not.
    pub test: usize,
    /// As its authors name it.
    pub licence: String,
    /// Whether it can be opened now.
    pub present: bool,
    /// Where it is, or how to get it.
    pub place: String,
}

/// Where sets are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalogue {
    cache: Option<PathBuf>,
    system: bool,
}

impl Catalogue {
    /// The catalogue of this user: the cache folder of the environment, then the system's packages.
    pub fn from_env() -> Self {
        let var = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache = var("PACELINE_CACHE")
            .or_else(|| var("XDG_CACHE_HOME").map(|dir| dir.join("paceline")))
            .or_else(|| var("HOME").map(|dir| dir.join(".cache/paceline")));
        Self { cache, system: true }
    }

    /// A catalogue with a cache of its own and without the system's packages; for tests and for tools.
    pub fn with_cache(cache: impl Into<PathBuf>) -> Self {
        Self { cache: Some(cache.into()), system: false }
    }

    /// The cache folder, if the environment names one.
    pub fn cache(&self) -> Option<&Path> {
        self.cache.as_deref()
    }

    /// The folder in which decoded samples are kept for later runs.
    ///
    /// # Errors
    /// [`DataError::NoCache`].
    pub fn decoded(&self) -> Result<PathBuf> {
        self.cache.as_ref().map(|cache| cache.join("decoded")).ok_or(DataError::NoCache)
    }

    /// Opens a set by name, description or path.
    ///
    /// # Errors
    /// [`DataError::NotPresent`] for a known set that is not here, [`DataError::UnknownSet`] for a name that is neither
    /// known nor a folder, and everything that can be wrong with its files.
    pub fn open(&self, name: &str, options: &Options) -> Result<DataSet> {
        match self.resolve(name)? {
            SetLocation::Fake(spec) => {
                options.has_room(name, || Ok(Fake::bytes(&spec)))?;
                let (train, test) = (Fake::train(&spec, options.seed), Fake::test(&spec, options.seed));
                let origin = format!("made up ({spec}, seed {})", options.seed);
                Ok(data_set(name, train.into(), Some(test.into()), origin, Some("none: made up")))
            }
            SetLocation::Embedded => {
                let (train, test) = (sample::train()?, sample::test()?);
                let origin = "embedded in the program".to_string();
                Ok(data_set(name, train.into(), Some(test.into()), origin, Some(known::FASHION_LICENCE)))
            }
            SetLocation::Known(set, dir) => {
                options.has_room(name, || folder::bytes(&dir))?;
                let pair = folder::read(&dir, Some(set.class_names()))?;
                let test = pair.test.map(DataPart::from);
                Ok(data_set(name, pair.train.into(), test, dir.display().to_string(), Some(set.licence)))
            }
            SetLocation::Shards(path) => images::open_shards(name, &path, options),
            SetLocation::Photos(path) => images::open_photos(name, &path, options),
            SetLocation::Csv(path) => {
                options.has_room(name, || csv::bytes(&path))?;
                let csv::CsvSet { train, validation, test, columns, notes } = csv::open(&path, &options.targets)?;
                let set = data_set(name, train, test, path.display().to_string(), None);
                Ok(DataSet { validation, columns: Some(columns), notes, ..set })
            }
            SetLocation::Cifar(dir) => {
                options.has_room(name, || cifar::bytes(&dir))?;
                let origin = dir.display().to_string();
                let [train, test] = cifar::read(&dir)?.map(|part| part.into_set(&origin));
                Ok(data_set(name, train?.into(), Some(test?.into()), origin, None))
            }
            SetLocation::Folder(dir) => {
                options.has_room(name, || folder::bytes(&dir))?;
                let pair = folder::read(&dir, None)?;
                let test = pair.test.map(DataPart::from);
                Ok(data_set(name, pair.train.into(), test, dir.display().to_string(), None))
            }
        }
    }

    /// Fashion-MNIST as well as this machine has it: the full set if it is here, otherwise the embedded sample; with a
    /// line that says which, and why. This is the one place that chooses, and it is for demonstrations.
    ///
    /// # Errors
    /// Those of [`Catalogue::open`] for a set that is here but damaged.
    pub fn fashion_best(&self, options: &Options) -> Result<(DataSet, String)> {
        match self.open("fashion-mnist", options) {
            Ok(set) => {
                let why = format!("data: fashion-mnist, all {} images, found in {}", set.train.len(), set.origin);
                Ok((set, why))
            }
            Err(DataError::NotPresent { looked, .. }) => {
                let set = self.open(sample::NAME, options)?;
                let why = format!(
                    "data: fashion-sample, the {} embedded images of Fashion-MNIST, because the full set is not in {looked}; `paceline data get fashion-mnist` gets it",
                    set.train.len()
                );
                Ok((set, why))
            }
            Err(error) => Err(error),
        }
    }

    /// All names, with what is known of them.
    pub fn list(&self) -> Vec<Entry> {
        let published = known::SETS.iter().map(|set| {
            let found = self.locate(set);
            Entry {
                name: set.name.into(),
                description: set.description.into(),
                train: set.counts.0,
                test: set.counts.1,
                licence: set.licence.into(),
                present: found.is_some(),
                place: found.map_or(format!("run `paceline data get {}`", set.name), |dir| dir.display().to_string()),
            }
        });
        let sample = Entry {
            name: sample::NAME.into(),
            description: "the first images of fashion-mnist, 28×28 grey".into(),
            train: sample::COUNTS.0,
            test: sample::COUNTS.1,
            licence: known::FASHION_LICENCE.into(),
            present: true,
            place: "embedded in the program".into(),
        };
        let spec = FakeSpec::default();
        let fake = Entry {
            name: "fake".into(),
            description: format!("made-up, learnable samples; fake:SHAPE:CLASSES:COUNT, default {spec}"),
            train: spec.count,
            test: spec.test_count(),
            licence: "none: made up".into(),
            present: true,
            place: "made when opened".into(),
        };
        published.chain([sample, fake]).collect()
    }

    /// Whether a set is named by where it lies, so that the name means another set in another folder.
    pub fn is_path(name: &str) -> bool {
        name != "fake" && !name.starts_with("fake:") && name != sample::NAME && known::by_name(name).is_none()
    }

    /// What a name stands for.
    pub(crate) fn resolve(&self, name: &str) -> Result<SetLocation> {
        if name == "fake" || name.starts_with("fake:") {
            return Ok(SetLocation::Fake(name.parse()?));
        }
        if name == sample::NAME {
            return Ok(SetLocation::Embedded);
        }
        if let Some(set) = known::by_name(name) {
            return match self.locate(set) {
                Some(dir) => Ok(SetLocation::Known(set, dir)),
                None => Err(DataError::NotPresent { name: name.into(), looked: self.looked_in(set) }),
            };
        }
        let path = Path::new(name);
        if path.is_dir() {
            let kind = match () {
                () if !folder::present(path).is_empty() => SetLocation::Folder,
                () if cifar::is_cifar(path) => SetLocation::Cifar,
                () if images::is_shards(path) => SetLocation::Shards,
                () if photos::has_images_or_folders(path) => SetLocation::Photos,
                () if csv::is_values(path)? => SetLocation::Csv,
                () => SetLocation::Folder,
            };
            return Ok(kind(path.to_path_buf()));
        }
        if path.is_file() {
            let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
            if path.file_name().and_then(|n| n.to_str()).is_some_and(shards::is_record_name) {
                return Ok(SetLocation::Shards(path.to_path_buf()));
            }
            if csv::is_values(path)? {
                return Ok(SetLocation::Csv(path.to_path_buf()));
            }
            if ["csv", "tsv"].contains(&&extension[..]) {
                return Ok(SetLocation::Photos(path.to_path_buf()));
            }
        }
        Err(unknown(name))
    }

    /// Whether a name stands for a set, whatever files there are of that name.
    pub(crate) fn is_name(name: &str) -> bool {
        name == "fake" || name.starts_with("fake:") || name == sample::NAME || known::by_name(name).is_some()
    }

    /// The folder of a published set, if all of it is there.
    fn locate(&self, set: &KnownSet) -> Option<PathBuf> {
        self.places(set).into_iter().find(|dir| folder::is_complete(dir))
    }

    /// Where a published set may be, best first.
    fn places(&self, set: &KnownSet) -> Vec<PathBuf> {
        let cached = self.cache.as_ref().map(|cache| cache.join("data").join(set.name));
        let system = set.system.filter(|_| self.system).map(PathBuf::from);
        cached.into_iter().chain(system).collect()
    }

    fn looked_in(&self, set: &KnownSet) -> String {
        self.places(set).iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(" and ")
    }
}

/// What a name stands for.
pub(crate) enum SetLocation {
    Fake(FakeSpec),
    Embedded,
    Known(&'static KnownSet, PathBuf),
    Folder(PathBuf),
    Cifar(PathBuf),
    Shards(PathBuf),
    Photos(PathBuf),
    Csv(PathBuf),
}

fn names() -> impl Iterator<Item = &'static str> {
    known::SETS.iter().map(|set| set.name).chain([sample::NAME, "fake"])
}

/// The error for a name that stands for nothing.
pub(crate) fn unknown(name: &str) -> DataError {
    DataError::UnknownSet {
        name: name.into(),
        hint: paceline_base::text::did_you_mean(name, names()),
        known: names().collect::<Vec<_>>().join(", "),
    }
}

fn data_set(name: &str, train: DataPart, test: Option<DataPart>, origin: String, licence: Option<&str>) -> DataSet {
    let class_names = train.class_names().to_vec();
    DataSet {
        name: name.into(),
        train,
        validation: None,
        test,
        class_names,
        columns: None,
        origin,
        licence: licence.map(String::from),
        skipped: Vec::new(),
        notes: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
