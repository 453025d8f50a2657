//! Ranks that are processes, connected by MPI.

mod ffi;
mod session;

pub use session::Session;
