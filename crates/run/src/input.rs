//! Training input of a run: the data opened, kept, checked and split; and the feeds that bring decoded samples.

use crate::config::{Auto, CacheName, Config, FitName};
use crate::trial::cores;
use paceline_base::portion::Portion;
use paceline_base::stage::Stage;
use paceline_base::{Error, Result, text};
use paceline_data::{Catalogue, DataSet, Options, Order, Part, Source, Split, Still, Visits};
use paceline_engine::{Input, Progress, TrainOptions};
use paceline_image::Fit;
use paceline_plan::{PhaseKind, Schedule};
use paceline_prepare::feed::{Augment, DiskCache, Feed, FeedOptions, MemoryCache, cache, check};
use paceline_record::InputFacts;
use std::ops::Range;
use std::sync::Arc;

/// Rows that are made ready ahead at least, whatever the batch.
const AHEAD: usize = 64;
/// Batches that are made ready ahead.
const PREFETCH: usize = 2;
/// The share of free memory that a cache may take.
const FREE_SHARE: f64 = 0.7;

/// The data of a run, split.
pub struct RunData {
    /// The set.
    pub set: DataSet,
    /// Samples to train on.
    pub training: Part,
    /// Samples to validate on.
    pub validation: Part,
    /// True if the validation samples are the set's own test part.
    pub validates_on_test: bool,
    /// What the user should know of it.
    pub notes: Vec<String>,
    /// Caches on disk, to be asked at the end what became of them.
    caches: Vec<Arc<DiskCache>>,
}

/// Opens the data and splits it.
pub fn open_data(config: &Config) -> Result<RunData> {
    let catalogue = Catalogue::from_env();
    let data = &config.data;
    let options = Options {
        seed: config.train.seed,
        size: data.size.map(|size| [size.height, size.width]),
        fit: match data.fit {
            FitName::Crop => Fit::Crop,
            FitName::Pad => Fit::Pad,
            FitName::Stretch => Fit::Stretch,
        },
        verify: data.verify,
        skip_bad: data.skip_bad,
    };
    let mut set = catalogue.open(&data.name, &options)?;
    tracing::info!("data: {}", set.origin);
    let augment = augment(config);
    refuse_idle_keys(config, &set, augment.is_nothing())?;
    let mut notes: Vec<String> = set.skipped.iter().map(|bad| format!("left out: {bad}")).collect();
    let caches = keep_decoded(config, &catalogue, &mut set, &mut notes)?;
    if data.skip_bad > 0 {
        leave_out_bad(config, &mut set, &mut notes)?;
    }
    let mut parts = data.validation.apply(&set, config.train.seed)?;
    if let (Part::Memory(samples), false) = (&parts.train, augment.is_nothing()) {
        let still = Still::new(samples.clone()).ok_or_else(|| {
            Error::user(format!("augment: {} holds no images of bytes; remove the [augment] keys", data.name))
        })?;
        parts.train = Part::Stream(Arc::new(still));
    }
    let validates_on_test = data.validation == Split::Test;
    Ok(RunData { training: parts.train, validation: parts.validation, validates_on_test, set, notes, caches })
}

/// Keys that say how to decode mean nothing for samples that are in memory.
fn refuse_idle_keys(config: &Config, set: &DataSet, no_augment: bool) -> Result<()> {
    if set.train.memory().is_none() {
        return Ok(());
    }
    let decoding = ["size", "fit", "cache", "skip_bad", "verify"];
    let feeding = ["threads", "prefetch"].into_iter().filter(|_| no_augment);
    let idle = decoding.into_iter().chain(feeding).find(|key| config.is_given(&format!("data.{key}")));
    match idle {
        // What says no is not idle: `--cache none` is true of every set in memory.
        Some("cache") if config.data.cache == CacheName::None => Ok(()),
        Some("skip_bad") if config.data.skip_bad == 0 => Ok(()),
        Some(key) => Err(Error::user(format!(
            "data.{key} is given, but {} is in memory already and nothing is decoded; remove data.{key}{}",
            config.data.name,
            if key == "cache" { " (on the command line: --cache none)" } else { "" }
        ))),
        None => Ok(()),
    }
}

/// The augmentation that was asked for.
pub fn augment(config: &Config) -> Augment {
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
        Auto::Auto => (FREE_SHARE * paceline_record::machine::free_memory_bytes() as f64) as u64,
    };
    for part in [Some(&mut set.train), set.validation.as_mut(), set.test.as_mut()].into_iter().flatten() {
        let Part::Stream(source) = part else { continue };
        let source = source.clone();
        *part = Part::Stream(match config.data.cache {
            CacheName::None => continue,
            CacheName::Memory => {
                let bytes = cache::decoded_bytes(&*source);
                let cache = MemoryCache::new(source, left)?;
                left -= bytes;
                Arc::new(cache)
            }
            CacheName::Disk => {
                let cache = Arc::new(DiskCache::new(source, &catalogue.decoded()?)?);
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
        let Part::Stream(source) = &*part else { continue };
        let checked = check(&**source, threads(config), left).map_err(|e| {
            Error::from(e).context(format!("more than data.skip_bad = {} bad samples", config.data.skip_bad))
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

/// Input threads.
pub fn threads(config: &Config) -> usize {
    config.data.threads.chosen().unwrap_or_else(cores)
}

/// Rows made ready ahead of a batch.
fn ahead(config: &Config, batch: usize) -> usize {
    match config.data.prefetch {
        Auto::Is(batches) => batches * batch,
        Auto::Auto => (PREFETCH * batch).max(AHEAD),
    }
}

/// Rows that the training feed holds.
pub fn rows_ahead(config: &Config, batch: usize) -> usize {
    batch + ahead(config, batch)
}

/// The rows that these ranks read in passes of `pass` samples.
pub fn portion(
    schedule: &Schedule,
    kind: PhaseKind,
    pass: usize,
    batch: usize,
    ranks: &Range<usize>,
) -> Result<Portion> {
    let batch = batch.min(pass);
    let rows = |samples: usize| -> Result<Vec<Range<usize>>> {
        if samples == 0 {
            return Ok(Vec::new());
        }
        let missing = || Error::internal(format!("no {kind:?} step of {samples} samples was planned"));
        let phase = &schedule.phases[schedule.phase(kind, samples).ok_or_else(missing)?];
        Ok(ranks.clone().map(|rank| phase.rows(rank)).collect())
    };
    Ok(Portion::new(pass, batch, rows(batch)?, rows(pass % batch.max(1))?))
}

/// A part, which of its samples stands where, and, if it must be decoded, what does that.
pub struct Fed<'a> {
    part: &'a Part,
    visits: Visits,
    feed: Option<Feed>,
}

impl Fed<'_> {
    /// As the engine reads it.
    pub fn input(&self) -> Result<Input<'_>> {
        match (self.part, &self.feed) {
            (Part::Memory(samples), _) => Ok(Input::Memory { samples: &**samples, visits: &self.visits }),
            (Part::Stream(_), Some(feed)) => Ok(Input::Supply { supply: feed, len: self.visits.len() }),
            (Part::Stream(_), None) => Err(Error::internal("a part without a feed")),
        }
    }
}

/// What brings samples to the ranks of this process.
pub struct Feeds<'a> {
    training: Fed<'a>,
    validation: Fed<'a>,
    test: Option<Fed<'a>>,
}

impl<'a> Feeds<'a> {
    /// Starts the feeds that these ranks of a run need from `progress` on. They decode only what the ranks read.
    pub fn new(
        config: &Config,
        data: &'a RunData,
        options: &TrainOptions,
        schedule: &Schedule,
        ranks: Range<usize>,
        progress: &Progress,
    ) -> Result<Self> {
        let (len, batch) = (data.training.len(), options.batch.samples());
        let order = if config.data.shuffle { Order::new(len, options.seed) } else { Order::unshuffled(len) };
        let visits = Visits::shared(order, portion(schedule, PhaseKind::Train, len, batch, &ranks)?);
        let mine = visits.portion().per_batch() as usize;
        let feed = match &data.training {
            Part::Memory(_) => None,
            Part::Stream(source) => Some(Feed::new(
                source.clone(),
                FeedOptions {
                    visits: visits.clone(),
                    augment: Some((augment(config), options.seed)),
                    threads: threads(config),
                    rows: rows_ahead(config, mine).min(2 * len + mine),
                    ranks: ranks.clone(),
                    start: progress.epoch * len as u64 + progress.step_in_epoch * batch as u64,
                    end: options.epochs.max(progress.epoch) * len as u64,
                },
            )?),
        };
        let evaluated =
            |part: &'a Part, passes: Range<u64>| evaluation(config, part, options, schedule, &ranks, passes);
        let validation = evaluated(&data.validation, progress.epoch..options.epochs.max(progress.epoch))?;
        // Tested by all ranks at the end only where there are no checkpoints to go back to.
        let tested = options.checkpoint == paceline_engine::CheckpointEvery::Never && !data.validates_on_test;
        let test = data.set.test.as_ref().filter(|_| tested).map(|part| evaluated(part, 0..1)).transpose()?;
        Ok(Self { training: Fed { part: &data.training, visits, feed }, validation, test })
    }

    /// Samples to train on.
    pub fn training(&self) -> Result<Input<'_>> {
        self.training.input()
    }

    /// Samples to validate on.
    pub fn validation(&self) -> Result<Input<'_>> {
        self.validation.input()
    }

    /// Samples to test on by all ranks, if that is due.
    pub fn test(&self) -> Result<Option<Input<'_>>> {
        self.test.as_ref().map(Fed::input).transpose()
    }

    /// What the stages of the training input did.
    pub fn stages(&self) -> Vec<Stage> {
        self.training.feed.as_ref().map(Feed::stages).unwrap_or_default()
    }
}

/// A part to evaluate on these ranks: in order, without augmentation.
pub fn evaluation<'a>(
    config: &Config,
    part: &'a Part,
    options: &TrainOptions,
    schedule: &Schedule,
    ranks: &Range<usize>,
    passes: Range<u64>,
) -> Result<Fed<'a>> {
    let len = part.len();
    let portion = portion(schedule, PhaseKind::Evaluate, len, options.eval_batch, ranks)?;
    let visits = Visits::shared(Order::unshuffled(len), portion);
    let feed = match part {
        Part::Memory(_) => None,
        Part::Stream(source) => Some(Feed::new(
            source.clone(),
            FeedOptions {
                augment: None,
                threads: threads(config),
                rows: visits.portion().per_batch() as usize + AHEAD,
                ranks: ranks.clone(),
                start: passes.start * len as u64,
                end: passes.end * len as u64,
                visits: visits.clone(),
            },
        )?),
    };
    Ok(Fed { part, visits, feed })
}

impl RunData {
    /// What the verdict on input needs to know, if samples are decoded.
    pub fn facts(&self, config: &Config) -> Option<InputFacts> {
        let Part::Stream(source) = &self.training else { return None };
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
        let Part::Stream(source) = &self.training else { return None };
        let rows = rows_ahead(config, batch);
        let size: usize = source.shape().iter().product();
        Some(format!(
            "input: {} thread(s) decode ahead into {rows} rows ({}); cache {}",
            threads(config),
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
pub fn source(part: &Part) -> Option<&Arc<dyn Source>> {
    match part {
        Part::Memory(_) => None,
        Part::Stream(source) => Some(source),
    }
}
