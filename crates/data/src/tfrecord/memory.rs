//! A limit for a whole set: what packed files unpack to, and where their records are, lies in memory.

use crate::RecordError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory that the files of a set may take together; threads take from it as they go.
#[derive(Debug)]
pub(crate) struct Memory {
    limit: u64,
    used: AtomicU64,
}

impl Memory {
    /// Bytes for each record of an opened set: where it begins, where its image lies, its class.
    pub(crate) const PER_RECORD: u64 = 20;

    /// At most so many bytes.
    pub(crate) fn up_to(limit: u64) -> Self {
        Self { limit, used: AtomicU64::new(0) }
    }

    /// Takes some; `file` stands for what they are for.
    ///
    /// # Errors
    /// [`RecordError::NoMemory`] when the set would have more than its limit.
    pub(crate) fn take(&self, bytes: u64, file: &str) -> Result<(), RecordError> {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed);
        if used.saturating_add(bytes) > self.limit {
            return Err(RecordError::NoMemory { file: file.into(), limit: self.limit });
        }
        Ok(())
    }
}

impl Default for Memory {
    /// As much as one packed file may take.
    fn default() -> Self {
        Self::up_to(super::Limits::default().unpacked)
    }
}
