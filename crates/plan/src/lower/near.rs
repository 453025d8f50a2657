//! Who touches a buffer, and which nodes those can be.

use crate::hash::HashMap;
use crate::key::{BufferKey, SegmentKey};
use crate::schedule::{Segment, Task, TaskKind};
use paceline_base::kernel::Call;
use paceline_graph::{Graph, NodeId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Operators between the one that makes a buffer and the farthest whose tasks touch it: a convolution that took in an activation and the
/// pool behind it writes the pool's output.
const REACH: usize = 2;

/// By node: the nodes whose tasks can touch buffers of its operator or of its tensor.
pub(super) struct Near {
    nodes: Vec<BTreeSet<NodeId>>,
}

impl Near {
    pub(super) fn new(graph: &Graph, readers: &[Vec<NodeId>]) -> Self {
        // What passes its input or its gradient on makes no buffer of its own, so that its neighbours share one.
        let clear = |n: NodeId| graph.nodes[n].op.is_view() || graph.nodes[n].op.passes_gradient();
        let around = |n: NodeId| graph.nodes[n].inputs.iter().chain(&readers[n]).copied().collect::<Vec<_>>();
        let of = |node: NodeId| {
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
        };
        Self { nodes: (0..graph.nodes.len()).map(of).collect() }
    }

    /// Adds the nodes whose tasks can touch buffers of these nodes.
    pub(super) fn spread(&self, nodes: &mut BTreeSet<NodeId>) {
        let added: Vec<NodeId> = nodes.iter().flat_map(|&node| &self.nodes[node]).copied().collect();
        nodes.extend(added);
    }
}

/// Place of a task in the segments of [`Work`]; earlier in the step is less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    segment: u32,
    /// In the segment's list; it stays while others are removed.
    at: u32,
}

/// Segments of a step, in issue order, while passes change them.
pub(super) struct Work {
    segments: Vec<Entry>,
    numbers: HashMap<SegmentKey, u32>,
    /// Tasks by the buffers that they touch. A task that touches one no longer may still stand here.
    users: HashMap<(usize, BufferKey), Vec<At>>,
}

struct Entry {
    segment: Arc<Segment>,
    /// By task, if any is removed.
    removed: Vec<bool>,
}

impl Work {
    pub(super) fn new(segments: Vec<Arc<Segment>>) -> Self {
        let mut work = Self {
            segments: Vec::with_capacity(segments.len()),
            numbers: HashMap::default(),
            users: HashMap::default(),
        };
        for segment in segments {
            let number = work.segments.len() as u32;
            work.numbers.insert(segment.key, number);
            note_users(&mut work.users, number, &segment.tasks, 0);
            work.segments.push(Entry { segment, removed: Vec::new() });
        }
        work
    }

    /// The segment as it is now, with what was removed still in it.
    pub(super) fn segment(&self, key: &SegmentKey) -> Option<&Arc<Segment>> {
        self.numbers.get(key).map(|&number| &self.segments[number as usize].segment)
    }

    pub(super) fn key(&self, at: At) -> SegmentKey {
        self.segments[at.segment as usize].segment.key
    }

    pub(super) fn task(&self, at: At) -> &Task {
        &self.segments[at.segment as usize].segment.tasks[at.at as usize]
    }

    /// Place of a task in its segment's list.
    pub(super) fn place(at: At) -> usize {
        at.at as usize
    }

    fn is_removed(&self, at: At) -> bool {
        self.segments[at.segment as usize].removed.get(at.at as usize) == Some(&true)
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
        let task = &mut Arc::make_mut(&mut self.segments[at.segment as usize].segment).tasks[at.at as usize];
        if let TaskKind::Compute(call) = &mut task.kind {
            change(call);
            note_users(&mut self.users, at.segment, std::slice::from_ref(task), at.at);
        }
    }

    /// Changes the tasks of a segment.
    pub(super) fn edit_segment(&mut self, key: &SegmentKey, change: impl FnOnce(&mut Segment)) {
        if let Some(&number) = self.numbers.get(key) {
            let Entry { segment, removed } = &mut self.segments[number as usize];
            debug_assert!(removed.is_empty(), "places would no longer be right");
            let segment = Arc::make_mut(segment);
            change(segment);
            note_users(&mut self.users, number, &segment.tasks, 0);
        }
    }

    /// Sets until when messages are under way.
    pub(super) fn awaited(&mut self, at: At, awaited: Vec<crate::schedule::Await>) {
        let segment = &mut self.segments[at.segment as usize].segment;
        Arc::make_mut(segment).tasks[at.at as usize].awaited = awaited;
    }

    /// Takes a task out; nobody finds it any more.
    pub(super) fn remove(&mut self, at: At) {
        let Entry { segment, removed } = &mut self.segments[at.segment as usize];
        removed.resize(segment.tasks.len(), false);
        removed[at.at as usize] = true;
    }

    /// Closes the gaps that removed tasks left. Places found before are no longer right.
    pub(super) fn settle(&mut self) {
        for (number, Entry { segment, removed }) in self.segments.iter_mut().enumerate() {
            if !removed.is_empty() {
                let segment = Arc::make_mut(segment);
                let mut gone = std::mem::take(removed).into_iter();
                segment.tasks.retain(|_| !gone.next().unwrap_or(false));
                note_users(&mut self.users, number as u32, &segment.tasks, 0);
            }
        }
    }

    /// Tasks of a segment that are still there.
    pub(super) fn tasks(&self, key: &SegmentKey) -> impl Iterator<Item = At> + use<> {
        let number = self.numbers.get(key).copied();
        let tasks = number.map_or(0, |number| self.segments[number as usize].segment.tasks.len());
        let removed = number.map_or(Vec::new(), |number| self.segments[number as usize].removed.clone());
        let there = (0..tasks as u32).filter(move |&at| removed.get(at as usize) != Some(&true));
        there.map(move |at| At { segment: number.unwrap_or(0), at })
    }

    /// Tasks that touch this very buffer on a rank, in issue order.
    pub(super) fn users(&self, rank: usize, buffer: BufferKey) -> Vec<At> {
        let Some(noted) = self.users.get(&(rank, buffer)) else { return Vec::new() };
        let touches = |at: &At| {
            let mut found = false;
            let there = self.segments[at.segment as usize].segment.tasks.get(at.at as usize);
            there.inspect(|task| task.touches(|r, b, _| found |= (r, b) == (rank, buffer)));
            found && !self.is_removed(*at)
        };
        let mut users: Vec<At> = noted.iter().copied().filter(touches).collect();
        users.sort_unstable();
        users.dedup();
        users
    }

    /// All segments, as they are now.
    pub(super) fn into_segments(self) -> impl Iterator<Item = Arc<Segment>> {
        self.segments.into_iter().map(|entry| entry.segment)
    }
}

fn note_users(users: &mut HashMap<(usize, BufferKey), Vec<At>>, segment: u32, tasks: &[Task], first: u32) {
    for (at, task) in (first..).zip(tasks) {
        task.touches(|rank, buffer, _| {
            let of = users.entry((rank, buffer)).or_default();
            if of.last() != Some(&At { segment, at }) {
                of.push(At { segment, at });
            }
        });
    }
}
