//! A collective operation under way in this process: its ranks' buffers, and the pieces that travel. The steps are in the module
//! above this one.

use super::coding::Coding;
use super::ffi::{Communicator, Request};
use super::flow::{DEPTH, Flow, Peer, reap_sent};
use super::group::Group;
use super::submission::{Completion, SubmissionQueue};
use crate::host::Element;
use crate::raw;
use crate::sum::vector;
use crate::{Collective, Exchange, chunk};
use paceline_base::Staging;
use paceline_base::units::DType;
use paceline_base::{Error, Result};
use std::ops::Range;
use std::slice::from_raw_parts;
use std::sync::Arc;
use std::time::Instant;

/// Two processes exchange so few bytes whole: one round is quicker than two of half the bytes.
const FEW: usize = 64 << 10;

struct Loan {
    local: usize,
    index: u16,
    data: Staging,
}

/// Where the slots of an active collective's scratch begin.
struct Slots(*mut u8);

// SAFETY: an address within the scratch, which moves along with the collective.
unsafe impl Send for Slots {}

/// Opened by the first local member, begun when all are here, closed when complete; then kept for the next one.
pub(super) struct CollectiveOp {
    pub(super) seq: u64,
    pub(super) what: Exchange,
    pub(super) group: Option<Arc<Group>>,
    /// In the order of the members; the first is the one that travels.
    loans: Vec<Loan>,
    pub(super) active: bool,
    peers: Vec<Peer>,
    coding: Coding,
    dtype: DType,
    len: usize,
    piece: usize,
    /// Both of two processes sum everything, and nothing is sent back.
    mutual: bool,
    /// Pieces of my span that are summed.
    combined: usize,
    /// Where pieces arrive: `DEPTH` for each peer, then those that leave or come encoded.
    scratch: Vec<u8>,
    slots: Slots,
    slot: usize,
    there: Option<Instant>,
    /// When anything last happened.
    pub(super) moved: Instant,
}

/// The communicator over which a collective moves its pieces, and its own tags.
#[derive(Clone, Copy)]
pub(super) struct TaggedComm {
    pub(super) comm: Communicator,
    /// Of summands, then of sums.
    pub(super) tags: [i32; 2],
}

impl CollectiveOp {
    /// A collective that nobody has come to, with room for the ranks of this process and for other processes.
    pub(super) fn new(local: usize, processes: usize) -> Self {
        Self {
            seq: 0,
            what: Collective::AllReduce.into(),
            group: None,
            loans: Vec::with_capacity(local),
            active: false,
            peers: Vec::with_capacity(processes),
            coding: Coding::Plain,
            dtype: DType::F32,
            len: 0,
            piece: 0,
            mutual: false,
            combined: 0,
            scratch: Vec::new(),
            slots: Slots(std::ptr::null_mut()),
            slot: 0,
            there: None,
            moved: Instant::now(),
        }
    }

    /// Opens it for the first member.
    pub(super) fn open(&mut self, seq: u64, what: Exchange, group: Arc<Group>) {
        (self.seq, self.what, self.group, self.active) = (seq, what, Some(group), false);
        (self.combined, self.there, self.moved) = (0, None, Instant::now());
        self.loans.clear();
        self.peers.clear();
    }

    fn group(&self) -> &Group {
        self.group.as_deref().expect("an open collective has a group")
    }

    /// A member comes.
    pub(super) fn join(&mut self, local: usize, index: u16, what: Exchange, data: Staging) -> Result<()> {
        let differs = self
            .loans
            .first()
            .is_some_and(|l| l.data.dtype() != data.dtype() || l.data.bytes().len() != data.bytes().len());
        if differs || what != self.what {
            return Err(Error::internal(format!(
                "{} of seq {} among ranks {:?}: ranks of one process bring different operations or sizes",
                self.what,
                self.seq,
                self.group().ranks
            )));
        }
        let at = self.loans.partition_point(|l| l.local < local);
        self.loans.insert(at, Loan { local, index, data });
        Ok(())
    }

    /// Whether all members of this process are here.
    pub(super) fn is_ready(&self) -> bool {
        let group = self.group();
        self.loans.len() == group.participants[group.me].members.len()
    }

    /// Bytes of scratch that plain pieces need among so many processes.
    pub(super) fn scratch(processes: usize, piece: usize) -> usize {
        (processes - 1) * DEPTH * piece.next_multiple_of(64) + 64
    }

    /// Begins. `piece` is the number of bytes that travel at a time; scratch comes from a pool, where it goes back to.
    pub(super) fn begin(&mut self, piece: usize, pool: &mut Vec<Vec<u8>>) {
        let group = self.group.clone().expect("an open collective has a group");
        (self.dtype, self.len) = (self.loans[0].data.dtype(), self.loans[0].data.len());
        self.coding = Coding::of(self.what.encoding, self.dtype);
        self.piece = (piece / self.dtype.size()).max(16);
        let n = group.participants.len();
        self.mutual = n == 2 && self.what.what == Collective::AllReduce && self.len * self.dtype.size() <= FEW;
        let (len, piece, mutual) = (self.len, self.piece, self.mutual);
        let span = |participant: usize| if mutual { 0..len } else { group.span(len, participant) };
        let pieces = |participant: usize| span(participant).len().div_ceil(piece);
        let mine = pieces(group.me);
        let reduces = self.what.what != Collective::AllGather;
        let gathers = self.what.what != Collective::ReduceScatter && !self.mutual;
        let others = (1..n).map(|d| (group.me + d) % n); // each begins with another, so that none is overrun
        let (reduce, gather) = (|n: usize| if reduces { n } else { 0 }, |n: usize| if gathers { n } else { 0 });
        self.peers.extend(others.map(|participant| Peer {
            participant,
            process: group.participants[participant].process,
            near: group.participants[participant].near,
            summands_out: Flow::of(reduce(pieces(participant))),
            summands_in: Flow::of(reduce(mine)),
            sums_out: Flow::of(gather(mine)),
            sums_in: Flow::of(gather(pieces(participant))),
        }));
        // Pieces are no longer than the longest span.
        let longest = (0..n).map(|s| span(s).len()).max().unwrap_or(0).min(piece);
        self.slot = self.coding.largest(longest, self.dtype).next_multiple_of(64);
        let shared = if self.coding == Coding::Plain { 0 } else { DEPTH + 1 };
        let slots = self.peers.len() * DEPTH * self.coding.slots_per_peer() + shared;
        self.scratch = pool.pop().unwrap_or_default();
        if self.scratch.len() < slots * self.slot + 64 {
            self.scratch.resize(slots * self.slot + 64, 0);
        }
        // By the one way that may write; nobody makes a reference to the scratch while the collective is active.
        let base = self.scratch.as_mut_ptr();
        self.slots = Slots(base.wrapping_add(base.align_offset(64)));
        self.active = true;
        self.moved = Instant::now();
        if self.peers.is_empty() {
            self.there = Some(self.moved);
        }
    }

    /// The elements that the process of `participant` sums.
    fn span(&self, participant: usize) -> Range<usize> {
        if self.mutual { 0..self.len } else { self.group().span(self.len, participant) }
    }

    fn piece_of(&self, participant: usize, k: usize) -> Range<usize> {
        let span = self.span(participant);
        let start = span.start + k * self.piece;
        start..span.end.min(start + self.piece)
    }

    /// Moves on as far as it can without waiting; true if it is complete.
    pub(super) fn advance(&mut self, wire: TaggedComm, queue: &SubmissionQueue, news: &mut bool) -> Result<bool> {
        let before = *news;
        *news = false;
        let done = match self.dtype {
            DType::F32 => self.advance_as::<f32>(wire, queue, news),
            DType::F64 => self.advance_as::<f64>(wire, queue, news),
            DType::U8 | DType::U32 | DType::U64 => unreachable!("a collective of what is no float was refused"),
        }?;
        if *news {
            self.moved = Instant::now();
        }
        *news |= before;
        Ok(done)
    }

    fn advance_as<T: Element>(&mut self, wire: TaggedComm, queue: &SubmissionQueue, news: &mut bool) -> Result<bool> {
        for i in 0..self.peers.len() {
            self.send_summands::<T>(i, wire, news)?;
            self.receive_summands(i, wire, queue, news)?;
        }
        self.combine::<T>(news);
        for i in 0..self.peers.len() {
            self.send_sums(i, wire, news)?;
            self.receive_sums::<T>(i, wire, queue, news)?;
        }
        if self.there.is_none() && self.peers.iter().all(Peer::has_begun) {
            self.there = Some(Instant::now());
        }
        let mine = self.span(self.group().me).len().div_ceil(self.piece);
        Ok(self.combined == mine && self.peers.iter().all(Peer::is_done))
    }

    /// Step 2, out: the summands of a peer's span.
    fn send_summands<T: Element>(&mut self, i: usize, wire: TaggedComm, news: &mut bool) -> Result<()> {
        let participant = self.peers[i].participant;
        while self.peers[i].summands_out.started < self.peers[i].summands_out.pieces
            && self.peers[i].summands_out.has_room()
        {
            let k = self.peers[i].summands_out.started;
            let range = self.piece_of(participant, k);
            self.sum_locally::<T>(&range);
            let (at, bytes) = self.encoded(&range, self.summands_slot(i, k));
            // SAFETY: the leader's buffer is on loan, and nobody writes to this piece before it is sent; or it lies in a
            // slot of the scratch that is not used again before.
            let request = unsafe { wire.comm.send(self.peers[i].process, wire.tags[0], at, bytes)? };
            self.peers[i].summands_out.push(request);
            *news = true;
        }
        reap_sent(&mut self.peers[i].summands_out, news)
    }

    /// Step 2, in: the summands of my span.
    fn receive_summands(&mut self, i: usize, wire: TaggedComm, queue: &SubmissionQueue, news: &mut bool) -> Result<()> {
        loop {
            let peer = &self.peers[i];
            let flow = &peer.summands_in;
            // Both go step by step where each reads the other's memory: a third quicker with Open MPI than if one ran ahead.
            if peer.near && flow.started > peer.summands_out.finished && !peer.summands_out.is_done() {
                break;
            }
            // A slot is free again when its piece was summed.
            if flow.started == flow.pieces || flow.started - self.combined >= DEPTH {
                break;
            }
            let at = self.slot_at(i * DEPTH * self.coding.slots_per_peer() + flow.started % DEPTH);
            // SAFETY: the slot is ours until the piece was summed; the scratch does not move while a collective is active.
            let request = unsafe { wire.comm.receive(self.peers[i].process, wire.tags[0], at, self.slot)? };
            self.peers[i].summands_in.push(request);
        }
        loop {
            let k = self.peers[i].summands_in.finished;
            let Some(request) = self.peers[i].summands_in.oldest() else { return Ok(()) };
            let Some(bytes) = request.ask(Request::test_received)? else { return Ok(()) };
            let range = self.piece_of(self.group().me, k);
            self.expect(bytes, &range, i, queue)?;
            self.peers[i].summands_in.finished += 1;
            *news = true;
        }
    }

    /// Sums the pieces of my span that have come from everybody, in the order of the processes.
    fn combine<T: Element>(&mut self, news: &mut bool) {
        let (me, n) = (self.group().me, self.group().participants.len());
        let pieces = self.span(me).len().div_ceil(self.piece);
        let reduces = self.what.what != Collective::AllGather;
        while self.combined < pieces {
            let k = self.combined;
            let waits = |p: &Peer| p.summands_in.finished <= k || (self.mutual && p.summands_out.finished <= k);
            if reduces && self.peers.iter().any(waits) {
                return;
            }
            let range = self.piece_of(me, k);
            if reduces {
                if !self.mutual {
                    self.sum_locally::<T>(&range); // else it was, before it left
                }
                // SAFETY: no message that is under way touches this piece of the leader's buffer.
                let own = unsafe { raw::range_mut(self.leader::<T>(), &range) };
                self.coding.round(own);
                // Peers stand in the order me+1, me+2, …: the participant tells where one's summand is.
                let per_peer = DEPTH * self.coding.slots_per_peer();
                let slot = |participant: usize| self.slot_at(((participant + n - me) % n - 1) * per_peer + k % DEPTH);
                let (coding, len) = (self.coding, range.len());
                // SAFETY: a piece of every peer has arrived in its slot, as long as `range`.
                let add = |sum: &mut [T], participant: usize| unsafe { coding.add(sum, slot(participant)) };
                if me > 0 {
                    // ((p0 + p1) + …) + own: what stands before me is summed first, then mine is added to it.
                    // SAFETY: the slot of participant 0 holds a piece that is ours to change.
                    let first = unsafe { self.coding.decoded::<T>(slot(0), len, self.spare()) };
                    for participant in 1..me {
                        add(first, participant);
                    }
                    vector::add(own, first);
                }
                for participant in me + 1..n {
                    add(own, participant);
                }
                self.coding.round(own);
            } else {
                self.bring_chunks::<T>(&range);
                // SAFETY: as above.
                self.coding.round(unsafe { raw::range_mut(self.leader::<T>(), &range) });
            }
            self.spread::<T>(&range, me);
            self.combined += 1;
            *news = true;
        }
    }

    /// Step 3, out: the sums of my span.
    fn send_sums(&mut self, i: usize, wire: TaggedComm, news: &mut bool) -> Result<()> {
        let me = self.group().me;
        while self.peers[i].sums_out.started < self.peers[i].sums_out.pieces.min(self.combined)
            && self.peers[i].sums_out.has_room()
        {
            let k = self.peers[i].sums_out.started;
            // An encoded piece lies in a slot that all peers share: it must have left for all before it is used again.
            if self.coding != Coding::Plain && self.peers.iter().any(|p| p.sums_out.finished + DEPTH <= k) {
                break;
            }
            let range = self.piece_of(me, k);
            let (at, bytes) = self.encoded(&range, self.sums_slot(k));
            // SAFETY: sums of my span do not change any more while the collective lasts; see `send_summands` for slots.
            let request = unsafe { wire.comm.send(self.peers[i].process, wire.tags[1], at, bytes)? };
            self.peers[i].sums_out.push(request);
            *news = true;
        }
        reap_sent(&mut self.peers[i].sums_out, news)
    }

    /// Step 3, in: the sums of a peer's span.
    fn receive_sums<T: Element>(
        &mut self,
        i: usize,
        wire: TaggedComm,
        queue: &SubmissionQueue,
        news: &mut bool,
    ) -> Result<()> {
        let participant = self.peers[i].participant;
        loop {
            let peer = &self.peers[i];
            let k = peer.sums_in.started;
            // What arrives here is where the summands were: they must have left.
            let left = peer.summands_out.pieces == 0 || peer.summands_out.finished > k;
            if k == peer.sums_in.pieces || !peer.sums_in.has_room() || !left {
                break;
            }
            let range = self.piece_of(participant, k);
            let (at, len) = match self.coding {
                // SAFETY: within the leader's buffer.
                Coding::Plain => (unsafe { self.leader::<T>().add(range.start) }.cast(), range.len() * size_of::<T>()),
                _ => (self.slot_at((i * self.coding.slots_per_peer() + 2) * DEPTH + k % DEPTH), self.slot),
            };
            // SAFETY: nobody else touches this piece of the leader's buffer, or the slot, until it has come.
            let request = unsafe { wire.comm.receive(self.peers[i].process, wire.tags[1], at, len)? };
            self.peers[i].sums_in.push(request);
        }
        loop {
            let k = self.peers[i].sums_in.finished;
            let Some(request) = self.peers[i].sums_in.oldest() else { return Ok(()) };
            let Some(bytes) = request.ask(Request::test_received)? else { return Ok(()) };
            let range = self.piece_of(participant, k);
            self.expect(bytes, &range, i, queue)?;
            if self.coding != Coding::Plain {
                let slot = self.slot_at((i * self.coding.slots_per_peer() + 2) * DEPTH + k % DEPTH);
                // SAFETY: the piece has come; nothing under way touches this part of the leader's buffer.
                unsafe { self.coding.decode(raw::range_mut(self.leader::<T>(), &range), slot) };
            }
            self.spread::<T>(&range, participant);
            self.peers[i].sums_in.finished += 1;
            *news = true;
        }
    }

    fn expect(&self, bytes: usize, range: &Range<usize>, i: usize, queue: &SubmissionQueue) -> Result<()> {
        let first = self.group().participants[self.peers[i].participant].members.start;
        if self.coding.fits(bytes, range.len(), self.dtype) {
            // What crosses is counted once, for the rank whose buffer travels.
            queue.count(self.loans[0].local, self.group().ranks[first], bytes);
            return Ok(());
        }
        Err(Error::internal(format!(
            "{} of seq {}: {bytes} bytes came from {}, {} elements were expected",
            self.what,
            self.seq,
            queue.name(self.group().ranks[first]),
            range.len()
        )))
    }

    fn leader<T>(&self) -> *mut T {
        self.loans[0].data.as_ptr().as_ptr().cast()
    }

    /// Step 1: adds up the ranks of this process, into the leader's buffer.
    fn sum_locally<T: Element>(&mut self, range: &Range<usize>) {
        for loan in &self.loans[1..] {
            // SAFETY: buffers on loan are exclusive of one another; no message under way touches this piece.
            let (sum, x) = unsafe {
                (raw::range_mut(self.leader::<T>(), range), raw::range(loan.data.as_ptr().as_ptr().cast::<T>(), range))
            };
            vector::add(sum, x);
        }
    }

    /// The other way round, for an all-gather: what the ranks of this process bring, into the leader's buffer.
    fn bring_chunks<T: Element>(&mut self, range: &Range<usize>) {
        for (j, loan) in self.loans.iter().enumerate().skip(1) {
            let own = overlap(range, &self.chunk_of(j));
            // SAFETY: as in `sum_locally`.
            unsafe {
                raw::range_mut(self.leader::<T>(), &own)
                    .copy_from_slice(raw::range(loan.data.as_ptr().as_ptr().cast(), &own));
            }
        }
    }

    /// Hands a finished piece of the leader's buffer to the other ranks of this process.
    fn spread<T: Element>(&mut self, range: &Range<usize>, participant: usize) {
        let me = self.group().me;
        for (j, loan) in self.loans.iter().enumerate().skip(1) {
            let chunk = self.chunk_of(j);
            let copy = |range: Range<usize>| {
                if !range.is_empty() {
                    // SAFETY: as in `sum_locally`.
                    unsafe {
                        raw::range_mut(loan.data.as_ptr().as_ptr().cast::<T>(), &range)
                            .copy_from_slice(raw::range(self.leader(), &range));
                    }
                }
            };
            match self.what.what {
                Collective::ReduceScatter => copy(overlap(range, &chunk)),
                // Its own chunk it has already.
                Collective::AllGather if participant == me && self.coding == Coding::Plain => {
                    copy(range.start..range.end.min(chunk.start).max(range.start));
                    copy(range.start.max(chunk.end).min(range.end)..range.end);
                }
                _ => copy(range.clone()),
            }
        }
    }

    /// The chunk of the `j`th rank of this process.
    fn chunk_of(&self, j: usize) -> Range<usize> {
        let group = self.group();
        chunk(self.len, group.ranks.len(), group.participants[group.me].members.start + j)
    }

    fn slot_at(&self, index: usize) -> *mut u8 {
        self.slots.0.wrapping_add(index * self.slot)
    }

    fn summands_slot(&self, i: usize, k: usize) -> *mut u8 {
        self.slot_at((i * self.coding.slots_per_peer() + 1) * DEPTH + k % DEPTH)
    }

    fn sums_slot(&self, k: usize) -> *mut u8 {
        self.slot_at(self.peers.len() * DEPTH * self.coding.slots_per_peer() + k % DEPTH)
    }

    /// Room for one decoded piece.
    fn spare(&self) -> *mut u8 {
        self.slot_at(self.peers.len() * DEPTH * self.coding.slots_per_peer() + DEPTH)
    }

    /// Where the bytes of a piece are, as they travel.
    fn encoded(&self, range: &Range<usize>, slot: *mut u8) -> (*const u8, usize) {
        let size = self.dtype.size();
        let at = self.loans[0].data.as_ptr().as_ptr().wrapping_add(range.start * size);
        match self.coding {
            Coding::Plain => (at, range.len() * size),
            // SAFETY: nothing under way writes to this piece; the slot is free and long enough.
            coding => (slot, unsafe { coding.encode(from_raw_parts(at.cast::<f32>(), range.len()), slot) }),
        }
    }

    /// Gives the buffers back.
    pub(super) fn close(&mut self, queue: &SubmissionQueue, pool: &mut Vec<Vec<u8>>) {
        self.slots = Slots(std::ptr::null_mut());
        pool.push(std::mem::take(&mut self.scratch));
        self.group = None;
        let there = self.there.unwrap_or_else(Instant::now);
        for loan in self.loans.drain(..) {
            queue.complete(loan.local, Completion { index: loan.index, data: loan.data, there });
        }
        self.active = false;
    }

    /// The first rank of every process that is waited for, and whether it has begun.
    pub(super) fn missing(&self, queue: &SubmissionQueue) -> Vec<(usize, bool)> {
        let group = self.group();
        if !self.is_ready() {
            let participant = &group.participants[group.me];
            let here = |rank: usize| self.loans.iter().any(|l| l.local == rank - queue.first[queue.process]);
            return participant
                .members
                .clone()
                .map(|m| group.ranks[m])
                .filter(|&r| !here(r))
                .map(|r| (r, false))
                .collect();
        }
        let first = |p: &Peer| group.ranks[group.participants[p.participant].members.start];
        let late: Vec<_> = self.peers.iter().filter(|p| !p.has_begun()).map(|p| (first(p), false)).collect();
        if !late.is_empty() {
            return late;
        }
        self.peers.iter().filter(|p| !p.is_done()).map(|p| (first(p), true)).collect()
    }
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    let start = a.start.max(b.start);
    start..a.end.min(b.end).max(start)
}
