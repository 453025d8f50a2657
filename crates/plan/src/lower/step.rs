//! One kind of step: forward, loss, backward, gradient exchange, update.

use super::Buffers;
use super::launch::PendingParts;
use super::parameter_layout::ParameterLayout;
use crate::plan::{Compression, Parts};
use crate::schedule::{PhaseKind, Size, Task, TaskKind};
use paceline_base::collective::{Collective, chunk};
use paceline_base::kernel::{BufferId, Call, Kernel};
use paceline_base::optim::{Rule, Segment};
use paceline_base::region::Region;
use paceline_graph::ops::{Local, batched};
use paceline_graph::{Graph, NodeId};
use std::collections::{HashMap, HashSet};

/// What does not change during the lowering of a step.
pub(super) struct Context<'a> {
    pub graph: &'a Graph,
    pub layout: &'a ParameterLayout,
    pub metrics: &'a [BufferId],
    pub rule: Rule,
    pub phase: usize,
    pub kind: PhaseKind,
}

/// A region of an output, and the buffer that holds it.
#[derive(Clone, Debug)]
pub(super) struct Produced {
    pub rank: usize,
    pub region: Region,
    pub buffer: BufferId,
}

/// A step while it is lowered.
pub(super) struct Step<'a> {
    pub context: &'a Context<'a>,
    pub buffers: &'a mut Buffers,
    pub parts: Parts,
    tasks: Vec<Task>,
    samples: usize,
    seq: u64,
    /// What each node produced, by part; empty parts are left out.
    pub outputs: Vec<Vec<Produced>>,
    /// Whether a node's output is a sum of its pieces.
    pub partial: Vec<bool>,
    /// Regions already present on a rank.
    pub here: HashMap<(NodeId, Region, usize), BufferId>,
    /// Gradients that consumers computed: (consumer, input slot, part) → buffer.
    pub input_grads: HashMap<(NodeId, usize, usize), BufferId>,
    /// By node and part: what it reads, makes and keeps.
    pub inputs: HashMap<(NodeId, usize), Vec<BufferId>>,
    pub results: HashMap<(NodeId, usize), BufferId>,
    pub saved: HashMap<(NodeId, usize), Vec<BufferId>>,
    /// A part's own copy of a parameter that another part on its rank moves: (node, part, parameter) → buffer.
    pub copies: HashMap<(NodeId, usize, usize), BufferId>,
    /// Parameter gradients that already hold something: the next part adds to them.
    pub written: HashSet<(usize, BufferId)>,
}

/// Lowers one kind of step to its tasks.
pub(super) fn lower_step(context: &Context<'_>, parts: Parts, samples: usize, buffers: &mut Buffers) -> Vec<Task> {
    let nodes = context.graph.nodes.len();
    let mut step = Step {
        context,
        buffers,
        parts,
        tasks: Vec::new(),
        samples,
        seq: 0,
        outputs: vec![Vec::new(); nodes],
        partial: vec![false; nodes],
        here: HashMap::new(),
        input_grads: HashMap::new(),
        inputs: HashMap::new(),
        results: HashMap::new(),
        saved: HashMap::new(),
        copies: HashMap::new(),
        written: HashSet::new(),
    };
    for (rank, &metrics) in context.metrics.iter().enumerate() {
        step.task(rank, None, 0, TaskKind::Begin { metrics }, 4, false);
    }
    for node in 0..nodes {
        step.forward(node);
    }
    let ranks: Vec<usize> = (0..context.metrics.len()).collect();
    step.collective(None, Collective::AllReduce, &ranks, context.metrics, 4);
    if context.kind == PhaseKind::Train {
        let mut sent = vec![false; context.layout.buckets.len()];
        for node in (0..nodes).rev() {
            step.backward(node);
            step.exchange(node, &mut sent);
        }
        for bucket in (0..context.layout.buckets.len()).filter(|&b| context.layout.buckets[b].trained) {
            step.update(bucket);
        }
    }
    step.tasks
}

impl Step<'_> {
    /// Appends a task; messages and collectives get the next sequence number.
    pub(super) fn task(
        &mut self,
        rank: usize,
        node: Option<NodeId>,
        part: usize,
        kind: TaskKind,
        size: usize,
        message: bool,
    ) {
        let seq = message.then(|| {
            self.seq += 1;
            self.seq - 1
        });
        self.tasks.push(Task { rank, node, part, kind, size: Size::Exact(size), seq, after: Vec::new() });
    }

    /// A collective among these ranks; one rank alone needs none.
    pub(super) fn collective(
        &mut self,
        node: Option<NodeId>,
        what: Collective,
        group: &[usize],
        buffers: &[BufferId],
        len: usize,
    ) {
        if group.len() > 1 {
            let kind = TaskKind::Collective { what, group: group.to_vec(), buffers: buffers.to_vec() };
            self.task(group[0], node, 0, kind, len, true);
        }
    }

    /// Whether gradients are wanted at all.
    pub(super) fn training(&self) -> bool {
        self.context.kind == PhaseKind::Train
    }

    fn input_grads_wanted(&self, node: NodeId) -> Vec<bool> {
        let graph = self.context.graph;
        graph.nodes[node].inputs.iter().map(|&i| self.training() && graph.wants_gradient(i)).collect()
    }

    fn forward(&mut self, node: NodeId) {
        let graph = self.context.graph;
        if graph.is_data(node) {
            return;
        }
        let n = &graph.nodes[node];
        // What the forward pass moves is moved alike on every rank that holds it, also where this batch has no samples.
        let moves = self.training() && n.params.iter().any(|p| !p.spec.trained);
        let wanted = self.input_grads_wanted(node);
        let shape = batched(self.samples, &n.shape);
        let mut pending = PendingParts::default();
        for index in 0..self.parts.of[node].len() {
            let part = self.parts.of[node][index].clone();
            let (rank, empty) = (part.rank, part.needs.output.is_empty());
            if empty && !moves {
                continue;
            }
            let inputs: Vec<BufferId> =
                n.inputs.iter().zip(&part.needs.inputs).map(|(&i, region)| self.resolve(i, region, rank)).collect();
            let output = if n.op.is_view() {
                inputs[0]
            } else if n.op.is_loss() {
                self.context.metrics[rank]
            } else {
                self.buffer(rank, format!("{} {}", n.name, part.needs.output), part.needs.output.len())
            };
            self.inputs.insert((node, index), inputs);
            self.results.insert((node, index), output);
            self.partial[node] |= part.needs.partial;
            if !n.op.is_view() {
                if n.op.is_loss() && self.training() {
                    let name = format!("{} {} gradient", graph.nodes[n.inputs[0]].name, part.needs.inputs[0]);
                    let gradient = self.buffer(rank, name, part.needs.inputs[0].len());
                    self.input_grads.insert((node, 0, index), gradient);
                }
                let local = Local {
                    needs: &part.needs,
                    shape: &shape,
                    inputs: &graph.input_shapes(node),
                    layer: node as u32,
                    training: self.training(),
                    input_grads: &wanted,
                };
                let keeps = n.op.saved(&local).into_iter().enumerate();
                let keeps = keeps.map(|(i, len)| self.buffer(rank, format!("{} part {index} kept {i}", n.name), len));
                let keeps = keeps.collect();
                self.saved.insert((node, index), keeps);
                if moves {
                    self.copy_moved(node, index);
                }
                self.begin(node, index, n.op.forward(&local), None, &mut pending);
            }
            if !empty {
                self.outputs[node].push(Produced { rank, region: part.needs.output.clone(), buffer: output });
            }
        }
        self.finish(node, pending);
    }

    fn backward(&mut self, node: NodeId) {
        let graph = self.context.graph;
        let n = &graph.nodes[node];
        if graph.is_data(node) || n.op.is_loss() || !graph.wants_gradient(node) {
            return;
        }
        let wanted = self.input_grads_wanted(node);
        let shape = batched(self.samples, &n.shape);
        let mut pending = PendingParts::default();
        for index in 0..self.parts.of[node].len() {
            let part = self.parts.of[node][index].clone();
            if part.needs.output.is_empty() {
                continue;
            }
            let piece =
                Produced { rank: part.rank, region: part.needs.output.clone(), buffer: self.results[&(node, index)] };
            let output_grad = self.output_grad(node, &piece);
            for (slot, region) in part.needs.inputs.iter().enumerate().filter(|(s, _)| wanted[*s]) {
                let buffer = if n.op.passes_gradient() {
                    output_grad
                } else {
                    let name = format!("{} {region} gradient", graph.nodes[n.inputs[slot]].name);
                    self.buffer(part.rank, name, region.len())
                };
                self.input_grads.insert((node, slot, index), buffer);
            }
            if n.op.passes_gradient() {
                continue;
            }
            let local = Local {
                needs: &part.needs,
                shape: &shape,
                inputs: &graph.input_shapes(node),
                layer: node as u32,
                training: true,
                input_grads: &wanted,
            };
            self.begin(node, index, n.op.backward(&local), Some(output_grad), &mut pending);
        }
        self.finish(node, pending);
    }

    /// The labels of these samples, loaded once.
    pub(super) fn labels(&mut self, node: NodeId, rows: &Region, rank: usize) -> BufferId {
        let key = (node, rows.clone(), rank);
        if let Some(&buffer) = self.here.get(&key) {
            return buffer;
        }
        let buffer = self.buffer(rank, format!("labels {rows}"), rows.len());
        self.task(rank, Some(node), 0, TaskKind::LoadLabels { buffer, rows: rows.range(0) }, rows.len(), false);
        self.here.insert(key, buffer);
        buffer
    }

    /// After a node's backward pass: ranks without samples contribute zeros, and complete buckets leave.
    fn exchange(&mut self, node: NodeId, sent: &mut [bool]) {
        let layout = self.context.layout;
        for (_, region, rank, slot) in layout.of_node(node) {
            if let Some(grad) = slot.grad
                && self.written.insert((rank, grad))
            {
                self.kernel(node, 0, rank, Kernel::Zero { len: region.len() }, vec![grad]);
            }
        }
        for (number, bucket) in layout.buckets.iter().enumerate().filter(|(_, b)| b.trained) {
            let complete = bucket.entries.iter().all(|e| {
                let owner = self.context.graph.nodes.iter().position(|n| n.params.iter().any(|p| p.id == e.id));
                owner.is_some_and(|o| o >= node)
            });
            if complete && !sent[number] {
                sent[number] = true;
                let what = match bucket.compression {
                    Compression::None if bucket.sharded => Collective::ReduceScatter,
                    Compression::None => Collective::AllReduce,
                    Compression::Bf16 => Collective::AllReduceBf16,
                    Compression::TopK { per_million } => {
                        let keep = (bucket.len as u128 * u128::from(per_million)).div_ceil(1_000_000);
                        let kernel = Kernel::Sparsify { len: bucket.len, keep: (keep as usize).clamp(1, bucket.len) };
                        for (member, &rank) in bucket.group.iter().enumerate() {
                            let args = vec![bucket.grads[member], bucket.held_back[member]];
                            self.kernel(node, 0, rank, kernel.clone(), args);
                        }
                        Collective::AllReduceSparse
                    }
                };
                self.collective(None, what, &bucket.group, &bucket.grads, bucket.len);
            }
        }
    }

    fn update(&mut self, number: usize) {
        let bucket = &self.context.layout.buckets[number];
        let rule = self.context.rule;
        for (member, &rank) in bucket.group.iter().enumerate() {
            let range = if bucket.sharded { chunk(bucket.len, bucket.group.len(), member) } else { 0..bucket.len };
            let segments: Vec<Segment> = bucket
                .entries
                .iter()
                .filter_map(|e| {
                    let (a, b) = (e.offset.max(range.start), (e.offset + e.region.len()).min(range.end));
                    (a < b).then(|| Segment { start: a - range.start, len: b - a, l2: e.l2 })
                })
                .collect();
            if segments.is_empty() {
                continue;
            }
            let part_of = |buffers: &mut Buffers, outer: BufferId, what: &str| {
                if range.len() == bucket.len {
                    return outer;
                }
                let name = format!("{what} {}..{} of bucket {number}", range.start, range.end);
                buffers.add(rank, name, range.len(), crate::schedule::Life::Within(outer, range.start))
            };
            let mut args = vec![
                part_of(self.buffers, bucket.params[member], "parameters"),
                part_of(self.buffers, bucket.grads[member], "gradients"),
            ];
            args.extend(&bucket.states[member]);
            let call = Call { kernel: Kernel::Update { rule, segments }, args };
            self.task(rank, None, number, TaskKind::Update(call), range.len(), false);
        }
        if bucket.sharded {
            self.collective(None, Collective::AllGather, &bucket.group, &bucket.params, bucket.len);
        }
    }
}
