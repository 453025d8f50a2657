//! From a stored image to the pixels of a sample: decode, bring to the wanted size, check.

use super::Scratch;
use crate::{DataError, Result};
use paceline_base::stage::Stage;
use paceline_image::{Colour, Fit, Limits, Pixels, Target, header};
use std::time::Instant;

/// How images become samples of one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Canvas {
    /// Height, width, channels.
    pub shape: [usize; 3],
    /// How an image of another size is brought to it; none if there may be no other.
    pub fit: Option<Fit>,
}

impl Canvas {
    /// The canvas for a set: of the size asked for, or else that of its first images. Colour unless all of these are
    /// grey.
    pub(super) fn for_images<'a>(
        size: Option<[usize; 2]>,
        fit: Fit,
        first: impl Iterator<Item = (String, std::borrow::Cow<'a, [u8]>)>,
    ) -> Result<Self> {
        let mut shape: Option<[usize; 3]> = None;
        let mut wrong = DataError::Empty { file: "the set".into(), dims: vec![0] };
        for (place, bytes) in first {
            let head = match header(&bytes, &Limits::default()) {
                Ok(head) => head,
                Err(e) => {
                    wrong = bad(&place, &e); // it is found again when it is decoded
                    continue;
                }
            };
            let channels = if head.channels <= 2 { 1 } else { 3 };
            let [.., seen] = shape.get_or_insert([head.height, head.width, channels]);
            *seen = channels.max(*seen);
        }
        let Some(shape) = shape else { return Err(wrong) };
        Ok(match size {
            Some([height, width]) => Self { shape: [height, width, shape[2]], fit: Some(fit) },
            None => Self { shape, fit: None },
        })
    }

    /// The settings as text, for fingerprints.
    pub(super) fn words(&self) -> String {
        format!("{:?} {:?}", self.shape, self.fit)
    }

    pub(super) fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn target(&self, fit: Fit) -> Target {
        Target { width: self.shape[1], height: self.shape[0], fit, full: false }
    }

    /// Decodes an image file into a sample.
    pub(super) fn decode(
        &self,
        place: &dyn Fn() -> String,
        bytes: &[u8],
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<()> {
        let colour = if self.shape[2] == 1 { Colour::Grey } else { Colour::Rgb };
        if let Some(fit) = self.fit {
            let decoded = scratch.decode_to(bytes, colour, &self.target(fit));
            return self.copy(place, decoded.map_err(|e| bad(&place(), &e))?, out);
        }
        let begin = Instant::now();
        scratch.decoder.decode(bytes, colour, &mut scratch.pixels).map_err(|e| bad(&place(), &e))?;
        scratch.times.add(Stage::Decode, begin);
        self.copy(place, &scratch.pixels, out)
    }

    /// Puts stored pixels into a sample.
    pub(super) fn place_raw(
        &self,
        place: &dyn Fn() -> String,
        stored: [usize; 3],
        bytes: &[u8],
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<()> {
        let begin = Instant::now();
        let Some(fit) = self.fit.filter(|_| stored != self.shape) else {
            if bytes.len() != out.len() {
                return Err(self.wrong_size(place, stored));
            }
            out.copy_from_slice(bytes);
            scratch.times.add(Stage::Read, begin);
            return Ok(());
        };
        self.copy(place, scratch.place_to(bytes, stored, &self.target(fit)), out)
    }

    fn copy(&self, place: &dyn Fn() -> String, pixels: &Pixels, out: &mut [u8]) -> Result<()> {
        let found = [pixels.height, pixels.width, pixels.channels];
        if found != self.shape || pixels.data.len() != out.len() {
            return Err(self.wrong_size(place, found));
        }
        out.copy_from_slice(&pixels.data);
        Ok(())
    }

    fn wrong_size(&self, place: &dyn Fn() -> String, found: [usize; 3]) -> DataError {
        DataError::ImageSize { place: place(), expected: self.shape, found }
    }
}

/// An image that cannot be decoded.
pub(super) fn bad(place: &str, error: &paceline_image::ImageError) -> DataError {
    DataError::BadImage { place: place.into(), reason: error.to_string() }
}
