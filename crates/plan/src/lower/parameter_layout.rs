//! The parameter layout: which rank holds which parameter region, in which bucket, and what happens to its gradient.

use super::Buffers;
use crate::plan::{Compression, Plan, UpdateMode};
use crate::schedule::{Bucket, BucketEntry, Life};
use paceline_base::Result;
use paceline_base::kernel::{ALIGN, BufferId};
use paceline_base::optim::Rule;
use paceline_base::region::Region;
use paceline_graph::{Graph, NodeId};
use std::collections::{BTreeSet, HashMap};

/// The buffers of one parameter region on one rank.
#[derive(Clone, Debug)]
pub(super) struct ParameterSlot {
    /// The values.
    pub param: BufferId,
    /// The gradient; what is not trained has none.
    pub grad: Option<BufferId>,
}

/// Every parameter region with its slot on each rank that holds it, and the buckets they lie in.
pub(super) struct ParameterLayout {
    /// The buckets, in the order in which the backward pass completes them.
    pub buckets: Vec<Bucket>,
    by_region: HashMap<(NodeId, usize, Region, usize), ParameterSlot>,
}

impl ParameterLayout {
    /// Groups parameter regions by their holders and lays them into buckets, last layer first.
    pub(super) fn new(graph: &Graph, plan: &Plan, rule: Rule, buffers: &mut Buffers) -> Result<Self> {
        let parts = plan.parts(graph, usize::MAX >> 16)?;
        let mut buckets: Vec<Bucket> = Vec::new();
        let mut keys: Vec<Vec<(NodeId, usize)>> = Vec::new();
        for (id, node) in graph.nodes.iter().enumerate().rev() {
            for (index, param) in node.params.iter().enumerate() {
                let mut regions: Vec<(Region, BTreeSet<usize>)> = Vec::new();
                for part in &parts.of[id] {
                    let Some(region) = &part.needs.params[index] else { continue };
                    match regions.iter_mut().find(|(r, _)| r == region) {
                        Some((_, ranks)) => drop(ranks.insert(part.rank)),
                        None => regions.push((region.clone(), BTreeSet::from([part.rank]))),
                    }
                }
                let trained = param.spec.trained;
                for (region, ranks) in regions {
                    let group: Vec<usize> = ranks.into_iter().collect();
                    let alone = group.len() == 1;
                    let limit = if trained { plan.store.bucket } else { usize::MAX };
                    let same = |b: &Bucket| b.group == group && b.trained == trained;
                    // Only the newest bucket of a group is open: buckets complete in backward order. What one rank alone
                    // holds never travels, and weights stay with their bias, so that gradient and update can be fused;
                    // then a large layer has a bucket of its own, whose gradients need no memory.
                    let open = buckets.iter().rposition(same).filter(|&i| {
                        let stays = alone && keys[i].last().is_some_and(|&(node, _)| node == id);
                        stays || buckets[i].len.saturating_add(region.len()) <= limit
                    });
                    let bucket = open.unwrap_or_else(|| {
                        let compression = if alone || !trained { Compression::None } else { plan.store.compression };
                        let whole = compression == Compression::None;
                        let sharded = trained && whole && plan.store.update == UpdateMode::Sharded && !alone;
                        buckets.push(Bucket {
                            group: group.clone(),
                            entries: Vec::new(),
                            len: 0,
                            sharded,
                            trained,
                            params: Vec::new(),
                            grads: Vec::new(),
                            states: Vec::new(),
                            held_back: Vec::new(),
                            compression,
                        });
                        keys.push(Vec::new());
                        buckets.len() - 1
                    });
                    let offset = buckets[bucket].len;
                    buckets[bucket].len = (offset + region.len()).next_multiple_of(ALIGN);
                    let name = param.name.clone();
                    buckets[bucket].entries.push(BucketEntry {
                        param: name,
                        id: param.id,
                        region,
                        offset,
                        l2: param.l2,
                    });
                    keys[bucket].push((id, index));
                }
            }
        }
        let mut by_region = HashMap::new();
        for (number, bucket) in buckets.iter_mut().enumerate() {
            for (member, &rank) in bucket.group.clone().iter().enumerate() {
                let name = |what: &str| format!("{what} of bucket {number}");
                let params = buffers.add(rank, name("parameters"), bucket.len, Life::Run);
                bucket.params.push(params);
                let grads = bucket.trained.then(|| buffers.add(rank, name("gradients"), bucket.len, Life::Run));
                bucket.grads.extend(grads);
                let state_len = bucket.state_range(member).len();
                let kept = if bucket.trained { rule.states() } else { &[] };
                bucket.states.push(kept.iter().map(|s| buffers.add(rank, name(s), state_len, Life::Run)).collect());
                if let Compression::TopK { .. } = bucket.compression {
                    bucket.held_back.push(buffers.add(rank, name("what is left over"), bucket.len, Life::Run));
                }
                for (entry, &(node, index)) in bucket.entries.iter().zip(&keys[number]) {
                    let len = entry.region.len();
                    let label = |what: &str| format!("{}{}{what}", entry.param, entry.region);
                    let param = buffers.add(rank, label(""), len, Life::Within(params, entry.offset));
                    let grad = grads
                        .map(|outer| buffers.add(rank, label(" gradient"), len, Life::Within(outer, entry.offset)));
                    by_region.insert((node, index, entry.region.clone(), rank), ParameterSlot { param, grad });
                }
            }
        }
        Ok(Self { buckets, by_region })
    }

    /// The slot of a parameter region on a rank that holds it.
    pub(super) fn slot(&self, node: NodeId, param: usize, region: &Region, rank: usize) -> &ParameterSlot {
        &self.by_region[&(node, param, region.clone(), rank)]
    }

    /// All slots of one node: (parameter, region, rank, slot), in a fixed order.
    pub(super) fn of_node(&self, node: NodeId) -> Vec<(usize, &Region, usize, &ParameterSlot)> {
        let mut slots: Vec<_> = self
            .by_region
            .iter()
            .filter(|(key, _)| key.0 == node)
            .map(|((_, param, region, rank), slot)| (*param, region, *rank, slot))
            .collect();
        slots.sort_by(|a, b| (a.0, a.1, a.2).cmp(&(b.0, b.1, b.2)));
        slots
    }
}
