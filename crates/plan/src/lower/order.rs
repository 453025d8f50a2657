//! The order of a step: which segment stands where.

use crate::key::SegmentKey;
use crate::schedule::{Bucket, PhaseKind};
use paceline_graph::Graph;
use std::sync::Arc;

/// In which order micro-batches are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MicroBatches {
    /// The whole batch at once.
    #[default]
    One,
    /// So many, each forward and backward before the next.
    InTurn(u16),
}

impl MicroBatches {
    pub(super) fn count(self) -> u16 {
        match self {
            Self::One => 1,
            Self::InTurn(n) => n.max(1),
        }
    }
}

/// The segments that a step of this kind can have, in order. What is not there (nothing has to be moved) is passed over.
pub(super) fn order(
    graph: &Graph,
    buckets: &[Arc<Bucket>],
    kind: PhaseKind,
    micro_batches: MicroBatches,
) -> Vec<SegmentKey> {
    let nodes = graph.nodes.len();
    let last = micro_batches.count() - 1;
    let mut order = Vec::new();
    // Each bucket leaves behind the operator that completes it: the first of those whose parameters are in it.
    let mut leaving: Vec<Vec<SegmentKey>> = vec![Vec::new(); nodes];
    for bucket in buckets.iter().filter(|b| b.trained) {
        let owner = bucket.entries.iter().map(|e| e.of.0).min().unwrap_or(0);
        leaving[owner].push(SegmentKey::Exchange(bucket.key));
    }
    for micro in 0..=last {
        for (node, n) in graph.nodes.iter().enumerate() {
            let mut inputs = n.inputs.clone();
            inputs.sort_unstable();
            inputs.dedup();
            let (node, tensor) = (node as u32, |i: usize| i as u32);
            order.extend(inputs.iter().map(|&i| SegmentKey::Read { tensor: tensor(i), reader: node, micro }));
            // As late as can be: until then the metrics of the step before need not have been read.
            if micro == 0 && n.op.is_loss() {
                order.push(SegmentKey::ClearMetrics);
            }
            order.push(SegmentKey::Forward { node, micro });
        }
        if micro == last {
            order.push(SegmentKey::Metrics);
        }
        if kind == PhaseKind::Train {
            for node in (0..nodes).rev() {
                order.push(SegmentKey::Gradient { tensor: node as u32, micro });
                order.push(SegmentKey::Backward { node: node as u32, micro });
                if micro == last {
                    order.append(&mut leaving[node]);
                }
            }
        }
    }
    if kind == PhaseKind::Train {
        let trained = buckets.iter().filter(|b| b.trained);
        order.extend(trained.map(|b| SegmentKey::Update(b.key)));
    }
    order
}
