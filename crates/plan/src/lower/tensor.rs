//! A tensor with all its readers: forward, what each part of a reader wants is put together from the pieces that its operator made; backward, by
//! the transpose, the gradient of a piece is the sum of what every part of every reader computed for the coordinates they share.
//!
//! What several readers want on one rank is brought there once, before the first of them. Summands are added in part order,
//! gradients in the order of readers and parts, so that every rank gets the same bits.

use super::ListRoom;
use super::segment::{Builder, Held, Way};
use crate::key::{BufferKey, BufferRole, SegmentKey};
use crate::plan::Part;
use crate::schedule::{Segment, TaskKind};
use paceline_base::kernel::{Elements, Kernel};
use paceline_base::placement::{Index, Piece, Placement};
use paceline_base::region::Region;
use paceline_base::sample::FeatureKind;
use paceline_graph::{Graph, NodeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A region of an output, and the buffer that holds it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Produced {
    pub rank: usize,
    pub region: Region,
    pub buffer: BufferKey,
}

/// What an operator made.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pieces {
    /// By part; those without elements are left out.
    pub pieces: Vec<Produced>,
    /// Whether the tensor is the sum of them.
    pub partial: bool,
}

/// Where the parts of one reader find what they want: by input of the reader that is this tensor, then by part.
pub(super) type Found = BTreeMap<usize, Vec<Option<BufferKey>>>;

/// One tensor, read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Read {
    /// By reader.
    pub found: BTreeMap<NodeId, Found>,
    /// One for each reader for which something has to be brought.
    pub segments: Vec<Arc<Segment>>,
}

/// Whose readers they are, and of which micro-batch.
pub(super) struct Tensor<'a> {
    pub graph: &'a Graph,
    pub node: NodeId,
    pub micro: u16,
    /// Nodes that read it, ascending.
    pub readers: &'a [NodeId],
    /// By node: its parts.
    pub parts: &'a [Arc<Vec<Part>>],
    /// Room for lists of indices.
    pub lists: &'a ListRoom,
}

impl Tensor<'_> {
    /// Brings the pieces to all readers. `reads` says whether a part reads at all.
    pub(super) fn read(&self, made: &Pieces, reads: impl Fn(NodeId, &Part) -> bool) -> Read {
        let data = self.graph.is_data(self.node);
        let placement = Placement {
            pieces: made.pieces.iter().map(|p| Piece { rank: p.rank, region: p.region.clone() }).collect(),
            partial: made.partial,
        };
        let index = Index::new(&placement);
        let mut here: BTreeMap<(usize, &Region), BufferKey> = BTreeMap::new();
        let mut read = Read { found: BTreeMap::new(), segments: Vec::new() };
        for &reader in self.readers {
            let key = SegmentKey::Read { tensor: self.node as u32, reader: reader as u32, micro: self.micro };
            let mut builder = Builder::new(key);
            let inputs = &self.graph.nodes[reader].inputs;
            for slot in (0..inputs.len()).filter(|&slot| inputs[slot] == self.node) {
                let mut found = Vec::with_capacity(self.parts[reader].len());
                for (number, part) in self.parts[reader].iter().enumerate() {
                    if !reads(reader, part) {
                        found.push(None);
                        continue;
                    }
                    let region = &part.needs.inputs[slot];
                    let buffer = here.get(&(part.rank, region)).copied().unwrap_or_else(|| {
                        let wanted = Wanted { rank: part.rank, region, slot: slot as u16, part: number };
                        let buffer = if region.is_empty() {
                            builder.buffer(part.rank, BufferRole::Nothing, number, 0)
                        } else if data {
                            self.load(&mut builder, &wanted)
                        } else {
                            bring(&mut builder, made, &index, &wanted)
                        };
                        here.insert((part.rank, region), buffer);
                        buffer
                    });
                    found.push(Some(buffer));
                }
                read.found.entry(reader).or_default().insert(slot, found);
            }
            read.segments.extend(builder.finish());
        }
        read
    }

    fn load(&self, builder: &mut Builder, wanted: &Wanted<'_>) -> BufferKey {
        let Wanted { rank, region, slot, part } = *wanted;
        if let FeatureKind::Lists { width, .. } = self.graph.features {
            let (rows, entries) = (region.range(0), self.lists.entries(region.len()));
            let len = region.len() + 1 + entries;
            let elements = (Elements::Index(width), len);
            let buffer = builder.typed_buffer(rank, BufferRole::Wanted(slot), part, elements, true);
            builder.task(rank, 0, TaskKind::LoadLists { buffer, rows, entries, width }, len);
            return buffer;
        }
        let buffer = builder.buffer(rank, BufferRole::Wanted(slot), part, region.len());
        let kind = TaskKind::Load {
            buffer,
            rows: region.range(0),
            region: Region::new((1..region.rank()).map(|a| region.range(a))),
            shape: self.graph.nodes[self.node].shape.clone(),
        };
        builder.task(rank, 0, kind, region.len());
        buffer
    }

    /// The gradient of each piece; `input_grad` says where a part of a reader left the gradient of one of its inputs.
    pub(super) fn gradients(
        &self,
        made: &Pieces,
        input_grad: impl Fn(NodeId, usize, usize) -> Option<BufferKey>,
    ) -> (Vec<BufferKey>, Option<Arc<Segment>>) {
        let mut given: Vec<(usize, BufferKey, &Region)> = Vec::new();
        for &reader in self.readers {
            let inputs = &self.graph.nodes[reader].inputs;
            for slot in (0..inputs.len()).filter(|&slot| inputs[slot] == self.node) {
                for (number, part) in self.parts[reader].iter().enumerate() {
                    if let Some(buffer) = input_grad(reader, slot, number) {
                        given.push((part.rank, buffer, &part.needs.inputs[slot]));
                    }
                }
            }
        }
        let placement = Placement {
            pieces: given.iter().map(|g| Piece { rank: g.0, region: g.2.clone() }).collect(),
            partial: true,
        };
        let index = Index::new(&placement);
        let mut builder = Builder::new(SegmentKey::Gradient { tensor: self.node as u32, micro: self.micro });
        let grads = made.pieces.iter().enumerate().map(|(number, piece)| {
            let shares = index.shares(&piece.region, piece.rank);
            if let [share] = &shares[..]
                && given[share.piece].0 == piece.rank
                && *given[share.piece].2 == piece.region
            {
                return given[share.piece].1;
            }
            let len = piece.region.len();
            let target = builder.buffer(piece.rank, BufferRole::PieceGrad, number, len);
            if shares.len() > 1
                && shares.iter().all(|s| given[s.piece].0 == piece.rank && *given[s.piece].2 == piece.region)
            {
                // All there and whole, as where branches part: one pass instead of one for each.
                let kernel = Kernel::Sum { inputs: shares.len(), len, activation: None };
                let args = shares.iter().map(|s| given[s.piece].1).chain([target]).collect();
                builder.kernel(piece.rank, 0, kernel, args, len);
                return target;
            }
            let to = Held { rank: piece.rank, buffer: target, region: &piece.region };
            // What is the first to reach its coordinates is copied, unless it overlaps only in part with an earlier one.
            let first = |i: usize| shares[..i].iter().all(|s| s.region.intersect(&shares[i].region).is_none());
            let covered: usize = (0..shares.len()).filter(|&i| first(i)).map(|i| shares[i].region.len()).sum();
            if covered < len {
                builder.kernel(piece.rank, 0, Kernel::Zero { len }, vec![target], len);
            }
            for (i, share) in shares.iter().enumerate() {
                let (rank, buffer, region) = given[share.piece];
                let way = Way { slot: 0, part: number, piece: i };
                let add = covered < len || !first(i);
                builder.move_region(Held { rank, buffer, region }, &share.region, to, add, way);
            }
            target
        });
        let grads = grads.collect();
        (grads, builder.finish())
    }
}

/// A region that a part of a reader wants on its rank.
struct Wanted<'a> {
    rank: usize,
    region: &'a Region,
    slot: u16,
    part: usize,
}

/// The buffer that holds a wanted region: that of a piece, or one that is put together.
fn bring(builder: &mut Builder, made: &Pieces, index: &Index<'_>, wanted: &Wanted<'_>) -> BufferKey {
    let Wanted { rank, region, slot, part } = *wanted;
    let shares = index.shares(region, rank);
    if let [one] = &shares[..]
        && made.pieces[one.piece].rank == rank
        && made.pieces[one.piece].region == *region
    {
        return made.pieces[one.piece].buffer;
    }
    let target = builder.buffer(rank, BufferRole::Wanted(slot), part, region.len());
    for (i, share) in shares.iter().enumerate() {
        // Disjoint pieces are copied; a summand after the first of its coordinates is added.
        let add = made.partial && shares[..i].iter().any(|s| s.region.intersect(&share.region).is_some());
        let Produced { rank: from, region: whole, buffer } = &made.pieces[share.piece];
        let from = Held { rank: *from, buffer: *buffer, region: whole };
        let to = Held { rank, buffer: target, region };
        builder.move_region(from, &share.region, to, add, Way { slot, part, piece: share.piece });
    }
    target
}
