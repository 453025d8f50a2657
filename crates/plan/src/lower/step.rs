//! One kind of step: forward, loss, backward, gradient exchange, update.

use super::Buffers;
use super::store::{Home, Homes};
use crate::plan::Parts;
use crate::schedule::{PhaseKind, Size, Task, TaskKind};
use paceline_base::collective::{Collective, chunk};
use paceline_base::kernel::{BufferId, Call, Kernel};
use paceline_base::optim::{Rule, Segment};
use paceline_base::region::{Region, Strided};
use paceline_graph::ops::{Launch, Local, Role, batched};
use paceline_graph::{Graph, NodeId};
use std::collections::{HashMap, HashSet};

/// What does not change during the lowering of a step.
pub struct Context<'a> {
    pub graph: &'a Graph,
    pub store: &'a Homes,
    pub metrics: &'a [BufferId],
    pub rule: Rule,
    pub phase: usize,
    pub kind: PhaseKind,
}

/// A produced region.
#[derive(Clone, Debug)]
pub struct Piece {
    pub rank: usize,
    pub region: Region,
    pub buffer: BufferId,
}

/// A step while it is lowered.
pub struct Step<'a> {
    pub context: &'a Context<'a>,
    pub buffers: &'a mut Buffers,
    pub parts: Parts,
    tasks: Vec<Task>,
    samples: usize,
    seq: u64,
    /// What each node produced, by part; empty parts are left out.
    pub outputs: Vec<Vec<Piece>>,
    /// Whether a node's output is a sum of its pieces.
    pub partial: Vec<bool>,
    /// Regions already present on a rank.
    pub here: HashMap<(NodeId, Region, usize), BufferId>,
    /// Gradients that consumers computed: (consumer, input slot, part) → buffer.
    pub input_grads: HashMap<(NodeId, usize, usize), BufferId>,
    inputs: HashMap<(NodeId, usize), Vec<BufferId>>,
    results: HashMap<(NodeId, usize), BufferId>,
    written: HashSet<(usize, BufferId)>,
}

/// Lowers one kind of step to its tasks.
pub fn lower_step(context: &Context<'_>, parts: Parts, samples: usize, buffers: &mut Buffers) -> Vec<Task> {
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
        written: HashSet::new(),
    };
    for (rank, &metrics) in context.metrics.iter().enumerate() {
        step.task(rank, None, 0, TaskKind::Begin { metrics }, 4, false);
    }
    for node in 0..nodes {
        step.forward(node);
    }
    let ranks: Vec<usize> = (0..context.metrics.len()).collect();
    step.collective(Collective::AllReduce, &ranks, context.metrics, 4);
    if context.kind == PhaseKind::Train {
        let mut sent = vec![false; context.store.buckets.len()];
        for node in (0..nodes).rev() {
            step.backward(node);
            step.exchange(node, &mut sent);
        }
        for bucket in 0..context.store.buckets.len() {
            step.update(bucket);
        }
    }
    step.tasks
}

impl Step<'_> {
    /// Appends a task; messages and collectives get the next sequence number.
    pub fn task(&mut self, rank: usize, node: Option<NodeId>, part: usize, kind: TaskKind, size: usize, message: bool) {
        let seq = message.then(|| {
            self.seq += 1;
            self.seq - 1
        });
        self.tasks.push(Task { rank, node, part, kind, size: Size::Exact(size), seq, after: Vec::new() });
    }

    fn collective(&mut self, what: Collective, group: &[usize], buffers: &[BufferId], len: usize) {
        if group.len() > 1 {
            let kind = TaskKind::Collective { what, group: group.to_vec(), buffers: buffers.to_vec() };
            self.task(group[0], None, 0, kind, len, true);
        }
    }

    fn training(&self) -> bool {
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
        for index in 0..self.parts.of[node].len() {
            let part = self.parts.of[node][index].clone();
            if part.needs.output.is_empty() {
                continue;
            }
            let rank = part.rank;
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
                let shape = batched(self.samples, &n.shape);
                let local = Local {
                    needs: &part.needs,
                    shape: &shape,
                    layer: node as u32,
                    training: self.training(),
                    input_grads: &self.input_grads_wanted(node),
                };
                self.launch(node, index, n.op.forward(&local), None);
            }
            self.outputs[node].push(Piece { rank, region: part.needs.output.clone(), buffer: output });
        }
    }

    fn backward(&mut self, node: NodeId) {
        let graph = self.context.graph;
        let n = &graph.nodes[node];
        if graph.is_data(node) || n.op.is_loss() || !graph.wants_gradient(node) {
            return;
        }
        let wanted = self.input_grads_wanted(node);
        for index in 0..self.parts.of[node].len() {
            let part = self.parts.of[node][index].clone();
            if part.needs.output.is_empty() {
                continue;
            }
            let piece =
                Piece { rank: part.rank, region: part.needs.output.clone(), buffer: self.results[&(node, index)] };
            let output_grad = self.output_grad(node, &piece);
            if n.op.is_view() {
                self.input_grads.insert((node, 0, index), output_grad);
                continue;
            }
            for (slot, region) in part.needs.inputs.iter().enumerate().filter(|(s, _)| wanted[*s]) {
                let name = format!("{} {region} gradient", graph.nodes[n.inputs[slot]].name);
                let buffer = self.buffer(part.rank, name, region.len());
                self.input_grads.insert((node, slot, index), buffer);
            }
            let shape = batched(self.samples, &n.shape);
            let local =
                Local { needs: &part.needs, shape: &shape, layer: node as u32, training: true, input_grads: &wanted };
            self.launch(node, index, n.op.backward(&local), Some(output_grad));
        }
    }

    /// Puts buffers in place of roles. A second part that adds to a parameter gradient goes through a buffer of its own.
    fn launch(&mut self, node: NodeId, index: usize, launches: Vec<Launch>, output_grad: Option<BufferId>) {
        let part = self.parts.of[node][index].clone();
        let rank = part.rank;
        for launch in launches {
            let mut additions = Vec::new();
            let mut args = Vec::new();
            for role in &launch.args {
                args.push(match *role {
                    Role::Input(i) => self.inputs[&(node, index)][i],
                    Role::Output => self.results[&(node, index)],
                    Role::Param(i) => self.home(node, i, index).param,
                    Role::OutputGrad => output_grad.expect("only backward kernels read the output's gradient"),
                    Role::InputGrad(i) => self.input_grads[&(node, i, index)],
                    Role::Metrics => self.context.metrics[rank],
                    Role::Labels => self.labels(node, &part.needs.output, rank),
                    Role::ParamGrad(i) => {
                        let grad = self.home(node, i, index).grad;
                        if self.written.insert((rank, grad)) {
                            grad
                        } else {
                            let len = self.buffers.of[rank][grad.0 as usize].len;
                            let own = self.buffer(rank, format!("gradient of part {index}"), len);
                            additions.push((own, grad, len));
                            own
                        }
                    }
                });
            }
            self.kernel(node, index, rank, launch.kernel, args);
            for (own, grad, len) in additions {
                self.kernel(node, index, rank, Kernel::Add(Strided::contiguous(0, 0, len)), vec![own, grad]);
            }
        }
    }

    fn home(&self, node: NodeId, param: usize, index: usize) -> &Home {
        let part = &self.parts.of[node][index];
        let region = part.needs.params[param].as_ref().expect("a part launches only on parameters that it uses");
        self.context.store.home(node, param, region, part.rank)
    }

    fn labels(&mut self, node: NodeId, rows: &Region, rank: usize) -> BufferId {
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
        let store = self.context.store;
        for (_, region, rank, home) in store.of_node(node) {
            if self.written.insert((rank, home.grad)) {
                self.kernel(node, 0, rank, Kernel::Zero { len: region.len() }, vec![home.grad]);
            }
        }
        for (number, bucket) in store.buckets.iter().enumerate() {
            let complete = bucket.entries.iter().all(|e| {
                let owner = self.context.graph.nodes.iter().position(|n| n.params.iter().any(|p| p.id == e.id));
                owner.is_some_and(|o| o >= node)
            });
            if complete && !sent[number] {
                sent[number] = true;
                let what = if bucket.sharded { Collective::ReduceScatter } else { Collective::AllReduce };
                self.collective(what, &bucket.group, &bucket.grads, bucket.len);
            }
        }
    }

    fn update(&mut self, number: usize) {
        let bucket = &self.context.store.buckets[number];
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
            self.collective(Collective::AllGather, &bucket.group, &bucket.params, bucket.len);
        }
    }
}
