//! What brings the samples of a run to the ranks of this process: which sample stands where, and the feeds that decode.

use super::{RunData, augment, threads};
use crate::local_data::Pool;
use paceline_base::portion::Portion;
use paceline_base::stage::StageFigures;
use paceline_base::{Error, Result};
use paceline_config::{Auto, Config};
use paceline_data::{DataPart, Order, Visits};
use paceline_engine::{Input, TrainOptions, TrainState};
use paceline_plan::{PhaseKind, Schedule};
use paceline_prepare::feed::{Feed, FeedOptions};
use std::ops::Range;

/// Rows that are made ready ahead at least, whatever the batch.
const AHEAD: usize = 64;
/// Batches that are made ready ahead.
const PREFETCH: usize = 2;

/// Rows made ready ahead of a batch.
fn ahead(config: &Config, batch: usize) -> usize {
    match config.data.prefetch {
        Auto::Is(batches) => batches * batch,
        Auto::Auto => (PREFETCH * batch).max(AHEAD),
    }
}

/// Rows that the training feed holds.
pub(crate) fn rows_ahead(config: &Config, batch: usize) -> usize {
    batch + ahead(config, batch)
}

/// The rows that these ranks read in passes of `pass` samples.
pub(super) fn portion(
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
pub(crate) struct Fed<'a> {
    part: &'a DataPart,
    visits: Visits,
    feed: Option<Feed>,
}

impl Fed<'_> {
    /// As the engine reads it.
    pub(crate) fn input(&self) -> Result<Input<'_>> {
        match (self.part, &self.feed) {
            (DataPart::Memory(samples), _) => Ok(Input::Memory { samples: &**samples, visits: &self.visits }),
            (DataPart::Stream(_), Some(feed)) => Ok(Input::Supply { supply: feed, len: self.visits.len() }),
            (DataPart::Stream(_), None) => Err(Error::internal("a part without a feed")),
        }
    }
}

/// What brings samples to the ranks of this process.
pub(crate) struct Feeds<'a> {
    training: Fed<'a>,
    validation: Fed<'a>,
    test: Option<Fed<'a>>,
}

impl<'a> Feeds<'a> {
    /// Starts the feeds that these ranks of a run need from `progress` on. They decode only what the ranks read.
    pub(crate) fn new(
        config: &Config,
        data: &'a RunData,
        options: &TrainOptions,
        schedule: &Schedule,
        ranks: Range<usize>,
        progress: &TrainState,
    ) -> Result<Self> {
        let (len, batch) = (data.samples(), options.batch.samples());
        let portion = portion(schedule, PhaseKind::Train, len, batch, &ranks)?;
        let shuffle = config.data.shuffle;
        let (visits, seed) = match &data.local {
            Some(local) => (local.training_visits(shuffle, options.seed, portion), local.seed(options.seed)),
            None => {
                let order = if shuffle { Order::new(len, options.seed) } else { Order::unshuffled(len) };
                (Visits::shared(order, portion), options.seed)
            }
        };
        let mine = visits.portion().per_batch() as usize;
        let feed = match &data.training {
            DataPart::Memory(_) => None,
            DataPart::Stream(source) => Some(Feed::new(
                source.clone(),
                FeedOptions {
                    visits: visits.clone(),
                    augment: Some((augment(config), seed)),
                    threads: threads(config),
                    rows: rows_ahead(config, mine).min(2 * len + mine),
                    ranks: ranks.clone(),
                    start: progress.epoch * len as u64 + progress.position,
                    end: options.epochs.max(progress.epoch) * len as u64,
                },
            )?),
        };
        let evaluated = |part: &'a DataPart, pool: Pool, passes: Range<u64>| {
            evaluation(config, part, pool, options, schedule, &ranks, passes)
        };
        let passes = progress.epoch..options.epochs.max(progress.epoch);
        let validation = evaluated(&data.validation, data.validation_pool(), passes)?;
        // Tested by all ranks at the end only where there are no checkpoints to go back to.
        let tested = options.checkpoint == paceline_engine::CheckpointEvery::Never && !data.validates_on_test;
        let test = match (&data.set.test, data.test_pool()) {
            (Some(part), Some(pool)) if tested => Some(evaluated(part, pool, 0..1)?),
            _ => None,
        };
        Ok(Self { training: Fed { part: &data.training, visits, feed }, validation, test })
    }

    /// Samples to train on.
    pub(crate) fn training(&self) -> Result<Input<'_>> {
        self.training.input()
    }

    /// Samples to validate on.
    pub(crate) fn validation(&self) -> Result<Input<'_>> {
        self.validation.input()
    }

    /// Samples to test on by all ranks, if that is due.
    pub(crate) fn test(&self) -> Result<Option<Input<'_>>> {
        self.test.as_ref().map(Fed::input).transpose()
    }

    /// What the stages of the training input did.
    pub(crate) fn stages(&self) -> Vec<StageFigures> {
        self.training.feed.as_ref().map(Feed::stages).unwrap_or_default()
    }
}

/// A part to evaluate on these ranks: in order, without augmentation.
pub(crate) fn evaluation<'a>(
    config: &Config,
    part: &'a DataPart,
    Pool { pass, own }: Pool,
    options: &TrainOptions,
    schedule: &Schedule,
    ranks: &Range<usize>,
    passes: Range<u64>,
) -> Result<Fed<'a>> {
    let portion = portion(schedule, PhaseKind::Evaluate, pass, options.eval_batch, ranks)?;
    let order = Order::unshuffled(part.len());
    let visits = if own { Visits::own_again(order, portion) } else { Visits::shared(order, portion) };
    let feed = match part {
        DataPart::Memory(_) => None,
        DataPart::Stream(source) => Some(Feed::new(
            source.clone(),
            FeedOptions {
                augment: None,
                threads: threads(config),
                rows: visits.portion().per_batch() as usize + AHEAD,
                ranks: ranks.clone(),
                start: passes.start * pass as u64,
                end: passes.end * pass as u64,
                visits: visits.clone(),
            },
        )?),
    };
    Ok(Fed { part, visits, feed })
}
