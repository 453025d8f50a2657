//! Training input of a run: the data opened, kept, checked and split; [`feeds`] bring it to the ranks.

mod feeds;

pub(crate) use feeds::{Feeds, evaluation, rows_ahead};

use crate::local_data::{Local, Pool};
use paceline_base::sample::{FeatureKind, IndexWidth, SampleKind};
use paceline_base::{Error, Kind, Result, text};
use paceline_comm::processes_here;
use paceline_config::{Auto, CacheName, Config};
use paceline_data::csv::TargetOptions;
use paceline_data::shards::FeatureNames;
use paceline_data::{Catalogue, DataPart, DataSet, ImagesInMemory, Options, Samples, Source, Split};
use paceline_plan::ListRoom;
use paceline_prepare::feed::{Augment, DiskCache, MemoryCache, cache, check};
use paceline_record::InputFacts;
use paceline_system::threads::cores;
use std::sync::{Arc, OnceLock};

/// The share of free memory that a cache may take.
const FREE_SHARE: f64 = 0.7;

/// The data of a run, split.
pub struct RunData {
    /// The set.
    pub set: DataSet,
    /// Samples to train on.
    pub training: DataPart,
    /// Samples to validate on.
    pub validation: DataPart,
    /// True if the validation samples are the set's own test part.
    pub validates_on_test: bool,
    /// What the user should know of it.
    pub notes: Vec<String>,
    /// What all processes have, if each has its own files; else all have the same.
    pub local: Option<Local>,
    /// Caches on disk, to be asked at the end what became of them.
    caches: Vec<Arc<DiskCache>>,
    /// Room for lists, once it was asked for.
    lists: OnceLock<ListRoom>,
}

/// Opens the data and splits it.
pub fn open_data(config: &Config) -> Result<RunData> {
    paceline_system::threads::check_threads("data.threads", 1, threads(config))?;
    let catalogue = Catalogue::from_env();
    let data = &config.data;
    let options = Options {
        seed: config.train.seed,
        size: data.size.map(|size| [size.height, size.width]),
        fit: data.fit.into(),
        verify: data.verify,
        skip_bad: data.skip_bad,
        memory: Some(paceline_system::machine::free_memory_bytes()).filter(|&free| free > 0),
        names: FeatureNames { image: data.image.clone(), label: data.label.clone() },
        targets: TargetOptions { columns: data.target.clone(), are: data.targets },
    };
    let mut set = catalogue.open(&data.name, &options)?;
    tracing::info!("data: {}", set.origin);
    let mut notes = std::mem::take(&mut set.notes);
    if let Split::Path(path) = &data.validation {
        let options = Options { skip_bad: data.skip_bad - set.skipped.len(), ..options };
        let held = catalogue.open_validation(path, &options, &set)?;
        if set.validation.replace(held.part).is_some() {
            notes.push(format!("validated on {}; the set's own validation part is not used", path.display()));
        }
        notes.extend(held.notes);
        set.skipped.extend(held.skipped);
    }
    if matches!(data.validation, Split::Fraction(_) | Split::Test) && set.validation.take().is_some() {
        notes.push(format!(
            "data.validation = {}: the set's own validation part is not used; \"own\" would use it",
            data.validation
        ));
    }
    let augment = augment(config);
    refuse_idle_keys(config, &set, augment.is_nothing())?;
    notes.extend(set.skipped.iter().map(|bad| format!("left out: {bad}")));
    let caches = keep_decoded(config, &catalogue, &mut set, &mut notes)?;
    if data.skip_bad > 0 {
        leave_out_bad(config, &mut set, &mut notes)?;
    }
    let mut parts = data.validation.apply(&set, config.train.seed)?;
    if let (DataPart::Memory(samples), false) = (&parts.train, augment.is_nothing()) {
        let still = ImagesInMemory::new(samples.clone()).ok_or_else(|| {
            Error::user(format!("augment: {} holds no images of bytes; remove the [augment] keys", data.name))
        })?;
        parts.train = DataPart::Stream(Arc::new(still));
    }
    let validates_on_test = data.validation == Split::Test;
    Ok(RunData {
        training: parts.train,
        validation: parts.validation,
        validates_on_test,
        set,
        notes,
        local: None,
        caches,
        lists: OnceLock::new(),
    })
}

/// Keys that say how to decode mean nothing for samples that are in memory, those of columns only for a csv of values.
fn refuse_idle_keys(config: &Config, set: &DataSet, no_augment: bool) -> Result<()> {
    let given = |keys: &[&'static str]| keys.iter().find(|key| config.is_given(&format!("data.{key}"))).copied();
    match set.columns {
        None => {
            if let Some(key) = given(&["target", "targets"]) {
                return Err(Error::user(format!(
                    "data.{key} is given, but {} is no csv of values and has no columns; remove data.{key}",
                    config.data.name
                )));
            }
        }
        Some(_) => {
            if let Some(key) = given(&["image", "label"]) {
                return Err(Error::user(format!(
                    "data.{key} names a feature of records, but {} is a csv of values; remove data.{key}, and name the targets in \
                     data.target",
                    config.data.name
                )));
            }
        }
    }
    if set.train.memory().is_none() {
        return Ok(());
    }
    let decoding = ["size", "fit", "cache", "skip_bad", "verify"];
    let feeding = ["threads", "prefetch"].into_iter().filter(|_| no_augment);
    let idle = decoding.into_iter().chain(feeding).find(|key| config.is_given(&format!("data.{key}")));
    match idle {
        // What says no is not idle: `none` is true of every set in memory.
        Some("cache") if config.data.cache == CacheName::None => Ok(()),
        Some("skip_bad") if config.data.skip_bad == 0 => Ok(()),
        Some(key) => Err(Error::user(format!(
            "data.{key} is given, but {} is in memory already and nothing is decoded; remove data.{key}{}",
            config.data.name,
            if key == "cache" { ", or set it to none" } else { "" }
        ))),
        None => Ok(()),
    }
}

/// The augmentation that was asked for.
pub(crate) fn augment(config: &Config) -> Augment {
    let a = &config.augment;
    Augment {
        flip: a.flip,
        crop: a.crop,
        pad: a.pad,
        brightness: a.brightness,
        contrast: a.contrast,
        saturation: a.saturation,
        hue: a.hue,
    }
}

/// Puts caches around the sources of a set.
fn keep_decoded(
    config: &Config,
    catalogue: &Catalogue,
    set: &mut DataSet,
    notes: &mut Vec<String>,
) -> Result<Vec<Arc<DiskCache>>> {
    let mut caches = Vec::new();
    let mut left = match config.data.cache_limit {
        Auto::Is(gigabytes) => (gigabytes * 1e9) as u64,
        Auto::Auto => (FREE_SHARE * paceline_system::machine::free_memory_bytes() as f64) as u64,
    };
    // Where the data lies, whatever folder this process runs in.
    let origin = match std::path::absolute(&set.origin) {
        Ok(path) if path.exists() => path.display().to_string(),
        _ => set.origin.clone(),
    };
    let parts =
        [("training", Some(&mut set.train)), ("validation", set.validation.as_mut()), ("test", set.test.as_mut())];
    for (name, part) in parts.into_iter().filter_map(|(name, part)| Some((name, part?))) {
        let DataPart::Stream(source) = part else { continue };
        let source = source.clone();
        *part = DataPart::Stream(match config.data.cache {
            CacheName::None => continue,
            CacheName::Memory => {
                let bytes = cache::decoded_bytes(&*source);
                let cache = MemoryCache::new(source, left)?;
                left -= bytes;
                Arc::new(cache)
            }
            CacheName::Disk => {
                let cache = Arc::new(DiskCache::new(source, &catalogue.decoded()?, &format!("{origin} ({name})"))?);
                notes.extend(cache.note().map(String::from));
                caches.push(cache.clone());
                cache
            }
        });
    }
    Ok(caches)
}

/// Decodes everything once and leaves out what cannot be, before the order of samples is made.
fn leave_out_bad(config: &Config, set: &mut DataSet, notes: &mut Vec<String>) -> Result<()> {
    let mut left = config.data.skip_bad - set.skipped.len();
    for part in [Some(&mut set.train), set.validation.as_mut(), set.test.as_mut()].into_iter().flatten() {
        let DataPart::Stream(source) = &*part else { continue };
        let checked = check(&**source, threads(config), left).map_err(|e| match e.kind() {
            Kind::Internal => e,
            _ => e.context(format!("more than data.skip_bad = {} bad samples", config.data.skip_bad)),
        })?;
        if checked.bad.is_empty() {
            continue;
        }
        left -= checked.bad.len();
        notes.extend(checked.bad.iter().map(|bad| format!("left out: {bad}")));
        *part = part.subset(checked.good)?;
    }
    Ok(())
}

/// Input threads: one for each core, shared with the processes of the job on this host.
pub(crate) fn threads(config: &Config) -> usize {
    let here = processes_here();
    config.data.threads.chosen().unwrap_or_else(|| (cores() / here).max(1))
}

impl RunData {
    /// What a sample of any part is made of.
    pub fn sample_kind(&self) -> SampleKind {
        let mut kind = self.training.sample_kind();
        for part in [Some(&self.validation), self.set.test.as_ref()].into_iter().flatten() {
            if let (FeatureKind::Lists { bound, .. }, FeatureKind::Lists { bound: other, .. }) =
                (kind.features, part.feature_kind())
            {
                let bound = bound.max(other);
                kind.features = FeatureKind::Lists { width: IndexWidth::below(bound), bound };
            }
        }
        kind
    }

    /// Room for the lists of any batch.
    pub(crate) fn list_room(&self) -> ListRoom {
        let measure = || {
            let parts = [Some(&self.training), Some(&self.validation), self.set.test.as_ref()];
            let parts: Vec<&dyn Samples> =
                parts.into_iter().flatten().filter_map(|part| Some(&**part.memory()?)).collect();
            list_room(&parts)
        };
        self.lists.get_or_init(measure).clone()
    }
}

/// Room for the lists of any batch of these samples.
pub(crate) fn list_room(parts: &[&dyn Samples]) -> ListRoom {
    let lists = parts.iter().filter(|part| matches!(part.feature_kind(), FeatureKind::Lists { .. }));
    ListRoom::of_lengths(lists.flat_map(|part| (0..part.len()).map(|index| part.features(index).len())))
}

impl RunData {
    /// Samples of an epoch, over all processes.
    pub fn samples(&self) -> usize {
        self.local.as_ref().map_or(self.training.len(), Local::samples)
    }

    /// What a validation visits.
    pub fn validation_pool(&self) -> Pool {
        self.local.as_ref().map_or(Pool { pass: self.validation.len(), own: false }, Local::validation)
    }

    /// What a test visits, if there is one.
    pub fn test_pool(&self) -> Option<Pool> {
        match &self.local {
            Some(local) => local.test(),
            None => self.set.test.as_ref().map(|part| Pool { pass: part.len(), own: false }),
        }
    }

    /// Stands for the training samples, of all processes.
    pub fn fingerprint(&self) -> String {
        self.local.as_ref().map_or_else(|| self.training.fingerprint(), Local::fingerprint)
    }

    /// What the verdict on input needs to know, if samples are decoded.
    pub fn facts(&self, config: &Config) -> Option<InputFacts> {
        let DataPart::Stream(source) = &self.training else { return None };
        let decoded = [Some(&self.set.train), self.set.validation.as_ref()].into_iter().flatten();
        Some(InputFacts {
            stored: source.stored().into(),
            cache: config.data.cache.to_string(),
            threads: threads(config),
            cores: cores(),
            decoded_bytes: decoded.map(|part| cache::decoded_bytes(&**part)).sum(),
            shape: source.shape().to_vec(),
        })
    }

    /// How the input is made ready, in words.
    pub fn describe(&self, config: &Config, batch: usize) -> Option<String> {
        let DataPart::Stream(source) = &self.training else { return None };
        let rows = rows_ahead(config, batch);
        let size: usize = source.shape().iter().product();
        Some(format!(
            "input: {} ahead into {rows} rows ({}); cache {}",
            match threads(config) {
                1 => "1 thread decodes".to_string(),
                n => format!("{n} threads decode"),
            },
            text::bytes((rows * size) as u64),
            config.data.cache
        ))
    }

    /// What became of caches on disk, where a person should know.
    pub fn cache_outcomes(&self) -> Vec<String> {
        self.caches.iter().filter_map(|cache| cache.outcome()).collect()
    }
}

/// The source of a part that is decoded.
pub(crate) fn source(part: &DataPart) -> Option<&Arc<dyn Source>> {
    match part {
        DataPart::Memory(_) => None,
        DataPart::Stream(source) => Some(source),
    }
}
