//! One image on its way from a file to a record.

use super::{Encoding, Settings};
use crate::stage::Clock;
use paceline_data::example::{self, Value};
use paceline_image::{Decoder, Encoder, ImageError, Pixels, Resizer};
use std::time::{Duration, Instant};

/// The stages that a worker goes through with every image.
#[derive(Debug, Default)]
pub struct Clocks {
    /// An image file to pixels.
    pub decode: Clock,
    /// To the wanted size.
    pub resize: Clock,
    /// Pixels to JPEG, and the record around it.
    pub encode: Clock,
}

/// Turns image files into records; keeps its scratch memory.
pub struct RecordMaker<'a> {
    settings: &'a Settings,
    classes: &'a [String],
    clocks: &'a Clocks,
    decoder: Decoder,
    resizer: Resizer,
    encoder: Encoder,
    decoded: Pixels,
    resized: Pixels,
    image: Vec<u8>,
    one_hot: Vec<f32>,
    stage: &'static str,
}

impl<'a> RecordMaker<'a> {
    /// A maker of records.
    pub fn new(settings: &'a Settings, classes: &'a [String], clocks: &'a Clocks) -> Self {
        Self {
            settings,
            classes,
            clocks,
            decoder: Decoder::default(),
            resizer: Resizer::default(),
            encoder: Encoder::new(settings.quality, settings.chroma),
            decoded: Pixels::default(),
            resized: Pixels::default(),
            image: Vec::new(),
            one_hot: vec![0.0; classes.len()],
            stage: "decode",
        }
    }

    /// Writes the record of an image into `record` (cleared first).
    pub fn make(&mut self, bytes: &[u8], class: usize, record: &mut Vec<u8>) -> Result<(), ImageError> {
        self.stage = "decode";
        let begin = Instant::now();
        let target = self.settings.target();
        let (_, window) = self.decoder.decode_for(bytes, self.settings.colour, &target, &mut self.decoded)?;
        let decoded = Instant::now();
        self.clocks.decode.worked(self.decoded.data.len(), decoded - begin);
        self.stage = "resize";
        self.resizer.resize(&self.decoded, &window, &target, &mut self.resized);
        let resized = Instant::now();
        self.clocks.resize.worked(self.resized.data.len(), resized - decoded);
        self.stage = "encode";
        let image = match self.settings.encoding {
            Encoding::Raw => &self.resized.data,
            Encoding::Jpeg => {
                self.image.clear();
                self.encoder.encode(&self.resized, &mut self.image)?;
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
        self.clocks.encode.worked(record.len(), resized.elapsed());
        Ok(())
    }

    /// The stage that the last image came to.
    pub fn stage(&self) -> &'static str {
        self.stage
    }

    /// Waiting at either end of the three stages.
    pub fn waited(&self, starved: Duration, blocked: Duration) {
        self.clocks.decode.starved(starved);
        self.clocks.encode.blocked(blocked);
    }
}
