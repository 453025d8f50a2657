//! Pieces of a collective on their way between this process and the others.

use super::ffi::{Request, Under};
use paceline_base::Result;

/// Pieces of one span on their way to or from one peer.
pub const DEPTH: usize = 4;

/// Pieces that go one way between this process and one other, a few at a time, in order.
pub struct Flow {
    pub pieces: usize,
    pub started: usize,
    pub finished: usize,
    requests: [Under; DEPTH],
}

impl Flow {
    pub fn of(pieces: usize) -> Self {
        Self { pieces, started: 0, finished: 0, requests: Default::default() }
    }

    pub fn room(&self) -> bool {
        self.started - self.finished < DEPTH
    }

    pub fn push(&mut self, request: Request) {
        self.requests[self.started % DEPTH].put(request);
        self.started += 1;
    }

    /// The oldest piece under way.
    pub fn oldest(&mut self) -> Option<&mut Under> {
        (self.started > self.finished).then(|| &mut self.requests[self.finished % DEPTH])
    }

    pub fn is_done(&self) -> bool {
        self.finished == self.pieces
    }
}

/// What passes between this process and one other.
pub struct Peer {
    pub seat: usize,
    pub process: usize,
    pub near: bool,
    /// Summands of its span, to it.
    pub away: Flow,
    /// Summands of my span, from it.
    pub inward: Flow,
    /// Sums of my span, to it.
    pub give: Flow,
    /// Sums of its span, from it.
    pub take: Flow,
}

impl Peer {
    pub fn is_done(&self) -> bool {
        [&self.away, &self.inward, &self.give, &self.take].iter().all(|f| f.is_done())
    }

    pub fn has_begun(&self) -> bool {
        self.inward.finished > 0 || self.take.finished > 0 || (self.inward.pieces == 0 && self.take.pieces == 0)
    }
}

/// Counts what has arrived, in order.
pub fn drain(flow: &mut Flow, news: &mut bool) -> Result<()> {
    while let Some(request) = flow.oldest() {
        if request.ask(Request::test_sent)?.is_none() {
            break;
        }
        flow.finished += 1;
        *news = true;
    }
    Ok(())
}
