//! Who can touch a buffer: the segments around the node that makes it, so that nobody looks through all of a step.

use crate::key::{BufferKey, SegmentKey};
use crate::schedule::{Segment, Task, TaskKind};
use paceline_base::kernel::Call;
use paceline_graph::{Graph, NodeId};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Operators between the one that makes a buffer and the farthest whose tasks touch it: a convolution that took in an activation and the
/// pool behind it writes the pool's output.
const REACH: usize = 2;

/// By node: the segments whose tasks can touch buffers of its operator or of its tensor, in issue order.
pub(super) struct Near {
    segments: Vec<Vec<SegmentKey>>,
    /// By node: those nodes.
    nodes: Vec<BTreeSet<NodeId>>,
}

impl Near {
    pub(super) fn new(graph: &Graph, readers: &[Vec<NodeId>], order: &[SegmentKey]) -> Self {
        // What passes its input or its gradient on makes no buffer of its own, so that its neighbours share one.
        let clear = |n: NodeId| graph.nodes[n].op.is_view() || graph.nodes[n].op.passes_gradient();
        let around = |n: NodeId| graph.nodes[n].inputs.iter().chain(&readers[n]).copied().collect::<Vec<_>>();
        let nodes: Vec<BTreeSet<NodeId>> = (0..graph.nodes.len())
            .map(|node| {
                let mut seen = BTreeSet::from([node]);
                for _ in 0..REACH {
                    let mut open: Vec<NodeId> = seen.iter().copied().collect();
                    while let Some(n) = open.pop() {
                        for next in around(n) {
                            if seen.insert(next) && clear(next) {
                                open.push(next);
                            }
                        }
                    }
                }
                seen
            })
            .collect();
        let mut of: Vec<Vec<(usize, SegmentKey)>> = vec![Vec::new(); graph.nodes.len()];
        for (position, key) in order.iter().enumerate() {
            if let Some(node) = key.node() {
                of[node].push((position, *key));
            }
        }
        let segments = nodes.iter().map(|near| {
            let mut segments: Vec<_> = near.iter().flat_map(|&n| of[n].iter().copied()).collect();
            segments.sort_unstable();
            segments.into_iter().map(|(_, key)| key).collect()
        });
        Self { segments: segments.collect(), nodes }
    }

    /// Adds the nodes whose tasks can touch buffers of these nodes.
    pub(super) fn spread(&self, nodes: &mut BTreeSet<NodeId>) {
        let added: Vec<NodeId> = nodes.iter().flat_map(|&node| &self.nodes[node]).copied().collect();
        nodes.extend(added);
    }

    /// The segments whose tasks can touch a buffer.
    fn of(&self, buffer: &BufferKey) -> Vec<SegmentKey> {
        match buffer.owner {
            SegmentKey::Exchange(key) | SegmentKey::Update(key) => {
                vec![SegmentKey::Exchange(key), SegmentKey::Update(key)]
            }
            owner => owner.node().map_or(Vec::new(), |node| self.segments[node].clone()),
        }
    }
}

/// Place of a task in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct At {
    pub segment: SegmentKey,
    /// In the segment's list; it stays while others are removed.
    pub at: usize,
}

/// The segments of a step while passes change them.
pub(super) struct Work<'a> {
    near: &'a Near,
    segments: HashMap<SegmentKey, Indexed>,
}

struct Indexed {
    segment: Arc<Segment>,
    /// Where it stands in the step.
    position: usize,
    /// Rank and place of each task that involves it, by rank and then in order.
    by_rank: Vec<(usize, usize)>,
    removed: Vec<usize>,
}

impl<'a> Work<'a> {
    /// Segments with their places in the step.
    pub(super) fn new(near: &'a Near, segments: impl Iterator<Item = (usize, Arc<Segment>)>) -> Self {
        let indexed = |(position, segment): (usize, Arc<Segment>)| {
            let by_rank = by_rank(&segment);
            (segment.key, Indexed { segment, position, by_rank, removed: Vec::new() })
        };
        Self { near, segments: segments.map(indexed).collect() }
    }

    /// The segment as it is now.
    pub(super) fn segment(&self, key: &SegmentKey) -> Option<&Arc<Segment>> {
        self.segments.get(key).map(|indexed| &indexed.segment)
    }

    /// All segments that are here.
    pub(super) fn keys(&self) -> Vec<SegmentKey> {
        self.segments.keys().copied().collect()
    }

    pub(super) fn task(&self, at: At) -> &Task {
        &self.segments[&at.segment].segment.tasks[at.at]
    }

    /// By which tasks are compared: earlier in the step is less.
    pub(super) fn place(&self, at: At) -> (usize, usize) {
        (self.segments[&at.segment].position, at.at)
    }

    /// The kernel of a compute task.
    pub(super) fn call(&self, at: At) -> Option<&Call<BufferKey>> {
        match &self.task(at).kind {
            TaskKind::Compute(call) => Some(call),
            _ => None,
        }
    }

    /// Changes the kernel of a compute task.
    pub(super) fn edit(&mut self, at: At, change: impl FnOnce(&mut Call<BufferKey>)) {
        if let Some(indexed) = self.segments.get_mut(&at.segment)
            && let TaskKind::Compute(call) = &mut Arc::make_mut(&mut indexed.segment).tasks[at.at].kind
        {
            change(call);
        }
    }

    /// Changes the tasks of a segment.
    pub(super) fn edit_segment(&mut self, key: &SegmentKey, change: impl FnOnce(&mut Segment)) {
        if let Some(indexed) = self.segments.get_mut(key) {
            change(Arc::make_mut(&mut indexed.segment));
            indexed.by_rank = by_rank(&indexed.segment);
        }
    }

    /// Takes a task out when the pass is done; until then nobody finds it.
    pub(super) fn remove(&mut self, at: At) {
        if let Some(indexed) = self.segments.get_mut(&at.segment) {
            indexed.removed.push(at.at);
        }
    }

    /// Takes out what was removed.
    pub(super) fn settle(&mut self) {
        for indexed in self.segments.values_mut().filter(|indexed| !indexed.removed.is_empty()) {
            let removed = std::mem::take(&mut indexed.removed);
            let segment = Arc::make_mut(&mut indexed.segment);
            let mut at = 0;
            segment.tasks.retain(|_| {
                at += 1;
                !removed.contains(&(at - 1))
            });
            indexed.by_rank = by_rank(segment);
        }
    }

    /// Tasks of a segment that are still there.
    pub(super) fn tasks(&self, key: &SegmentKey) -> Vec<At> {
        let Some(indexed) = self.segments.get(key) else { return Vec::new() };
        let there = (0..indexed.segment.tasks.len()).filter(|at| !indexed.removed.contains(at));
        there.map(|at| At { segment: *key, at }).collect()
    }

    /// Tasks that touch this very buffer on a rank, in issue order.
    pub(super) fn users(&self, rank: usize, buffer: BufferKey) -> Vec<At> {
        let mut users = Vec::new();
        for segment in self.near.of(&buffer) {
            let Some(indexed) = self.segments.get(&segment) else { continue };
            let begin = indexed.by_rank.partition_point(|&(r, _)| r < rank);
            for &(_, at) in indexed.by_rank[begin..].iter().take_while(|&&(r, _)| r == rank) {
                let mut found = false;
                indexed.segment.tasks[at].touches(|r, b, _| found |= (r, b) == (rank, buffer));
                if found && !indexed.removed.contains(&at) {
                    users.push(At { segment, at });
                }
            }
        }
        users
    }
}

fn by_rank(segment: &Segment) -> Vec<(usize, usize)> {
    let tasks = segment.tasks.iter().enumerate();
    let mut by_rank: Vec<_> = tasks.flat_map(|(at, task)| task.ranks().map(move |rank| (rank, at))).collect();
    by_rank.sort_unstable();
    by_rank
}
