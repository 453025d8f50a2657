//! The `Comm` trait: what the engine may ask of whatever connects the ranks.

use crate::Exchange;
use paceline_base::Staging;
use paceline_base::{Error, Result};
use std::time::Duration;

/// A set of ranks that was announced with [`Comm::group`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupId(pub u32);

/// An operation under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub(crate) u32);

/// What this rank moved, and how long that took, since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// `received[r]`: bytes that came from rank `r`.
    pub received: Vec<u64>,
    /// Time inside `wait` in which a peer was not there yet: waiting is not computing.
    pub waiting: Duration,
    /// Time inside any call in which bytes were moved or summed.
    pub moving: Duration,
}

/// How one rank reaches the others.
pub trait Comm: Send {
    /// This rank.
    fn rank(&self) -> usize;

    /// Number of ranks.
    fn size(&self) -> usize;

    /// Announces a group; all its members must announce the same groups in the same order. Ranks ascend.
    fn group(&mut self, ranks: &[usize]) -> Result<GroupId>;

    /// Starts to send; the buffer is on loan until [`wait`](Comm::wait), and is only read: a read-only staging will do.
    /// A message is known by its sender, its receiver and `seq`, which the receiver must give too.
    fn send(&mut self, to: usize, seq: u64, data: Staging) -> Result<Ticket>;

    /// Starts to receive into a buffer of the same size, which must be writable; or into one that [varies](Staging::varies), which is then as
    /// long as the message.
    fn receive(&mut self, from: usize, seq: u64, data: Staging) -> Result<Ticket>;

    /// Starts a collective in place, in a buffer that is writable.
    fn start(&mut self, what: Exchange, group: GroupId, seq: u64, data: Staging) -> Result<Ticket>;

    /// Moves pending operations on, without waiting. Called between kernels.
    fn progress(&mut self) -> Result<()>;

    /// Returns the buffer when the operation is complete. An error names the rank that is missing or failed.
    fn wait(&mut self, ticket: Ticket) -> Result<Staging>;

    /// What was moved so far.
    fn counters(&self) -> &Counters;

    /// Tells all others that this rank gives up, so that they fail instead of waiting.
    fn abort(&mut self, why: &str);
}

/// Which member of a group this rank is; an error if `ranks` can be no group of it. Every transport asks this first.
pub(crate) fn index_in_group(ranks: &[usize], rank: usize, size: usize) -> Result<usize> {
    if let Some(peer) = ranks.iter().find(|&&r| r >= size) {
        return Err(no_such_rank(rank, *peer, size));
    }
    if !ranks.is_sorted_by(|a, b| a < b) {
        return Err(Error::internal(format!("the ranks of a group must ascend: {ranks:?}")));
    }
    ranks
        .iter()
        .position(|&r| r == rank)
        .ok_or_else(|| Error::internal(format!("rank {rank} announces group {ranks:?}, but is not in it")))
}

/// An error for a buffer that would be written, but may only be read.
pub(crate) fn check_writable(rank: usize, seq: u64, data: &Staging) -> Result<()> {
    let refused =
        || Error::internal(format!("rank {rank} would write into a buffer that may only be read, at seq {seq}"));
    if data.is_writable() { Ok(()) } else { Err(refused()) }
}

/// An error for a collective of what cannot be added up.
pub(crate) fn check_floats(rank: usize, what: Exchange, seq: u64, data: &Staging) -> Result<()> {
    let refused = || {
        Error::internal(format!(
            "rank {rank} starts the {what} of seq {seq} with {:?}: only floats take part",
            data.dtype()
        ))
    };
    if data.dtype().is_float() { Ok(()) } else { Err(refused()) }
}

/// `rank` names a rank that is not there.
pub(crate) fn no_such_rank(rank: usize, peer: usize, size: usize) -> Error {
    Error::internal(format!("rank {rank} addresses rank {peer}, but there are only {size} ranks"))
}

/// `rank` starts a collective in a group that [`Comm::group`] never gave it.
pub(crate) fn no_such_group(rank: usize, what: Exchange, seq: u64) -> Error {
    Error::internal(format!("rank {rank} starts the {what} of seq {seq} in a group it never announced"))
}

impl<C: Comm + ?Sized> Comm for Box<C> {
    fn rank(&self) -> usize {
        (**self).rank()
    }

    fn size(&self) -> usize {
        (**self).size()
    }

    fn group(&mut self, ranks: &[usize]) -> Result<GroupId> {
        (**self).group(ranks)
    }

    fn send(&mut self, to: usize, seq: u64, data: Staging) -> Result<Ticket> {
        (**self).send(to, seq, data)
    }

    fn receive(&mut self, from: usize, seq: u64, data: Staging) -> Result<Ticket> {
        (**self).receive(from, seq, data)
    }

    fn start(&mut self, what: Exchange, group: GroupId, seq: u64, data: Staging) -> Result<Ticket> {
        (**self).start(what, group, seq, data)
    }

    fn progress(&mut self) -> Result<()> {
        (**self).progress()
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Staging> {
        (**self).wait(ticket)
    }

    fn counters(&self) -> &Counters {
        (**self).counters()
    }

    fn abort(&mut self, why: &str) {
        (**self).abort(why);
    }
}
