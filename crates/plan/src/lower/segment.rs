//! A segment while it is lowered.

use crate::key::{BufferKey, BufferRole, SegmentKey};
use crate::schedule::{Buffer, Segment, Task, TaskKind};
use paceline_base::collective::Exchange;
use paceline_base::kernel::{Call, Elements, Kernel};
use paceline_base::region::{Region, Strided};
use std::sync::Arc;

/// Collects the tasks and buffers of one segment.
pub(super) struct Builder {
    segment: Segment,
}

/// A region of a tensor in a buffer of a rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held<'r> {
    pub rank: usize,
    pub buffer: BufferKey,
    pub region: &'r Region,
}

/// What the two buffers of a message are called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// By input of the reader.
    pub slot: u16,
    /// The part that wants it.
    pub part: usize,
    /// Which piece or contribution it is for that part.
    pub piece: usize,
}

impl Builder {
    pub(super) fn new(key: SegmentKey) -> Self {
        Self { segment: Segment { key, tasks: Vec::new(), buffers: Vec::new(), messages: 0 } }
    }

    /// The segment, if there is anything in it.
    pub(super) fn finish(self) -> Option<Arc<Segment>> {
        (!self.segment.tasks.is_empty() || !self.segment.buffers.is_empty()).then(|| Arc::new(self.segment))
    }

    /// A buffer of floats for the time of the step.
    pub(super) fn buffer(&mut self, rank: usize, role: BufferRole, part: usize, len: usize) -> BufferKey {
        self.buffer_of(rank, BufferKey::new(self.segment.key, role, part), len)
    }

    fn buffer_of(&mut self, rank: usize, key: BufferKey, len: usize) -> BufferKey {
        self.segment.buffers.push(Buffer::floats(key, rank, len, None));
        key
    }

    /// A buffer of other elements.
    pub(super) fn typed_buffer(
        &mut self,
        rank: usize,
        role: BufferRole,
        part: usize,
        (elements, len): (Elements, usize),
        varies: bool,
    ) -> BufferKey {
        let key = BufferKey::new(self.segment.key, role, part);
        self.segment.buffers.push(Buffer { key, rank, len, elements, varies, within: None });
        key
    }

    /// A name for a range of another buffer of the rank.
    pub(super) fn view(&mut self, rank: usize, key: BufferKey, len: usize, within: (BufferKey, usize)) -> BufferKey {
        self.segment.buffers.push(Buffer::floats(key, rank, len, Some(within)));
        key
    }

    pub(super) fn task(&mut self, rank: usize, part: usize, kind: TaskKind, size: usize) {
        let task =
            Task { index: self.segment.tasks.len() as u32, rank, part, kind, size, stage: 0, awaited: Vec::new() };
        self.segment.messages += u32::from(task.is_message());
        self.segment.tasks.push(task);
    }

    /// A kernel that makes `size` elements.
    pub(super) fn kernel(&mut self, rank: usize, part: usize, kernel: Kernel, args: Vec<BufferKey>, size: usize) {
        self.task(rank, part, TaskKind::Compute(Call { kernel, args }), size);
    }

    /// A collective among these ranks; one rank alone needs none.
    pub(super) fn collective(&mut self, what: Exchange, group: &Arc<[usize]>, buffers: Vec<BufferKey>, len: usize) {
        if group.len() > 1 {
            let kind = TaskKind::Collective { what, group: group.clone(), buffers };
            self.task(group[0], 0, kind, len);
        }
    }

    /// Copies or adds `shared` from one held region to another, through a message if they are on different ranks.
    pub(super) fn move_region(&mut self, from: Held<'_>, shared: &Region, to: Held<'_>, add: bool, way: Way) {
        let kernel = |walk| if add { Kernel::Add(walk) } else { Kernel::Copy(walk) };
        let Way { slot, part, piece } = way;
        if from.rank == to.rank {
            let walk = Strided::between(shared, from.region, to.region);
            return self.kernel(to.rank, piece, kernel(walk), vec![from.buffer, to.buffer], to.region.len());
        }
        let named = |role| BufferKey { piece: piece as u32, ..BufferKey::new(self.segment.key, role, part) };
        let (sent, received) = (named(BufferRole::Sent(slot)), named(BufferRole::Received(slot)));
        let len = shared.len();
        // A message has a buffer of its own: it is on loan until the step ends, and the source is still read here.
        let source = self.buffer_of(from.rank, sent, len);
        let walk = Strided::between(shared, from.region, shared);
        self.kernel(from.rank, piece, Kernel::Copy(walk), vec![from.buffer, source], len);
        let direct = !add && shared == to.region;
        let target = if direct { to.buffer } else { self.buffer_of(to.rank, received, len) };
        let kind =
            TaskKind::Transfer { to: to.rank, source, target, region: shared.clone(), elements: Elements::Float };
        self.task(from.rank, piece, kind, len);
        if !direct {
            let walk = Strided::between(shared, shared, to.region);
            self.kernel(to.rank, piece, kernel(walk), vec![target, to.buffer], to.region.len());
        }
    }
}
