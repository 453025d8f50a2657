//! The segments that the passes after the fragments work on, and who touches a buffer.

use super::scope::Nodes;
use crate::hash::HashMap;
use crate::key::{BufferKey, SegmentKey};
use crate::schedule::{Await, Segment, Task, TaskKind};
use paceline_base::kernel::Call;
use std::sync::Arc;

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
    users: Users,
}

struct Entry {
    segment: Arc<Segment>,
    /// By task, if any is removed.
    removed: Vec<bool>,
}

/// Tasks by the buffers that they touch. A task that touches one no longer may still stand here.
struct Users {
    /// Only buffers of these nodes and of none are noted: nobody asks for others.
    watched: Nodes,
    /// Of each buffer of a rank its newest note.
    newest: HashMap<(usize, BufferKey), u32>,
    notes: Vec<Note>,
}

#[derive(Clone, Copy)]
struct Note {
    user: At,
    /// The note before it of the same buffer; its own number if it is the first.
    before: u32,
}

impl Users {
    fn watches(&self, buffer: &BufferKey) -> bool {
        buffer.owner.node().is_none_or(|node| self.watched.contains(node))
    }

    /// Notes what tasks of a segment touch, from the place of the first on.
    fn note(&mut self, segment: u32, tasks: &[Task], first: u32) {
        for (at, task) in (first..).zip(tasks) {
            let user = At { segment, at };
            task.touches(|rank, buffer| {
                if !self.watches(&buffer) {
                    return;
                }
                let next = self.notes.len() as u32;
                let newest = self.newest.entry((rank, buffer)).or_insert(next);
                let before = std::mem::replace(newest, next);
                if before != next && self.notes[before as usize].user == user {
                    *newest = before; // an argument that is there twice
                } else {
                    self.notes.push(Note { user, before });
                }
            });
        }
    }

    /// All who were noted, the newest first.
    fn of(&self, rank: usize, buffer: BufferKey) -> impl Iterator<Item = At> {
        debug_assert!(self.watches(&buffer), "{buffer:?} is not watched");
        let mut next = self.newest.get(&(rank, buffer)).copied();
        std::iter::from_fn(move || {
            let number = next?;
            let Note { user, before } = self.notes[number as usize];
            next = (before != number).then_some(before);
            Some(user)
        })
    }
}

impl Work {
    /// Segments in issue order. Users are found of the buffers of `watched` nodes, and of those that belong to no node.
    pub(super) fn new(segments: Vec<Arc<Segment>>, watched: Nodes) -> Self {
        let tasks: usize = segments.iter().map(|segment| segment.tasks.len()).sum();
        let mut users = Users { watched, newest: HashMap::default(), notes: Vec::with_capacity(4 * tasks) };
        users.newest.reserve(tasks);
        let mut numbers = HashMap::default();
        let mut entries = Vec::with_capacity(segments.len());
        for (number, segment) in (0..).zip(segments) {
            numbers.insert(segment.key, number);
            users.note(number, &segment.tasks, 0);
            entries.push(Entry { segment, removed: Vec::new() });
        }
        Self { segments: entries, numbers, users }
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

    /// The kernel of a compute task that is still there.
    pub(super) fn call(&self, at: At) -> Option<&Call<BufferKey>> {
        match &self.task(at).kind {
            TaskKind::Compute(call) if !self.is_removed(at) => Some(call),
            _ => None,
        }
    }

    /// Changes the kernel of a compute task.
    pub(super) fn edit(&mut self, at: At, change: impl FnOnce(&mut Call<BufferKey>)) {
        let task = &mut Arc::make_mut(&mut self.segments[at.segment as usize].segment).tasks[at.at as usize];
        if let TaskKind::Compute(call) = &mut task.kind {
            change(call);
            self.users.note(at.segment, std::slice::from_ref(task), at.at);
        }
    }

    /// Changes the tasks of a segment.
    pub(super) fn edit_segment(&mut self, key: &SegmentKey, change: impl FnOnce(&mut Segment)) {
        if let Some(&number) = self.numbers.get(key) {
            let Entry { segment, removed } = &mut self.segments[number as usize];
            debug_assert!(removed.is_empty(), "places would no longer be right");
            let segment = Arc::make_mut(segment);
            change(segment);
            self.users.note(number, &segment.tasks, 0);
        }
    }

    /// Sets until when a message is under way.
    pub(super) fn set_awaited(&mut self, at: At, awaited: &[Await]) {
        if self.task(at).awaited != awaited {
            let segment = &mut self.segments[at.segment as usize].segment;
            Arc::make_mut(segment).tasks[at.at as usize].awaited = awaited.to_vec();
        }
    }

    /// Takes a task out; nobody finds it any more.
    pub(super) fn remove(&mut self, at: At) {
        let Entry { segment, removed } = &mut self.segments[at.segment as usize];
        removed.resize(segment.tasks.len(), false);
        removed[at.at as usize] = true;
    }

    /// Closes the gaps that removed tasks left. Places found before are no longer right.
    pub(super) fn settle(&mut self) {
        for (number, Entry { segment, removed }) in (0..).zip(&mut self.segments) {
            if !removed.is_empty() {
                let segment = Arc::make_mut(segment);
                let mut gone = std::mem::take(removed).into_iter();
                segment.tasks.retain(|_| !gone.next().unwrap_or(false));
                self.users.note(number, &segment.tasks, 0);
            }
        }
    }

    /// Places of all tasks of a segment, also of those that were removed.
    pub(super) fn places(&self, key: &SegmentKey) -> impl Iterator<Item = At> + use<> {
        let segment = self.numbers.get(key).copied();
        let tasks = segment.map_or(0, |number| self.segments[number as usize].segment.tasks.len());
        (0..tasks as u32).map(move |at| At { segment: segment.unwrap_or(0), at })
    }

    /// Tasks that touch this very buffer on a rank, in issue order.
    pub(super) fn users(&self, rank: usize, buffer: BufferKey) -> Vec<At> {
        let mut users: Vec<At> = self.users.of(rank, buffer).filter(|&at| self.touches(at, rank, buffer)).collect();
        users.sort_unstable();
        users.dedup();
        users
    }

    /// The first task behind `at` that touches this very buffer on a rank.
    pub(super) fn next_user(&self, at: At, rank: usize, buffer: BufferKey) -> Option<At> {
        let behind = self.users.of(rank, buffer).filter(|&user| user > at);
        behind.filter(|&user| self.touches(user, rank, buffer)).min()
    }

    fn touches(&self, at: At, rank: usize, buffer: BufferKey) -> bool {
        let there = self.segments[at.segment as usize].segment.tasks.get(at.at as usize);
        there.is_some_and(|task| task.touches_buffer(rank, buffer)) && !self.is_removed(at)
    }

    /// All segments, as they are now.
    pub(super) fn into_segments(self) -> impl Iterator<Item = Arc<Segment>> {
        self.segments.into_iter().map(|entry| entry.segment)
    }
}
