//! Shapes and regions: hyper-rectangles of a tensor's global coordinates, and how to copy between them.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// The `index`-th of `parts` balanced pieces of `0..extent`; the first `extent % parts` pieces are one longer.
///
/// Pieces may be empty when there are more parts than elements; callers skip those.
pub fn split_range(extent: usize, parts: usize, index: usize) -> Range<usize> {
    assert!(index < parts, "part {index} of {parts}");
    let (q, r) = (extent / parts, extent % parts);
    let start = index * q + index.min(r);
    start..start + q + usize::from(index < r)
}

/// `0..extent` cut into one piece for each weight, in proportion: every piece has its share rounded down, and what is left goes,
/// one element each, to the largest remainders, the first among equals. Equal weights give [`split_range`]; a weight of 0 gives
/// an empty piece.
///
/// # Panics
/// If no weight is above 0.
pub fn weighted_ranges(extent: usize, weights: &[u64]) -> Vec<Range<usize>> {
    let total: u128 = weights.iter().map(|&w| u128::from(w)).sum();
    assert!(total > 0, "weights {weights:?} of which none is above 0");
    let product = |i: usize| extent as u128 * u128::from(weights[i]);
    let mut lens: Vec<usize> = (0..weights.len()).map(|i| (product(i) / total) as usize).collect();
    let mut by_remainder: Vec<usize> = (0..weights.len()).collect();
    by_remainder.sort_by_key(|&i| std::cmp::Reverse(product(i) % total)); // stable: the first among equals
    let left = extent - lens.iter().sum::<usize>();
    by_remainder[..left].iter().for_each(|&i| lens[i] += 1);
    let mut start = 0;
    lens.into_iter()
        .map(|len| {
            start += len;
            start - len..start
        })
        .collect()
}

/// A hyper-rectangle of global coordinates: one half-open range per axis.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Region {
    axes: Vec<(usize, usize)>,
}

impl Region {
    /// The region that covers a whole tensor of this shape.
    pub fn whole(shape: &[usize]) -> Self {
        Self { axes: shape.iter().map(|&n| (0, n)).collect() }
    }

    /// A region from one range per axis.
    pub fn new(ranges: impl IntoIterator<Item = Range<usize>>) -> Self {
        Self { axes: ranges.into_iter().map(|r| (r.start, r.end.max(r.start))).collect() }
    }

    /// The same region with axis `axis` narrowed to `range`.
    #[must_use]
    pub fn with(&self, axis: usize, range: Range<usize>) -> Self {
        let mut axes = self.axes.clone();
        axes[axis] = (range.start, range.end.max(range.start));
        Self { axes }
    }

    /// The range along one axis.
    pub fn range(&self, axis: usize) -> Range<usize> {
        self.axes[axis].0..self.axes[axis].1
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.axes.len()
    }

    /// The extent along each axis.
    pub fn shape(&self) -> Vec<usize> {
        self.axes.iter().map(|(a, b)| b - a).collect()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.axes.iter().map(|(a, b)| b - a).product()
    }

    /// True if the region holds no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The part that both share, if any.
    pub fn intersect(&self, other: &Region) -> Option<Region> {
        assert_eq!(self.rank(), other.rank(), "regions of different rank: {self} and {other}");
        let axes: Vec<_> = self.axes.iter().zip(&other.axes).map(|(a, b)| (a.0.max(b.0), a.1.min(b.1))).collect();
        axes.iter().all(|(a, b)| a < b).then_some(Region { axes })
    }

    /// True if `other` lies within this region.
    pub fn contains(&self, other: &Region) -> bool {
        other.is_empty() || self.intersect(other).as_ref() == Some(other)
    }

    /// Position of this region's first element in a row-major buffer laid out as `outer`.
    pub(crate) fn offset_in(&self, outer: &Region) -> usize {
        let mut offset = 0;
        for (inner, out) in self.axes.iter().zip(&outer.axes) {
            offset = offset * (out.1 - out.0) + (inner.0 - out.0);
        }
        offset
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, (a, b)) in self.axes.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{a}..{b}")?;
        }
        f.write_str("]")
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// How to walk the shared part of two row-major buffers: rows of `run` elements, under nested loops.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Strided {
    /// First element in the source buffer.
    pub from: usize,
    /// First element in the destination buffer.
    pub to: usize,
    /// Contiguous elements per row.
    pub run: usize,
    /// Outer loops, outermost first: (count, source stride, destination stride).
    pub loops: Vec<(usize, usize, usize)>,
}

impl Strided {
    /// A copy of `len` contiguous elements from position `from` to position `to`.
    pub fn contiguous(from: usize, to: usize, len: usize) -> Self {
        Self { from, to, run: len, loops: Vec::new() }
    }

    /// The walk over `shared`, in a source laid out as `source` and a destination laid out as `target`.
    pub fn between(shared: &Region, source: &Region, target: &Region) -> Self {
        debug_assert!(source.contains(shared) && target.contains(shared));
        let (mut run, mut loops) = (1, Vec::new());
        let (mut source_stride, mut target_stride) = (1, 1);
        for axis in (0..shared.rank()).rev() {
            let n = shared.range(axis).len();
            if run == source_stride && run == target_stride {
                run *= n; // still contiguous on both sides
            } else if n > 1 {
                loops.push((n, source_stride, target_stride));
            }
            source_stride *= source.range(axis).len();
            target_stride *= target.range(axis).len();
        }
        loops.reverse();
        Self { from: shared.offset_in(source), to: shared.offset_in(target), run, loops }
    }

    /// Number of elements moved.
    pub fn len(&self) -> usize {
        self.run * self.loops.iter().map(|l| l.0).product::<usize>()
    }

    /// True if nothing is moved.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `row(from, to, run)` for every contiguous row. Allocates nothing.
    pub fn for_each(&self, mut row: impl FnMut(usize, usize, usize)) {
        fn walk(
            loops: &[(usize, usize, usize)],
            from: usize,
            to: usize,
            run: usize,
            row: &mut dyn FnMut(usize, usize, usize),
        ) {
            match loops.split_first() {
                None => row(from, to, run),
                Some((&(count, fs, ts), rest)) => {
                    for i in 0..count {
                        walk(rest, from + i * fs, to + i * ts, run, row);
                    }
                }
            }
        }
        if !self.is_empty() {
            walk(&self.loops, self.from, self.to, self.run, &mut row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_cover_the_extent_in_order(extent in 0usize..100, parts in 1usize..12) {
            let mut next = 0;
            for i in 0..parts {
                let r = split_range(extent, parts, i);
                prop_assert_eq!(r.start, next);
                prop_assert!(r.len() <= extent / parts + 1);
                next = r.end;
            }
            prop_assert_eq!(next, extent);
        }

        #[test]
        fn weighted_pieces_cover_the_extent_in_proportion(
            extent in 0usize..1000,
            weights in prop::collection::vec(prop_oneof![Just(0u64), 1u64..9, Just(u64::MAX)], 1..9),
        ) {
            prop_assume!(weights.iter().any(|&w| w > 0));
            let pieces = weighted_ranges(extent, &weights);
            let total: f64 = weights.iter().map(|&w| w as f64).sum();
            let mut next = 0;
            for (piece, &weight) in pieces.iter().zip(&weights) {
                prop_assert_eq!(piece.start, next);
                prop_assert!((piece.len() as f64 - extent as f64 * weight as f64 / total).abs() < 1.0 + 1e-9);
                prop_assert!(weight > 0 || piece.is_empty());
                next = piece.end;
            }
            prop_assert_eq!(next, extent);
        }

        #[test]
        fn equal_weights_balance(extent in 0usize..100, parts in 1usize..12, weight in 1u64..1000) {
            let balanced: Vec<_> = (0..parts).map(|i| split_range(extent, parts, i)).collect();
            prop_assert_eq!(weighted_ranges(extent, &vec![weight; parts]), balanced);
        }

        #[test]
        fn strided_walk_equals_coordinates(
            dims in prop::collection::vec((0usize..4, 1usize..4, 0usize..3, 0usize..3, 0usize..3), 1..4),
        ) {
            // Source and target both enclose the shared region with different margins.
            let shared = Region::new(dims.iter().map(|d| d.0 + 2..d.0 + 2 + d.1));
            let source = Region::new(dims.iter().map(|d| d.0 + 2 - d.2.min(2)..d.0 + 2 + d.1 + d.3));
            let target = Region::new(dims.iter().map(|d| d.0 + 2 - d.4.min(2)..d.0 + 2 + d.1 + d.2));
            let walk = Strided::between(&shared, &source, &target);
            prop_assert_eq!(walk.len(), shared.len());
            let mut seen = Vec::new();
            walk.for_each(|f, t, n| (0..n).for_each(|i| seen.push((f + i, t + i))));
            let mut expected = Vec::new();
            let shape = shared.shape();
            for flat in 0..shared.len() {
                let (mut rest, mut at) = (flat, vec![0; shape.len()]);
                for axis in (0..shape.len()).rev() {
                    at[axis] = shared.range(axis).start + rest % shape[axis];
                    rest /= shape[axis];
                }
                let point = Region::new(at.iter().map(|&a| a..a + 1));
                expected.push((point.offset_in(&source), point.offset_in(&target)));
            }
            prop_assert_eq!(seen, expected);
        }
    }
}
