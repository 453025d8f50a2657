//! A job over processes and hosts: started through `mpirun`, watched from outside MPI, restarted from its last checkpoint.

mod facts;
mod tether;
mod word;

pub use facts::{Facts, Problem, check, unseen};
pub use tether::{Line, Tether};
pub use word::{Beat, Doing, Orders, Progress};
