//! A rank's program: the schedule's tasks, filtered to one rank, with the waits put where results are needed.
//!
//! The end of an exchange and the update that needs it may be deferred to the step that follows, which does not need the new parameters
//! before it comes to them: while the first layers compute, gradients of the last ones are still on their way ([`DeferredUpdate`]).

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
pub(crate) enum Instruction {
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
    pub(crate) fn call(&self) -> Option<&Call> {
        match self {
            Self::Run(call) | Self::Update(call) => Some(call),
            _ => None,
        }
    }
}

/// All instructions of one rank for one kind of step.
#[derive(Debug)]
pub(crate) struct Program {
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
    /// Updates that may be deferred to the step that follows.
    pub deferred: Vec<DeferredUpdate>,
    /// By instruction: the buffers that its task touches on this rank, whole ones.
    touched: Vec<Vec<BufferId>>,
}

/// Before which instruction a deferred update must be finished, and its number in [`Program::deferred`]; in order.
pub(crate) type Due = Vec<(usize, usize)>;

/// An update that may be finished in the next step, because nothing in its own depends on it: waiting for the sum of some gradients, and moving parameters by it.
#[derive(Debug)]
pub(crate) struct DeferredUpdate {
    /// The wait and the update, by number in [`Program::instructions`].
    pub instructions: Range<usize>,
    /// The buffers that they touch.
    touched: Vec<BufferId>,
}

impl Program {
    /// When the updates that an `earlier` program deferred must be finished in this one.
    pub(crate) fn due(&self, earlier: &Program) -> Due {
        let first = |update: &DeferredUpdate| {
            let touches = |t: &Vec<BufferId>| t.iter().any(|buffer| update.touched.contains(buffer));
            self.touched.iter().position(touches).unwrap_or(self.instructions.len())
        };
        let mut due: Due =
            earlier.deferred.iter().enumerate().map(|(number, update)| (first(update), number)).collect();
        due.sort_unstable();
        due
    }
}

/// Announces every group of the schedule, in the same order on every rank.
pub(crate) fn groups(schedule: &Schedule, comm: &mut dyn Comm) -> Result<HashMap<Vec<usize>, GroupId>> {
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
pub(crate) fn program(
    schedule: &Schedule,
    phase: usize,
    rank: usize,
    groups: &HashMap<Vec<usize>, GroupId>,
) -> Program {
    let tasks = &schedule.phases[phase].tasks;
    let mut instructions = Vec::new();
    let (mut touched, mut deferred): (Vec<Vec<BufferId>>, Vec<DeferredUpdate>) = Default::default();
    let mut open: Vec<(usize, usize)> = Vec::new(); // task, slot
    let (mut slots, mut sequence, mut samples) = (0, 0, 0);
    for (id, task) in tasks.iter().enumerate() {
        sequence = sequence.max(task.seq.map_or(0, |s| s + 1));
        if !task.involves(rank) {
            continue;
        }
        let begin = instructions.len();
        open.retain(|&(started, slot)| {
            let needed = task.after.iter().any(|e| e.lag == 0 && e.task == started);
            if needed {
                instructions.push(Instruction::Wait { slot });
            }
            !needed
        });
        let waits = instructions.len() > begin;
        touched.resize(instructions.len(), Vec::new());
        let touches = task.touches().into_iter().filter(|t| t.0 == rank);
        touched.push(touches.map(|(_, buffer, _)| schedule.root(rank, buffer)).collect());
        if waits && matches!(task.kind, TaskKind::Update(_)) {
            deferred.push(DeferredUpdate {
                instructions: begin..touched.len(),
                touched: touched[touched.len() - 1].clone(),
            });
        }
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
    touched.resize(instructions.len(), Vec::new());
    // Shared updates are gathered at once; and what the next step's first kernel needs is better waited for together, at the end of
    // this one, than by each rank when it comes to it.
    let kernel = instructions.iter().position(|i| matches!(i, Instruction::Run(_))).unwrap_or(0);
    deferred.retain(|update| {
        let touches = |t: &Vec<BufferId>| t.iter().any(|buffer| update.touched.contains(buffer));
        !touched[update.instructions.end..].iter().any(touches) && !touched[..=kernel].iter().any(touches)
    });
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
        deferred,
        touched,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_base::optim::Rule;
    use paceline_graph::{Graph, presets};
    use paceline_plan::{Batches, Plan, UpdateMode, lower};

    /// Programs of rank 0 of two, for training steps of two sizes and an evaluation.
    fn programs(update: UpdateMode) -> Vec<Program> {
        let layers = presets::mlp(&[8, 6], paceline_base::op::Activation::Relu, 0.0);
        let graph = Graph::build("mlp", &layers, &[5], 3, 0.0).unwrap();
        let mut plan = Plan::data_parallel(2);
        (plan.store.update, plan.store.bucket) = (update, 1);
        let batches = Batches { train: vec![4, 2], evaluate: vec![4] };
        let schedule = lower(&graph, &plan, &batches, Rule::Sgd, &[]).unwrap();
        let mut comm = paceline_comm::threads(2).swap_remove(0);
        let groups = groups(&schedule, &mut comm).unwrap();
        (0..3).map(|phase| program(&schedule, phase, 0, &groups)).collect()
    }

    #[test]
    fn the_last_layers_are_due_last() {
        let programs = programs(UpdateMode::Replicated);
        assert_eq!(programs[0].deferred.len(), 4, "weights and biases of three layers, but of the first");
        for update in programs.iter().flat_map(|p| &p.deferred) {
            assert_eq!(update.instructions.len(), 2);
        }
        assert!(programs[2].deferred.is_empty(), "an evaluation has no updates");
        for next in &programs {
            let due = next.due(&programs[0]);
            // Buckets stand in backward order.
            assert_eq!(due.iter().map(|d| d.1 / 2).collect::<Vec<_>>(), [1, 1, 0, 0]);
            let kernel = |n: usize| next.instructions[..n].iter().filter(|i| i.call().is_some()).count();
            assert!(kernel(due[0].0) > 0 && due[2].0 > due[1].0 && due[3].0 < next.instructions.len());
        }
    }

    #[test]
    fn what_is_gathered_at_once_is_not_deferred() {
        assert!(programs(UpdateMode::Sharded).iter().all(|p| p.deferred.is_empty()));
    }
}
