//! How far a change reaches: which nodes can touch whose buffers, and what has to be fused and waited for anew.

use crate::hash::{HashMap, HashSet};
use crate::key::SegmentKey;
use crate::schedule::{Await, Bucket, Segment};
use paceline_graph::{Graph, NodeId};
use std::sync::Arc;

/// Operators between the one that makes a buffer and the farthest whose tasks touch it: a convolution that took in an activation and the
/// pool behind it writes the pool's output.
const REACH: usize = 2;

/// A set of nodes of a graph.
#[derive(Clone, PartialEq)]
pub(super) struct Nodes(Vec<bool>);

impl Nodes {
    /// None of so many.
    pub(super) fn none(nodes: usize) -> Self {
        Self(vec![false; nodes])
    }

    pub(super) fn contains(&self, node: NodeId) -> bool {
        self.0[node]
    }

    pub(super) fn insert(&mut self, node: NodeId) {
        self.0[node] = true;
    }

    pub(super) fn extend(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        nodes.into_iter().for_each(|node| self.insert(node));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = NodeId> {
        self.0.iter().enumerate().filter(|(_, there)| **there).map(|(node, _)| node)
    }

    fn holds(&self, key: &SegmentKey) -> bool {
        key.node().is_some_and(|node| self.contains(node))
    }
}

/// By node: the nodes whose tasks can touch buffers of its operator or of its tensor.
pub(super) struct Near {
    nodes: Vec<Vec<NodeId>>,
}

impl Near {
    pub(super) fn new(graph: &Graph, readers: &[Vec<NodeId>]) -> Self {
        // What passes its input or its gradient on makes no buffer of its own, so that its neighbours share one.
        let clear = |n: NodeId| graph.nodes[n].op.is_view() || graph.nodes[n].op.passes_gradient();
        let of = |node: NodeId| {
            // The gradient of what passes it on is that of its inputs: they are as near as itself.
            let (mut seen, mut passed) = (vec![node], 0);
            while let Some(&n) = seen.get(passed) {
                if graph.nodes[n].op.passes_gradient() {
                    let inputs = graph.nodes[n].inputs.iter().filter(|input| !seen.contains(input));
                    let inputs: Vec<NodeId> = inputs.copied().collect();
                    seen.extend(inputs);
                }
                passed += 1;
            }
            for _ in 0..REACH {
                let mut open = seen.clone();
                while let Some(n) = open.pop() {
                    for &next in graph.nodes[n].inputs.iter().chain(&readers[n]) {
                        if !seen.contains(&next) {
                            seen.push(next);
                            open.extend(Some(next).filter(|&next| clear(next)));
                        }
                    }
                }
            }
            seen
        };
        Self { nodes: (0..graph.nodes.len()).map(of).collect() }
    }

    /// These nodes, and those whose tasks can touch buffers of them.
    fn spread(&self, nodes: &Nodes) -> Nodes {
        let mut spread = nodes.clone();
        nodes.iter().for_each(|node| spread.extend(self.nodes[node].iter().copied()));
        spread
    }
}

/// What there is of a step, before and after the passes that follow on the fragments.
pub(super) struct Known<'k> {
    pub order: &'k [SegmentKey],
    /// Segments as the fragments have them.
    pub raw: &'k HashMap<SegmentKey, Arc<Segment>>,
    /// Segments as the passes left them before the change.
    pub done: &'k HashMap<SegmentKey, Arc<Segment>>,
    /// Nodes whose tasks were joined.
    pub joined: &'k HashSet<[NodeId; 2]>,
    /// Trained buckets that one rank holds.
    pub alone: &'k [&'k Arc<Bucket>],
}

/// How far a change reaches.
pub(super) struct Scope {
    /// Nodes whose kernels may now be joined otherwise.
    pub nodes: Nodes,
    /// Segments of no node with which the passes begin anew: of buckets that changed or whose updates may be joined.
    others: HashSet<SegmentKey>,
    /// Other nodes whose messages may now be waited for elsewhere.
    waiting: Nodes,
    /// Nodes whose tasks touch the buffers of any of them.
    seen: Nodes,
}

impl Scope {
    /// `touched` are the segments that were there before the change or are there now, where they differ.
    pub(super) fn new(near: &Near, known: &Known<'_>, touched: &HashSet<SegmentKey>) -> Self {
        let Known { order, raw, done, joined, alone } = known;
        let keys = |b: &Bucket| [SegmentKey::Exchange(b.key), SegmentKey::Update(b.key)];
        let mut nodes = Nodes::none(near.nodes.len());
        nodes.extend(touched.iter().filter_map(SegmentKey::node));
        for bucket in alone.iter().filter(|b| keys(b).iter().any(|key| touched.contains(key))) {
            nodes.extend(bucket.entries.iter().map(|e| e.of.0));
        }
        let mut nodes = near.spread(&nodes);
        close(&mut nodes, joined, alone);
        let mut others: HashSet<SegmentKey> = touched.iter().filter(|key| key.node().is_none()).copied().collect();
        let reached = alone.iter().filter(|b| b.entries.iter().any(|e| nodes.contains(e.of.0)));
        others.extend(reached.flat_map(|b| keys(b)));
        let mut seen = near.spread(&nodes);
        // A message from elsewhere is concerned if a task of these nodes waits for it, or touches a buffer of its node.
        let mut waiting = Nodes::none(near.nodes.len());
        for segment in order.iter().filter(|key| nodes.holds(key)).filter_map(|key| raw.get(key)) {
            for task in &segment.tasks {
                task.touches(|_, buffer| waiting.extend(buffer.owner.node().filter(|&node| !nodes.contains(node))));
            }
        }
        let begins_anew = |key: &SegmentKey| nodes.holds(key) || (key.node().is_none() && others.contains(key));
        let near_by = |key: &&SegmentKey| {
            key.node().is_some_and(|n| seen.contains(n) && !nodes.contains(n) && !waiting.contains(n))
        };
        let mut waited: Vec<NodeId> = Vec::new();
        for segment in order.iter().filter(near_by).filter_map(|key| done.get(key)).filter(|s| s.messages > 0) {
            let here = |awaited: &Await| matches!(awaited, Await::Before(task) if begins_anew(&task.segment));
            if segment.tasks.iter().flat_map(|task| &task.awaited).any(here) {
                waited.extend(segment.key.node());
            }
        }
        waiting.extend(waited);
        seen.extend(near.spread(&waiting).iter());
        Self { nodes, others, waiting, seen }
    }

    /// Whether the passes begin anew with a segment, as its fragment has it.
    pub(super) fn begins_anew(&self, key: &SegmentKey) -> bool {
        self.nodes.holds(key) || (key.node().is_none() && self.others.contains(key))
    }

    /// Whether tasks of a node may touch what is fused or waited for anew.
    pub(super) fn sees(&self, node: NodeId) -> bool {
        self.seen.contains(node)
    }

    /// Whether it reaches a parameter of a bucket.
    pub(super) fn holds(&self, bucket: &Bucket) -> bool {
        bucket.entries.iter().any(|e| self.nodes.contains(e.of.0))
    }

    /// Whether messages of a segment may now be waited for elsewhere.
    pub(super) fn awaits(&self, key: &SegmentKey) -> bool {
        self.begins_anew(key) || self.waiting.holds(key)
    }

    /// The nodes whose buffers it concerns.
    pub(super) fn watched(&self) -> Nodes {
        let mut watched = self.nodes.clone();
        watched.extend(self.waiting.iter());
        watched
    }
}

/// Adds all nodes whose tasks were joined with those of these nodes, and all that share a bucket which one rank holds.
fn close(nodes: &mut Nodes, joined: &HashSet<[NodeId; 2]>, alone: &[&Arc<Bucket>]) {
    loop {
        let before = nodes.clone();
        for &[a, b] in joined {
            if nodes.contains(a) != nodes.contains(b) {
                nodes.extend([a, b]);
            }
        }
        for bucket in alone {
            if bucket.entries.iter().any(|e| nodes.contains(e.of.0)) {
                nodes.extend(bucket.entries.iter().map(|e| e.of.0));
            }
        }
        if *nodes == before {
            return;
        }
    }
}
