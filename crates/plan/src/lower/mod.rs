//! Lowering: graph + plan → schedule, in passes.
//!
//! 1. parts ([`Plan::parts`]): how each operator is split, and what each part needs; from them the buckets of parameters ([`store`]);
//! 2. fragments: the tasks of each [`operator`], each [`tensor`] with all its readers, and each [`bucket`], under names of their own;
//! 3. [`order`]: which stands where in the step; the number of a message is its place in it;
//! 4. [`fuse`]: kernels that a device takes as one are joined;
//! 5. [`waits`]: until when messages are under way, and what is left to the next step;
//! 6. memory ([`crate::memory`]): where the buffers lie, for a schedule that will run.
//!
//! Each pass works on names, so that after a change to one operator only what is around it is lowered [`again`].

mod again;
mod bucket;
mod fuse;
mod operator;
mod order;
mod scope;
mod segment;
mod store;
mod tensor;
mod waits;
mod work;

use crate::memory;
use crate::plan::Plan;
use crate::schedule::{PhaseKind, Schedule};
pub use again::Lowering;
pub use order::MicroBatches;
use paceline_base::Result;
use paceline_base::kernel::DeviceKind;
use paceline_base::optim::Rule;
use paceline_graph::Graph;
use std::sync::Arc;

/// The batch sizes to plan for: full, last partial, evaluation. Others are planned when they come ([`Phases`](crate::Phases)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batches {
    /// Global batches in training.
    pub train: Vec<usize>,
    /// Global batches in evaluation.
    pub evaluate: Vec<usize>,
}

impl Batches {
    /// Each kind of step once, training first.
    fn kinds(&self) -> Vec<(PhaseKind, usize)> {
        let train = self.train.iter().map(|&n| (PhaseKind::Train, n));
        let mut kinds = Vec::new();
        for kind in train.chain(self.evaluate.iter().map(|&n| (PhaseKind::Evaluate, n))) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }
}

/// The kinds of device of the ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct Devices(Vec<DeviceKind>);

impl Devices {
    /// All ranks have the same kind.
    pub fn alike(kind: DeviceKind) -> Self {
        Self(vec![kind])
    }

    /// By rank; the last holds for all further ranks.
    ///
    /// # Panics
    /// If there is none.
    pub fn by_rank(kinds: Vec<DeviceKind>) -> Self {
        assert!(!kinds.is_empty(), "a rank without a device");
        Self(kinds)
    }

    fn of(&self, rank: usize) -> &DeviceKind {
        &self.0[rank.min(self.0.len() - 1)]
    }
}

/// What a schedule depends on beside the model, the plan and the batches.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How parameters move.
    pub rule: Rule,
    /// What the ranks compute on.
    pub devices: Devices,
    /// Whether updates whose gradients are still on their way are left to the next step. The results are the same; it pays where they travel
    /// while the ranks compute.
    pub defer_updates: bool,
    /// Whether a batch is computed at once.
    pub micro_batches: MicroBatches,
    /// How much room lists of indices have; of no meaning for dense samples.
    pub lists: ListRoom,
}

/// As many of the longest lists are looked at one by one: batches are seldom larger.
const BATCHED: usize = 1 << 16;

/// How many indices there is room for in the lists of some samples. Memory grows with it, between steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRoom {
    /// In every list beyond those of `longest`, on the average.
    per_list: usize,
    /// By number of lists: what so many of the longest have together.
    longest: Arc<[usize]>,
    /// Indices of all lists, and how many lists, where these are known.
    all: (usize, usize),
    /// Lists, and the most indices that so many had together.
    marks: Vec<(usize, usize)>,
}

impl ListRoom {
    /// Room for lists of this length, on the average.
    pub fn new(per_list: usize) -> Self {
        Self { per_list, ..Self::default() }
    }

    /// Room for any choice of lists of these lengths, each of which is chosen at most once.
    pub fn of_lengths(lengths: impl IntoIterator<Item = usize>) -> Self {
        let mut lengths: Vec<usize> = lengths.into_iter().collect();
        let all = (lengths.iter().sum(), lengths.len());
        if lengths.len() > BATCHED {
            lengths.select_nth_unstable_by(BATCHED, |a, b| b.cmp(a));
            lengths.truncate(BATCHED);
        }
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        let per_list = lengths.last().copied().unwrap_or(0);
        let sums = lengths.iter().scan(0, |sum: &mut usize, length| {
            *sum = sum.saturating_add(*length);
            Some(*sum)
        });
        Self { per_list, longest: sums.collect(), all, marks: Vec::new() }
    }

    /// Room in so many lists together.
    pub fn entries(&self, lists: usize) -> usize {
        let known = lists.min(self.longest.len());
        let longest = known.checked_sub(1).map_or(0, |at| self.longest[at]);
        let marked = self.marks.iter().filter(|mark| mark.0 <= lists).map(|mark| mark.1).max();
        (lists - known).saturating_mul(self.per_list).saturating_add(longest).max(marked.unwrap_or(0))
    }

    /// Indices to be expected in so many lists: as many as lists have on the average, or as there is room for.
    pub fn expected(&self, lists: usize) -> usize {
        match self.all {
            (_, 0) => self.entries(lists),
            (indices, all) => (indices as u128 * lists as u128 / all as u128) as usize,
        }
    }

    /// Makes room for so many indices in so many lists, with a quarter to spare.
    pub(crate) fn raise(&mut self, lists: usize, entries: usize) {
        let room = self.entries(lists).max(entries.saturating_add(entries / 4));
        self.marks.retain(|mark| mark.0 != lists);
        self.marks.push((lists, room));
    }
}

impl Settings {
    /// Whole batches, and every update in its own step.
    pub fn new(rule: Rule, kind: DeviceKind) -> Self {
        Self {
            rule,
            devices: Devices::alike(kind),
            defer_updates: false,
            micro_batches: MicroBatches::One,
            lists: ListRoom::default(),
        }
    }
}

/// Lowers a model under a plan to the schedule that the engine executes and the simulator costs, with its memory laid out.
pub fn lower(graph: &Graph, plan: &Plan, batches: &Batches, settings: &Settings) -> Result<Schedule> {
    let mut schedule = Lowering::new(graph, plan, batches, settings)?.schedule();
    memory::lay_out(&mut schedule);
    Ok(schedule)
}
