//! Samples that must be fetched and decoded: record shards and image files.

use super::in_memory::InMemory;
use super::{Features, Labelled, Samples, fingerprint_of};
use crate::{DataError, Result, forward_to};
use paceline_image::{Decoder, Pixels, Resizer};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A step on the way from a file to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Getting the stored bytes.
    Read = 0,
    /// Bytes to pixels.
    Decode = 1,
    /// Pixels to the wanted size.
    Resize = 2,
    /// Keeping decoded samples, and getting them again.
    Cache = 3,
    /// Flip, crop and colours.
    Augment = 4,
}

impl Stage {
    /// All stages, in the order in which a sample passes them.
    pub const ALL: [Stage; 5] = [Stage::Read, Stage::Decode, Stage::Resize, Stage::Cache, Stage::Augment];

    /// The word for it.
    pub fn name(self) -> &'static str {
        ["read", "decode", "resize", "cache", "augment"][self as usize]
    }
}

/// How long each stage was busy and how many samples passed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Time by stage.
    pub busy: [Duration; Stage::ALL.len()],
    /// Samples by stage.
    pub count: [u64; Stage::ALL.len()],
}

impl StageTimes {
    /// Counts the time since `since` for a stage, and gives the time now.
    pub fn add(&mut self, stage: Stage, since: Instant) -> Instant {
        let now = Instant::now();
        self.busy[stage as usize] += now - since;
        self.count[stage as usize] += 1;
        now
    }
}

/// What a worker keeps between samples, so that it allocates only for the largest.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Decodes.
    pub decoder: Decoder,
    /// Resizes.
    pub resizer: Resizer,
    /// A decoded image.
    pub pixels: Pixels,
    /// A resized image.
    pub resized: Pixels,
    /// A file.
    pub bytes: Vec<u8>,
    /// What was done so far.
    pub times: StageTimes,
}

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
    forward_to!(0: len, shape, class_names, label, fingerprint);
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
