//! Who takes part in a collective, and which process holds whom.

use super::desk::Desk;
use crate::chunk;
use std::ops::Range;

/// A process that takes part, and which members it holds.
#[derive(Debug)]
pub struct Seat {
    pub process: usize,
    /// Whether it runs on this host.
    pub near: bool,
    pub members: Range<usize>,
}

/// The ranks of a collective, and the processes that hold them.
#[derive(Debug)]
pub struct Group {
    pub ranks: Box<[usize]>,
    pub seats: Box<[Seat]>,
    /// Which seat is this process's.
    pub me: usize,
}

impl Group {
    /// Who sits where. `ranks` ascend, and one of them is held by this process.
    pub fn new(ranks: &[usize], desk: &Desk) -> Self {
        let mut seats: Vec<Seat> = Vec::new();
        for (member, &rank) in ranks.iter().enumerate() {
            let process = desk.process_of(rank);
            match seats.last_mut() {
                Some(seat) if seat.process == process => seat.members.end = member + 1,
                _ => {
                    let near = desk.hosts[process] == desk.hosts[desk.process];
                    seats.push(Seat { process, near, members: member..member + 1 });
                }
            }
        }
        let me = seats.iter().position(|s| s.process == desk.process).expect("this process takes part");
        Self { ranks: ranks.into(), seats: seats.into(), me }
    }

    /// The elements that the process of `seat` is responsible for.
    pub fn span(&self, len: usize, seat: usize) -> Range<usize> {
        let (n, m) = (self.ranks.len(), &self.seats[seat].members);
        chunk(len, n, m.start).start..chunk(len, n, m.end - 1).end
    }
}
