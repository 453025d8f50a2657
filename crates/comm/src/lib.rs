//! How ranks meet: messages between two, collectives among many, and nothing about what the numbers mean.
//!
//! A rank holds one [`Comm`]. It *starts* an operation, which returns at once with a [`Ticket`] and keeps the buffer on
//! loan; computes; and *waits* for the ticket, which brings the buffer back. Every rank issues the same operations in
//! the same global order (their sequence numbers say so, and are checked), which is why nothing can deadlock. Sums run
//! in rank order, so that every rank gets the same bits.
//!
//! When a rank fails, all others fail with an error that names it, and whose [`peer`](paceline_base::Error::peer) says that
//! it is an echo: nobody waits for a rank that is gone.
//!
//! There are two transports. [`threads`](fn@threads) makes ranks that are threads of this process, below. A [`World`] makes
//! ranks over all processes of a job, connected by MPI where a launcher started several (feature `mpi`); both give the
//! same bits. Nothing here prints, handles signals or ends the process, and nothing is shared by two jobs in one process
//! but MPI itself, which can be begun once.
//!
//! ```
//! use paceline_comm::{Collective, Comm, host, threads};
//!
//! # fn main() -> paceline_base::Result<()> {
//! // Three ranks average their gradients. Each adds up a third of them and hands its sum to the others.
//! let ranks: Vec<_> = threads(3)
//!     .into_iter()
//!     .map(|mut comm| {
//!         std::thread::spawn(move || -> paceline_base::Result<Vec<f32>> {
//!             let all = comm.group(&[0, 1, 2])?;
//!             let gradients = host::stage(&[comm.rank() as f32, 1.0]);
//!             let ticket = comm.start(Collective::AllReduce.into(), all, 0, gradients)?;
//!             // … the backward pass of the layer before runs here …
//!             let sum = comm.wait(ticket)?;
//!             Ok(host::values::<f32>(&sum).to_vec())
//!         })
//!     })
//!     .collect();
//! for rank in ranks {
//!     assert_eq!(rank.join().unwrap()?, [0.0 + 1.0 + 2.0, 3.0]);
//! }
//! # Ok(())
//! # }
//! ```

mod agree;
mod backoff;
mod bf16;
mod comm;
pub mod faults;
pub mod host;
mod meter;
#[cfg(feature = "mpi")]
pub mod mpi;
mod parker;
mod raw;
mod started;
mod sum;
pub mod threads;
mod tickets;
mod waiting;
pub mod world;

pub use agree::agree;
pub use comm::{Comm, Counters, GroupId, Ticket};
pub use paceline_base::collective::{Collective, Encoding, Exchange, chunk, elements_moved};
pub use started::{Started, processes_here};
pub use threads::{Threads, single, threads};
pub use waiting::WaitingRanks;
pub use world::World;
