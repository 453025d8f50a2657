//! What to make of the images. The settings and the list of files decide every byte of the shards.

use super::SettingError;
use paceline_base::{Error, Result};
use paceline_data::tfrecord::Packing;
use paceline_image::{Chroma, Colour, Fit, Target};
use serde::{Deserialize, Serialize};

/// What a record holds as its `image`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageFormat {
    /// A JPEG file.
    Jpeg,
    /// The decoded bytes: rows from the top, channels interleaved.
    Raw,
}

/// How shards are made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Width of every image.
    pub width: usize,
    /// Height of every image.
    pub height: usize,
    /// How an image of another shape is brought there: crop, pad or stretch.
    #[serde(with = "fit")]
    pub fit: Fit,
    /// rgb or grey.
    #[serde(with = "colour")]
    pub colour: Colour,
    /// What is stored.
    pub encoding: ImageFormat,
    /// JPEG quality, 1 to 100.
    pub quality: u8,
    /// Colour resolution of the JPEGs: 420 or 444.
    #[serde(with = "chroma")]
    pub chroma: Chroma,
    /// Decode at full scale before resizing.
    pub full_decode: bool,
    /// Shards in all.
    pub shards: usize,
    /// Share of every class of the training images that goes into validation shards; 0 for none, or for the validation
    /// part that the images have.
    pub validation: f64,
    /// Decides the order of the records and the validation part.
    pub seed: u64,
    /// How shards are packed: none, gzip or zlib.
    #[serde(with = "packing")]
    pub packing: Packing,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            width: 192,
            height: 192,
            fit: Fit::Crop,
            colour: Colour::Rgb,
            encoding: ImageFormat::Jpeg,
            quality: 90,
            chroma: Chroma::Half,
            full_decode: false,
            shards: 16,
            validation: 0.0,
            seed: 1,
            packing: Packing::Plain,
        }
    }
}

/// No side of an image may be longer: what JPEG can express.
pub(super) const LONGEST: usize = 65_535;

impl Settings {
    /// Refuses what cannot be made.
    ///
    /// # Errors
    /// The first setting that cannot be.
    pub(crate) fn check(&self) -> Result<(), SettingError> {
        let is_side = |side: usize| (1..=LONGEST).contains(&side);
        if !is_side(self.width) || !is_side(self.height) {
            return Err(SettingError::Size { width: self.width, height: self.height });
        }
        if !(1..=100).contains(&self.quality) {
            return Err(SettingError::Quality(self.quality));
        }
        if self.shards == 0 {
            return Err(SettingError::NoShards);
        }
        if !(0.0..1.0).contains(&self.validation) {
            return Err(SettingError::Validation(self.validation));
        }
        Ok(())
    }

    /// Channels of every image.
    pub(crate) fn channels(&self) -> usize {
        if self.colour == Colour::Grey { 1 } else { 3 }
    }

    /// The size to decode and resize for.
    pub(crate) fn target(&self) -> Target {
        Target { width: self.width, height: self.height, fit: self.fit, full: self.full_decode }
    }

    /// The settings by name, for the index.
    pub(crate) fn table(&self) -> serde_json::Map<String, serde_json::Value> {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::Object(table)) => table,
            _ => serde_json::Map::new(),
        }
    }
}

/// Names for the values of an enum of another crate, for serde and for flags.
macro_rules! names {
    ($(#[$doc:meta])* $module:ident: $Type:ty { $($name:literal => $value:path),* }) => {
        $(#[$doc])*
        pub mod $module {
            use super::*;

            /// The names.
            pub(crate) const NAMES: &[&str] = &[$($name),*];

            /// The name of a value.
            pub(crate) fn name(value: &$Type) -> &'static str {
                match value {
                    $($value => $name,)*
                    #[allow(unreachable_patterns)]
                    _ => "unknown",
                }
            }

            /// The value of a name.
            pub fn parse(text: &str) -> Result<$Type> {
                match text {
                    $($name => Ok($value),)*
                    _ => Err(Error::user(format!(
                        "`{text}` is none of {}{}",
                        NAMES.join(", "),
                        paceline_base::text::did_you_mean(text, NAMES.iter().copied())
                    ))),
                }
            }

            pub(super) fn serialize<S: serde::Serializer>(value: &$Type, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(name(value))
            }

            pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<$Type, D::Error> {
                let text = String::deserialize(from)?;
                parse(&text).map_err(|e| serde::de::Error::custom(e.message()))
            }
        }
    };
}

names! {
    /// Ways to bring an image to a size.
    fit: Fit { "crop" => Fit::Crop, "pad" => Fit::Pad, "stretch" => Fit::Stretch }
}
names! {
    /// Colours of the images.
    colour: Colour { "rgb" => Colour::Rgb, "grey" => Colour::Grey }
}
names! {
    /// Colour resolutions of a JPEG.
    chroma: Chroma { "420" => Chroma::Half, "444" => Chroma::Full }
}
names! {
    /// Packings of a shard.
    packing: Packing { "none" => Packing::Plain, "gzip" => Packing::Gzip, "zlib" => Packing::Zlib }
}
