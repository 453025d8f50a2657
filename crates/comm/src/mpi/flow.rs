//! Pieces of a collective on their way between this process and the others.

use super::ffi::{PendingRequest, Request};
use paceline_base::Result;

/// Pieces of one span on their way to or from one peer.
pub(super) const DEPTH: usize = 4;

/// Pieces that go one way between this process and one other, a few at a time, in order.
pub(super) struct Flow {
    pub(super) pieces: usize,
    pub(super) started: usize,
    pub(super) finished: usize,
    requests: [PendingRequest; DEPTH],
}

impl Flow {
    pub(super) fn of(pieces: usize) -> Self {
        Self { pieces, started: 0, finished: 0, requests: Default::default() }
    }

    pub(super) fn has_room(&self) -> bool {
        self.started - self.finished < DEPTH
    }

    pub(super) fn push(&mut self, request: Request) {
        self.requests[self.started % DEPTH].put(request);
        self.started += 1;
    }

    /// The oldest piece under way.
    pub(super) fn oldest(&mut self) -> Option<&mut PendingRequest> {
        (self.started > self.finished).then(|| &mut self.requests[self.finished % DEPTH])
    }

    pub(super) fn is_done(&self) -> bool {
        self.finished == self.pieces
    }
}

/// What passes between this process and one other.
pub(super) struct Peer {
    pub(super) participant: usize,
    pub(super) process: usize,
    pub(super) near: bool,
    /// Summands of its span, to it.
    pub(super) summands_out: Flow,
    /// Summands of my span, from it.
    pub(super) summands_in: Flow,
    /// Sums of my span, to it.
    pub(super) sums_out: Flow,
    /// Sums of its span, from it.
    pub(super) sums_in: Flow,
}

impl Peer {
    pub(super) fn is_done(&self) -> bool {
        [&self.summands_out, &self.summands_in, &self.sums_out, &self.sums_in].iter().all(|f| f.is_done())
    }

    pub(super) fn has_begun(&self) -> bool {
        self.summands_in.finished > 0
            || self.sums_in.finished > 0
            || (self.summands_in.pieces == 0 && self.sums_in.pieces == 0)
    }
}

/// Counts the pieces that have left, in order.
pub(super) fn reap_sent(flow: &mut Flow, news: &mut bool) -> Result<()> {
    while let Some(request) = flow.oldest() {
        if request.ask(Request::test_sent)?.is_none() {
            break;
        }
        flow.finished += 1;
        *news = true;
    }
    Ok(())
}
