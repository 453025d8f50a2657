//! From a stored image to the pixels of a sample: decode, bring to the wanted size, check.

use super::{Scratch, Stage};
use crate::{DataError, Result};
use paceline_image::{Colour, Fit, Limits, Pixels, Target, Window, header};
use std::time::Instant;

/// How images become samples of one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Canvas {
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
        let begin = Instant::now();
        let window = match self.fit {
            Some(fit) => {
                let decoded = scratch.decoder.decode_for(bytes, colour, &self.target(fit), &mut scratch.pixels);
                Some(decoded.map_err(|e| bad(&place(), &e))?.1)
            }
            None => {
                scratch.decoder.decode(bytes, colour, &mut scratch.pixels).map_err(|e| bad(&place(), &e))?;
                None
            }
        };
        let Scratch { pixels, resized, resizer, times, .. } = scratch;
        let begin = times.add(Stage::Decode, begin);
        let from = match (window, self.fit) {
            (Some(window), Some(fit)) if !self.holds(pixels, &window) => {
                resizer.resize(pixels, &window, &self.target(fit), resized);
                times.add(Stage::Resize, begin);
                resized
            }
            _ => pixels,
        };
        self.copy(place, from, out)
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
        let Scratch { pixels, resized, resizer, times, .. } = scratch;
        let [height, width, channels] = stored;
        pixels.data.clear();
        pixels.data.extend_from_slice(bytes);
        (pixels.width, pixels.height, pixels.channels) = (width, height, channels);
        let begin = times.add(Stage::Read, begin);
        resizer.resize(pixels, &self.window(width as f64, height as f64, fit), &self.target(fit), resized);
        times.add(Stage::Resize, begin);
        self.copy(place, resized, out)
    }

    /// The part of an image that is kept.
    fn window(&self, width: f64, height: f64, fit: Fit) -> Window {
        let (mut w, mut h) = (width, height);
        if fit == Fit::Crop {
            let wanted = self.shape[1] as f64 / self.shape[0] as f64;
            (w, h) = (w.min(h * wanted), h.min(w / wanted));
        }
        Window { left: (width - w) / 2.0, top: (height - h) / 2.0, width: w, height: h }
    }

    fn holds(&self, pixels: &Pixels, window: &Window) -> bool {
        let [height, width, _] = self.shape;
        (pixels.width, pixels.height) == (width, height)
            && *window == (Window { left: 0.0, top: 0.0, width: width as f64, height: height as f64 })
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
