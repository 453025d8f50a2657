//! One image on its way from a file to a record.

use super::{ImageFormat, Settings};
use crate::stage::Clock;
use paceline_base::stage::Stage;
use paceline_data::Scratch;
use paceline_data::example::{self, Value};
use paceline_image::{Encoder, ImageError};
use std::time::{Duration, Instant};

/// The stages that a worker goes through with every image.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    /// An image file to pixels.
    pub decode: Clock,
    /// To the wanted size.
    pub resize: Clock,
    /// Pixels to JPEG, and the record around it.
    pub encode: Clock,
}

/// Turns image files into records; keeps its scratch memory.
pub(super) struct RecordMaker<'a> {
    settings: &'a Settings,
    classes: &'a [String],
    clocks: &'a Clocks,
    scratch: Scratch,
    encoder: Encoder,
    image: Vec<u8>,
    one_hot: Vec<f32>,
    encoding: bool,
}

impl<'a> RecordMaker<'a> {
    /// A maker of records.
    pub(super) fn new(settings: &'a Settings, classes: &'a [String], clocks: &'a Clocks) -> Self {
        Self {
            settings,
            classes,
            clocks,
            scratch: Scratch::default(),
            encoder: Encoder::new(settings.quality, settings.chroma),
            image: Vec::new(),
            one_hot: vec![0.0; classes.len()],
            encoding: false,
        }
    }

    /// Writes the record of an image into `record` (cleared first).
    pub(crate) fn make(&mut self, bytes: &[u8], class: usize, record: &mut Vec<u8>) -> Result<(), ImageError> {
        self.encoding = false;
        let before = self.scratch.times;
        let pixels = self.scratch.decode_to(bytes, self.settings.colour, &self.settings.target())?;
        let begin = Instant::now();
        self.encoding = true;
        let resized_bytes = pixels.data.len();
        let image = match self.settings.encoding {
            ImageFormat::Raw => &pixels.data,
            ImageFormat::Jpeg => {
                self.image.clear();
                self.encoder.encode(pixels, &mut self.image)?;
                &self.image
            }
        };
        self.one_hot.fill(0.0);
        self.one_hot[class] = 1.0;
        record.clear();
        // The schema of the flowers shards of the field, in the order of names.
        example::write(
            &[
                ("class", Value::Ints(&[class as i64])),
                ("image", Value::Bytes(&[image])),
                ("label", Value::Bytes(&[self.classes[class].as_bytes()])),
                ("one_hot_class", Value::Floats(&self.one_hot)),
                ("size", Value::Ints(&[self.settings.height as i64, self.settings.width as i64])),
            ],
            record,
        );
        let times = &self.scratch.times;
        self.clocks.decode.worked(self.scratch.decoded_bytes(), times.since(&before, Stage::Decode));
        self.clocks.resize.worked(resized_bytes, times.since(&before, Stage::Resize));
        self.clocks.encode.worked(record.len(), begin.elapsed());
        Ok(())
    }

    /// The stage that the last image came to.
    pub(super) fn stage(&self) -> Stage {
        if self.encoding { Stage::Encode } else { self.scratch.stage() }
    }

    /// Waiting at either end of the three stages.
    pub(crate) fn waited(&self, starved: Duration, blocked: Duration) {
        self.clocks.decode.starved(starved);
        self.clocks.encode.blocked(blocked);
    }
}
