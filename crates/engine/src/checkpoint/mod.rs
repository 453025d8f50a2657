//! Checkpoints: safetensors plus a manifest with checksums, keyed by global tensor, independent of the plan.
//!
//! ```text
//! checkpoints/step-500/model.safetensors       parameters by global name, whole tensors
//!                      optimizer.safetensors   "<parameter>.<state>"; "<parameter>.held-back.<rank>" under top-k compression
//!                      manifest.toml           format, progress, model signature, digests
//! ```
//!
//! What top-k compression holds back of gradients differs from rank to rank, and is the one thing that depends on their number. With the same
//! number each rank gets its own again; otherwise that of rank r goes to rank r modulo the new number, so that the sum over
//! ranks, which is what training has yet to apply, stays the same.
//!
//! Ranks hand their pieces to rank 0 through `Comm`; a thread of its own writes them to a temporary name, syncs and renames.

mod files;
mod gather;
mod restore;
mod saver;

pub use files::{Checkpoint, Identity, Manifest, Tensor, TensorData, latest, list, load, set_aside_newer};
pub use gather::{Snapshot, gather, save};
pub use restore::{initialize, restore};
pub use saver::{Saver, Written};
