//! What a device has lent, by ranges of its memory: a kernel that would touch a range on loan is refused, under whatever name it knows it.
//!
//! Few loans are open at a time, so that a list is all it takes; checks are on in release builds too.

use crate::device::Event;
use paceline_base::kernel::{BufferId, Slot};
use paceline_base::staging::Lend;
use paceline_base::{Error, Result};

/// A buffer on loan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loan {
    pub(crate) event: Event,
    pub(crate) buffer: BufferId,
    pub(crate) lend: Lend,
    start: usize,
    end: usize,
    taken: bool,
}

/// All open loans of a device.
#[derive(Debug, Default)]
pub(crate) struct Loans {
    open: Vec<Loan>,
}

impl Loans {
    /// An error if anything is on loan.
    pub(crate) fn check_none(&self) -> Result<()> {
        match self.open.first() {
            Some(loan) => Err(Error::internal(format!("buffer {} is lent, and memory cannot change", loan.buffer.0))),
            None => Ok(()),
        }
    }

    /// The loan that forbids to touch the bytes `start..end`, if one does.
    #[inline]
    pub(crate) fn conflict(&self, start: usize, end: usize, writes: bool) -> Option<&Loan> {
        let forbids =
            |l: &&Loan| start < l.end && l.start < end && start < end && l.start < l.end && (writes || l.lend.writes());
        self.open.iter().find(forbids)
    }

    /// Panics if the elements of `slot`, those of `buffer`, may not be touched.
    pub(crate) fn check(&self, what: &str, buffer: BufferId, slot: Slot, writes: bool) {
        if let Some(loan) = self.conflict(slot.at, slot.at + slot.bytes_of(slot.len), writes) {
            refuse(what, buffer, loan);
        }
    }

    /// Lends the elements of `slot`, those of `buffer`.
    ///
    /// # Panics
    /// If another loan forbids it.
    pub(crate) fn lend(&mut self, buffer: BufferId, slot: Slot, lend: Lend, event: Event) {
        self.check("a loan", buffer, slot, lend.writes());
        let end = slot.at + slot.bytes_of(slot.len);
        self.open.push(Loan { event, buffer, lend, start: slot.at, end, taken: false });
    }

    /// The loan of an event, which is handed out now.
    pub(crate) fn take(&mut self, event: Event) -> Result<Loan> {
        let unknown = || Error::internal(format!("nothing is lent at {event:?}, or it was taken already"));
        let loan = self.open.iter_mut().find(|l| l.event == event && !l.taken).ok_or_else(unknown)?;
        loan.taken = true;
        Ok(*loan)
    }

    /// Ends a loan of a buffer.
    ///
    /// # Panics
    /// If it was not lent in this way.
    pub(crate) fn give_back(&mut self, buffer: BufferId, writable: bool) -> Loan {
        let this = |l: &Loan| l.buffer == buffer && l.taken && l.lend.writes() == writable;
        let Some(at) = self.open.iter().position(this) else {
            panic!("buffer {} was not lent{}", buffer.0, if writable { " to be written" } else { " to be read" });
        };
        self.open.swap_remove(at)
    }
}

#[cold]
pub(crate) fn refuse(what: &str, buffer: BufferId, loan: &Loan) -> ! {
    let Loan { buffer: lent, lend, start, end, .. } = loan;
    if *lent == buffer {
        panic!("{what} on buffer {}, which is lent ({lend:?})", buffer.0)
    }
    panic!("{what} on buffer {}, where buffer {} (bytes {start}..{end}) is lent ({lend:?})", buffer.0, lent.0)
}
