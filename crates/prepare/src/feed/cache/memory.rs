//! Decoded samples in memory.

use super::{as_within, decoded_bytes};
use paceline_base::{Error, text};
use paceline_data::{Result, Scratch, Source, Stage};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// A source whose samples are decoded once and kept in memory.
pub struct MemoryCache {
    of: Arc<dyn Source>,
    kept: Vec<OnceLock<Box<[u8]>>>,
}

impl MemoryCache {
    /// Around a source; nothing is decoded yet.
    ///
    /// # Errors
    /// If the decoded samples would take more than `limit` bytes.
    pub fn new(of: Arc<dyn Source>, limit: u64) -> paceline_base::Result<Self> {
        let bytes = decoded_bytes(&*of);
        if bytes > limit {
            return Err(Error::user(format!(
                "--cache memory would take {} for {} decoded samples, but at most {} may be used (data.cache_limit); use \
                 --cache disk, or a smaller data.size",
                text::bytes(bytes),
                of.len(),
                text::bytes(limit)
            )));
        }
        let kept = (0..of.len()).map(|_| OnceLock::new()).collect();
        Ok(Self { of, kept })
    }
}

as_within!(MemoryCache);

impl Source for MemoryCache {
    fn place(&self, index: usize) -> String {
        self.of.place(index)
    }

    fn stored(&self) -> &'static str {
        self.of.stored()
    }

    fn fetch(&self, index: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<()> {
        let mut begin = Instant::now();
        match self.kept[index].get() {
            Some(bytes) => out.copy_from_slice(bytes),
            None => {
                self.of.fetch(index, scratch, out)?;
                begin = Instant::now();
                // Two threads may decode one sample at once (of two epochs): both have the same bytes.
                let _ = self.kept[index].set(Box::from(&*out));
            }
        }
        scratch.effort.add(Stage::Cache, begin);
        Ok(())
    }
}
