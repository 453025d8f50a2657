//! `data.placement = "local"`: every process trains on the files that it has.
//!
//! Before training the processes tell each other what they have. From that all of them derive the same: an epoch is as many
//! samples as all have together; each process gets rows of every batch in proportion to its number (the plan's `shares`), and
//! fills them with its own samples, in an order of its own, one after another, so that each has its turn before any has a
//! second one ([`Visits::own`]). Which samples share a step then depends on where the files lie: the one exception to the rule
//! that results do not depend on the number of workers, so that such a run calls itself statistical.
//!
//! All of it is a function of the [`Holding`]s: with the same processes a resumed run goes on with the very same samples.

use crate::input::RunData;
use crate::process_group::ProcessGroup;
use paceline_base::portion::Portion;
use paceline_base::region::{split_range, weighted_ranges};
use paceline_base::{Error, Result, text};
use paceline_data::{DataPart, FeatureKind, Order, SampleKind, TargetKind, Visits, fingerprint_of};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// By how much the visits of an epoch may differ from one before it is said what helps.
const UNEVEN: f64 = 0.1;

/// How many samples a process has of one part, and which.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stock {
    /// How many.
    pub samples: usize,
    /// What they are.
    pub fingerprint: String,
}

impl Stock {
    fn of(part: &DataPart) -> Self {
        Self { samples: part.len(), fingerprint: part.fingerprint() }
    }
}

/// What one process has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// Where it runs.
    pub host: String,
    /// To train on.
    pub training: Stock,
    /// To validate on.
    pub validation: Stock,
    /// To test on, if there is something.
    pub test: Option<Stock>,
    /// What a sample is made of.
    pub kind: SampleKind,
    /// Names of the classes.
    pub classes: Vec<String>,
}

/// What is evaluated in one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Samples of a pass, over all processes.
    pub pass: usize,
    /// Whether each process has its own; else all have the same.
    pub own: bool,
}

/// What all processes have, as one of them knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    process: usize,
    holdings: Vec<Holding>,
}

impl Local {
    /// What follows if the processes have this.
    ///
    /// # Errors
    /// Names the process and host that does not fit.
    pub fn agree(holdings: Vec<Holding>, process: usize) -> Result<Self> {
        let first = &holdings[0];
        for (number, holding) in holdings.iter().enumerate() {
            let who = format!("data.placement = \"local\": process {number} on {}", holding.host);
            let Holding { kind, classes, .. } = holding;
            for (part, stock) in [("training", &holding.training), ("validation", &holding.validation)] {
                if stock.samples == 0 {
                    return Err(Error::user(format!(
                        "{who} has no {part} samples; put files there, or start no process on that host"
                    )));
                }
            }
            if kind.shape != first.kind.shape {
                return Err(Error::user(format!(
                    "{who} has samples of shape {:?}, process 0 on {} of {:?}; prepare them alike, or give data.size",
                    kind.shape, first.host, first.kind.shape
                )));
            }
            if *classes != first.classes {
                return Err(Error::user(format!(
                    "{who} has {}; all processes must have the same classes in the same order{}",
                    difference(classes, &first.classes, &first.host),
                    "; give each host a folder or an index with all of them"
                )));
            }
            if matches!(kind.features, FeatureKind::Lists { .. }) {
                return Err(Error::user(format!(
                    "{who} has lists of indices, whose lengths and largest index the processes would have to know of each other; give all of \
                     them the whole csv and data.placement = \"shared\""
                )));
            }
            if kind != &first.kind {
                return Err(Error::user(format!(
                    "{who} has {}, process 0 on {} {}; give each host values and targets of the same kind (data.targets), or \
                     data.placement = \"shared\"",
                    kind_words(kind),
                    first.host,
                    kind_words(&first.kind)
                )));
            }
        }
        Ok(Self { process, holdings })
    }

    fn mine(&self) -> &Holding {
        &self.holdings[self.process]
    }

    /// Training samples of all processes.
    pub fn samples(&self) -> usize {
        self.holdings.iter().map(|h| h.training.samples).sum()
    }

    fn pool(&self, stocks: &[&Stock]) -> Pool {
        // Where all have the same, such as one validation set copied to every host, each sample is evaluated once.
        match stocks.iter().all(|stock| *stock == stocks[0]) {
            true => Pool { pass: stocks[0].samples, own: false },
            false => Pool { pass: stocks.iter().map(|stock| stock.samples).sum(), own: true },
        }
    }

    /// What is validated on.
    pub fn validation(&self) -> Pool {
        self.pool(&self.holdings.iter().map(|h| &h.validation).collect::<Vec<_>>())
    }

    /// What is tested on, if every process has something.
    pub fn test(&self) -> Option<Pool> {
        let stocks: Option<Vec<&Stock>> = self.holdings.iter().map(|h| h.test.as_ref()).collect();
        stocks.filter(|stocks| stocks.iter().all(|stock| stock.samples > 0)).map(|stocks| self.pool(&stocks))
    }

    /// Whether the result depends on how files are spread.
    pub fn is_statistical(&self) -> bool {
        self.holdings.len() > 1
    }

    /// The weights of all ranks in the split of samples, with so many ranks in each process: each process's samples, divided
    /// over its ranks.
    ///
    /// # Errors
    /// If a process has more ranks than samples, or so few samples that no row of a batch of `batch` would be its own.
    pub fn shares(&self, ranks: &[usize], batch: usize) -> Result<Vec<u64>> {
        let mut shares = Vec::new();
        for (number, (holding, &ranks)) in self.holdings.iter().zip(ranks).enumerate() {
            let samples = holding.training.samples;
            if samples < ranks {
                return Err(Error::user(format!(
                    "data.placement = \"local\": process {number} on {} has {ranks} ranks, but only {samples} training \
                     samples; use fewer strategy.replicas, or put more files there",
                    holding.host
                )));
            }
            shares.extend((0..ranks).map(|rank| split_range(samples, ranks, rank).len() as u64));
        }
        for (number, range) in ranges_of(ranks).into_iter().enumerate() {
            if portion_of(&shares, &range, self.samples(), batch).per_batch() > 0 {
                continue;
            }
            let most = shares[range].iter().copied().max().unwrap_or(1).max(1);
            let holding = &self.holdings[number];
            return Err(Error::user(format!(
                "data.placement = \"local\": process {number} on {} has {} of {} training samples, less than one of a batch \
                 of {batch}: they would never be trained on; give train.batch of at least {}, or spread the files more evenly",
                holding.host,
                holding.training.samples,
                self.samples(),
                (self.samples() as u64).div_ceil(most)
            )));
        }
        Ok(shares)
    }

    /// The seed of this process's own order and augmentation; that of the run for process 0.
    pub fn seed(&self, seed: u64) -> u64 {
        seed.wrapping_add((self.process as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// How training visits this process's samples.
    pub fn training_visits(&self, shuffle: bool, seed: u64, portion: Portion) -> Visits {
        let len = self.mine().training.samples;
        let order = if shuffle { Order::new(len, self.seed(seed)) } else { Order::unshuffled(len) };
        Visits::own(order, portion)
    }

    /// Stands for the training samples of all processes, so that a resume can refuse others.
    pub fn fingerprint(&self) -> String {
        match &self.holdings[..] {
            [one] => one.training.fingerprint.clone(),
            many => fingerprint_of(many.iter().map(|h| h.training.fingerprint.as_bytes())),
        }
    }

    /// What is done, in words, under these shares.
    pub fn words(&self, ranks: &[usize], shares: &[u64], batch: usize) -> String {
        let visits: Vec<f64> = (ranges_of(ranks).iter().zip(&self.holdings))
            .map(|(range, holding)| {
                let rows = portion_of(shares, range, self.samples(), batch).per_pass();
                rows as f64 / holding.training.samples as f64
            })
            .collect();
        let list: Vec<String> = (self.holdings.iter().zip(&visits))
            .map(|(h, v)| format!("{} {} ({v:.2} visits an epoch)", h.host, h.training.samples))
            .collect();
        let uneven = visits.iter().any(|v| (v - 1.0).abs() > UNEVEN);
        format!(
            "data.placement = \"local\": {} on their own samples ({}); the result depends on how files are \
             spread over processes (statistical){}",
            match self.holdings.len() {
                1 => "1 process trains".to_string(),
                n => format!("{n} processes train"),
            },
            list.join(", "),
            if uneven { "; rows of a batch are whole: a larger train.batch comes closer to one visit" } else { "" }
        )
    }

    /// What the user should know of validation under these shares, if it does not see every sample once.
    pub fn validation_words(&self, ranks: &[usize], shares: &[u64], eval_batch: usize) -> Option<String> {
        let Pool { pass, own: true } = self.validation() else { return None };
        let (mut left_out, mut again) = (0, 0);
        for (range, holding) in ranges_of(ranks).iter().zip(&self.holdings) {
            let rows = portion_of(shares, range, pass, eval_batch).per_pass();
            let samples = holding.validation.samples as u64;
            left_out += samples.saturating_sub(rows);
            again += rows.saturating_sub(samples);
        }
        (left_out + again > 0).then(|| {
            format!(
                "validation visits each process's own samples in proportion to its training samples: of {} samples {} are left \
                 out and {} counted again; copy the same validation part to every host to count each once",
                pass,
                left_out,
                again
            )
        })
    }

    /// What the user should know before training.
    fn doubts(&self) -> Vec<String> {
        let mut words: Vec<String> = self.twins().into_iter().collect();
        let without = self.holdings.iter().find(|h| h.test.as_ref().is_none_or(|stock| stock.samples == 0));
        if let (Some(h), true) = (without, self.holdings.iter().any(|h| h.test.is_some())) {
            words.push(format!("nothing is tested: {} has no test samples", h.host));
        }
        words
    }

    /// Processes that have the same.
    fn twins(&self) -> Option<String> {
        let twin = |(at, h): (usize, &Holding)| {
            let earlier = self.holdings[..at].iter().find(|e| e.training == h.training)?;
            Some(format!(
                "{} and {} have the same training samples, and both train on them; data.placement = \"shared\" would visit \
                 each once an epoch",
                earlier.host, h.host
            ))
        };
        self.holdings.iter().enumerate().find_map(twin)
    }
}

/// Tells the other processes what this one has, and learns what they have. All must call it.
///
/// # Errors
/// If it does not fit together: the same error on all.
pub(crate) fn place(data: &mut RunData, group: &mut ProcessGroup) -> Result<()> {
    let world = group.world()?;
    let (process, host) = (world.process(), world.hosts()[world.process()].clone());
    let local = Local::agree(group.exchange(&Holding::of(data, host))?, process)?;
    data.notes.extend(local.doubts());
    data.local = Some(local);
    Ok(())
}

impl Holding {
    /// What a process has.
    pub fn of(data: &RunData, host: String) -> Self {
        Self {
            host,
            training: Stock::of(&data.training),
            validation: Stock::of(&data.validation),
            test: data.set.test.as_ref().map(Stock::of),
            kind: data.sample_kind(),
            classes: data.training.class_names().to_vec(),
        }
    }
}

/// The ranks of each process, with so many in each.
pub(crate) fn ranges_of(ranks: &[usize]) -> Vec<Range<usize>> {
    let mut first = 0;
    let range = |&n: &usize| {
        first += n;
        first - n..first
    };
    ranks.iter().map(range).collect()
}

/// The rows of these ranks where samples are split by shares and nothing else is split.
fn portion_of(shares: &[u64], ranks: &Range<usize>, pass: usize, batch: usize) -> Portion {
    let batch = batch.min(pass);
    let rows = |samples: usize| weighted_ranges(samples, shares).into_iter().skip(ranks.start).take(ranks.len());
    Portion::new(pass, batch, rows(batch), rows(pass % batch))
}

/// "lists of indices below 90 with 2 numbers to be met".
fn kind_words(kind: &SampleKind) -> String {
    let features = match kind.features {
        FeatureKind::Dense => "dense features".to_string(),
        FeatureKind::Lists { bound, .. } => format!("lists of indices below {bound}"),
    };
    let targets = match kind.targets {
        TargetKind::Classes { classes, each } => format!("{each} of {classes} classes"),
        TargetKind::Numbers { each } => text::counted(each, "number") + " to be met",
    };
    format!("{features} with {targets}")
}

fn difference(mine: &[String], first: &[String], host: &str) -> String {
    let lacks = |these: &[String], those: &[String]| these.iter().find(|name| !those.contains(name)).cloned();
    match (lacks(first, mine), lacks(mine, first)) {
        (Some(name), _) => format!("no class {name:?}, which process 0 on {host} has"),
        (None, Some(name)) => format!("a class {name:?}, which process 0 on {host} has not"),
        (None, None) => format!("the classes of process 0 on {host} in another order"),
    }
}

#[cfg(test)]
mod tests;
