//! From an operator's launches to tasks: buffers in the place of roles, and sums over parts between the kernels of one node.
//!
//! A part's launches run as they come, up to its first sum over parts; what follows waits until all parts of the node have
//! come so far. The sum is taken on each rank in part order, then among the ranks in rank order, so that all of them go on
//! with the same bits.

use super::parameter_layout::ParameterSlot;
use super::step::Step;
use paceline_base::collective::Collective;
use paceline_base::kernel::{BufferId, Kernel};
use paceline_base::region::{Region, Strided};
use paceline_graph::NodeId;
use paceline_graph::ops::{Launch, Role};
use std::collections::{BTreeMap, VecDeque};

/// What the parts of a node have yet to do: their launches from a sum over parts on.
#[derive(Default)]
pub(super) struct PendingParts {
    waiting: Vec<PendingPart>,
}

struct PendingPart {
    part: usize,
    output_grad: Option<BufferId>,
    launches: VecDeque<Launch>,
}

impl Step<'_> {
    /// Runs a part up to its first sum over parts.
    pub(super) fn begin(
        &mut self,
        node: NodeId,
        part: usize,
        launches: Vec<Launch>,
        output_grad: Option<BufferId>,
        pending: &mut PendingParts,
    ) {
        let mut waiting = PendingPart { part, output_grad, launches: launches.into() };
        self.advance(node, &mut waiting);
        if !waiting.launches.is_empty() {
            pending.waiting.push(waiting);
        }
    }

    /// Takes the sums, and runs what waited for them.
    pub(super) fn finish(&mut self, node: NodeId, mut pending: PendingParts) {
        while let Some(Launch::SumParts { saved, param }) = pending.waiting.first().and_then(|w| w.launches.front()) {
            let (saved, param) = (*saved, *param);
            let parts: Vec<usize> = pending.waiting.iter().map(|w| w.part).collect();
            self.sum_parts(node, &parts, saved, param);
            for waiting in &mut pending.waiting {
                waiting.launches.pop_front();
                self.advance(node, waiting);
            }
            pending.waiting.retain(|w| !w.launches.is_empty());
        }
    }

    fn advance(&mut self, node: NodeId, waiting: &mut PendingPart) {
        while let Some(Launch::Kernel { .. }) = waiting.launches.front() {
            if let Some(Launch::Kernel { kernel, args }) = waiting.launches.pop_front() {
                self.launch(node, waiting.part, kernel, &args, waiting.output_grad);
            }
        }
    }

    /// Puts buffers in place of roles. A second part that adds to a parameter gradient goes through a buffer of its own.
    fn launch(&mut self, node: NodeId, index: usize, kernel: Kernel, roles: &[Role], output_grad: Option<BufferId>) {
        let part = self.parts.of[node][index].clone();
        let rank = part.rank;
        let mut additions = Vec::new();
        let mut args = Vec::new();
        for role in roles {
            args.push(match *role {
                Role::Input(i) => self.inputs[&(node, index)][i],
                Role::Output => self.results[&(node, index)],
                Role::Saved(i) => self.saved[&(node, index)][i],
                Role::Param(i) => {
                    self.copies.get(&(node, index, i)).copied().unwrap_or_else(|| self.slot(node, i, index).param)
                }
                Role::OutputGrad => output_grad.expect("only backward kernels read the output's gradient"),
                Role::InputGrad(i) => self.input_grads[&(node, i, index)],
                Role::Metrics => self.context.metrics[rank],
                Role::Labels => self.labels(node, &part.needs.output, rank),
                Role::ParamGrad(i) => {
                    let grad = self.slot(node, i, index).grad.expect("only trained parameters have gradients");
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
        self.kernel(node, index, rank, kernel, args);
        for (own, grad, len) in additions {
            self.kernel(node, index, rank, Kernel::Add(Strided::contiguous(0, 0, len)), vec![own, grad]);
        }
    }

    fn slot(&self, node: NodeId, param: usize, index: usize) -> &ParameterSlot {
        let part = &self.parts.of[node][index];
        let region = part.needs.params[param].as_ref().expect("a part launches only on parameters that it uses");
        self.context.layout.slot(node, param, region, part.rank)
    }

    /// Of several parts on one rank that move the same values, the first does it; the others read and move a copy that is
    /// taken before, so that the values are moved once.
    pub(super) fn copy_moved(&mut self, node: NodeId, index: usize) {
        let graph = self.context.graph;
        let part = self.parts.of[node][index].clone();
        for (i, param) in graph.nodes[node].params.iter().enumerate().filter(|(_, p)| !p.spec.trained) {
            let before = &self.parts.of[node][..index];
            if before.iter().any(|p| p.rank == part.rank && p.needs.params[i] == part.needs.params[i]) {
                let (values, len) = {
                    let slot = self.slot(node, i, index);
                    (slot.param, self.buffers.of[part.rank][slot.param.0 as usize].len)
                };
                let copy = self.buffer(part.rank, format!("{} for part {index}", param.name), len);
                let walk = Strided::contiguous(0, 0, len);
                self.kernel(node, index, part.rank, Kernel::Copy(walk), vec![values, copy]);
                self.copies.insert((node, index, i), copy);
            }
        }
    }

    /// Makes a saved buffer the sum of those of all `parts` that use the same region of `param`.
    fn sum_parts(&mut self, node: NodeId, parts: &[usize], saved: usize, param: usize) {
        type ByRank = BTreeMap<usize, Vec<usize>>;
        let mut groups: Vec<(Option<Region>, ByRank)> = Vec::new();
        for &index in parts {
            let part = &self.parts.of[node][index];
            let region = part.needs.params[param].clone();
            let at = groups.iter().position(|g| g.0 == region).unwrap_or_else(|| {
                groups.push((region, BTreeMap::new()));
                groups.len() - 1
            });
            groups[at].1.entry(part.rank).or_default().push(index);
        }
        for (_, by_rank) in groups {
            let (mut ranks, mut sums, mut len) = (Vec::new(), Vec::new(), 0);
            for (rank, parts) in by_rank {
                let sum = self.saved[&(node, parts[0])][saved];
                len = self.buffers.of[rank][sum.0 as usize].len;
                for &index in &parts[1..] {
                    let own = self.saved[&(node, index)][saved];
                    let walk = Strided::contiguous(0, 0, len);
                    self.kernel(node, index, rank, Kernel::Add(walk), vec![own, sum]);
                    if let Some(kept) = self.saved.get_mut(&(node, index)) {
                        kept[saved] = sum;
                    }
                }
                ranks.push(rank);
                sums.push(sum);
            }
            self.collective(Some(node), Collective::AllReduce, &ranks, &sums, len);
        }
    }
}
