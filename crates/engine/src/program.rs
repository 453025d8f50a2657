//! A rank's program: the schedule's tasks, filtered to one rank, with the waits put where results are needed.

use paceline_base::Result;
use paceline_base::collective::Collective;
use paceline_base::kernel::{BufferId, Call};
use paceline_base::region::{Region, Strided};
use paceline_comm::{Comm, GroupId};
use paceline_plan::{Schedule, TaskKind};
use std::collections::HashMap;
use std::ops::Range;

/// One instruction of one rank.
#[derive(Debug)]
pub enum Instruction {
    /// Clear the metrics and put the rank's wish into the control word.
    Begin(BufferId),
    /// Put part of each of these samples into a buffer.
    Load { buffer: BufferId, rows: Range<usize>, walk: Strided, len: usize },
    /// Put labels into a buffer.
    Labels { buffer: BufferId, rows: Range<usize> },
    /// Run a kernel.
    Run(Call),
    /// Run an update kernel.
    Update(Call),
    /// Start to send.
    Send { to: usize, seq: u64, buffer: BufferId, slot: usize },
    /// Start to receive.
    Receive { from: usize, seq: u64, buffer: BufferId, slot: usize },
    /// Start a collective.
    Start { what: Collective, group: GroupId, seq: u64, buffer: BufferId, slot: usize },
    /// Wait for what was started in this slot.
    Wait { slot: usize },
}

impl Instruction {
    /// The kernel that it runs, if it runs one.
    pub fn call(&self) -> Option<&Call> {
        match self {
            Self::Run(call) | Self::Update(call) => Some(call),
            _ => None,
        }
    }
}

/// All instructions of one rank for one kind of step.
#[derive(Debug)]
pub struct Program {
    /// In issue order.
    pub instructions: Vec<Instruction>,
    /// Number of slots for operations under way.
    pub slots: usize,
    /// Sequence numbers that a step takes, over all ranks.
    pub sequence: u64,
    /// Rows of the batch that this rank reads.
    pub rows: Range<usize>,
    /// The instruction after which the rank has read all it needs of the batch.
    pub loaded: usize,
    /// The rank's metrics.
    pub metrics: BufferId,
    /// Samples whose loss this rank computes.
    pub samples: usize,
}

/// Announces every group of the schedule, in the same order on every rank.
pub fn groups(schedule: &Schedule, comm: &mut dyn Comm) -> Result<HashMap<Vec<usize>, GroupId>> {
    let mut ids = HashMap::new();
    for task in schedule.phases.iter().flat_map(|p| &p.tasks) {
        if let TaskKind::Collective { group, .. } = &task.kind
            && group.contains(&comm.rank())
            && !ids.contains_key(group)
        {
            ids.insert(group.clone(), comm.group(group)?);
        }
    }
    Ok(ids)
}

/// The program of one rank for one phase.
pub fn program(schedule: &Schedule, phase: usize, rank: usize, groups: &HashMap<Vec<usize>, GroupId>) -> Program {
    let tasks = &schedule.phases[phase].tasks;
    let mut instructions = Vec::new();
    let mut open: Vec<(usize, usize)> = Vec::new(); // task, slot
    let (mut slots, mut sequence, mut samples) = (0, 0, 0);
    for (id, task) in tasks.iter().enumerate() {
        sequence = sequence.max(task.seq.map_or(0, |s| s + 1));
        if !task.involves(rank) {
            continue;
        }
        open.retain(|&(started, slot)| {
            let needed = task.after.iter().any(|e| e.lag == 0 && e.task == started);
            if needed {
                instructions.push(Instruction::Wait { slot });
            }
            !needed
        });
        let mut slot = || {
            open.push((id, slots));
            slots += 1;
            slots - 1
        };
        let seq = task.seq.unwrap_or_default();
        instructions.push(match &task.kind {
            TaskKind::Begin { metrics } => Instruction::Begin(*metrics),
            TaskKind::Load { buffer, rows: r, region, shape } => {
                let walk = Strided::between(region, &Region::whole(shape), region);
                Instruction::Load { buffer: *buffer, rows: r.clone(), walk, len: region.len() }
            }
            TaskKind::LoadLabels { buffer, rows: r } => {
                samples += r.len();
                Instruction::Labels { buffer: *buffer, rows: r.clone() }
            }
            TaskKind::Compute(call) => Instruction::Run(call.clone()),
            TaskKind::Update(call) => Instruction::Update(call.clone()),
            TaskKind::Transfer { to, source, .. } if task.rank == rank => {
                Instruction::Send { to: *to, seq, buffer: *source, slot: slot() }
            }
            TaskKind::Transfer { target, .. } => {
                Instruction::Receive { from: task.rank, seq, buffer: *target, slot: slot() }
            }
            TaskKind::Collective { what, group, buffers } => {
                let me = group.iter().position(|&r| r == rank).unwrap_or_default();
                Instruction::Start { what: *what, group: groups[group], seq, buffer: buffers[me], slot: slot() }
            }
        });
    }
    instructions.extend(open.iter().map(|&(_, slot)| Instruction::Wait { slot }));
    let reads = |i: &Instruction| matches!(i, Instruction::Load { .. } | Instruction::Labels { .. });
    let loaded = instructions.iter().rposition(reads).unwrap_or(0);
    Program {
        instructions,
        slots,
        sequence,
        rows: schedule.phases[phase].rows(rank),
        loaded,
        metrics: schedule.metrics[rank],
        samples,
    }
}
