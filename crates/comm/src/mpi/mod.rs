//! Ranks that are processes, or threads of several processes, connected by MPI.
//!
//! One **progress thread** in each process makes all calls of MPI while its ranks compute. Ranks *submit* operations (a buffer
//! on loan, what to do with it, a sequence number) and take the buffers back when they are complete. A rank that starts an
//! operation or waits for one makes progress itself, on its own thread.
//!
//! Collectives are our own, over messages, and not the library's: sums run in rank order, so that every rank gets the same
//! bits and N processes give the bits of N threads; a peer that is late is known by name; and pieces of a large buffer are
//! summed in the cache while the next ones travel. A collective among processes 0…P−1, where process `p` is responsible for
//! the *span* of chunks of its ranks:
//!
//! 1. Ranks of one process are summed first, in shared memory, piece by piece.
//! 2. Each process sends every other the summands of that one's span, and sums what comes for its own, in process order.
//! 3. Each sends its sums to all others.
//!
//! So every process sends and receives `2 (P−1)/P` of the buffer, which no algorithm can undercut, in two rounds. Two
//! processes that sum little send each other all of it, which are as many bytes in one round.
//! A reduce-scatter leaves step 3 out, an all-gather has only that. Pieces of a span go one after another, a few at a time.
//!
//! Messages of one operation have a tag made of its sequence number, so that operations under way at the same time do not
//! mix. What is not data (a rank failed, where are you, I leave) goes over a communicator of its own ([`notice`]).

mod coding;
mod collective;
mod ffi;
mod flow;
mod group;
mod notice;
mod point_to_point;
mod priority;
mod progress_state;
mod progress_thread;
mod rank;
mod session;
mod submission;

pub(crate) use ffi::library_version;
pub use session::{Session, Settings};
