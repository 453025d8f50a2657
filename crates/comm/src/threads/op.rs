//! One operation of one rank, and how it moves on without ever waiting.
//!
//! A message: the sender posts; the receiver copies out of the sender's buffer and says so; both are complete.
//!
//! A collective among `p` members, where member `i` alone touches chunk `i` of *any* buffer (in an all-gather: writes its own
//! buffer alone, and never its own chunk), so that there is nothing to lock:
//!
//! 1. Each member posts its buffer. One with an empty chunk is finished with that (but member 0 always looks at the
//!    posts).
//! 2. When all have posted, each checks that all mean the same operation, works on its chunk of all buffers, and is
//!    finished.
//! 3. When all are finished, the operation is complete, and each takes its buffer back.

use super::hub::{Group, Hub, LANE, RING};
use super::slot::Post;
use crate::host::Element;
use crate::meter::Meter;
use crate::sum;
use crate::{Collective, Encoding, Exchange, chunk, elements_moved};
use paceline_base::Result;
use paceline_base::Staging;
use paceline_base::units::DType;
use std::fmt;
use std::sync::Arc;

/// A group as one member sees it.
pub(super) struct Membership {
    pub(super) group: Arc<Group>,
    /// Which member this rank is.
    pub(super) index: usize,
    /// How many collectives it has started here.
    pub(super) started: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpKind {
    Send { to: usize },
    Receive { from: usize },
    Collective { what: Exchange, group: usize },
}

/// How far an operation came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpState {
    /// Not posted: its slot still serves an earlier operation. The buffer is here.
    Queued,
    /// The buffer is in the slot.
    Posted,
    /// This member's part is finished.
    Finished,
    /// Nobody else touches the buffer, which is here again.
    Complete,
}

/// An operation that this rank has started and not taken back.
pub(super) struct Op {
    pub(super) kind: OpKind,
    pub(super) state: OpState,
    /// Its number in its lane or group.
    pub(super) number: u64,
    pub(super) seq: u64,
    pub(super) data: Option<Staging>,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            OpKind::Send { to } => write!(f, "the message to rank {to}")?,
            OpKind::Receive { from } => write!(f, "the message from rank {from}")?,
            OpKind::Collective { what, .. } => write!(f, "the {what}")?,
        }
        write!(f, " of seq {}", self.seq)
    }
}

impl Op {
    /// Moves on as far as it can; true if that was any further.
    pub(super) fn advance(
        &mut self,
        rank: usize,
        hub: &Hub,
        memberships: &[Membership],
        meter: &mut Meter,
    ) -> Result<bool> {
        let before = self.state;
        match self.kind {
            OpKind::Send { to } => self.advance_send(rank, to, hub),
            OpKind::Receive { from } => self.advance_receive(rank, from, hub, meter)?,
            OpKind::Collective { what, group } => self.advance_collective(what, &memberships[group], hub, meter)?,
        }
        Ok(self.state != before)
    }

    fn loan(&mut self) -> Staging {
        self.data.take().expect("a queued operation holds its buffer")
    }

    fn advance_send(&mut self, rank: usize, to: usize, hub: &Hub) {
        let slot = hub.lane(rank, to, self.number);
        // SAFETY: the sender owns the slots of its lanes.
        if self.state == OpState::Queued && unsafe { slot.is_free(self.number, LANE) } {
            let data = self.loan();
            let post = Post::new(&data, self.seq, None);
            // SAFETY: the slot is ours and free.
            unsafe { slot.post(self.number, post, data, false) };
            self.state = OpState::Posted;
            hub.parker.unpark(&[to], || true);
        }
        if self.state == OpState::Posted && slot.is_finished(self.number) {
            // SAFETY: the receiver, the only other user of the buffer, has copied it.
            self.data = Some(unsafe { slot.take() });
            self.state = OpState::Complete;
        }
    }

    fn advance_receive(&mut self, rank: usize, from: usize, hub: &Hub, meter: &mut Meter) -> Result<()> {
        let slot = hub.lane(from, rank, self.number);
        if self.state == OpState::Complete || !slot.is_posted(self.number) {
            return Ok(());
        }
        // SAFETY: posted, and not finished before the end of this function.
        let theirs = unsafe { slot.read() };
        let data = self.data.as_mut().expect("a receiver keeps its buffer");
        let mut mine = Post::new(data, self.seq, None);
        if data.varies() && theirs.bytes <= data.largest() * data.dtype().size() {
            mine.bytes = theirs.bytes;
        }
        if let Some(difference) = theirs.disagreement(from, &mine, rank) {
            return Err(hub.mismatch(rank, &format!("message from rank {from} to rank {rank}: {difference}")));
        }
        data.set_len(theirs.bytes / theirs.dtype.size());
        if theirs.bytes > 0 {
            // SAFETY: the sender's loan lies in the slot until `finish`, and is exclusive of ours; nobody writes to it.
            let source = unsafe { std::slice::from_raw_parts(theirs.data.as_ptr(), theirs.bytes) };
            meter.moving(theirs.bytes, || data.bytes_mut().copy_from_slice(source));
        }
        meter.counters.received[from] += theirs.bytes as u64;
        slot.finish(self.number);
        hub.parker.unpark(&[from], || true);
        self.state = OpState::Complete;
        Ok(())
    }

    fn advance_collective(&mut self, what: Exchange, at: &Membership, hub: &Hub, meter: &mut Meter) -> Result<()> {
        let n = self.number;
        let (ranks, me) = (&*at.group.ranks, at.index);
        let row = at.group.row(n);
        let mine = &row[me];
        // SAFETY: a member owns its slots.
        if self.state == OpState::Queued && unsafe { mine.is_free(n, RING) } {
            let data = self.loan();
            // In an all-gather it is the others' chunks that a member copies.
            let idle = what.what != Collective::AllGather && chunk(data.len(), ranks.len(), me).is_empty();
            let nothing_to_do = me > 0 && idle;
            let post = Post::new(&data, self.seq, Some(what));
            // SAFETY: the slot is ours and free.
            unsafe { mine.post(n, post, data, nothing_to_do) };
            self.state = if nothing_to_do { OpState::Finished } else { OpState::Posted };
            hub.parker.unpark(ranks, || row.iter().all(|s| s.is_posted(n)));
        }
        if self.state == OpState::Posted && row.iter().all(|s| s.is_posted(n)) {
            self.work(what, at, hub, meter)?;
            mine.finish(n);
            self.state = OpState::Finished;
            hub.parker.unpark(ranks, || row.iter().all(|s| s.is_finished(n)));
        }
        if self.state == OpState::Finished && row.iter().all(|s| s.is_finished(n)) {
            // SAFETY: every member is finished with every buffer.
            let data = unsafe { mine.take() };
            for (m, &from) in ranks.iter().enumerate() {
                let elements = elements_moved(what.what, data.len(), ranks.len(), m, me);
                meter.counters.received[from] += (elements * data.dtype().size()) as u64;
            }
            self.data = Some(data);
            self.state = OpState::Complete;
        }
        Ok(())
    }

    /// Step 2: all have posted, and this member is not finished.
    fn work(&self, what: Exchange, at: &Membership, hub: &Hub, meter: &mut Meter) -> Result<()> {
        let (ranks, me) = (&*at.group.ranks, at.index);
        let row = at.group.row(self.number);
        // SAFETY: all have posted, and this member is not finished.
        let post = |m: usize| unsafe { row[m].read() };
        let mine = post(me);
        for (m, &rank) in ranks.iter().enumerate() {
            if let Some(difference) = mine.disagreement(ranks[me], &post(m), rank) {
                return Err(hub.mismatch(ranks[me], &format!("{what} among ranks {ranks:?}: {difference}")));
            }
        }
        let len = mine.bytes / mine.dtype.size();
        let range = chunk(len, ranks.len(), me);
        let idle = if what.what == Collective::AllGather { len == range.len() } else { range.is_empty() };
        if !idle && ranks.len() > 1 {
            let data = |m: usize| post(m).data.as_ptr();
            let bytes = range.len() * ranks.len() * mine.dtype.size();
            // SAFETY: the members' loans are exclusive of one another, aligned for their type, and of equal size as
            // was checked; they lie in the slots until all are finished. Chunks do not overlap; only this member writes this
            // chunk of any buffer, and in an all-gather only the owner of a buffer writes to it, outside its own chunk.
            meter.moving(bytes, || unsafe {
                match mine.dtype {
                    DType::F32 => apply(what, ranks.len(), me, |m| data(m).cast::<f32>(), len),
                    DType::F64 => apply(what, ranks.len(), me, |m| data(m).cast::<f64>(), len),
                    DType::U8 | DType::U32 | DType::U64 => unreachable!("a collective of what is no float was refused"),
                }
            });
        }
        Ok(())
    }

    /// The peers that this operation waits for, and whether they have at least begun it.
    pub(super) fn missing(&self, rank: usize, hub: &Hub, memberships: &[Membership]) -> Vec<(usize, bool)> {
        let n = self.number;
        match self.kind {
            OpKind::Send { to } if !hub.lane(rank, to, n).is_finished(n) => vec![(to, false)],
            OpKind::Receive { from } if !hub.lane(from, rank, n).is_posted(n) => vec![(from, false)],
            OpKind::Collective { group, .. } => {
                let group = &memberships[group].group;
                let slots = || group.ranks.iter().zip(group.row(n)).filter(|&(&r, _)| r != rank);
                let absent: Vec<_> = slots().filter(|(_, s)| !s.is_posted(n)).map(|(&r, _)| (r, false)).collect();
                if absent.is_empty() {
                    return slots().filter(|(_, s)| !s.is_finished(n)).map(|(&r, _)| (r, true)).collect();
                }
                absent
            }
            _ => vec![],
        }
    }

    /// A peer that left without taking part, if there is one: it never will.
    pub(super) fn departed_peer(&self, rank: usize, hub: &Hub, memberships: &[Membership]) -> Option<usize> {
        let n = self.number;
        // First whether it left, then what it did: after leaving it does nothing more.
        match self.kind {
            OpKind::Send { to } => (hub.has_left(to) && !hub.lane(rank, to, n).is_finished(n)).then_some(to),
            OpKind::Receive { from } => (hub.has_left(from) && !hub.lane(from, rank, n).is_posted(n)).then_some(from),
            OpKind::Collective { group, .. } => {
                let group = &memberships[group].group;
                let mut members = group.ranks.iter().enumerate();
                members.find(|&(m, &r)| hub.has_left(r) && !group.slot(n, m).is_posted(n)).map(|(_, &r)| r)
            }
        }
    }
}

/// # Safety
/// As for [`sum::all_reduce`].
unsafe fn apply<T: Element>(what: Exchange, members: usize, me: usize, buffer: impl Fn(usize) -> *mut T, len: usize) {
    let range = chunk(len, members, me);
    let rounded = what.encoding == Encoding::Bf16;
    // SAFETY: the caller's promise.
    unsafe {
        match what.what {
            Collective::AllReduce if rounded => sum::all_reduce_bf16(members, buffer, range),
            Collective::AllReduce => sum::all_reduce(members, buffer, range),
            Collective::ReduceScatter if rounded => sum::reduce_scatter_bf16(members, me, buffer, range),
            Collective::ReduceScatter => sum::reduce_scatter(members, me, buffer, range),
            Collective::AllGather => sum::all_gather(members, me, buffer, |m| chunk(len, members, m)),
        }
    }
}
