//! Decoded samples that are kept, before augmentation: in memory or in a file.
//!
//! A cache is a source around a source. It is filled while the first epoch is read; after that nothing is decoded again. Where two
//! epochs meet, a sample may be wanted again while another thread still decodes it: then that one is waited for.

mod disk;
mod file;
mod folder;
mod memory;
mod owner;

pub use disk::DiskCache;
pub use folder::{CacheFile, Cleared, Selection, State, clear, list};
pub use memory::MemoryCache;
pub use owner::Owner;

use paceline_data::Labelled;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Who decodes a sample: one thread at a time for each, so that whoever comes second finds it kept.
struct Turns([Mutex<()>; 64]);

impl Turns {
    fn new() -> Self {
        Self(std::array::from_fn(|_| Mutex::new(())))
    }

    /// Waits for the turn of this sample. (Others may share its lock; they are few, and decoding is short.)
    fn take(&self, index: usize) -> MutexGuard<'_, ()> {
        self.0[index % self.0.len()].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that all samples of a source take when they are decoded.
pub fn decoded_bytes(source: &dyn Labelled) -> u64 {
    source.len() as u64 * source.shape().iter().product::<usize>() as u64
}
