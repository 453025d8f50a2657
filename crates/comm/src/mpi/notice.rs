//! What processes tell each other beside data: a failure, a question, an answer, a farewell.

use super::ffi::{Communicator, PendingRequest, Request, Tested};
use paceline_base::Result;

const TAG: i32 = 1;

/// One notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// A rank failed, or the first rank of the sender's process for all of them.
    Failed { rank: usize, why: String },
    /// What did your ranks do last?
    Ask,
    /// This, line by line, one for each rank.
    Answer(String),
    /// The sender's ranks have finished and need nothing any more.
    Leave,
}

impl Notice {
    fn encode(&self) -> Vec<u8> {
        match self {
            Self::Failed { rank, why } => [b"F", &(*rank as u64).to_le_bytes()[..], why.as_bytes()].concat(),
            Self::Ask => b"?".to_vec(),
            Self::Answer(text) => [b"A", text.as_bytes()].concat(),
            Self::Leave => b"L".to_vec(),
        }
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match bytes.split_first()? {
            (b'F', rest) => {
                let (rank, why) = rest.split_first_chunk()?;
                Some(Self::Failed { rank: u64::from_le_bytes(*rank) as usize, why: text(why) })
            }
            (b'?', _) => Some(Self::Ask),
            (b'A', rest) => Some(Self::Answer(text(rest))),
            (b'L', _) => Some(Self::Leave),
            _ => None,
        }
    }
}

/// Sends and receives notices. They are rare: here it may allocate.
pub(super) struct NoticeChannel {
    comm: Communicator,
    leaving: Vec<(Vec<u8>, PendingRequest)>,
}

impl NoticeChannel {
    pub(super) fn new(comm: Communicator) -> Self {
        Self { comm, leaving: Vec::new() }
    }

    /// Starts to send a notice.
    pub(super) fn send(&mut self, process: usize, notice: &Notice) -> Result<()> {
        let bytes = notice.encode();
        // SAFETY: the bytes are kept, and do not move, until the request is complete.
        let request = unsafe { self.comm.send(process, TAG, bytes.as_ptr(), bytes.len())? };
        let mut pending = PendingRequest::default();
        pending.put(request);
        self.leaving.push((bytes, pending));
        Ok(())
    }

    /// A notice that has come, and from which process.
    pub(super) fn receive(&mut self) -> Result<Option<(usize, Notice)>> {
        let Some((from, len)) = self.comm.probe(TAG)? else { return Ok(None) };
        let mut bytes = vec![0; len];
        // SAFETY: the bytes live until the request is complete, below.
        let mut request = unsafe { self.comm.receive(from, TAG, bytes.as_mut_ptr(), len)? };
        while let Tested::Pending(again) = request.test_received()? {
            request = again;
            std::hint::spin_loop(); // it is there already
        }
        Ok(Notice::decode(&bytes).map(|notice| (from, notice)))
    }

    /// Whether all that was sent has left.
    pub(super) fn flush(&mut self) -> Result<bool> {
        let mut failed = Ok(());
        self.leaving.retain_mut(|(_, request)| match request.ask(Request::test_sent) {
            Ok(done) => done.is_none(),
            Err(e) => {
                failed = Err(e);
                false
            }
        });
        failed?;
        Ok(self.leaving.is_empty())
    }
}

impl Drop for NoticeChannel {
    fn drop(&mut self) {
        // What has not left may still be read by the library: it must stay.
        std::mem::take(&mut self.leaving).into_iter().for_each(std::mem::forget);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_come_back_and_anything_else_is_none() {
        let why = "rank 300 on b failed: the disk is full".to_string();
        for notice in [Notice::Failed { rank: 300, why }, Notice::Ask, Notice::Answer("a\nb".into()), Notice::Leave] {
            assert_eq!(Notice::decode(&notice.encode()), Some(notice));
        }
        for other in [&b""[..], b"F", b"F1234567", b"x"] {
            assert_eq!(Notice::decode(other), None, "{other:?}");
        }
    }
}
