//! Placements: who holds which region of a tensor, and what that holding means.
//!
//! The algebra in one paragraph. A tensor is produced as a set of pieces. Pieces with disjoint regions are *owned*;
//! equal values on several ranks are *copied*; summands of one value are *partial*. Moving a tensor from one placement
//! to another is linear, so the gradient moves by the transpose: copied becomes summed, summed becomes copied, and
//! overlapping reads (halos) are added at their owner. Sums run in part order, so every rank gets the same bits.

use crate::region::Region;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// What holding a region means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Holding {
    /// This piece alone holds the region.
    Owned,
    /// Others hold the same region with the same values.
    Copied,
    /// The value is the sum of this piece and others of the same region.
    Partial,
}

/// One held region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Where it is.
    pub rank: usize,
    /// The coordinates that it holds.
    pub region: Region,
}

/// All pieces of one tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Pieces in part order: the order in which summands are added.
    pub pieces: Vec<Piece>,
    /// True if the value is the sum of overlapping pieces.
    pub partial: bool,
}

/// The shared part of one source piece and one wanted region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Index of the source piece.
    pub piece: usize,
    /// The coordinates taken from it.
    pub region: Region,
}

impl Placement {
    /// What piece `index` is: owned, one of several copies, or a summand.
    pub fn holding(&self, index: usize) -> Holding {
        let piece = &self.pieces[index];
        let twin = self.pieces.iter().enumerate().any(|(i, p)| i != index && p.region == piece.region);
        match (self.partial && twin, twin) {
            (true, _) => Holding::Partial,
            (false, true) => Holding::Copied,
            (false, false) => Holding::Owned,
        }
    }
}

/// Finds the pieces of a placement by their coordinates, without looking at all of them.
pub struct Index<'a> {
    placement: &'a Placement,
    /// Copies of one region together, each summand by itself, by where they begin on the first axis.
    groups: Vec<(usize, Group)>,
    /// The longest of them there.
    longest: usize,
}

#[derive(Default)]
struct Group {
    /// Ascending.
    pieces: Vec<usize>,
    /// The first piece on each rank.
    on_rank: BTreeMap<usize, usize>,
}

impl<'a> Index<'a> {
    /// Of all pieces.
    pub fn new(placement: &'a Placement) -> Self {
        let mut by_region: BTreeMap<(&Region, usize), Group> = BTreeMap::new();
        for (i, piece) in placement.pieces.iter().enumerate() {
            let apart = if placement.partial { i } else { 0 };
            let group = by_region.entry((&piece.region, apart)).or_default();
            group.pieces.push(i);
            group.on_rank.entry(piece.rank).or_insert(i);
        }
        let longest = by_region.keys().map(|(region, _)| first_axis(region).len()).max().unwrap_or(0);
        // Regions ascend by their first axis.
        let groups = by_region.into_iter().map(|((region, _), group)| (first_axis(region).start, group)).collect();
        Self { placement, groups, longest }
    }

    /// Which pieces make up `wanted` on `rank`, in the order in which they are added.
    ///
    /// Of copies, the one on `rank` is taken, otherwise one chosen by rank number so that senders share the load.
    /// Of summands, all are taken.
    pub fn shares(&self, wanted: &Region, rank: usize) -> Vec<Share> {
        let range = first_axis(wanted);
        let begin = self.groups.partition_point(|(start, _)| start + self.longest <= range.start);
        let near = self.groups[begin..].iter().take_while(|(start, _)| *start < range.end);
        let chosen = near.filter_map(|(_, group)| {
            let any = group.pieces[rank % group.pieces.len()];
            let piece = group.on_rank.get(&rank).copied().unwrap_or(any);
            Some(Share { piece, region: self.placement.pieces[piece].region.intersect(wanted)? })
        });
        let mut shares: Vec<Share> = chosen.collect();
        shares.sort_unstable_by_key(|share| share.piece);
        shares
    }
}

fn first_axis(region: &Region) -> Range<usize> {
    if region.rank() == 0 { 0..1 } else { region.range(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(rank: usize, rows: std::ops::Range<usize>) -> Piece {
        Piece { rank, region: Region::new([rows, 0..4]) }
    }

    #[test]
    fn owned_pieces_are_joined() {
        let p = Placement { pieces: vec![piece(0, 0..3), piece(1, 3..5)], partial: false };
        let shares = Index::new(&p).shares(&Region::new([2..5, 0..4]), 1);
        assert_eq!(shares.len(), 2);
        assert_eq!(shares[0].region, Region::new([2..3, 0..4]));
        assert_eq!(p.holding(0), Holding::Owned);
    }

    #[test]
    fn of_copies_the_near_one_is_taken() {
        let p = Placement { pieces: vec![piece(0, 0..5), piece(1, 0..5)], partial: false };
        assert_eq!(
            Index::new(&p).shares(&Region::new([0..5, 0..4]), 1),
            vec![Share { piece: 1, region: Region::new([0..5, 0..4]) }]
        );
        assert_eq!(p.holding(1), Holding::Copied);
    }

    #[test]
    fn all_summands_are_taken_in_order() {
        let p = Placement { pieces: vec![piece(1, 0..5), piece(0, 0..5)], partial: true };
        let pieces: Vec<_> = Index::new(&p).shares(&Region::new([0..2, 0..4]), 0).iter().map(|s| s.piece).collect();
        assert_eq!(pieces, [0, 1]);
        assert_eq!(p.holding(0), Holding::Partial);
    }
}
