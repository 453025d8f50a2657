//! Lowering, and lowering again: what each pass left is kept, and when the plan of an operator changes, only the fragments around it are
//! made anew. A fresh lowering is a change of everything.

use super::operator::{Backward, Forward, Operator};
use super::order::MicroBatches;
use super::scope::{Known, Near, Scope};
use super::segment::Builder;
use super::store::{self, Used};
use super::tensor::{Pieces, Read, Tensor};
use super::work::Work;
use super::{Batches, Settings, bucket, fuse, order, waits};
use crate::hash::{HashMap, HashSet};
use crate::key::{BucketKey, BufferKey, SegmentKey, TaskKey};
use crate::plan::{MANY_SAMPLES, OpPlan, Part, Plan};
use crate::schedule::{Bucket, Phase, PhaseKind, Schedule, Segment, TaskKind, metrics};
use paceline_base::Result;
use paceline_base::collective::Collective;
use paceline_base::metric::Metric;
use paceline_base::region::split_range;
use paceline_graph::{Graph, NodeId};
use std::ops::Range;
use std::sync::Arc;

/// A schedule in the making, with what its passes left.
pub struct Lowering<'a> {
    graph: &'a Graph,
    plan: Plan,
    settings: Settings,
    metrics: Arc<[Metric]>,
    /// By node: those that read its output, ascending.
    readers: Vec<Vec<NodeId>>,
    /// By node: how it is split.
    splits: Vec<OpPlan>,
    /// By node and parameter: which ranks use which of its regions.
    uses: Vec<Vec<Arc<Vec<Used>>>>,
    near: Near,
    buckets: Vec<Arc<Bucket>>,
    phases: Vec<Fragments>,
}

/// The fragments of one kind of step, and what the passes made of them.
struct Fragments {
    kind: PhaseKind,
    samples: usize,
    /// By micro-batch.
    micro: Vec<Micro>,
    order: Vec<SegmentKey>,
    /// Segments as the fragments have them.
    raw: HashMap<SegmentKey, Arc<Segment>>,
    /// Segments when all passes are done.
    done: HashMap<SegmentKey, Arc<Segment>>,
    /// Nodes whose tasks were joined.
    joined: HashSet<[NodeId; 2]>,
    /// Of each bucket of which something may be left to the next step.
    first_uses: HashMap<BucketKey, Vec<Option<TaskKey>>>,
}

/// What is known of one micro-batch, by node.
#[derive(Default)]
struct Micro {
    parts: Vec<Arc<Vec<Part>>>,
    holders: Vec<Arc<Vec<Vec<u32>>>>,
    forward: Vec<Forward>,
    read: Vec<Read>,
    gradient: Vec<Gradient>,
    backward: Vec<Backward>,
}

#[derive(Clone, Default)]
struct Gradient {
    of_pieces: Vec<BufferKey>,
    segment: Option<Arc<Segment>>,
}

/// Segments that were there and those that are there now.
#[derive(Default)]
struct Changes {
    gone: Vec<SegmentKey>,
    made: Vec<Arc<Segment>>,
}

impl Changes {
    fn replace<'s>(
        &mut self,
        old: impl IntoIterator<Item = &'s Arc<Segment>>,
        new: impl IntoIterator<Item = &'s Arc<Segment>>,
    ) {
        self.gone.extend(old.into_iter().map(|segment| segment.key));
        self.made.extend(new.into_iter().cloned());
    }
}

/// What changed in a plan: the nodes, and for each kind of step and micro-batch their new parts.
struct NewParts {
    nodes: Vec<NodeId>,
    /// By place in `nodes`, then by parameter: who uses it. That does not depend on the number of samples.
    uses: Vec<Vec<Arc<Vec<Used>>>>,
    /// By phase, micro-batch and place in `nodes`.
    parts: Vec<Vec<Vec<Vec<Part>>>>,
}

impl<'a> Lowering<'a> {
    /// Lowers everything.
    pub fn new(graph: &'a Graph, plan: &Plan, batches: &Batches, settings: &Settings) -> Result<Self> {
        plan.check_ranks()?;
        plan.check_names(graph)?;
        let nodes = graph.nodes.len();
        let mut readers: Vec<Vec<NodeId>> = vec![Vec::new(); nodes];
        for (node, n) in graph.nodes.iter().enumerate() {
            for &input in &n.inputs {
                if readers[input].last() != Some(&node) {
                    readers[input].push(node);
                }
            }
        }
        let mut lowering = Self {
            graph,
            plan: plan.clone(),
            settings: settings.clone(),
            metrics: graph
                .nodes
                .last()
                .and_then(|n| n.op.loss())
                .map_or_else(Arc::default, |loss| loss.metrics(graph.targets).into()),
            uses: vec![Vec::new(); nodes],
            splits: plan.splits(graph),
            buckets: Vec::new(),
            phases: Vec::new(),
            near: Near::new(graph, &readers),
            readers,
        };
        for (kind, samples) in batches.kinds() {
            let micro_batches = if kind == PhaseKind::Train { settings.micro_batches } else { MicroBatches::One };
            lowering.phases.push(Fragments {
                kind,
                samples,
                micro: (0..micro_batches.count()).map(|_| Micro::empty(nodes)).collect(),
                order: Vec::new(),
                raw: HashMap::default(),
                done: HashMap::default(),
                joined: HashSet::default(),
                first_uses: HashMap::default(),
            });
        }
        let all: Vec<NodeId> = (0..nodes).collect();
        let parts = lowering.parts_of(&lowering.plan, &lowering.splits, all)?;
        lowering.apply(parts);
        Ok(lowering)
    }

    /// Splits an operator otherwise, and lowers what depends on it again. After an error everything is as before.
    pub fn change(&mut self, operator: &str, split: OpPlan) -> Result<()> {
        let mut plan = self.plan.clone();
        plan.operators.insert(operator.into(), split);
        plan.check_names(self.graph)?;
        let splits = plan.splits(self.graph);
        let changed = (0..splits.len()).filter(|&node| splits[node] != self.splits[node]).collect();
        let parts = self.parts_of(&plan, &splits, changed)?;
        (self.plan, self.splits) = (plan, splits);
        self.apply(parts);
        Ok(())
    }

    /// The schedule, without memory.
    pub fn schedule(&self) -> Schedule {
        let left_over: HashSet<BucketKey> = self.phases.iter().flat_map(Fragments::left_over).collect();
        let phases = self.phases.iter().map(|f| Phase {
            kind: f.kind,
            samples: f.samples,
            segments: f.order.iter().filter_map(|key| f.done.get(key).cloned()).collect(),
            first_uses: self
                .buckets
                .iter()
                .map(|b| f.first_uses.get(&b.key).filter(|_| left_over.contains(&b.key)).cloned().unwrap_or_default())
                .collect(),
        });
        Schedule {
            ranks: self.plan.ranks,
            dtypes: (0..self.plan.ranks).map(|rank| self.settings.devices.of(rank).dtype).collect(),
            rule: self.settings.rule,
            metrics: self.metrics.clone(),
            buckets: self.buckets.clone(),
            phases: phases.collect(),
            memory: Vec::new(),
        }
    }

    /// New parts of some nodes in every kind of step.
    fn parts_of(&self, plan: &Plan, splits: &[OpPlan], nodes: Vec<NodeId>) -> Result<NewParts> {
        let of_rows = |rows: Range<usize>| -> Result<Vec<Vec<Part>>> {
            nodes.iter().map(|&node| plan.parts_of_node(self.graph, node, &splits[node], rows.clone())).collect()
        };
        let uses = |(&node, parts): (&NodeId, Vec<Part>)| {
            let params = self.graph.nodes[node].params.len();
            (0..params).map(|param| Arc::new(store::uses(&parts, param))).collect()
        };
        let uses = nodes.iter().zip(of_rows(0..MANY_SAMPLES)?).map(uses).collect();
        let of_phase = |f: &Fragments| {
            let count = f.micro.len();
            (0..count).map(|micro| of_rows(split_range(f.samples, count, micro))).collect::<Result<_>>()
        };
        let parts = self.phases.iter().map(of_phase).collect::<Result<_>>()?;
        Ok(NewParts { nodes, uses, parts })
    }

    /// All passes, for the nodes that changed and what is around them.
    fn apply(&mut self, new: NewParts) {
        let NewParts { nodes, uses, parts } = new;
        for (&node, uses) in nodes.iter().zip(uses) {
            self.uses[node] = uses;
        }
        let changed_buckets = self.lay_buckets();
        let changed: HashSet<NodeId> = nodes.iter().copied().collect();
        for (mut fragments, parts) in std::mem::take(&mut self.phases).into_iter().zip(parts) {
            let mut changes = Changes::default();
            for (number, parts) in parts.into_iter().enumerate() {
                let training = fragments.kind == PhaseKind::Train;
                let Fragments { micro, samples, .. } = &mut fragments;
                let micro = &mut micro[number];
                for (&node, parts) in nodes.iter().zip(parts) {
                    micro.holders[node] = Arc::new(store::holders(&parts, self.graph.nodes[node].params.len()));
                    micro.parts[node] = Arc::new(parts);
                }
                let step = Step { lowering: self, number: number as u16, samples: *samples, training };
                step.lower(micro, &changed, &mut changes);
            }
            self.change_buckets(&mut fragments, &changed_buckets, &mut changes);
            self.finish(&mut fragments, changes, &changed_buckets);
            self.phases.push(fragments);
        }
    }

    /// Lays parameters into buckets; those that were there before and those that are there now, where they differ.
    fn lay_buckets(&mut self) -> [Vec<Arc<Bucket>>; 2] {
        let old: HashMap<BucketKey, Arc<Bucket>> = self.buckets.drain(..).map(|b| (b.key, b)).collect();
        let mut made = Vec::new();
        let buckets = store::buckets(self.graph, &self.plan.store, &self.uses);
        self.buckets = buckets
            .into_iter()
            .map(|bucket| match old.get(&bucket.key).filter(|old| ***old == bucket) {
                Some(same) => same.clone(),
                None => {
                    let bucket = Arc::new(bucket);
                    made.push(bucket.clone());
                    bucket
                }
            })
            .collect();
        let kept: HashSet<*const Bucket> = self.buckets.iter().map(Arc::as_ptr).collect();
        [old.into_values().filter(|bucket| !kept.contains(&Arc::as_ptr(bucket))).collect(), made]
    }

    /// The segments of a step that belong to no node.
    fn change_buckets(&self, fragments: &mut Fragments, [gone, made]: &[Vec<Arc<Bucket>>; 2], changes: &mut Changes) {
        if fragments.raw.is_empty() {
            let ranks: Arc<[usize]> = (0..self.plan.ranks).collect();
            let mut clear = Builder::new(SegmentKey::ClearMetrics);
            for &rank in &ranks[..] {
                clear.task(rank, 0, TaskKind::ClearMetrics, self.metrics.len());
            }
            let mut sum = Builder::new(SegmentKey::Metrics);
            let all = ranks.iter().map(|&rank| metrics(rank)).collect();
            sum.collective(Collective::AllReduce.into(), &ranks, all, self.metrics.len());
            changes.made.extend(clear.finish().into_iter().chain(sum.finish()));
        }
        for bucket in gone {
            fragments.first_uses.remove(&bucket.key);
        }
        if fragments.kind == PhaseKind::Train {
            for bucket in gone.iter().filter(|b| b.trained) {
                changes.gone.extend([SegmentKey::Exchange(bucket.key), SegmentKey::Update(bucket.key)]);
            }
            for bucket in made.iter().filter(|b| b.trained) {
                changes.made.extend(bucket::exchange(bucket));
                changes.made.extend(bucket::update(bucket, self.settings.rule));
            }
        }
    }

    /// The passes after the fragments: order, fuse, waits. Only where segments changed, and around.
    fn finish(&self, fragments: &mut Fragments, changes: Changes, [_, new_buckets]: &[Vec<Arc<Bucket>>; 2]) {
        let micro_batches = match fragments.micro.len() {
            1 => MicroBatches::One,
            n => MicroBatches::InTurn(n as u16),
        };
        fragments.order = order::order(self.graph, &self.buckets, fragments.kind, micro_batches);
        let touched = fragments.take(changes);
        let alone: Vec<&Arc<Bucket>> = self.buckets.iter().filter(|b| b.trained && b.group.len() == 1).collect();
        let Fragments { kind, order, raw, done, joined, first_uses, .. } = fragments;
        let scope = Scope::new(&self.near, &Known { order, raw, done, joined, alone: &alone }, &touched);
        let defers = self.settings.defer_updates;
        let new: HashSet<BucketKey> = new_buckets.iter().map(|b| b.key).collect();
        let used_elsewhere = |b: &Bucket| new.contains(&b.key) || scope.holds(b);
        let left = self.buckets.iter().filter(|b| defers && waits::may_wait(b) && used_elsewhere(b));
        let left: Vec<&Arc<Bucket>> = left.collect();
        let mut watched = scope.watched();
        watched.extend(left.iter().flat_map(|b| b.entries.iter().map(|e| e.of.0)));

        let mut here: Vec<SegmentKey> = Vec::new();
        let mut placed: Vec<Arc<Segment>> = Vec::new();
        for key in order.iter() {
            if scope.begins_anew(key) {
                here.push(*key);
                placed.extend(raw.get(key).cloned());
            } else if key.node().map_or(defers, |node| scope.sees(node) || watched.contains(node)) {
                placed.extend(done.get(key).cloned());
            }
        }
        let mut work = Work::new(placed, watched);
        joined.retain(|pair| !pair.iter().any(|&node| scope.nodes.contains(node)));
        let alone = alone.iter().copied().filter(|b| scope.holds(b));
        fuse::fuse(&mut work, &here, alone, &self.settings.devices, joined);
        for key in order.iter().filter(|key| scope.awaits(key)) {
            waits::awaits(&mut work, key);
        }
        for bucket in left {
            first_uses.insert(bucket.key, waits::first_uses(&work, bucket));
        }
        if defers && *kind == PhaseKind::Train {
            waits::defer(&mut work, order, done, &self.buckets, first_uses, self.plan.ranks);
        }
        done.extend(work.into_segments().map(|segment| (segment.key, segment)));
    }
}

impl Fragments {
    /// Takes over what changed; the segments that were there or are there now.
    fn take(&mut self, changes: Changes) -> HashSet<SegmentKey> {
        let mut touched: HashSet<SegmentKey> = changes.gone.iter().copied().collect();
        touched.extend(changes.made.iter().map(|segment| segment.key));
        for key in &changes.gone {
            self.raw.remove(key);
            self.done.remove(key);
        }
        self.raw.extend(changes.made.into_iter().map(|segment| (segment.key, segment)));
        touched
    }

    /// The buckets of which this kind of step leaves something to the next one.
    fn left_over(&self) -> impl Iterator<Item = BucketKey> {
        let stays = |key: &BucketKey| {
            let update = self.done.get(&SegmentKey::Update(*key));
            update.is_some_and(|segment| segment.tasks.iter().any(|task| task.stage > 0))
        };
        self.first_uses.keys().copied().filter(stays)
    }
}

impl Micro {
    fn empty(nodes: usize) -> Self {
        Self {
            parts: vec![Arc::default(); nodes],
            holders: vec![Arc::default(); nodes],
            forward: vec![Forward::default(); nodes],
            read: vec![Read::default(); nodes],
            gradient: vec![Gradient::default(); nodes],
            backward: vec![Backward::default(); nodes],
        }
    }
}

/// One micro-batch of one kind of step.
struct Step<'l> {
    lowering: &'l Lowering<'l>,
    number: u16,
    samples: usize,
    training: bool,
}

impl Step<'_> {
    /// Makes the fragments anew that depend on nodes whose parts changed.
    fn lower(&self, micro: &mut Micro, changed: &HashSet<NodeId>, changes: &mut Changes) {
        let Lowering { graph, readers, .. } = self.lowering;
        let nodes = graph.nodes.len();
        // Operators whose forward pass was made anew, and tensors of which pieces or readers are other ones.
        let (mut again, mut moved) = (vec![false; nodes], vec![false; nodes]);
        for node in 0..nodes {
            let mut new_pieces = changed.contains(&node);
            again[node] |= new_pieces;
            if again[node] && !graph.is_data(node) {
                let made = self.operator(micro, node).forward(self.inputs(micro, node));
                let old = std::mem::replace(&mut micro.forward[node], made);
                changes.replace(&old.segment, &micro.forward[node].segment);
                new_pieces |= old.made != micro.forward[node].made;
            }
            moved[node] = new_pieces || readers[node].iter().any(|reader| changed.contains(reader));
            if moved[node] {
                let reads = |reader: NodeId, part: &Part| Operator::runs(graph, reader, self.training, part);
                let read = self.tensor(micro, node).read(&micro.forward[node].made, reads);
                for (reader, found) in &read.found {
                    again[*reader] |= micro.read[node].found.get(reader) != Some(found);
                }
                let old = std::mem::replace(&mut micro.read[node], read);
                changes.replace(&old.segments, &micro.read[node].segments);
            }
        }
        if !self.training {
            return;
        }
        // Tensors whose readers left the gradients elsewhere.
        let mut elsewhere = moved;
        for node in (0..nodes).rev().filter(|&node| !graph.is_data(node)) {
            let mut new = again[node];
            let op = &graph.nodes[node].op;
            if elsewhere[node] && !op.is_loss() && graph.wants_gradient(node) {
                let gradient = self.gradient(micro, node, &micro.forward[node].made);
                new |= gradient.of_pieces != micro.gradient[node].of_pieces;
                let old = std::mem::replace(&mut micro.gradient[node], gradient);
                changes.replace(&old.segment, &micro.gradient[node].segment);
            }
            if new {
                let grads = &micro.gradient[node].of_pieces;
                let made = self.operator(micro, node).backward(&micro.forward[node], grads, self.number > 0);
                let old = std::mem::replace(&mut micro.backward[node], made);
                changes.replace(&old.segment, &micro.backward[node].segment);
                if old.input_grads != micro.backward[node].input_grads || op.is_loss() {
                    graph.nodes[node].inputs.iter().for_each(|&input| elsewhere[input] = true);
                }
            }
        }
    }

    fn operator<'s>(&'s self, micro: &'s Micro, node: NodeId) -> Operator<'s> {
        Operator {
            graph: self.lowering.graph,
            node,
            micro: self.number,
            samples: self.samples,
            training: self.training,
            parts: &micro.parts[node],
            holders: &micro.holders[node],
            lists: &self.lowering.settings.lists,
        }
    }

    fn tensor<'s>(&'s self, micro: &'s Micro, node: NodeId) -> Tensor<'s> {
        let Lowering { graph, readers, .. } = self.lowering;
        let lists = &self.lowering.settings.lists;
        Tensor { graph, node, micro: self.number, readers: &readers[node], parts: &micro.parts, lists }
    }

    /// By part and input: where an operator finds what it reads.
    fn inputs(&self, micro: &Micro, node: NodeId) -> Vec<Vec<Option<BufferKey>>> {
        let inputs = self.lowering.graph.nodes[node].inputs.iter().enumerate();
        let found: Vec<Option<&Vec<Option<BufferKey>>>> =
            inputs.map(|(slot, &input)| micro.read[input].found.get(&node)?.get(&slot)).collect();
        let of_part = |part: usize| found.iter().map(|of_slot| of_slot.and_then(|parts| parts[part])).collect();
        (0..micro.parts[node].len()).map(of_part).collect()
    }

    fn gradient(&self, micro: &Micro, node: NodeId, made: &Pieces) -> Gradient {
        let graph = self.lowering.graph;
        let (of_pieces, segment) = self.tensor(micro, node).gradients(made, |reader, slot, part| {
            if graph.nodes[reader].op.is_loss() {
                return micro.forward[reader].loss_grads[part].filter(|_| slot == 0);
            }
            micro.backward[reader].input_grads.get(slot).and_then(|of_part| of_part[part])
        });
        Gradient { of_pieces, segment }
    }
}
