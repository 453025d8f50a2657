//! The operations that one rank has under way, found by ticket.
//!
//! A ticket is a place in the table and a generation, so that a ticket that was already waited for is noticed.

use super::op::{Op, OpState};
use crate::Ticket;
use paceline_base::{Error, Result};
use paceline_kernels::Staging;

/// Room for that many operations from the start; a rank that has more under way makes the table grow, once.
const ROOM: usize = 256;

/// See the module's text.
pub(super) struct Table {
    places: Vec<Place>,
    free: Vec<u16>,
    /// Not yet complete, in the order of issue.
    pending: Vec<u16>,
}

struct Place {
    generation: u16,
    op: Option<Op>,
}

impl Table {
    pub fn new() -> Self {
        Self { places: Vec::with_capacity(ROOM), free: Vec::with_capacity(ROOM), pending: Vec::with_capacity(ROOM) }
    }

    /// Takes in an operation that is pending.
    pub fn add(&mut self, op: Op) -> Result<(usize, Ticket)> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let index = u16::try_from(self.places.len()).map_err(|_| {
                    Error::internal(format!("more than {} operations outstanding: wait for some of them", u16::MAX))
                })?;
                self.places.push(Place { generation: 0, op: None });
                index
            }
        };
        let place = &mut self.places[usize::from(index)];
        place.op = Some(op);
        self.pending.push(index);
        Ok((usize::from(index), Ticket(u32::from(place.generation) << 16 | u32::from(index))))
    }

    /// The place of a ticket.
    pub fn find(&self, ticket: Ticket) -> Result<usize> {
        let index = (ticket.0 & 0xffff) as usize;
        match self.places.get(index) {
            Some(place) if u32::from(place.generation) == ticket.0 >> 16 && place.op.is_some() => Ok(index),
            _ => Err(Error::internal("waited for a ticket that is not outstanding")),
        }
    }

    pub fn get(&self, index: usize) -> &Op {
        self.places[index].op.as_ref().expect("an operation under way")
    }

    pub fn is_complete(&self, index: usize) -> bool {
        self.get(index).state == OpState::Complete
    }

    /// Ends a complete operation.
    pub fn remove(&mut self, index: usize) -> Staging {
        let place = &mut self.places[index];
        place.generation = place.generation.wrapping_add(1);
        self.free.push(index as u16);
        let op = place.op.take().expect("an operation under way");
        op.data.expect("a complete operation holds its buffer")
    }

    /// Moves one pending operation on.
    pub fn one(&mut self, index: usize, advance: impl FnOnce(&mut Op) -> Result<bool>) -> Result<()> {
        let op = self.places[index].op.as_mut().expect("an operation under way");
        if advance(op)? && op.state == OpState::Complete {
            let at = self.pending.iter().position(|&i| usize::from(i) == index);
            self.pending.remove(at.expect("it was pending"));
        }
        Ok(())
    }

    /// Moves all pending operations on; true if any moved.
    pub fn each_pending(&mut self, mut advance: impl FnMut(&mut Op) -> Result<bool>) -> Result<bool> {
        let mut news = false;
        let mut at = 0;
        while at < self.pending.len() {
            let index = usize::from(self.pending[at]);
            let op = self.places[index].op.as_mut().expect("an operation under way");
            news |= advance(op)?;
            if op.state == OpState::Complete {
                self.pending.remove(at);
            } else {
                at += 1;
            }
        }
        Ok(news)
    }

    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    pub fn first_pending(&self) -> Option<&Op> {
        self.pending.first().map(|&i| self.get(usize::from(i)))
    }
}
