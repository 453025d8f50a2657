//! Lowering: graph + plan → schedule, operator by operator and edge by edge.
//!
//! 1. parameters are grouped into buckets by who holds them ([`parameter_layout`]);
//! 2. for every kind of step, each operator's parts become kernel tasks ([`step`], [`launch`]), and each edge between differently
//!    placed tensors becomes copies and transfers ([`redistribute`]);
//! 3. the fuse pass joins what the device takes as one; 4. edges and arenas are derived from what tasks touch.

mod edges;
mod launch;
mod parameter_layout;
mod redistribute;
mod step;

use crate::arena;
use crate::fuse::fuse;
use crate::plan::Plan;
use crate::schedule::{Buffer, Life, Phase, PhaseKind, Schedule};
use paceline_base::Result;
use paceline_base::kernel::{BufferId, Fusion};
use paceline_base::optim::Rule;
use paceline_graph::Graph;
use parameter_layout::ParameterLayout;

/// The batch sizes to plan for: full, last partial, evaluation. Planned before the first step, never after.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batches {
    /// Global batches in training.
    pub train: Vec<usize>,
    /// Global batches in evaluation.
    pub evaluate: Vec<usize>,
}

/// The buffers of all ranks, as they are made.
pub(crate) struct Buffers {
    of: Vec<Vec<Buffer>>,
}

impl Buffers {
    fn add(&mut self, rank: usize, name: String, len: usize, life: Life) -> BufferId {
        self.of[rank].push(Buffer { name, len, life });
        BufferId(self.of[rank].len() as u32 - 1)
    }
}

/// Lowers a model under a plan to the schedule that the engine executes and the simulator costs.
pub fn lower(graph: &Graph, plan: &Plan, batches: &Batches, rule: Rule, fusions: &[Fusion]) -> Result<Schedule> {
    plan.check(graph)?;
    let mut buffers = Buffers { of: vec![Vec::new(); plan.ranks] };
    let metrics: Vec<BufferId> = (0..plan.ranks).map(|r| buffers.add(r, "metrics".into(), 4, Life::Run)).collect();
    let layout = ParameterLayout::new(graph, plan, rule, &mut buffers)?;
    let mut phases = Vec::new();
    let kinds = batches.train.iter().map(|&n| (PhaseKind::Train, n));
    for (kind, samples) in kinds.chain(batches.evaluate.iter().map(|&n| (PhaseKind::Evaluate, n))) {
        if phases.iter().any(|p: &Phase| p.kind == kind && p.samples == samples) {
            continue;
        }
        let context = step::Context { graph, layout: &layout, metrics: &metrics, rule, phase: phases.len(), kind };
        let tasks = step::lower_step(&context, plan.parts(graph, samples)?, samples, &mut buffers);
        phases.push(Phase { kind, samples, tasks });
    }
    let mut schedule = Schedule {
        ranks: plan.ranks,
        rule,
        buffers: buffers.of,
        arenas: Vec::new(),
        buckets: layout.buckets,
        metrics,
        phases,
    };
    fuse(&mut schedule, fusions);
    for phase in 0..schedule.phases.len() {
        let after = edges::derive(&schedule, phase);
        for (task, after) in schedule.phases[phase].tasks.iter_mut().zip(after) {
            task.after = after;
        }
    }
    schedule.arenas = (0..schedule.ranks).map(|rank| arena::layout(&schedule, rank)).collect();
    Ok(schedule)
}
