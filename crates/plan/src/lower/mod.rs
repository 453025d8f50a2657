//! Lowering: graph + plan → schedule, in passes.
//!
//! 1. parts ([`Plan::parts`]): how each operator is split, and what each part needs; from them the buckets of parameters ([`store`]);
//! 2. fragments: the tasks of each [`operator`], each [`tensor`] with all its readers, and each [`bucket`], under names of their own;
//! 3. [`order`]: which stands where in the step; the number of a message is its place in it;
//! 4. [`fuse`]: kernels that a device takes as one are joined;
//! 5. [`waits`]: until when messages are under way, and what is left to the next step;
//! 6. memory ([`crate::memory`]): where the buffers lie, for a schedule that will run.

mod bucket;
mod fuse;
mod near;
mod operator;
mod order;
mod segment;
mod store;
mod tensor;
mod waits;

use crate::key::{BufferKey, SegmentKey};
use crate::memory;
use crate::plan::{Part, Parts, Plan};
use crate::schedule::{Bucket, METRICS, Phase, PhaseKind, Schedule, Segment, TaskKind, metrics};
use near::{Near, Work};
use operator::{Backward, Forward, Operator};
pub use order::MicroBatches;
use paceline_base::Result;
use paceline_base::collective::Collective;
use paceline_base::kernel::Fusion;
use paceline_base::optim::Rule;
use paceline_graph::{Graph, NodeId};
use segment::Builder;
use std::collections::HashMap;
use std::sync::Arc;
use tensor::{Read, Tensor};

/// The batch sizes to plan for: full, last partial, evaluation. Planned before the first step, never after.
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

/// What lowering has to know of the devices of the ranks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Devices {
    /// By rank the kernel chains that its device takes as one; the last holds for all further ranks.
    fusions: Vec<Vec<Fusion>>,
}

impl Devices {
    /// All ranks have the same device.
    pub fn alike(fusions: &[Fusion]) -> Self {
        Self { fusions: vec![fusions.to_vec()] }
    }

    /// By rank the kernel chains that its device takes as one.
    pub fn by_rank(fusions: Vec<Vec<Fusion>>) -> Self {
        Self { fusions }
    }

    fn fusions(&self, rank: usize) -> &[Fusion] {
        self.fusions.get(rank).or(self.fusions.last()).map_or(&[], |f| f)
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
}

impl Settings {
    /// Whole batches, and every update in its own step.
    pub fn new(rule: Rule, fusions: &[Fusion]) -> Self {
        Self { rule, devices: Devices::alike(fusions), defer_updates: false, micro_batches: MicroBatches::One }
    }
}

/// Lowers a model under a plan to the schedule that the engine executes and the simulator costs, with its memory laid out.
pub fn lower(graph: &Graph, plan: &Plan, batches: &Batches, settings: &Settings) -> Result<Schedule> {
    let mut schedule = Lowering::new(graph, plan, batches, settings)?.schedule();
    memory::lay_out(&mut schedule);
    Ok(schedule)
}

/// A schedule in the making, with what its passes left, from which it can be made again when the plan changes.
pub struct Lowering<'a> {
    graph: &'a Graph,
    plan: Plan,
    settings: Settings,
    readers: Vec<Vec<NodeId>>,
    buckets: Vec<Arc<Bucket>>,
    phases: Vec<Fragments>,
}

/// The fragments of one kind of step.
struct Fragments {
    kind: PhaseKind,
    samples: usize,
    /// By micro-batch.
    micro: Vec<MicroFragments>,
    order: Vec<SegmentKey>,
    near: Near,
    /// Segments when all passes are done.
    done: HashMap<SegmentKey, Arc<Segment>>,
}

#[derive(Default)]
struct MicroFragments {
    /// By node.
    parts: Vec<Arc<Vec<Part>>>,
    holders: Vec<Arc<Vec<Vec<u32>>>>,
    forward: Vec<Forward>,
    read: Vec<Option<Read>>,
    gradient: Vec<(Vec<BufferKey>, Option<Arc<Segment>>)>,
    backward: Vec<Backward>,
}

impl<'a> Lowering<'a> {
    /// Lowers everything.
    pub fn new(graph: &'a Graph, plan: &Plan, batches: &Batches, settings: &Settings) -> Result<Self> {
        plan.check(graph)?;
        let mut readers: Vec<Vec<NodeId>> = vec![Vec::new(); graph.nodes.len()];
        for (node, n) in graph.nodes.iter().enumerate() {
            for &input in &n.inputs {
                if readers[input].last() != Some(&node) {
                    readers[input].push(node);
                }
            }
        }
        // Who holds which parameter does not depend on the number of samples.
        let parts = plan.parts(graph, usize::MAX >> 16)?;
        let buckets = store::buckets(graph, &plan.store, &parts).into_iter().map(Arc::new).collect();
        let mut lowering =
            Self { graph, plan: plan.clone(), settings: settings.clone(), readers, buckets, phases: Vec::new() };
        for (kind, samples) in batches.kinds() {
            let fragments = lowering.fragments(kind, samples)?;
            lowering.phases.push(fragments);
        }
        Ok(lowering)
    }

    /// The schedule, without memory.
    pub fn schedule(&self) -> Schedule {
        let phase = |f: &Fragments| Phase {
            kind: f.kind,
            samples: f.samples,
            segments: f.order.iter().filter_map(|key| f.done.get(key).cloned()).collect(),
            first_uses: Vec::new(),
        };
        let mut phases: Vec<Phase> = self.phases.iter().map(phase).collect();
        let mut left = vec![false; self.buckets.len()];
        for phase in &phases {
            let of_phase = waits::left_over(phase, &self.buckets);
            left.iter_mut().zip(of_phase).for_each(|(left, of_phase)| *left |= of_phase);
        }
        for (phase, fragments) in phases.iter_mut().zip(&self.phases) {
            phase.first_uses = self.first_uses(fragments, &left);
        }
        Schedule {
            ranks: self.plan.ranks,
            rule: self.settings.rule,
            buckets: self.buckets.clone(),
            phases,
            memory: Vec::new(),
        }
    }

    fn first_uses(&self, fragments: &Fragments, left: &[bool]) -> Vec<Vec<Option<crate::key::TaskKey>>> {
        if !left.contains(&true) {
            return vec![Vec::new(); left.len()];
        }
        let done = fragments.order.iter().enumerate();
        let done = done.filter_map(|(position, key)| Some((position, fragments.done.get(key)?.clone())));
        let work = Work::new(&fragments.near, done);
        let of = |(bucket, left): (&Arc<Bucket>, &bool)| {
            if *left { waits::first_uses(&work, bucket) } else { Vec::new() }
        };
        self.buckets.iter().zip(left).map(of).collect()
    }

    fn fragments(&self, kind: PhaseKind, samples: usize) -> Result<Fragments> {
        let graph = self.graph;
        let micro_batches = if kind == PhaseKind::Train { self.settings.micro_batches } else { MicroBatches::One };
        let order = order::order(graph, &self.readers, &self.buckets, kind, micro_batches);
        let near = Near::new(graph, &self.readers, &order);
        let mut fragments = Fragments { kind, samples, micro: Vec::new(), order, near, done: HashMap::new() };
        for micro in 0..micro_batches.count() {
            let rows = paceline_base::region::split_range(samples, micro_batches.count().into(), micro.into());
            let parts = self.plan.parts_of_rows(graph, rows)?;
            let made = self.micro_fragments(kind, samples, micro, parts);
            fragments.micro.push(made);
        }
        self.finish(&mut fragments);
        Ok(fragments)
    }

    fn micro_fragments(&self, kind: PhaseKind, samples: usize, micro: u16, parts: Parts) -> MicroFragments {
        let graph = self.graph;
        let nodes = graph.nodes.len();
        let training = kind == PhaseKind::Train;
        let holders = (0..nodes).map(|node| Arc::new(store::holders(&parts, node, graph.nodes[node].params.len())));
        let holders: Vec<_> = holders.collect();
        let parts: Vec<Arc<Vec<Part>>> = parts.of.into_iter().map(Arc::new).collect();
        let operator = |node: NodeId| Operator {
            graph,
            node,
            micro,
            samples,
            training,
            parts: &parts[node],
            holders: &holders[node],
        };
        let tensor = |node: NodeId| Tensor { graph, node, micro, readers: &self.readers[node], parts: &parts };
        let reads = |reader: NodeId, part: &Part| Operator::runs(graph, reader, training, part);
        let mut forward: Vec<Forward> = Vec::with_capacity(nodes);
        let mut read: Vec<Option<Read>> = Vec::with_capacity(nodes);
        for node in 0..nodes {
            let made = if graph.is_data(node) {
                Forward::default()
            } else {
                let inputs = inputs_of(graph, node, parts[node].len(), &read);
                operator(node).forward(inputs)
            };
            read.push((!self.readers[node].is_empty()).then(|| tensor(node).read(&made.made, reads)));
            forward.push(made);
        }
        let mut gradient = vec![(Vec::new(), None); nodes];
        let mut backward = vec![Backward::default(); nodes];
        for node in (0..nodes).rev().filter(|&node| training && !graph.is_data(node)) {
            if !graph.nodes[node].op.is_loss() && graph.wants_gradient(node) {
                gradient[node] = tensor(node).gradients(&forward[node].made, |reader, slot, part| {
                    if graph.nodes[reader].op.is_loss() {
                        return forward[reader].loss_grads[part].filter(|_| slot == 0);
                    }
                    backward[reader].input_grads.get(slot).and_then(|of_part: &Vec<_>| of_part[part])
                });
            }
            backward[node] = operator(node).backward(&forward[node], &gradient[node].0, micro > 0);
        }
        drop((reads, operator, tensor));
        MicroFragments { parts, holders, forward, read, gradient, backward }
    }

    /// The passes after the fragments: order, fuse, waits.
    fn finish(&self, fragments: &mut Fragments) {
        let raw = self.raw(fragments);
        let order = &fragments.order;
        let placed = order.iter().enumerate().filter_map(|(at, key)| Some((at, raw.get(key)?.clone())));
        let mut work = Work::new(&fragments.near, placed);
        fuse::fuse(&mut work, order, &self.buckets, &self.settings.devices);
        let placed = order.iter().enumerate().filter_map(|(at, key)| Some((at, work.segment(key)?.clone())));
        let mut work = Work::new(&fragments.near, placed);
        for key in order {
            waits::awaits(&mut work, key);
        }
        if self.settings.defer_updates && fragments.kind == PhaseKind::Train {
            waits::defer(&mut work, order, &self.buckets);
        }
        fragments.done = order.iter().filter_map(|key| Some((*key, work.segment(key)?.clone()))).collect();
    }

    /// All segments as the fragments have them.
    fn raw(&self, fragments: &Fragments) -> HashMap<SegmentKey, Arc<Segment>> {
        let mut raw: Vec<Arc<Segment>> = Vec::new();
        for micro in &fragments.micro {
            raw.extend(micro.forward.iter().filter_map(|f| f.segment.clone()));
            raw.extend(micro.read.iter().flatten().flat_map(|r| r.segments.iter().cloned()));
            raw.extend(micro.gradient.iter().filter_map(|g| g.1.clone()));
            raw.extend(micro.backward.iter().filter_map(|b| b.segment.clone()));
        }
        let ranks: Arc<[usize]> = (0..self.plan.ranks).collect();
        let mut begin = Builder::new(SegmentKey::Begin);
        for rank in 0..self.plan.ranks {
            begin.task(rank, 0, TaskKind::Begin { metrics: metrics(rank) }, METRICS);
        }
        let mut sum = Builder::new(SegmentKey::Metrics);
        let all = ranks.iter().map(|&rank| metrics(rank)).collect();
        sum.collective(Collective::AllReduce.into(), &ranks, all, METRICS);
        raw.extend(begin.finish().into_iter().chain(sum.finish()));
        if fragments.kind == PhaseKind::Train {
            for bucket in self.buckets.iter().filter(|b| b.trained) {
                raw.extend(bucket::exchange(bucket));
                raw.extend(bucket::update(bucket, self.settings.rule));
            }
        }
        raw.into_iter().map(|segment| (segment.key, segment)).collect()
    }
}

/// By part and input: where an operator finds what it reads.
fn inputs_of(graph: &Graph, node: NodeId, parts: usize, read: &[Option<Read>]) -> Vec<Vec<Option<BufferKey>>> {
    let inputs = graph.nodes[node].inputs.iter().enumerate();
    let found: Vec<Option<&Vec<Option<BufferKey>>>> =
        inputs.map(|(slot, &input)| read[input].as_ref()?.found.get(&node)?.get(&slot)).collect();
    (0..parts).map(|part| found.iter().map(|of_slot| of_slot.and_then(|of_part| of_part[part])).collect()).collect()
}
