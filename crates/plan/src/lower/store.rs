//! Which ranks keep which parameters, in which bucket.

use crate::key::BucketKey;
use crate::plan::{Compression, Part, Store, UpdateMode};
use crate::schedule::{Bucket, BucketEntry};
use paceline_base::region::Region;
use paceline_graph::Graph;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Store {
    /// The ranks that keep a parameter region which these ranks use: all of them, each a copy.
    fn keepers(&self, users: Arc<[usize]>) -> Arc<[usize]> {
        users
    }

    /// How the gradients of what a group keeps travel, and whether each member moves only its share.
    fn exchange(&self, group: &[usize], trained: bool) -> (Compression, bool) {
        let alone = group.len() == 1;
        let compression = if alone || !trained { Compression::None } else { self.compression };
        let whole = compression == Compression::None;
        (compression, trained && whole && self.update == UpdateMode::Sharded && !alone)
    }
}

/// Regions begin at multiples of so many elements: a cache line of f32.
const LINE: usize = 16;

/// A region of a parameter, the ranks that use it, and the first part on each of them.
#[derive(Debug)]
pub(super) struct Used {
    region: Region,
    ranks: Arc<[usize]>,
    parts: Arc<[u32]>,
}

/// Groups parameter regions by their keepers and lays them into buckets, last layer first: the order in which the backward pass
/// completes them.
pub(super) fn buckets(graph: &Graph, store: &Store, uses: &[Vec<Arc<Vec<Used>>>]) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = Vec::new();
    // Only the newest bucket of a group is open: buckets complete in backward order.
    let mut open: BTreeMap<(Arc<[usize]>, bool), usize> = BTreeMap::new();
    for (node, n) in graph.nodes.iter().enumerate().rev() {
        for (index, param) in n.params.iter().enumerate() {
            for (number, used) in uses[node][index].iter().enumerate() {
                let trained = param.spec.trained;
                let group = store.keepers(used.ranks.clone());
                let alone = group.len() == 1;
                let limit = if trained { store.bucket } else { usize::MAX };
                let len = used.region.len();
                // What one rank alone holds never travels, and weights stay with their bias, so that gradient and update can be
                // fused; then a large layer has a bucket of its own, whose gradients need no memory.
                let fits = |bucket: &Bucket| {
                    let stays = alone && bucket.entries.last().is_some_and(|e| e.of.0 == node);
                    stays || bucket.len.saturating_add(len) <= limit
                };
                let at = open.get(&(group.clone(), trained)).copied().filter(|&at| fits(&buckets[at]));
                let at = at.unwrap_or_else(|| {
                    let (compression, sharded) = store.exchange(&group, trained);
                    let key = BucketKey { param: param.id, region: number as u32 };
                    open.insert((group.clone(), trained), buckets.len());
                    let group = group.clone();
                    buckets.push(Bucket { key, group, entries: Vec::new(), len: 0, sharded, trained, compression });
                    buckets.len() - 1
                });
                let bucket = &mut buckets[at];
                let offset = bucket.len;
                bucket.len = (offset + len).next_multiple_of(LINE);
                bucket.entries.push(BucketEntry {
                    param: param.name.clone(),
                    id: param.id,
                    of: (node, index),
                    region: used.region.clone(),
                    offset,
                    l2: param.l2,
                    parts: used.parts.clone(),
                });
            }
        }
    }
    buckets
}

/// The regions of a parameter that parts use, in the order of parts.
pub(super) fn uses(parts: &[Part], param: usize) -> Vec<Used> {
    let mut used: Vec<(&Region, BTreeMap<usize, u32>)> = Vec::new();
    let mut found: BTreeMap<&Region, usize> = BTreeMap::new();
    for (index, part) in parts.iter().enumerate() {
        let Some(region) = &part.needs.params[param] else { continue };
        let at = *found.entry(region).or_insert_with(|| {
            used.push((region, BTreeMap::new()));
            used.len() - 1
        });
        used[at].1.entry(part.rank).or_insert(index as u32);
    }
    let of = |(region, by_rank): (&Region, BTreeMap<usize, u32>)| Used {
        region: region.clone(),
        ranks: by_rank.keys().copied().collect(),
        parts: by_rank.into_values().collect(),
    };
    used.into_iter().map(of).collect()
}

/// By parameter and part: the part by which the parameter's buffers on this rank are called.
pub(super) fn holders(parts: &[Part], params: usize) -> Vec<Vec<u32>> {
    (0..params)
        .map(|param| {
            let mut first: BTreeMap<(usize, &Option<Region>), u32> = BTreeMap::new();
            let parts = parts.iter().enumerate();
            parts.map(|(i, p)| *first.entry((p.rank, &p.needs.params[param])).or_insert(i as u32)).collect()
        })
        .collect()
}
