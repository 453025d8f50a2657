//! A point-to-point operation: a message between a rank of this process and one of another.

use super::ffi::{Communicator, PendingRequest, Request};
use super::submission::{Completion, SubmissionQueue};
use paceline_base::Staging;
use paceline_base::{Error, Result};
use std::time::Instant;

/// MPI counts bytes in 31 bits; longer messages go in several.
const LARGEST: usize = 1 << 30;

/// A message under way to or from another process; kept for the next one when it is complete, so that nothing is allocated.
pub(super) struct PointToPoint {
    /// This end.
    pub(super) local: usize,
    pub(super) index: u16,
    pub(super) seq: u64,
    /// The other end.
    pub(super) peer: usize,
    pub(super) sends: bool,
    data: Option<Staging>,
    requests: Vec<PendingRequest>,
    done: usize,
}

impl PointToPoint {
    /// A message that is not under way.
    pub(super) fn new() -> Self {
        let requests = Vec::with_capacity(1);
        Self { local: 0, index: 0, seq: 0, peer: 0, sends: false, data: None, requests, done: 0 }
    }

    /// Hands the message to MPI.
    #[allow(clippy::too_many_arguments)] // all that makes a message
    pub(super) fn begin(
        &mut self,
        comm: Communicator,
        tag: i32,
        sends: bool,
        (peer, process): (usize, usize),
        (local, index): (usize, u16),
        seq: u64,
        data: Staging,
    ) -> Result<()> {
        (self.local, self.index, self.seq, self.peer, self.sends, self.done) = (local, index, seq, peer, sends, 0);
        self.requests.clear();
        // What a message of unknown length needs is received at once; both ends know that no longer one is sent.
        let bytes = if sends { data.bytes().len() } else { data.largest() * data.dtype().size() };
        if data.varies() && bytes > LARGEST {
            return Err(Error::user(format!(
                "message of seq {seq}: a message whose length varies has at most {LARGEST} bytes, but {bytes} are planned; use a smaller \
                 batch or shorter lists"
            )));
        }
        let at = data.as_ptr().as_ptr();
        self.data = Some(data);
        let mut from = 0;
        loop {
            let n = (bytes - from).min(LARGEST);
            // SAFETY: the staging is kept in `data` until all requests are complete, and is ours alone.
            let request = unsafe {
                match sends {
                    true => comm.send(process, tag, at.add(from), n)?,
                    false => comm.receive(process, tag, at.add(from), n)?,
                }
            };
            let mut pending = PendingRequest::default();
            pending.put(request);
            self.requests.push(pending);
            from += n;
            if from >= bytes {
                return Ok(());
            }
        }
    }

    /// Moves on; the result when it is complete.
    pub(super) fn advance(&mut self, queue: &SubmissionQueue, news: &mut bool) -> Result<Option<Completion>> {
        while self.done < self.requests.len() {
            let data = self.data.as_mut().expect("a message under way holds its buffer");
            let expected = (data.bytes().len() - self.done * LARGEST).min(LARGEST);
            let request = &mut self.requests[self.done];
            let test = if self.sends { Request::test_sent } else { Request::test_received };
            match request.ask(test)? {
                None => return Ok(None),
                Some(n) if !self.sends && data.varies() && n.is_multiple_of(data.dtype().size()) => {
                    data.set_len(n / data.dtype().size());
                }
                Some(n) if !self.sends && n != expected => {
                    return Err(Error::internal(format!(
                        "message of seq {} from {}: {n} bytes came, {expected} were expected",
                        self.seq,
                        queue.name(self.peer)
                    )));
                }
                Some(_) => {}
            }
            (self.done, *news) = (self.done + 1, true);
        }
        let data = self.data.take().expect("a message under way holds its buffer");
        if !self.sends {
            queue.count(self.local, self.peer, data.bytes().len());
        }
        Ok(Some(Completion { index: self.index, data, there: Instant::now() }))
    }
}
