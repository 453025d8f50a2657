//! Samples that must be fetched and decoded: record shards and image files.

use super::in_memory::InMemory;
use super::{Features, Labelled, Samples, Scratch, StageTimes, fingerprint_of};
use crate::{DataError, Result, forward_to};
use paceline_base::stage::Stage;
use std::sync::Arc;
use std::time::Instant;

/// Samples of bytes (height × width × channels) that are read and decoded when they are needed, by any number of
/// threads at once.
pub trait Source: Labelled {
    /// Where a sample is stored, for errors: file and record.
    fn place(&self, index: usize) -> String;

    /// What the samples are stored as, in a word: `jpeg`, `raw`, `files`.
    fn stored(&self) -> &'static str;

    /// Writes the sample's bytes; `out` is as long as the shape says. Only a function of the index.
    ///
    /// # Errors
    /// If it cannot be read or decoded; names the place.
    fn fetch(&self, index: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<()>;

    /// What decoded samples are kept under on this machine. It differs wherever the fingerprint does; where that does not
    /// look at every byte, it also holds when the files were written and which they are.
    fn cache_key(&self) -> String {
        self.fingerprint()
    }
}

/// Images in memory as a source, so that they can be augmented like those that are decoded.
pub struct ImagesInMemory(Arc<dyn Samples>);

impl ImagesInMemory {
    /// These samples, if they are images of bytes from 0 to 1: height and width, and perhaps channels.
    pub fn new(samples: Arc<dyn Samples>) -> Option<Self> {
        let image = matches!(samples.shape(), [_, _] | [_, _, 1 | 3]) && !samples.is_empty();
        let plain = || matches!(samples.features(0), Features::U8 { scale, offset, .. } if scale == 1.0 / 255.0 && offset == 0.0);
        (image && plain()).then(|| Self(samples))
    }
}

impl Labelled for ImagesInMemory {
    forward_to!(0: len, shape, class_names, label, target_kind, target, fingerprint);
}

impl Source for ImagesInMemory {
    fn place(&self, index: usize) -> String {
        format!("sample {index}")
    }

    fn stored(&self) -> &'static str {
        "memory"
    }

    fn fetch(&self, index: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<()> {
        let begin = Instant::now();
        let Features::U8 { bytes, .. } = self.0.features(index) else {
            return Err(DataError::LengthMismatch { what: "sample of floats", expected: out.len(), found: 0 });
        };
        out.copy_from_slice(bytes);
        scratch.times.add(Stage::Read, begin);
        Ok(())
    }
}

/// The first samples of a source, decoded into memory: for trials.
pub struct Preview {
    images: InMemory<u8, u32>,
    /// What it took on one thread.
    pub times: StageTimes,
}

impl Preview {
    /// Decodes the samples at the given indices.
    ///
    /// # Errors
    /// Those of [`Source::fetch`].
    pub fn new(source: &dyn Source, indices: impl IntoIterator<Item = usize>) -> Result<Self> {
        let size: usize = source.shape().iter().product();
        let (mut pixels, mut labels, mut scratch) = (Vec::new(), Vec::new(), Scratch::default());
        for index in indices {
            let at = pixels.len();
            pixels.resize(at + size, 0);
            source.fetch(index, &mut scratch, &mut pixels[at..])?;
            labels.push(source.label(index));
        }
        let (shape, class_names) = (source.shape().to_vec(), source.class_names().to_vec());
        Ok(Self { images: InMemory::new(shape, pixels, labels, class_names), times: scratch.times })
    }
}

impl Labelled for Preview {
    forward_to!(images: len, shape, class_names, label);

    fn fingerprint(&self) -> String {
        fingerprint_of([b"preview" as &[u8], &self.images.values])
    }
}

impl Samples for Preview {
    fn features(&self, index: usize) -> Features<'_> {
        Features::pixels(self.images.row(index))
    }
}
