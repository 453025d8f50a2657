//! Images in record shards as samples.

use super::canvas::Canvas;
use super::{Labelled, Scratch, Source, Stage, as_bytes, fingerprint_of};
use crate::Result;
use crate::shards::{Encoding, Records};
use paceline_image::Fit;
use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::Instant;

/// Images that are looked at to find out whether a set is grey.
const FIRST: usize = 64;
/// A page of memory: a mapped file is read by touching each.
const PAGE: usize = 4096;
/// Bytes at both ends of an image that its fingerprint covers; together with its length they tell images apart.
const ENDS: usize = 32;

/// The images of record shards, decoded one by one.
pub struct RecordImages {
    records: Records,
    canvas: Canvas,
    stored: Option<[usize; 3]>,
    fingerprint: OnceLock<String>,
}

impl RecordImages {
    /// The images of these records, brought to `size` (height and width) if one is given.
    ///
    /// # Errors
    /// If the first image cannot be read.
    pub fn new(records: Records, size: Option<[usize; 2]>, fit: Fit) -> Result<Self> {
        let stored = match records.encoding() {
            Encoding::Raw(shape) => Some(shape),
            Encoding::File => None,
        };
        let known = stored.or(records.index().map(|index| index.shape));
        let canvas = match (known, size) {
            (Some(shape), None) => Canvas { shape, fit: None },
            (Some([_, _, channels]), Some([height, width])) => {
                Canvas { shape: [height, width, channels], fit: Some(fit) }
            }
            (None, size) => {
                let first = (0..records.len().min(FIRST)).map(|i| (records.place(i), Cow::Borrowed(records.image(i))));
                Canvas::for_images(size, fit, first)?
            }
        };
        Ok(Self { records, canvas, stored, fingerprint: OnceLock::new() })
    }

    /// As [`RecordImages::new`], for samples of a shape that is known (height, width, channels): another part of a set.
    /// Where `fit` is none, all images must have that size.
    pub fn shaped(records: Records, shape: [usize; 3], fit: Option<Fit>) -> Self {
        let stored = match records.encoding() {
            Encoding::Raw(shape) => Some(shape),
            Encoding::File => None,
        };
        Self { records, canvas: Canvas { shape, fit }, stored, fingerprint: OnceLock::new() }
    }

    /// The records.
    pub fn records(&self) -> &Records {
        &self.records
    }
}

impl Labelled for RecordImages {
    fn len(&self) -> usize {
        self.records.len()
    }

    fn shape(&self) -> &[usize] {
        &self.canvas.shape
    }

    fn class_names(&self) -> &[String] {
        self.records.classes()
    }

    fn label(&self, index: usize) -> u32 {
        self.records.label(index)
    }

    /// Of lengths, labels and the ends of every image: reading all of a large set would take minutes.
    fn fingerprint(&self) -> String {
        let take = || {
            let mut marks = Vec::with_capacity(self.len() * 4);
            for index in 0..self.len() {
                let image = self.records.image(index);
                let ends = ENDS.min(image.len());
                let sum = crc32c::crc32c_append(crc32c::crc32c(&image[..ends]), &image[image.len() - ends..]);
                marks.extend([image.len(), self.records.label(index) as usize, sum as usize]);
            }
            fingerprint_of([b"records 1" as &[u8], self.canvas.words().as_bytes(), &as_bytes(&marks)])
        };
        self.fingerprint.get_or_init(take).clone()
    }
}

impl Source for RecordImages {
    fn place(&self, index: usize) -> String {
        self.records.place(index)
    }

    fn stored(&self) -> &'static str {
        if self.stored.is_some() { "raw" } else { "records" }
    }

    fn fetch(&self, index: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<()> {
        let place = || self.records.place(index);
        let image = self.records.image(index);
        if let Some(stored) = self.stored {
            return self.canvas.place_raw(&place, stored, image, scratch, out);
        }
        let begin = Instant::now();
        // The file is mapped: what is not in memory yet is read here, and not charged to the decoder.
        std::hint::black_box(image.iter().step_by(PAGE).fold(0, |all, &byte| all ^ byte));
        scratch.effort.add(Stage::Read, begin);
        self.canvas.decode(&place, image, scratch, out)
    }
}
