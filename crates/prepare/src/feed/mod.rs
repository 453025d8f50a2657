//! Training input: worker threads fetch, decode and augment samples ahead of the engine.
//!
//! A [`Feed`] is a ring of rows. Workers claim positions in order (position = sample of a pass, counted over all passes,
//! see [`Supply`]; only those that the ranks of this process read), fill the row that belongs to it, and go on until the ring
//! is full; ranks wait for the rows they need and say what they have read. What a row holds is a function of (seed, epoch, sample) alone, so that neither the number
//! of input threads nor that of replicas changes a bit, and a run goes on in mid-epoch with the very same rows.
//!
//! Rooms: `ring` (who waits for whom), `augment` (flip, crop, colours), [`cache`] (decoded samples in memory or on
//! disk, as a source around a source), [`check`] (finding bad samples before training).

mod augment;
pub mod cache;
mod check;
mod ring;

pub use augment::Augment;
pub(crate) use augment::Augmenter;
pub use cache::{DiskCache, MemoryCache};
pub use check::{Checked, check};

use crate::panic::{self, caught};
use crate::stage::Clock;
use paceline_base::stage::{Stage, StageFigures};
use paceline_base::{Error, Result};
use paceline_data::{Features, Scratch, Source, StageTimes, Supply, Target, Visits};
use ring::Ring;
use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

/// What a feed delivers, and how far ahead.
#[derive(Clone, Debug)]
pub struct FeedOptions {
    /// Which sample stands where, and which are read here; a pass is an epoch. The others are neither read nor decoded, and
    /// take no row.
    pub visits: Visits,
    /// What is done to training samples, if anything, and the seed of it.
    pub augment: Option<(Augment, u64)>,
    /// Worker threads, at least 1.
    pub threads: usize,
    /// Rows that are kept at once; at least what is read here of the largest batch.
    pub rows: usize,
    /// Ranks that read it, by their numbers among all.
    pub ranks: Range<usize>,
    /// The first position.
    pub start: u64,
    /// After the last position.
    pub end: u64,
}

/// Rows made ready by worker threads. Dropping it ends them.
pub struct Feed {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

struct Shared {
    source: Arc<dyn Source>,
    visits: Visits,
    /// The first rank that reads it.
    first: usize,
    augment: Option<(Augment, u64)>,
    ring: Ring,
    clocks: [Clock; STAGES],
    deliver: Clock,
    /// By position; there is room for few because the first one ends training.
    errors: std::sync::Mutex<Vec<(u64, Error)>>,
    /// What a worker that is gone panicked with, outside of the work on a sample.
    lost: std::sync::OnceLock<String>,
}

const STAGES: usize = Stage::ALL.len();

impl Feed {
    /// Starts the workers.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn new(source: Arc<dyn Source>, options: FeedOptions) -> Result<Self> {
        let FeedOptions { visits, augment, threads, rows, ranks, start, end } = options;
        let size = source.shape().iter().product();
        let augment = augment.filter(|(augment, _)| !augment.is_nothing());
        let shared = Arc::new(Shared {
            source,
            first: ranks.start,
            augment,
            ring: Ring::new(
                rows.max(threads),
                size,
                ranks.len(),
                visits.portion().before(start),
                visits.portion().before(end),
            ),
            visits,
            clocks: Default::default(),
            deliver: Clock::default(),
            errors: std::sync::Mutex::default(),
            lost: std::sync::OnceLock::new(),
        });
        let mut feed = Self { shared, workers: Vec::new() };
        for number in 0..threads.max(1) {
            let shared = feed.shared.clone();
            let worker = std::thread::Builder::new()
                .name(format!("input-{number}"))
                .spawn(move || shared.live())
                .map_err(|e| Error::failure(format!("an input thread cannot start: {e}; lower data.threads")))?;
            feed.workers.push(worker);
        }
        Ok(feed)
    }

    /// What each stage did so far. The last one is the delivery: `starved` are ranks that waited for rows, `blocked`
    /// are workers that waited for room.
    pub fn stages(&self) -> Vec<StageFigures> {
        let threads = self.workers.len();
        let clocks = Stage::ALL.into_iter().zip(&self.shared.clocks);
        let mut stages: Vec<StageFigures> = clocks.map(|(stage, clock)| clock.figures(stage, threads)).collect();
        stages.retain(|stage| stage.items > 0);
        stages.push(self.shared.deliver.figures(Stage::Deliver, threads));
        stages
    }

    /// Makes everybody who waits give up.
    pub fn stop(&self) {
        self.shared.ring.stop();
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.stop();
        for worker in self.workers.drain(..) {
            let _ = worker.join(); // a panic was turned into an error where it happened
        }
    }
}

impl Shared {
    /// The life of a worker. A panic that belongs to no sample stops the feed, so that no rank waits for its rows.
    fn live(&self) {
        if let Err(why) = caught(|| self.work()) {
            let _ = self.lost.set(why);
            self.ring.stop();
        }
    }

    /// Why there are no more rows.
    fn stopped(&self) -> Error {
        match self.lost.get() {
            Some(why) => Error::internal(format!("an input thread panicked: {why}")),
            None => Error::failure("the input was stopped"),
        }
    }

    fn work(&self) {
        let mut scratch = Scratch::default();
        let mut augmenter = Augmenter::default();
        let mut plain = vec![0; self.ring.size()];
        while let Some(number) = self.ring.claim(&self.deliver) {
            let before = scratch.times;
            let position = self.visits.portion().at(number);
            self.ring.fill(number, |row| {
                let result = caught(|| self.one(position, &mut scratch, &mut augmenter, &mut plain, row));
                self.count(&before, &scratch.times);
                let result = result.unwrap_or_else(|why| {
                    let place = caught(|| self.source.place(self.sample(position).1));
                    Err(panic::error("input", place.unwrap_or_else(|_| format!("position {position}")), &why))
                });
                if let Err(error) = result {
                    self.errors.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((position, error));
                    return false;
                }
                true
            });
        }
    }

    /// Epoch and sample at a position.
    fn sample(&self, position: u64) -> (u64, usize) {
        let len = self.visits.len() as u64;
        self.visits.at(position / len, position % len)
    }

    fn one(
        &self,
        position: u64,
        scratch: &mut Scratch,
        augmenter: &mut Augmenter,
        plain: &mut [u8],
        row: &mut [u8],
    ) -> Result<()> {
        let (epoch, sample) = self.sample(position);
        let Some((augment, seed)) = &self.augment else {
            return Ok(self.source.fetch(sample, scratch, row)?);
        };
        self.source.fetch(sample, scratch, plain)?;
        let begin = Instant::now();
        augmenter.apply(augment, *seed, epoch, sample as u64, self.source.shape(), plain, row);
        scratch.times.add(Stage::Augment, begin);
        Ok(())
    }

    fn count(&self, before: &StageTimes, after: &StageTimes) {
        for (stage, clock) in Stage::ALL.into_iter().zip(&self.clocks) {
            if after.count[stage as usize] > before.count[stage as usize] {
                clock.worked(self.ring.size(), after.since(before, stage));
            }
        }
    }

    fn error_at(&self, position: u64) -> Error {
        let errors = self.errors.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some((_, error)) = errors.iter().find(|(p, _)| *p == position) else {
            return self.stopped();
        };
        let text =
            format!("{}; or leave bad samples out: data.skip_bad=N finds up to N before training", error.message());
        match error.kind() {
            kind @ (paceline_base::Kind::User | paceline_base::Kind::Failure) => Error::new(kind, text),
            kind => Error::new(kind, error.message()),
        }
    }
}

impl Supply for Feed {
    fn wait(&self, rank: usize, positions: Range<u64>) -> Result<()> {
        let Shared { visits, ring, first, deliver, .. } = &*self.shared;
        let numbers = visits.portion().before(positions.start)..visits.portion().before(positions.end);
        if numbers.end - numbers.start < positions.end.saturating_sub(positions.start) {
            return Err(Error::internal(format!(
                "rank {rank} reads positions {positions:?}, which were not asked for"
            )));
        }
        ring.wait(rank - first, numbers, deliver).map_err(|ring::Gone(number)| match number {
            Some(number) => self.shared.error_at(visits.portion().at(number)),
            None => self.shared.stopped(),
        })
    }

    fn look(&self, position: u64, at: &mut dyn FnMut(Features<'_>)) {
        let number = self.shared.visits.portion().before(position);
        self.shared.ring.look(number, |bytes| at(Features::U8 { bytes, scale: 1.0 / 255.0, offset: 0.0 }));
    }

    fn label(&self, position: u64) -> u32 {
        self.shared.source.label(self.shared.sample(position).1)
    }

    fn target(&self, position: u64) -> Target<'_> {
        self.shared.source.target(self.shared.sample(position).1)
    }

    fn release(&self, rank: usize, position: u64) {
        let Shared { visits, ring, first, .. } = &*self.shared;
        ring.release(rank - first, visits.portion().before(position));
    }
}
