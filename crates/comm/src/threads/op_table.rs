//! The operations that one rank has under way, and those of them that are not complete, in the order of issue.

use super::op::{Op, OpState};
use crate::Ticket;
use crate::tickets::{ROOM, TicketTable};
use paceline_base::Result;
use paceline_base::Staging;

/// A table of tickets with the list of what is pending, so that progress looks at nothing else.
pub(super) struct OpTable {
    ops: TicketTable<Op>,
    /// Not yet complete, in the order of issue.
    pending: Vec<u16>,
}

impl OpTable {
    pub(super) fn new() -> Self {
        Self { ops: TicketTable::new(), pending: Vec::with_capacity(ROOM) }
    }

    /// Takes in an operation that is pending.
    pub(super) fn add(&mut self, op: Op) -> Result<(u16, Ticket)> {
        let (index, ticket) = self.ops.insert(op)?;
        self.pending.push(index);
        Ok((index, ticket))
    }

    /// The index of a ticket.
    pub(super) fn find(&self, ticket: Ticket) -> Result<u16> {
        self.ops.find(ticket)
    }

    pub(super) fn get(&self, index: u16) -> &Op {
        self.ops.get(index)
    }

    pub(super) fn is_complete(&self, index: u16) -> bool {
        self.get(index).state == OpState::Complete
    }

    /// Ends a complete operation.
    pub(super) fn remove(&mut self, index: u16) -> Staging {
        self.ops.remove(index).data.expect("a complete operation holds its buffer")
    }

    /// Moves one pending operation on.
    pub(super) fn one(&mut self, index: u16, advance: impl FnOnce(&mut Op) -> Result<bool>) -> Result<()> {
        let op = self.ops.get_mut(index);
        if advance(op)? && op.state == OpState::Complete {
            let at = self.pending.iter().position(|&i| i == index);
            self.pending.remove(at.expect("it was pending"));
        }
        Ok(())
    }

    /// Moves all pending operations on; true if any moved.
    pub(super) fn each_pending(&mut self, mut advance: impl FnMut(&mut Op) -> Result<bool>) -> Result<bool> {
        let mut news = false;
        let mut at = 0;
        while at < self.pending.len() {
            let op = self.ops.get_mut(self.pending[at]);
            news |= advance(op)?;
            if op.state == OpState::Complete {
                self.pending.remove(at);
            } else {
                at += 1;
            }
        }
        Ok(news)
    }

    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(super) fn first_pending(&self) -> Option<&Op> {
        self.pending.first().map(|&index| self.ops.get(index))
    }
}
