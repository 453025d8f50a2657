//! Decoded samples in memory.

use super::{Turns, decoded_bytes};
use paceline_base::stage::Stage;
use paceline_base::{Error, text};
use paceline_data::{Labelled, Result, Scratch, Source, forward_to};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// A source whose samples are decoded once and kept in memory.
pub struct MemoryCache {
    of: Arc<dyn Source>,
    kept: Vec<OnceLock<Box<[u8]>>>,
    turns: Turns,
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
                "data.cache=memory would take {} for {} decoded samples, but at most {} may be used (data.cache_limit); use \
                 data.cache=disk, or a smaller data.size",
                text::bytes(bytes),
                of.len(),
                text::bytes(limit)
            )));
        }
        let kept = (0..of.len()).map(|_| OnceLock::new()).collect();
        Ok(Self { of, kept, turns: Turns::new() })
    }
}

impl Labelled for MemoryCache {
    forward_to!(of: len, shape, class_names, label, target_kind, target, fingerprint);
}

impl Source for MemoryCache {
    forward_to!(of: place, stored);

    fn fetch(&self, index: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<()> {
        let mut begin = Instant::now();
        if self.kept[index].get().is_none() {
            let _turn = self.turns.take(index);
            if self.kept[index].get().is_none() {
                self.of.fetch(index, scratch, out)?;
                begin = Instant::now();
                let _ = self.kept[index].set(Box::from(&*out));
                scratch.times.add(Stage::Cache, begin);
                return Ok(());
            }
            begin = Instant::now(); // another thread decoded it; waiting for that is no work of the cache
        }
        if let Some(bytes) = self.kept[index].get() {
            out.copy_from_slice(bytes);
        }
        scratch.times.add(Stage::Cache, begin);
        Ok(())
    }

    fn cache_key(&self) -> String {
        self.of.cache_key()
    }
}
