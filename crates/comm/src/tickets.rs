//! The operations that one rank has started and not taken back, found by ticket. Every transport keeps one table.
//!
//! A ticket is an index into the table and a generation, so that a ticket that was already waited for is noticed.

use crate::Ticket;
use paceline_base::{Error, Result};

/// Room for that many operations from the start; a rank that has more under way makes its tables grow, once.
pub(crate) const ROOM: usize = 256;

/// What a transport keeps of each operation (`T`), by ticket. Entries are used again: nothing is allocated as long as no
/// more than [`ROOM`] operations, or than ever before, are outstanding.
pub(crate) struct TicketTable<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u16>,
}

struct Entry<T> {
    /// How many operations had this entry before.
    generation: u16,
    /// None while the entry is free.
    operation: Option<T>,
}

impl<T> TicketTable<T> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::with_capacity(ROOM), free: Vec::with_capacity(ROOM) }
    }

    /// Takes in an operation that was started: its index, and the ticket for whoever started it.
    pub(crate) fn insert(&mut self, operation: T) -> Result<(u16, Ticket)> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let index = u16::try_from(self.entries.len()).map_err(|_| {
                    Error::internal(format!("more than {} operations outstanding: wait for some of them", u16::MAX))
                })?;
                self.entries.push(Entry { generation: 0, operation: None });
                index
            }
        };
        let entry = &mut self.entries[usize::from(index)];
        entry.operation = Some(operation);
        Ok((index, Ticket(u32::from(entry.generation) << 16 | u32::from(index))))
    }

    /// The index of an outstanding ticket.
    pub(crate) fn find(&self, ticket: Ticket) -> Result<u16> {
        let (generation, index) = (ticket.0 >> 16, ticket.0 as u16);
        match self.entries.get(usize::from(index)) {
            Some(entry) if u32::from(entry.generation) == generation && entry.operation.is_some() => Ok(index),
            _ => Err(Error::internal("waited for a ticket that is not outstanding")),
        }
    }

    /// The operation at the index of an outstanding ticket.
    pub(crate) fn get(&self, index: u16) -> &T {
        self.entries[usize::from(index)].operation.as_ref().expect(OUTSTANDING)
    }

    /// As [`get`](Self::get).
    pub(crate) fn get_mut(&mut self, index: u16) -> &mut T {
        self.entries[usize::from(index)].operation.as_mut().expect(OUTSTANDING)
    }

    /// Ends an operation: its ticket is no longer outstanding, and its entry is free for another.
    pub(crate) fn remove(&mut self, index: u16) -> T {
        let entry = &mut self.entries[usize::from(index)];
        let operation = entry.operation.take().expect(OUTSTANDING);
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(index);
        operation
    }

    /// All operations that are outstanding, in no order.
    #[cfg(feature = "mpi")]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().filter_map(|entry| entry.operation.as_ref())
    }
}

/// Whoever holds an index had it from a ticket that is outstanding.
const OUTSTANDING: &str = "an outstanding operation";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_finds_its_operation_until_it_is_taken_back() {
        let mut table = TicketTable::new();
        let (a, ticket_a) = table.insert("a").unwrap();
        let (b, ticket_b) = table.insert("b").unwrap();
        assert_eq!((table.find(ticket_a).unwrap(), table.find(ticket_b).unwrap()), (a, b));
        *table.get_mut(b) = "b, complete";
        assert_eq!((table.remove(a), *table.get(b)), ("a", "b, complete"));
        let error = table.find(ticket_a).unwrap_err();
        assert_eq!(error.message(), "waited for a ticket that is not outstanding");
        assert!(table.find(Ticket(77)).is_err(), "never given out");
    }

    #[test]
    fn an_entry_is_used_again_and_earlier_tickets_of_it_are_noticed() {
        let mut table = TicketTable::new();
        let mut earlier = Vec::new();
        for n in 0..1000 {
            let (index, ticket) = table.insert(n).unwrap();
            assert_eq!((index, *table.get(index)), (0, n));
            assert!(earlier.iter().all(|&t| table.find(t).is_err()), "operation {n}");
            assert_eq!(table.remove(index), n);
            earlier.push(ticket);
        }
    }

    #[test]
    fn within_its_room_a_table_never_grows() {
        let mut table = TicketTable::new();
        let before = (table.entries.capacity(), table.free.capacity());
        for _ in 0..3 {
            let indices: Vec<u16> = (0..ROOM).map(|n| table.insert(n).unwrap().0).collect();
            for index in indices {
                table.remove(index);
            }
        }
        assert_eq!((table.entries.capacity(), table.free.capacity()), before);
    }

    #[test]
    fn too_many_operations_are_an_error_and_not_a_wrong_ticket() {
        let mut table = TicketTable::new();
        for n in 0..=usize::from(u16::MAX) {
            table.insert(n).unwrap();
        }
        let error = table.insert(0).unwrap_err();
        assert_eq!(error.message(), "more than 65535 operations outstanding: wait for some of them");
        table.remove(7);
        assert_eq!(table.insert(0).unwrap().0, 7);
    }
}
