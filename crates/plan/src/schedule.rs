//! The schedule: what every rank does in one step, as data. Serialisable, printable, comparable.
//!
//! Tasks stand in one global order; a rank's program is that order, filtered. Every message and collective has a
//! sequence number, and every rank issues in that order: no deadlock by construction.

use crate::plan::Compression;
use paceline_base::collective::Collective;
use paceline_base::kernel::{Arena, BufferId, Call};
use paceline_base::optim::Rule;
use paceline_base::region::Region;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Index of a task in its phase.
pub type TaskId = usize;

/// How much a task moves or computes on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Size {
    /// This many elements.
    Exact(usize),
    /// A sparse amount.
    UpTo {
        /// Elements at most: what memory is planned for.
        max: usize,
        /// Elements on average: what the simulator costs.
        expected: usize,
    },
}

/// "After that task": of this step (lag 0), of the one before (lag 1), or of s steps before (bounded staleness).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Edge {
    /// Index in the same phase.
    pub task: TaskId,
    /// How many steps back.
    pub lag: usize,
}

/// What a task does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TaskKind {
    /// Sets the rank's metrics to zero and its control word to the rank's wish.
    Begin {
        /// `[loss, correct, count, control]`
        metrics: BufferId,
    },
    /// Puts a region of the data into a buffer.
    Load {
        /// Buffer of the task's rank that is filled.
        buffer: BufferId,
        /// Samples of the batch, and the region of each sample's own coordinates.
        rows: Range<usize>,
        /// Region within one sample.
        region: Region,
        /// Shape of one sample, as this buffer's reader sees it.
        shape: Vec<usize>,
    },
    /// Puts class labels into a buffer.
    LoadLabels {
        /// Buffer of the task's rank that is filled.
        buffer: BufferId,
        /// Samples of the batch.
        rows: Range<usize>,
    },
    /// Runs a kernel.
    Compute(Call),
    /// Sends a buffer from this task's rank to another.
    Transfer {
        /// Rank that receives it.
        to: usize,
        /// Buffer on the sender.
        source: BufferId,
        /// Buffer on the receiver.
        target: BufferId,
    },
    /// A collective among several ranks, in place.
    Collective {
        /// What becomes of the members' buffers.
        what: Collective,
        /// Ranks that take part, ascending.
        group: Vec<usize>,
        /// The buffer of each member.
        buffers: Vec<BufferId>,
    },
    /// Moves parameters by their gradients.
    Update(Call),
}

/// One entry of the schedule: a kernel, a message, a collective, a load or an update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The rank that runs it (sender of a transfer; first member of a collective).
    pub rank: usize,
    /// The operator, by node number; `None` for what serves several.
    pub node: Option<usize>,
    /// Which part of the operator.
    pub part: usize,
    /// What it does.
    pub kind: TaskKind,
    /// Elements that it moves or makes; for costs, never for loops.
    pub size: Size,
    /// Global issue order of messages and collectives.
    pub seq: Option<u64>,
    /// What must be done before.
    pub after: Vec<Edge>,
}

/// Forward, backward and update; or forward only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PhaseKind {
    /// One training step.
    Train,
    /// One evaluation step.
    Evaluate,
}

/// One kind of step, for one batch size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Whether it trains.
    pub kind: PhaseKind,
    /// Samples in its (global) batch.
    pub samples: usize,
    /// In issue order, of all ranks.
    pub tasks: Vec<Task>,
}

/// How long a buffer lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Life {
    /// Parameters, gradients, optimiser state, metrics: for the whole run.
    Run,
    /// Within a step of one phase.
    Step(usize),
    /// A range of another buffer, from this element on.
    Within(BufferId, usize),
}

/// One buffer of one rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Buffer {
    /// For people (`--explain`, errors); never looked up.
    pub name: String,
    /// Number of elements.
    pub len: usize,
    /// How long it lives.
    pub life: Life,
}

/// A parameter region inside a bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BucketEntry {
    /// Global name of the parameter.
    pub param: String,
    /// Its number in the model.
    pub id: u32,
    /// Its coordinates in the whole parameter.
    pub region: Region,
    /// First element in the bucket.
    pub offset: usize,
    /// L2 penalty of its update.
    pub l2: f64,
}

/// Parameters that live on the same ranks and travel together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// Ranks that hold it, ascending.
    pub group: Vec<usize>,
    /// What is in it.
    pub entries: Vec<BucketEntry>,
    /// Number of elements.
    pub len: usize,
    /// True if each member keeps the optimiser state of its chunk only.
    pub sharded: bool,
    /// False for what the forward pass itself moves, alike on every member (running moments): it is saved and restored,
    /// but has neither gradients nor optimiser state, and no task updates or exchanges it.
    pub trained: bool,
    /// By member: parameters.
    pub params: Vec<BufferId>,
    /// By member: gradients; none if it is not trained.
    pub grads: Vec<BufferId>,
    /// By member: optimiser state tensors; none if it is not trained.
    pub states: Vec<Vec<BufferId>>,
    /// By member: what compression holds back of gradients, if it does.
    pub held_back: Vec<BufferId>,
    /// How its gradients travel.
    pub compression: Compression,
}

impl Bucket {
    /// The elements whose optimiser state member `index` keeps.
    pub fn state_range(&self, index: usize) -> Range<usize> {
        if self.sharded { paceline_base::collective::chunk(self.len, self.group.len(), index) } else { 0..self.len }
    }
}

/// Everything that all ranks do, and the memory they need for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Number of ranks.
    pub ranks: usize,
    /// How parameters move.
    pub rule: Rule,
    /// By rank, then by [`BufferId`].
    pub buffers: Vec<Vec<Buffer>>,
    /// By rank: where the buffers lie.
    pub arenas: Vec<Arena>,
    /// Parameters by bucket.
    pub buckets: Vec<Bucket>,
    /// By rank: `[loss, correct, count, control]`.
    pub metrics: Vec<BufferId>,
    /// Kinds of steps.
    pub phases: Vec<Phase>,
}

impl Task {
    /// The buffers it reads and writes, as (rank, buffer, writes).
    pub fn touches(&self) -> Vec<(usize, BufferId, bool)> {
        match &self.kind {
            TaskKind::Begin { metrics } => vec![(self.rank, *metrics, true)],
            TaskKind::Load { buffer, .. } | TaskKind::LoadLabels { buffer, .. } => vec![(self.rank, *buffer, true)],
            TaskKind::Compute(call) | TaskKind::Update(call) => {
                let writes = call.kernel.writes();
                call.args.iter().enumerate().map(|(i, &b)| (self.rank, b, writes.contains(&i))).collect()
            }
            TaskKind::Transfer { to, source, target } => vec![(self.rank, *source, false), (*to, *target, true)],
            TaskKind::Collective { group, buffers, .. } => {
                group.iter().zip(buffers).map(|(&r, &b)| (r, b, true)).collect()
            }
        }
    }

    /// True if this rank takes part.
    pub fn involves(&self, rank: usize) -> bool {
        match &self.kind {
            TaskKind::Transfer { to, .. } => self.rank == rank || *to == rank,
            TaskKind::Collective { group, .. } => group.contains(&rank),
            _ => self.rank == rank,
        }
    }
}

impl Phase {
    /// The rows of the batch that a rank reads: from the first to the last that it loads anything of.
    pub fn rows(&self, rank: usize) -> Range<usize> {
        let loaded = self.tasks.iter().filter(|task| task.rank == rank).filter_map(|task| match &task.kind {
            TaskKind::Load { rows, .. } | TaskKind::LoadLabels { rows, .. } => Some(rows.clone()),
            _ => None,
        });
        loaded.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0)
    }
}

impl Schedule {
    /// The phase for a batch of `samples`.
    pub fn phase(&self, kind: PhaseKind, samples: usize) -> Option<usize> {
        self.phases.iter().position(|p| p.kind == kind && p.samples == samples)
    }

    /// The buffer that holds the storage of `buffer`.
    pub fn root(&self, rank: usize, buffer: BufferId) -> BufferId {
        match self.buffers[rank][buffer.0 as usize].life {
            Life::Within(outer, _) => self.root(rank, outer),
            _ => buffer,
        }
    }
}
