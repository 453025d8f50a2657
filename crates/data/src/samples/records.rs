//! Images in record shards as samples.

use super::canvas::Canvas;
use super::identity::pieces;
use super::{Labelled, Scratch, Source, fingerprint_of};
use crate::shards::{Encoding, Records};
use crate::{DataError, Result, forward_to};
use paceline_base::stage::Stage;
use paceline_image::Fit;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::Instant;

/// Images that are looked at to find out whether a set is grey.
const FIRST: usize = 64;
/// A page of memory: a mapped file is read by touching each.
const PAGE: usize = 4096;

/// The images of record shards, decoded one by one.
pub(crate) struct RecordImages {
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
    pub(crate) fn new(records: Records, size: Option<[usize; 2]>, fit: Fit) -> Result<Self> {
        let stored = records.encoding().shape();
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
    pub(crate) fn shaped(records: Records, shape: [usize; 3], fit: Option<Fit>) -> Self {
        let stored = records.encoding().shape();
        Self { records, canvas: Canvas { shape, fit }, stored, fingerprint: OnceLock::new() }
    }

    pub(crate) fn records(&self) -> &Records {
        &self.records
    }
}

impl Labelled for RecordImages {
    forward_to!(records: len, class_names, label);
    forward_to!(canvas: shape);

    /// Of every record its length, its checksum as the file has it, its label and pieces of its image, and the digests of
    /// the index if there is one. The digests alone would not do: an index may lie beside shards that were replaced.
    fn fingerprint(&self) -> String {
        let take = || {
            let mut hash = Sha256::new();
            for index in 0..self.len() {
                let (image, (length, checksum)) = (self.records.image(index), self.records.frame(index));
                hash.update(length.to_le_bytes());
                hash.update(checksum.to_le_bytes());
                hash.update(self.records.label(index).to_le_bytes());
                hash.update((image.len() as u64).to_le_bytes());
                pieces(image).iter().for_each(|piece| hash.update(piece));
            }
            let (mut words, digests) = (self.canvas.words(), self.records.digests().join(" "));
            if let Encoding::Numbers(_) = self.records.encoding() {
                words += &format!(" {}", self.records.layout().image); // the records alone do not say which list is the image
            }
            fingerprint_of([b"records 2" as &[u8], words.as_bytes(), digests.as_bytes(), &hash.finalize()])
        };
        self.fingerprint.get_or_init(take).clone()
    }
}

impl Source for RecordImages {
    forward_to!(records: place);

    fn stored(&self) -> &'static str {
        if self.stored.is_some() { "raw" } else { "records" }
    }

    fn fetch(&self, index: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<()> {
        if let Some(reason) = self.records.bad(index) {
            return Err(DataError::BadRecord { reason: reason.into() });
        }
        let place = || self.records.place(index);
        let image = self.records.image(index);
        if let (Encoding::Numbers(stored), begin) = (self.records.encoding(), Instant::now()) {
            let mut pixels = std::mem::take(&mut scratch.bytes);
            let read = self.records.pixels(index, &mut pixels);
            scratch.times.add(Stage::Decode, begin);
            let placed = read.and_then(|()| self.canvas.place_raw(&place, stored, &pixels, scratch, out));
            scratch.bytes = pixels;
            return placed;
        }
        if let Some(stored) = self.stored {
            return self.canvas.place_raw(&place, stored, image, scratch, out);
        }
        let begin = Instant::now();
        // The file is mapped: what is not in memory yet is read here, and not charged to the decoder.
        std::hint::black_box(image.iter().step_by(PAGE).fold(0, |all, &byte| all ^ byte));
        scratch.times.add(Stage::Read, begin);
        self.canvas.decode(&place, image, scratch, out)
    }

    /// Checksums that nobody compared with the data say little: then also when the shards were written, and which they are.
    fn cache_key(&self) -> String {
        let fingerprint = self.fingerprint();
        if self.records.is_verified() {
            return fingerprint;
        }
        let stamps: Vec<u8> =
            (0..self.records.shards()).flat_map(|shard| self.records.shard(shard).0.stamp()).collect();
        fingerprint_of([b"unverified" as &[u8], fingerprint.as_bytes(), &stamps])
    }
}
