//! A rank's program for its device and its comm: what the schedule says, with buffers, groups and messages by number.

use paceline_base::collective::Exchange;
use paceline_base::kernel::{BufferId, Call, Kernel};
use paceline_base::region::{Region, Strided};
use paceline_base::sample::{IndexWidth, TargetKind};
use paceline_base::{Error, Result};
use paceline_comm::{Comm, GroupId};
use paceline_plan::{BufferKey, Item, Memory, Placed, Schedule, TaskKind};
use std::collections::HashMap;
use std::ops::Range;

/// One instruction of one rank.
#[derive(Debug)]
pub(crate) enum Instruction {
    /// Set the metrics to zero.
    ClearMetrics,
    /// Put part of each of these samples into a buffer.
    Load { buffer: BufferId, rows: Range<usize>, walk: Strided, len: usize },
    /// Put lists of indices into a buffer.
    Lists { buffer: BufferId, rows: Range<usize>, entries: usize, width: IndexWidth },
    /// Put targets into a buffer.
    Targets { buffer: BufferId, rows: Range<usize>, kind: TargetKind },
    /// Run a kernel.
    Run(Call),
    /// Run an update kernel.
    Update(Call),
    /// Start to send.
    Send { to: usize, seq: u64, buffer: BufferId, slot: usize },
    /// Start to receive.
    Receive { from: usize, seq: u64, buffer: BufferId, slot: usize },
    /// Start a collective.
    Start { what: Exchange, group: GroupId, seq: u64, buffer: BufferId, slot: usize },
    /// Wait for what was started in this slot.
    Wait { slot: usize },
    /// Nothing reads this buffer any more: only for a device that wants to know.
    Retire(BufferId),
    /// Do what the step before left over of this bucket, if it left anything.
    Finish { bucket: usize },
}

impl Instruction {
    /// The kernel that it runs, if it runs one.
    pub(crate) fn kernel(&self) -> Option<&Kernel> {
        match self {
            Self::Run(call) | Self::Update(call) => Some(&call.kernel),
            _ => None,
        }
    }
}

/// All instructions of one rank for one kind of step.
#[derive(Debug)]
pub(crate) struct Program {
    /// In issue order.
    pub instructions: Vec<Instruction>,
    /// What is left to the next step: the bucket, and what there is to do.
    pub left_over: Vec<(usize, Vec<Instruction>)>,
    /// Number of slots for operations under way.
    pub slots: usize,
    /// Sequence numbers that a step takes, over all ranks.
    pub sequence: u64,
    /// Rows of the batch that this rank reads.
    pub rows: Range<usize>,
    /// The instruction after which the rank has read all it needs of the batch.
    pub loaded: usize,
    /// Samples whose loss this rank computes.
    pub samples: usize,
    /// Indices of 32 and of 64 bits that it puts together at a time, at most.
    pub scratch: (usize, usize),
}

impl Program {
    /// All instructions, also those that are left to the next step.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Instruction> {
        self.instructions.iter().chain(self.left_over.iter().flat_map(|(_, instructions)| instructions))
    }
}

/// Groups that were announced, by their ranks.
pub(crate) type Groups = HashMap<Vec<usize>, GroupId>;

/// Announces the groups of a schedule that are not announced yet, in its order: the same on every rank.
pub(crate) fn groups(schedule: &Schedule, comm: &mut dyn Comm, ids: &mut Groups) -> Result<()> {
    for (_, task) in schedule.phases.iter().flat_map(|p| p.tasks()) {
        if let TaskKind::Collective { group, .. } = &task.kind
            && group.contains(&comm.rank())
            && !ids.contains_key(&group[..])
        {
            ids.insert(group.to_vec(), comm.group(group)?);
        }
    }
    Ok(())
}

/// Turns names into the numbers of one rank.
struct Numbers<'a> {
    phase: usize,
    rank: usize,
    memory: &'a Memory,
    groups: &'a Groups,
    /// Slots of messages, by number.
    slots: HashMap<u64, usize>,
    samples: usize,
    scratch: (usize, usize),
}

impl Numbers<'_> {
    fn buffer(&self, key: BufferKey) -> Result<BufferId> {
        let missing = || Error::internal(format!("rank {} has no buffer {key:?}", self.rank));
        self.memory.id(self.phase, key).ok_or_else(missing)
    }

    fn call(&self, call: &Call<BufferKey>) -> Result<Call> {
        let missing = || Error::internal(format!("rank {} lacks a buffer of {:?}", self.rank, call.args));
        self.memory.call(self.phase, call).ok_or_else(missing)
    }

    fn instructions(&mut self, items: &[Item<'_>]) -> Result<Vec<Instruction>> {
        items
            .iter()
            .map(|item| match item {
                Item::Do(placed) => self.instruction(placed),
                Item::Wait(number) => Ok(Instruction::Wait { slot: self.slots[number] }),
                Item::Finish(bucket) => Ok(Instruction::Finish { bucket: *bucket }),
            })
            .collect()
    }

    /// Says where the lives of buffers end, each after a task by its place.
    fn with_ends(
        &self,
        instructions: Vec<Instruction>,
        items: &[Item<'_>],
        ends: &[(usize, BufferKey)],
    ) -> Result<Vec<Instruction>> {
        let mut all = Vec::with_capacity(instructions.len() + ends.len());
        let (mut at, mut ends) = (0, ends.iter().peekable());
        for (instruction, item) in instructions.into_iter().zip(items) {
            all.push(instruction);
            if matches!(item, Item::Do(_)) {
                while let Some((_, key)) = ends.next_if(|(end, _)| *end == at) {
                    all.push(Instruction::Retire(self.buffer(*key)?));
                }
                at += 1;
            }
        }
        Ok(all)
    }

    fn instruction(&mut self, placed: &Placed<'_>) -> Result<Instruction> {
        let Placed { task, number, .. } = placed;
        let seq = number.unwrap_or_default();
        let slot = match number {
            Some(number) => {
                let slot = self.slots.len();
                self.slots.insert(*number, slot);
                slot
            }
            None => 0,
        };
        Ok(match &task.kind {
            TaskKind::ClearMetrics => Instruction::ClearMetrics,
            TaskKind::Load { buffer, rows, region, shape } => {
                let walk = Strided::between(region, &Region::whole(shape), region);
                Instruction::Load { buffer: self.buffer(*buffer)?, rows: rows.clone(), walk, len: region.len() }
            }
            TaskKind::LoadLists { buffer, rows, entries, width } => {
                let len = rows.len() + 1 + entries;
                match width {
                    IndexWidth::Bits32 => self.scratch.0 = self.scratch.0.max(len),
                    IndexWidth::Bits64 => self.scratch.1 = self.scratch.1.max(len),
                }
                let buffer = self.buffer(*buffer)?;
                Instruction::Lists { buffer, rows: rows.clone(), entries: *entries, width: *width }
            }
            TaskKind::LoadTargets { buffer, rows, targets } => {
                self.samples += rows.len();
                self.scratch.0 = self.scratch.0.max(rows.len() * targets.each());
                Instruction::Targets { buffer: self.buffer(*buffer)?, rows: rows.clone(), kind: *targets }
            }
            TaskKind::Compute(call) => Instruction::Run(self.call(call)?),
            TaskKind::Update(call) => Instruction::Update(self.call(call)?),
            TaskKind::Transfer { to, source, .. } if task.rank == self.rank => {
                Instruction::Send { to: *to, seq, buffer: self.buffer(*source)?, slot }
            }
            TaskKind::Transfer { target, .. } => {
                Instruction::Receive { from: task.rank, seq, buffer: self.buffer(*target)?, slot }
            }
            TaskKind::Collective { what, group, buffers } => {
                let me = task.participant(self.rank).unwrap_or_default();
                let buffer = self.buffer(buffers[me])?;
                Instruction::Start { what: *what, group: self.groups[&group[..]], seq, buffer, slot }
            }
        })
    }
}

/// The program of one rank for one phase.
pub(crate) fn program(
    schedule: &Schedule,
    phase: usize,
    rank: usize,
    groups: &Groups,
    retires: bool,
) -> Result<Program> {
    let program = paceline_plan::program(schedule, phase, rank);
    let Some(memory) = schedule.memory.get(rank) else {
        return Err(Error::internal("the memory of the schedule is not laid out"));
    };
    let mut numbers = Numbers { phase, rank, memory, groups, slots: HashMap::new(), samples: 0, scratch: (0, 0) };
    let mut instructions = numbers.instructions(&program.items)?;
    if retires {
        instructions = numbers.with_ends(instructions, &program.items, &paceline_plan::ends(schedule, phase, rank))?;
    }
    let left_over = program.left_over.iter().map(|(bucket, items)| Ok((*bucket, numbers.instructions(items)?)));
    let left_over = left_over.collect::<Result<_>>()?;
    let reads = |i: &Instruction| {
        matches!(i, Instruction::Load { .. } | Instruction::Lists { .. } | Instruction::Targets { .. })
    };
    let loaded = instructions.iter().rposition(reads).unwrap_or(0);
    Ok(Program {
        instructions,
        left_over,
        slots: numbers.slots.len(),
        sequence: program.messages,
        rows: schedule.phases[phase].rows(rank),
        loaded,
        samples: numbers.samples,
        scratch: numbers.scratch,
    })
}
