//! An operator: the kernels of its parts, with buffers in the place of roles, and sums over parts between them.
//!
//! A part's launches run as they come, up to its first sum over parts; what follows waits until all parts have come so far. The
//! sum is taken on each rank in part order, then among the ranks in rank order, so that all of them go on with the same bits.

use super::ListRoom;
use super::segment::Builder;
use super::tensor::{Pieces, Produced};
use crate::key::{BufferKey, BufferRole, SegmentKey};
use crate::plan::Part;
use crate::schedule::{Segment, TaskKind, metrics, param_buffer};
use paceline_base::collective::Collective;
use paceline_base::kernel::{Elements, Kernel};
use paceline_base::region::{Region, Strided};
use paceline_base::sample::{IndexWidth, TargetKind};
use paceline_graph::ops::{Launch, Local, Role, batched};
use paceline_graph::{Graph, Node, NodeId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// An operator in one micro-batch of one kind of step.
pub(super) struct Operator<'a> {
    pub graph: &'a Graph,
    pub node: NodeId,
    pub micro: u16,
    /// Of the whole batch.
    pub samples: usize,
    pub training: bool,
    pub parts: &'a [Part],
    /// By parameter and part: the part by which the parameter's buffers are called.
    pub holders: &'a [Vec<u32>],
    /// Room for lists of indices.
    pub lists: &'a ListRoom,
}

/// What its forward pass leaves for its readers and for its backward pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Forward {
    pub segment: Option<Arc<Segment>>,
    pub made: Pieces,
    /// By part: what it reads, by input.
    inputs: Vec<Vec<Option<BufferKey>>>,
    /// By part: what it made.
    results: Vec<Option<BufferKey>>,
    /// By part: what it keeps, with its length.
    saved: Vec<Vec<(BufferKey, usize)>>,
    /// Of a loss: the gradient of its input, by part.
    pub loss_grads: Vec<Option<BufferKey>>,
    /// A part's own copy of a parameter that another part on its rank moves.
    copies: BTreeMap<(usize, usize), BufferKey>,
}

/// What its backward pass leaves for the tensors that it reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Backward {
    pub segment: Option<Arc<Segment>>,
    /// By input and part: where the gradient is.
    pub input_grads: Vec<Vec<Option<BufferKey>>>,
}

/// One pass of an operator while it is lowered.
struct Pass<'a> {
    operator: &'a Operator<'a>,
    builder: Builder,
    forward: Forward,
    /// Of the piece that each part made.
    output_grads: Vec<Option<BufferKey>>,
    input_grads: Vec<Vec<Option<BufferKey>>>,
    targets: BTreeMap<(usize, Region), BufferKey>,
    /// Parameter gradients that already hold something: the next part adds to them.
    written: BTreeSet<BufferKey>,
    /// Launches of each part from a sum over parts on.
    pending: Vec<(usize, VecDeque<Launch>)>,
}

impl<'a> Operator<'a> {
    fn n(&self) -> &'a Node {
        &self.graph.nodes[self.node]
    }

    /// Whether the forward pass moves parameters itself. They are moved alike on every rank that holds them, also where this batch has no samples.
    pub(super) fn moves(graph: &Graph, node: NodeId, training: bool) -> bool {
        training && graph.nodes[node].params.iter().any(|p| !p.spec.trained)
    }

    /// Whether a part of an operator does anything in the forward pass.
    pub(super) fn runs(graph: &Graph, node: NodeId, training: bool, part: &Part) -> bool {
        !part.needs.output.is_empty() || Self::moves(graph, node, training)
    }

    fn wanted(&self) -> Vec<bool> {
        self.n().inputs.iter().map(|&i| self.training && self.graph.wants_gradient(i)).collect()
    }

    fn pass(&'a self, key: SegmentKey, forward: Forward) -> Pass<'a> {
        let none = || vec![None; self.parts.len()];
        Pass {
            operator: self,
            builder: Builder::new(key),
            forward,
            output_grads: none(),
            input_grads: vec![none(); self.n().inputs.len()],
            targets: BTreeMap::new(),
            written: BTreeSet::new(),
            pending: Vec::new(),
        }
    }

    /// The forward pass; `inputs` are by part and input.
    pub(super) fn forward(&self, inputs: Vec<Vec<Option<BufferKey>>>) -> Forward {
        let (n, node, micro) = (self.n(), self.node as u32, self.micro);
        let (wanted, shape, shapes) =
            (self.wanted(), batched(self.samples, &n.shape), self.graph.input_shapes(self.node));
        let moves = Self::moves(self.graph, self.node, self.training);
        let count = self.parts.len();
        let forward = Forward {
            inputs,
            results: vec![None; count],
            saved: vec![Vec::new(); count],
            loss_grads: vec![None; count],
            ..Forward::default()
        };
        let mut pass = self.pass(SegmentKey::Forward { node, micro }, forward);
        for (index, part) in self.parts.iter().enumerate() {
            let (rank, needs) = (part.rank, &part.needs);
            if !Self::runs(self.graph, self.node, self.training, part) {
                continue;
            }
            let input = pass.forward.inputs[index].first().copied().flatten();
            let output = if n.op.is_view() {
                input.expect("a view has an input")
            } else if n.op.is_loss() {
                metrics(rank)
            } else {
                pass.builder.buffer(rank, BufferRole::Output, index, needs.output.len())
            };
            pass.forward.results[index] = Some(output);
            pass.forward.made.partial |= needs.partial;
            if !n.op.is_view() {
                if n.op.is_loss() && self.training {
                    let gradient = pass.builder.buffer(rank, BufferRole::InputGrad(0), index, needs.inputs[0].len());
                    pass.forward.loss_grads[index] = Some(gradient);
                    pass.input_grads[0][index] = Some(gradient);
                }
                let local = Local {
                    needs,
                    shape: &shape,
                    inputs: &shapes,
                    layer: node,
                    training: self.training,
                    input_grads: &wanted,
                    entries: self.lists.entries(needs.output.range(0).len()),
                    expected_entries: self.lists.expected(needs.output.range(0).len()),
                };
                for (i, saved) in n.op.saved(&local).into_iter().enumerate() {
                    let kept = pass.builder.typed_buffer(rank, BufferRole::Saved(i as u16), index, saved, false);
                    pass.forward.saved[index].push((kept, saved.1));
                }
                if moves {
                    pass.copy_moved(index);
                }
                pass.begin(index, n.op.forward(&local));
            }
            if !needs.output.is_empty() {
                pass.forward.made.pieces.push(Produced { rank, region: needs.output.clone(), buffer: output });
            }
        }
        pass.finish();
        Forward { segment: pass.builder.finish(), ..pass.forward }
    }

    /// The backward pass, given the gradient of each piece that it made. `adds` if an earlier micro-batch has left gradients of the parameters.
    pub(super) fn backward(&self, forward: &Forward, piece_grads: &[BufferKey], adds: bool) -> Backward {
        let (n, node, micro) = (self.n(), self.node as u32, self.micro);
        let (wanted, shape, shapes) =
            (self.wanted(), batched(self.samples, &n.shape), self.graph.input_shapes(self.node));
        let mut pass = self.pass(SegmentKey::Backward { node, micro }, forward.clone());
        let grads: Vec<(usize, usize, BufferKey)> = self.param_grads();
        if adds {
            pass.written.extend(grads.iter().map(|g| g.2));
        }
        let mut piece_grads = piece_grads.iter();
        let has = !n.op.is_loss() && self.graph.wants_gradient(self.node);
        for (index, part) in self.parts.iter().enumerate().filter(|_| has) {
            let (rank, needs) = (part.rank, &part.needs);
            if needs.output.is_empty() {
                continue;
            }
            let output_grad = *piece_grads.next().expect("each piece has a gradient");
            pass.output_grads[index] = Some(output_grad);
            for (slot, region) in needs.inputs.iter().enumerate().filter(|(s, _)| wanted[*s]) {
                let buffer = if n.op.passes_gradient() {
                    output_grad
                } else {
                    pass.builder.buffer(rank, BufferRole::InputGrad(slot as u16), index, region.len())
                };
                pass.input_grads[slot][index] = Some(buffer);
            }
            if n.op.passes_gradient() {
                continue;
            }
            let local = Local {
                needs,
                shape: &shape,
                inputs: &shapes,
                layer: node,
                training: true,
                input_grads: &wanted,
                entries: self.lists.entries(needs.output.range(0).len()),
                expected_entries: self.lists.expected(needs.output.range(0).len()),
            };
            pass.begin(index, n.op.backward(&local));
        }
        pass.finish();
        // Ranks without samples contribute zeros.
        for (rank, len, grad) in grads {
            if pass.written.insert(grad) {
                pass.builder.kernel(rank, 0, Kernel::Zero { len }, vec![grad], len);
            }
        }
        Backward { segment: pass.builder.finish(), input_grads: pass.input_grads }
    }

    /// The gradients of its parameters on all ranks: rank, length, buffer; by parameter, region and rank.
    fn param_grads(&self) -> Vec<(usize, usize, BufferKey)> {
        let mut found = Vec::new();
        for (param, holders) in self.holders.iter().enumerate().filter(|(i, _)| self.n().params[*i].spec.trained) {
            for (index, part) in self.parts.iter().enumerate().filter(|(i, _)| holders[*i] as usize == *i) {
                if let Some(region) = &part.needs.params[param] {
                    let buffer = param_buffer(self.node, BufferRole::ParamGrad(param as u16), index as u32);
                    found.push(((param, region, part.rank), buffer));
                }
            }
        }
        found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        found.into_iter().map(|((_, region, rank), buffer)| (rank, region.len(), buffer)).collect()
    }
}

impl Pass<'_> {
    /// Runs a part up to its first sum over parts.
    fn begin(&mut self, part: usize, launches: Vec<Launch>) {
        let rest = self.advance(part, launches.into());
        if !rest.is_empty() {
            self.pending.push((part, rest));
        }
    }

    /// Takes the sums, and runs what waited for them.
    fn finish(&mut self) {
        while let Some(Launch::SumParts { saved, param }) = self.pending.first().and_then(|w| w.1.front()) {
            let (saved, param) = (*saved, *param);
            let mut pending = std::mem::take(&mut self.pending);
            let parts: Vec<usize> = pending.iter().map(|p| p.0).collect();
            self.sum_parts(&parts, saved, param);
            for (part, launches) in &mut pending {
                launches.pop_front();
                *launches = self.advance(*part, std::mem::take(launches));
            }
            pending.retain(|(_, launches)| !launches.is_empty());
            self.pending = pending;
        }
    }

    fn advance(&mut self, part: usize, mut launches: VecDeque<Launch>) -> VecDeque<Launch> {
        while let Some(Launch::Kernel { .. }) = launches.front() {
            if let Some(Launch::Kernel { kernel, args }) = launches.pop_front() {
                self.launch(part, kernel, &args);
            }
        }
        launches
    }

    /// Puts buffers in place of roles. A second part that adds to a parameter gradient goes through a buffer of its own.
    fn launch(&mut self, index: usize, kernel: Kernel, roles: &[Role]) {
        let parts = self.operator.parts;
        let Part { rank, needs } = &parts[index];
        let mut additions = Vec::new();
        let mut size = 0;
        let args = roles.iter().map(|role| {
            let (buffer, len) = match *role {
                Role::Input(i) => {
                    (self.forward.inputs[index][i].expect("a part that runs has its inputs"), needs.inputs[i].len())
                }
                Role::Output => {
                    (self.forward.results[index].expect("a part that runs makes something"), needs.output.len())
                }
                Role::Saved(i) => self.forward.saved[index][i],
                Role::Param(i) => {
                    let copy = self.forward.copies.get(&(index, i)).copied();
                    (copy.unwrap_or_else(|| self.param(BufferRole::Param(i as u16), i, index)), self.len(i, index))
                }
                Role::OutputGrad => (
                    self.output_grads[index].expect("only backward kernels read the output's gradient"),
                    needs.output.len(),
                ),
                Role::InputGrad(i) => (
                    self.input_grads[i][index].expect("a kernel makes only gradients that are wanted"),
                    needs.inputs[i].len(),
                ),
                Role::Metrics => {
                    let loss = self.operator.graph.nodes[self.operator.node].op.loss();
                    let targets = self.operator.graph.targets;
                    (metrics(*rank), loss.map_or(0, |loss| loss.metrics(targets).len()))
                }
                Role::Targets => self.targets(index),
                Role::ParamGrad(i) => {
                    let (grad, len) = (self.param(BufferRole::ParamGrad(i as u16), i, index), self.len(i, index));
                    if self.written.insert(grad) {
                        (grad, len)
                    } else {
                        let own = self.builder.buffer(*rank, BufferRole::GradSummand(i as u16), index, len);
                        additions.push((own, grad, len));
                        (own, len)
                    }
                }
            };
            size = len;
            buffer
        });
        let args = args.collect();
        self.builder.kernel(*rank, index, kernel, args, size);
        for (own, grad, len) in additions {
            let add = Kernel::Add(Strided::contiguous(0, 0, len));
            self.builder.kernel(*rank, index, add, vec![own, grad], len);
        }
    }

    /// A buffer of a parameter that a part uses.
    fn param(&self, role: BufferRole, param: usize, part: usize) -> BufferKey {
        param_buffer(self.operator.node, role, self.operator.holders[param][part])
    }

    fn len(&self, param: usize, part: usize) -> usize {
        self.operator.parts[part].needs.params[param].as_ref().map_or(0, Region::len)
    }

    /// The targets of a part's samples, loaded once on each rank; and how many.
    fn targets(&mut self, index: usize) -> (BufferKey, usize) {
        let Part { rank, needs } = &self.operator.parts[index];
        let (rows, targets) = (&needs.output, self.operator.graph.targets);
        let len = rows.len() * targets.each();
        if let Some(&buffer) = self.targets.get(&(*rank, rows.clone())) {
            return (buffer, len);
        }
        let elements = match targets {
            TargetKind::Classes { .. } => Elements::Index(IndexWidth::Bits32),
            TargetKind::Numbers { .. } => Elements::Float,
        };
        let buffer = self.builder.typed_buffer(*rank, BufferRole::Targets, index, (elements, len), false);
        self.builder.task(*rank, 0, TaskKind::LoadTargets { buffer, rows: rows.range(0), targets }, len);
        self.targets.insert((*rank, rows.clone()), buffer);
        (buffer, len)
    }

    /// Of several parts on one rank that move the same values, the first does it; the others read and move a copy that is
    /// taken before, so that the values are moved once.
    fn copy_moved(&mut self, index: usize) {
        let operator = self.operator;
        let params = operator.n().params.iter().enumerate();
        for (i, _) in params.filter(|(i, p)| !p.spec.trained && operator.holders[*i][index] as usize != index) {
            let (rank, len) = (operator.parts[index].rank, self.len(i, index));
            let values = self.param(BufferRole::Param(i as u16), i, index);
            let copy = self.builder.buffer(rank, BufferRole::ParamCopy(i as u16), index, len);
            let walk = Strided::contiguous(0, 0, len);
            self.builder.kernel(rank, index, Kernel::Copy(walk), vec![values, copy], len);
            self.forward.copies.insert((index, i), copy);
        }
    }

    /// Makes a saved buffer the sum of those of all `parts` that use the same region of `param`.
    fn sum_parts(&mut self, parts: &[usize], saved: usize, param: usize) {
        type ByRank = BTreeMap<usize, Vec<usize>>;
        let operator = self.operator;
        let mut groups: Vec<ByRank> = Vec::new();
        let mut found: BTreeMap<&Option<Region>, usize> = BTreeMap::new();
        for &index in parts {
            let Part { rank, needs } = &operator.parts[index];
            let at = *found.entry(&needs.params[param]).or_insert_with(|| {
                groups.push(BTreeMap::new());
                groups.len() - 1
            });
            groups[at].entry(*rank).or_default().push(index);
        }
        for by_rank in groups {
            let (mut ranks, mut sums, mut len) = (Vec::new(), Vec::new(), 0);
            for (rank, parts) in by_rank {
                let sum;
                (sum, len) = self.forward.saved[parts[0]][saved];
                for &index in &parts[1..] {
                    let own = self.forward.saved[index][saved].0;
                    let add = Kernel::Add(Strided::contiguous(0, 0, len));
                    self.builder.kernel(rank, index, add, vec![own, sum], len);
                    self.forward.saved[index][saved].0 = sum;
                }
                ranks.push(rank);
                sums.push(sum);
            }
            self.builder.collective(Collective::AllReduce.into(), &ranks.into(), sums, len);
        }
    }
}
