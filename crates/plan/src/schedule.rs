//! The schedule: what every rank does in one step, as data, and all of it. Serialisable, printable, comparable.
//!
//! A step is the body of a loop. Its tasks stand in one order, segment by segment; a rank does those that involve it, one after
//! another ([`program`](crate::program)). Between ranks only messages order anything: each says before which task every rank that
//! takes part waits for it ([`Await`]), and all ranks issue them in the one order, so that no two can wait for each other. A task of
//! stage 1 is left to the next step, at the place that this one's phase names ([`Phase::first_uses`]).

use crate::key::{BucketKey, BufferKey, BufferRole, SegmentKey, TaskKey};
use crate::memory::Memory;
use crate::plan::Compression;
use paceline_base::collective::Exchange;
use paceline_base::kernel::{Call, Elements};
use paceline_base::metric::Metric;
use paceline_base::optim::Rule;
use paceline_base::region::Region;
use paceline_base::sample::{IndexWidth, TargetKind};
use paceline_base::units::DType;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// What a task does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TaskKind {
    /// Sets the rank's metrics to zero.
    ClearMetrics,
    /// Puts a region of the data into a buffer.
    Load {
        /// Buffer of the task's rank that is filled.
        buffer: BufferKey,
        /// Samples of the batch, and the region of each sample's own coordinates.
        rows: Range<usize>,
        /// Region within one sample.
        region: Region,
        /// Shape of one sample, as this buffer's reader sees it.
        shape: Vec<usize>,
    },
    /// Puts lists of indices into a buffer, as [`EmbeddingDims`](paceline_base::kernel::EmbeddingDims) says.
    LoadLists {
        /// Buffer of the task's rank that is filled.
        buffer: BufferKey,
        /// Samples of the batch.
        rows: Range<usize>,
        /// Indices that there is room for, in all lists together.
        entries: usize,
        /// What an index is.
        width: IndexWidth,
    },
    /// Puts the targets of samples into a buffer.
    LoadTargets {
        /// Buffer of the task's rank that is filled.
        buffer: BufferKey,
        /// Samples of the batch.
        rows: Range<usize>,
        /// What they are.
        targets: TargetKind,
    },
    /// Runs a kernel.
    Compute(Call<BufferKey>),
    /// Sends a buffer from this task's rank to another.
    Transfer {
        /// Rank that receives it.
        to: usize,
        /// Buffer on the sender.
        source: BufferKey,
        /// Buffer on the receiver.
        target: BufferKey,
        /// What it is of the node's tensor.
        region: Region,
        /// What is sent.
        elements: Elements,
    },
    /// A collective among several ranks, in place.
    Collective {
        /// What becomes of the members' buffers, and how the numbers travel.
        what: Exchange,
        /// Ranks that take part, ascending.
        group: Arc<[usize]>,
        /// The buffer of each member.
        buffers: Vec<BufferKey>,
    },
    /// Moves parameters by their gradients.
    Update(Call<BufferKey>),
}

/// Until when a message is under way for one of the ranks that take part, and its buffer on loan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Await {
    /// The rank waits for it before this task.
    Before(TaskKey),
    /// The rank waits for it when all its other tasks of the step are done.
    StepEnd,
}

/// One entry of the schedule: a kernel, a message, a collective, a load or an update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its number in the segment: see [`TaskKey`].
    pub index: u32,
    /// The rank that runs it (sender of a transfer; first member of a collective).
    pub rank: usize,
    /// Which part of the operator.
    pub part: usize,
    /// What it does.
    pub kind: TaskKind,
    /// Elements that it moves or makes, at most where that varies; for costs, never for loops.
    pub size: usize,
    /// 0: runs in its own step. 1: runs within the next one, before that step's first task that uses what it moves.
    pub stage: u8,
    /// Of a message: until when it is under way, for the sender and the receiver, or by member.
    pub awaited: Vec<Await>,
}

/// A buffer that a segment makes for the time of a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Buffer {
    /// What it is called.
    pub key: BufferKey,
    /// Whose it is.
    pub rank: usize,
    /// Number of elements; the largest, if it varies.
    pub len: usize,
    /// What they are.
    pub elements: Elements,
    /// Whether each step has its own number of them, which travels with messages.
    pub varies: bool,
    /// The buffer of the same rank that it is a range of, and from which element on; none if it has memory of its own.
    pub within: Option<(BufferKey, usize)>,
}

impl Buffer {
    /// One of floats, always as many.
    pub(crate) fn floats(key: BufferKey, rank: usize, len: usize, within: Option<(BufferKey, usize)>) -> Self {
        Self { key, rank, len, elements: Elements::Float, varies: false, within }
    }

    /// Bytes on a device with these floats, at most.
    pub(crate) fn bytes(&self, float: DType) -> usize {
        self.len * self.elements.dtype(float).size()
    }
}

/// Tasks that were lowered together, and the buffers that they make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// What it is called.
    pub key: SegmentKey,
    /// In issue order.
    pub tasks: Vec<Task>,
    /// For one step.
    pub buffers: Vec<Buffer>,
    /// How many of the tasks are messages: transfers and collectives.
    pub messages: u32,
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
    pub segments: Vec<Arc<Segment>>,
    /// By bucket, then by member: this phase's first task that uses it, before which what an earlier step left over must be done.
    /// Empty for buckets of which nothing is left over, in any phase.
    pub first_uses: Vec<Vec<Option<TaskKey>>>,
}

/// A parameter region inside a bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BucketEntry {
    /// Global name of the parameter.
    pub param: String,
    /// Its number in the model.
    pub id: u32,
    /// The operator that it belongs to, and its number there.
    pub of: (usize, usize),
    /// Its coordinates in the whole parameter.
    pub region: Region,
    /// First element in the bucket.
    pub offset: usize,
    /// L2 penalty of its update.
    pub l2: f64,
    /// By member: the first part on that rank that uses it, by which its buffers are called.
    pub parts: Arc<[u32]>,
}

/// Parameters that live on the same ranks and travel together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// What it is called.
    pub key: BucketKey,
    /// Ranks that hold it, ascending.
    pub group: Arc<[usize]>,
    /// What is in it.
    pub entries: Vec<BucketEntry>,
    /// Number of elements.
    pub len: usize,
    /// True if each member keeps the optimiser state of its chunk only.
    pub sharded: bool,
    /// False for what the forward pass itself moves, alike on every member (running moments): it is saved and restored,
    /// but has neither gradients nor optimiser state, and no task updates or exchanges it.
    pub trained: bool,
    /// How its gradients travel.
    pub compression: Compression,
}

/// Everything that all ranks do, and the memory they need for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Number of ranks.
    pub ranks: usize,
    /// By rank: what the floats of its device are.
    pub dtypes: Vec<DType>,
    /// How parameters move.
    pub rule: Rule,
    /// What the loss counts: an element of the metrics for each, added up over all ranks.
    pub metrics: Arc<[Metric]>,
    /// Parameters by bucket, in the order in which the backward pass completes them.
    pub buckets: Vec<Arc<Bucket>>,
    /// Kinds of steps.
    pub phases: Vec<Phase>,
    /// By rank: where the buffers lie. Laid out for a schedule that will run; a plan that is only weighed has none.
    pub memory: Vec<Arc<Memory>>,
}

impl Bucket {
    /// The elements whose optimiser state member `index` keeps.
    pub fn state_range(&self, index: usize) -> Range<usize> {
        if self.sharded { paceline_base::collective::chunk(self.len, self.group.len(), index) } else { 0..self.len }
    }

    fn buffer(&self, role: BufferRole, member: usize) -> BufferKey {
        BufferKey::new(SegmentKey::Update(self.key), role, member)
    }

    /// The parameters of a member.
    pub fn params(&self, member: usize) -> BufferKey {
        self.buffer(BufferRole::BucketParams, member)
    }

    /// The gradients of a member; only if it is trained.
    pub fn grads(&self, member: usize) -> BufferKey {
        self.buffer(BufferRole::BucketGrads, member)
    }

    /// A state tensor of a member; only if it is trained.
    pub fn state(&self, member: usize, number: usize) -> BufferKey {
        self.buffer(BufferRole::BucketState(number as u16), member)
    }

    /// What compression holds back of the gradients of a member, if it does.
    pub fn held_back(&self, member: usize) -> Option<BufferKey> {
        matches!(self.compression, Compression::TopK { .. }).then(|| self.buffer(BufferRole::HeldBack, member))
    }

    /// All buffers of a member, in the order in which they lie.
    pub fn buffers(&self, member: usize, rule: Rule) -> Vec<Buffer> {
        let rank = self.group[member];
        let own = |key, len| Buffer::floats(key, rank, len, None);
        let mut buffers = vec![own(self.params(member), self.len)];
        if self.trained {
            buffers.push(own(self.grads(member), self.len));
            let kept = self.state_range(member).len();
            buffers.extend((0..rule.states().len()).map(|s| own(self.state(member, s), kept)));
        }
        buffers.extend(self.held_back(member).map(|key| own(key, self.len)));
        for entry in &self.entries {
            let (len, offset) = (entry.region.len(), entry.offset);
            let view = |key, outer| Buffer::floats(key, rank, len, Some((outer, offset)));
            buffers.push(view(entry.values(member), self.params(member)));
            if self.trained {
                buffers.push(view(entry.gradient(member), self.grads(member)));
            }
        }
        buffers
    }
}

impl BucketEntry {
    /// Its values on a member.
    pub fn values(&self, member: usize) -> BufferKey {
        param_buffer(self.of.0, BufferRole::Param(self.of.1 as u16), self.parts[member])
    }

    /// Its gradient on a member; only if it is trained.
    pub fn gradient(&self, member: usize) -> BufferKey {
        param_buffer(self.of.0, BufferRole::ParamGrad(self.of.1 as u16), self.parts[member])
    }
}

/// A buffer of an operator's parameter, called by the first part on its rank that uses it.
pub(crate) fn param_buffer(node: usize, role: BufferRole, part: u32) -> BufferKey {
    BufferKey::new(SegmentKey::Forward { node: node as u32, micro: 0 }, role, part as usize)
}

/// The metrics of a rank.
pub fn metrics(rank: usize) -> BufferKey {
    BufferKey::new(SegmentKey::ClearMetrics, BufferRole::Metrics, rank)
}

impl Task {
    /// Calls `f` with each buffer that it reads or writes, and the rank whose it is.
    pub fn touches(&self, mut f: impl FnMut(usize, BufferKey)) {
        match &self.kind {
            TaskKind::ClearMetrics => f(self.rank, metrics(self.rank)),
            TaskKind::Load { buffer, .. }
            | TaskKind::LoadLists { buffer, .. }
            | TaskKind::LoadTargets { buffer, .. } => f(self.rank, *buffer),
            TaskKind::Compute(call) | TaskKind::Update(call) => call.args.iter().for_each(|&b| f(self.rank, b)),
            TaskKind::Transfer { to, source, target, .. } => {
                f(self.rank, *source);
                f(*to, *target);
            }
            TaskKind::Collective { group, buffers, .. } => group.iter().zip(buffers).for_each(|(&r, &b)| f(r, b)),
        }
    }

    /// Whether it reads or writes a buffer of a rank.
    pub(crate) fn touches_buffer(&self, rank: usize, buffer: BufferKey) -> bool {
        match &self.kind {
            TaskKind::Collective { buffers, .. } => {
                self.participant(rank).is_some_and(|at| buffers.get(at) == Some(&buffer))
            }
            _ => {
                let mut found = false;
                self.touches(|r, b| found |= (r, b) == (rank, buffer));
                found
            }
        }
    }

    /// Whether it writes a buffer of a rank.
    pub(crate) fn writes_buffer(&self, rank: usize, buffer: BufferKey) -> bool {
        match &self.kind {
            TaskKind::Compute(call) | TaskKind::Update(call) => {
                self.rank == rank && call.kernel.writes().iter().any(|&i| call.args.get(i) == Some(&buffer))
            }
            TaskKind::Transfer { to, target, .. } => (*to, *target) == (rank, buffer),
            _ => self.touches_buffer(rank, buffer),
        }
    }

    /// True if it is a transfer or a collective.
    pub fn is_message(&self) -> bool {
        matches!(self.kind, TaskKind::Transfer { .. } | TaskKind::Collective { .. })
    }

    /// Which of those that take part this rank is, if it does: for a transfer 0 sends and 1 receives.
    pub fn participant(&self, rank: usize) -> Option<usize> {
        match &self.kind {
            TaskKind::Transfer { to, .. } if *to == rank => Some(1),
            TaskKind::Collective { group, .. } => group.binary_search(&rank).ok(),
            _ => (self.rank == rank).then_some(0),
        }
    }

    /// The ranks that take part.
    pub fn ranks(&self) -> impl Iterator<Item = usize> {
        let (one, other, group) = match &self.kind {
            TaskKind::Transfer { to, .. } => (Some(self.rank), Some(*to), &[][..]),
            TaskKind::Collective { group, .. } => (None, None, &group[..]),
            _ => (Some(self.rank), None, &[][..]),
        };
        one.into_iter().chain(other).chain(group.iter().copied())
    }

    /// The kernel that it runs, if it runs one.
    pub fn call(&self) -> Option<&Call<BufferKey>> {
        match &self.kind {
            TaskKind::Compute(call) | TaskKind::Update(call) => Some(call),
            _ => None,
        }
    }
}

impl Phase {
    /// All tasks, in issue order, with the segments that they stand in.
    pub fn tasks(&self) -> impl DoubleEndedIterator<Item = (&Segment, &Task)> {
        self.segments.iter().flat_map(|segment| segment.tasks.iter().map(move |task| (&**segment, task)))
    }

    /// Loads of lists, on any rank, with more indices than they have room for: how many lists, and indices. `entries` says how many the lists of
    /// some samples have.
    pub fn lists_without_room(&self, entries: impl Fn(Range<usize>) -> usize) -> Vec<(usize, usize)> {
        let loads = self.tasks().filter_map(|(_, task)| match &task.kind {
            TaskKind::LoadLists { rows, entries, .. } => Some((rows.clone(), *entries)),
            _ => None,
        });
        let needs = loads.map(|(rows, room)| (rows.len(), entries(rows), room));
        needs.filter(|(_, needed, room)| needed > room).map(|(lists, needed, _)| (lists, needed)).collect()
    }

    /// The rows of the batch that a rank reads: from the first to the last that it loads anything of.
    pub fn rows(&self, rank: usize) -> Range<usize> {
        let loaded = self.tasks().filter(|(_, task)| task.rank == rank).filter_map(|(_, task)| match &task.kind {
            TaskKind::Load { rows, .. } | TaskKind::LoadLists { rows, .. } | TaskKind::LoadTargets { rows, .. } => {
                Some(rows.clone())
            }
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

    /// Bytes of the largest memory of a rank.
    pub fn largest_memory(&self) -> usize {
        self.memory.iter().map(|memory| memory.arena.bytes).max().unwrap_or(0)
    }
}
