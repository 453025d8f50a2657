//! Redistribution between placements: forward by what a consumer reads, backward by the transpose.
//!
//! Forward: a wanted region is put together from the producer's pieces; summands are added in part order. Backward: a
//! produced piece's gradient is the sum of what every consumer part computed for the coordinates they share.

use super::step::{Produced, Step};
use crate::schedule::{Life, TaskKind};
use paceline_base::kernel::{BufferId, Call, Kernel};
use paceline_base::placement;
use paceline_base::region::{Region, Strided};
use paceline_graph::NodeId;

/// A region in a buffer of a rank.
#[derive(Clone, Debug)]
pub(super) struct Held<'r> {
    pub rank: usize,
    pub buffer: BufferId,
    pub region: &'r Region,
}

impl Step<'_> {
    /// A buffer on `rank` that holds `region` of `node`'s output, made if it is not there.
    pub(super) fn resolve(&mut self, node: NodeId, region: &Region, rank: usize) -> BufferId {
        if let Some(&buffer) = self.here.get(&(node, region.clone(), rank)) {
            return buffer;
        }
        if region.is_empty() {
            return self.buffer(rank, format!("nothing of {}", self.context.graph.nodes[node].name), 0);
        }
        let buffer = if self.context.graph.is_data(node) {
            self.load(node, region, rank)
        } else {
            let pieces = self.outputs[node].clone();
            let placement = placement::Placement {
                pieces: pieces.iter().map(|p| placement::Piece { rank: p.rank, region: p.region.clone() }).collect(),
                partial: self.partial[node],
            };
            let shares = placement.shares(region, rank);
            match &shares[..] {
                [one] if pieces[one.piece].rank == rank && pieces[one.piece].region == *region => {
                    pieces[one.piece].buffer
                }
                _ => {
                    let name = format!("{} {region}", self.context.graph.nodes[node].name);
                    let target = self.buffer(rank, name, region.len());
                    for (i, share) in shares.iter().enumerate() {
                        // Disjoint pieces are copied; a summand after the first of its coordinates is added.
                        let add = shares[..i].iter().any(|s| s.region.intersect(&share.region).is_some());
                        let Produced { rank: from, region: whole, buffer } = &pieces[share.piece];
                        let source = Held { rank: *from, buffer: *buffer, region: whole };
                        self.move_region(
                            node,
                            share.piece,
                            &source,
                            &share.region,
                            &Held { rank, buffer: target, region },
                            add,
                        );
                    }
                    target
                }
            }
        };
        self.here.insert((node, region.clone(), rank), buffer);
        buffer
    }

    /// The gradient of one produced piece: the sum over all consumers, in consumer and part order.
    pub(super) fn output_grad(&mut self, node: NodeId, piece: &Produced) -> BufferId {
        let graph = self.context.graph;
        let mut contributions: Vec<(usize, BufferId, Region, Region)> = Vec::new();
        for (consumer, n) in graph.nodes.iter().enumerate().skip(node + 1) {
            for slot in (0..n.inputs.len()).filter(|&s| n.inputs[s] == node) {
                for (index, part) in self.parts.of[consumer].iter().enumerate() {
                    let Some(&buffer) = self.input_grads.get(&(consumer, slot, index)) else { continue };
                    let region = part.needs.inputs[slot].clone();
                    if let Some(shared) = region.intersect(&piece.region) {
                        contributions.push((part.rank, buffer, region, shared));
                    }
                }
            }
        }
        if let [(rank, buffer, region, _)] = &contributions[..]
            && *rank == piece.rank
            && *region == piece.region
        {
            return *buffer;
        }
        let name = format!("{} {} gradient", graph.nodes[node].name, piece.region);
        let target = self.buffer(piece.rank, name, piece.region.len());
        if contributions.len() > 1 && contributions.iter().all(|c| c.0 == piece.rank && c.2 == piece.region) {
            // All there and whole, as where branches part: one pass instead of one for each.
            let kernel = Kernel::Sum { inputs: contributions.len(), len: piece.region.len(), activation: None };
            let args = contributions.iter().map(|c| c.1).chain([target]).collect();
            self.kernel(node, 0, piece.rank, kernel, args);
            return target;
        }
        let held = Held { rank: piece.rank, buffer: target, region: &piece.region };
        // What is the first to reach its coordinates is copied, unless it overlaps only in part with an earlier one.
        let first = |i: usize| contributions[..i].iter().all(|c| c.3.intersect(&contributions[i].3).is_none());
        let covered: usize = (0..contributions.len()).filter(|&i| first(i)).map(|i| contributions[i].3.len()).sum();
        if covered < piece.region.len() {
            self.kernel(node, 0, piece.rank, Kernel::Zero { len: piece.region.len() }, vec![target]);
        }
        for (i, (rank, buffer, region, shared)) in contributions.iter().enumerate() {
            let source = Held { rank: *rank, buffer: *buffer, region };
            self.move_region(node, i, &source, shared, &held, covered < piece.region.len() || !first(i));
        }
        target
    }

    /// Copies or adds `shared` from one held region to another, through a transfer if they are on different ranks.
    pub(super) fn move_region(
        &mut self,
        node: NodeId,
        part: usize,
        from: &Held<'_>,
        shared: &Region,
        to: &Held<'_>,
        add: bool,
    ) {
        let kernel = |walk| if add { Kernel::Add(walk) } else { Kernel::Copy(walk) };
        if from.rank == to.rank {
            let walk = Strided::between(shared, from.region, to.region);
            self.kernel(node, part, to.rank, kernel(walk), vec![from.buffer, to.buffer]);
            return;
        }
        let name = format!("{} {shared} on the way", self.context.graph.nodes[node].name);
        // A message has a buffer of its own: it is on loan until the step ends, and the source is still read here.
        let source = self.buffer(from.rank, name.clone(), shared.len());
        let walk = Strided::between(shared, from.region, shared);
        self.kernel(node, part, from.rank, Kernel::Copy(walk), vec![from.buffer, source]);
        let direct = !add && shared == to.region;
        let target = if direct { to.buffer } else { self.buffer(to.rank, name, shared.len()) };
        let kind = TaskKind::Transfer { to: to.rank, source, target };
        self.task(from.rank, Some(node), part, kind, shared.len(), true);
        if !direct {
            let walk = Strided::between(shared, shared, to.region);
            self.kernel(node, part, to.rank, kernel(walk), vec![target, to.buffer]);
        }
    }

    fn load(&mut self, node: NodeId, region: &Region, rank: usize) -> BufferId {
        let name = format!("data {region}");
        let buffer = self.buffer(rank, name, region.len());
        let kind = TaskKind::Load {
            buffer,
            rows: region.range(0),
            region: Region::new((1..region.rank()).map(|a| region.range(a))),
            shape: self.context.graph.nodes[node].shape.clone(),
        };
        self.task(rank, Some(node), 0, kind, region.len(), false);
        buffer
    }

    /// A buffer that lives within this step.
    pub(super) fn buffer(&mut self, rank: usize, name: String, len: usize) -> BufferId {
        self.buffers.add(rank, name, len, Life::Step(self.context.phase))
    }

    /// Adds a kernel task.
    pub(super) fn kernel(&mut self, node: NodeId, part: usize, rank: usize, kernel: Kernel, args: Vec<BufferId>) {
        let size = self.buffers.of[rank][args[args.len() - 1].0 as usize].len;
        self.task(rank, Some(node), part, TaskKind::Compute(Call { kernel, args }), size, false);
    }
}
