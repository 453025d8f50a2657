//! Checkpoints: safetensors plus a manifest with checksums, keyed by global tensor, independent of the plan.
//!
//! ```text
//! checkpoints/step-500/model.safetensors       parameters by global name, whole tensors
//!                      optimizer.safetensors   "<parameter>.<state>"
//!                      manifest.toml           format, progress, model signature, digests
//! ```
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
