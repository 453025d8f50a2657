//! Which features of an Example hold the image and its class.
//!
//! Ours and the flowers of Google's tutorials: `image`, `class`, `label`. TensorFlow's ImageNet shards:
//! `image/encoded`, `image/class/label`, `image/class/text`. TensorFlow Datasets: `image`, `label` (a number). TFX:
//! `image_floats`, `image_class`. The first name that a record has wins, and the layout of the first record is that of the
//! set; names of the user's own go before all of these.

use super::numbers;
use crate::example::{Example, Feature, FeatureKind};
use serde::Serialize;

const IMAGES: [&str; 10] = [
    "image",
    "image/encoded",
    "image_raw",
    "image_bytes",
    "encoded",
    "jpeg",
    "img",
    "image/image_raw",
    "image_floats",
    "pixels",
];
const CLASSES: [&str; 7] = ["class", "image/class/label", "label", "class_id", "class_label", "target", "image_class"];
const NAMES: [&str; 6] = ["label", "image/class/text", "class_name", "class/text", "image/class/synset", "class"];

/// Where height, width and channels stand.
const SHAPES: [[&str; 3]; 4] = [
    ["image/height", "image/width", "image/channels"],
    ["height", "width", "depth"],
    ["height", "width", "channels"],
    ["rows", "cols", "depth"],
];

/// How images are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// As image files: JPEG, PNG, WebP, BMP or GIF.
    File,
    /// As bytes of pixels: height, width, channels.
    Raw([usize; 3]),
    /// As lists of numbers, one for each value of a pixel: height, width, channels.
    Numbers([usize; 3]),
}

impl Encoding {
    /// Height, width and channels, if images are not files.
    pub(crate) fn shape(self) -> Option<[usize; 3]> {
        match self {
            Self::File => None,
            Self::Raw(shape) | Self::Numbers(shape) => Some(shape),
        }
    }
}

/// Features named by the user, where the usual names do not do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureNames {
    /// That of the image.
    pub image: Option<String>,
    /// That of the class: a number, a name, or a list with one 1.
    pub label: Option<String>,
}

/// Which features are used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Layout {
    /// The image: a byte string, or a list of numbers.
    pub image: String,
    /// The class: a number, or a list with one 1.
    pub class: Option<String>,
    /// How long that list is, if it is one.
    pub one_hot: Option<usize>,
    /// The name of the class: a byte string.
    pub name: Option<String>,
    /// How images are stored.
    pub encoding: Encoding,
}

impl Layout {
    /// The layout of an Example; none if it has no image, or not what the user named.
    pub fn of(example: &Example<'_>, own: &FeatureNames) -> Option<Self> {
        let find = |usual: &[&'static str], own: &Option<String>, fits: &dyn Fn(&Feature<'_, '_>) -> bool| {
            let has = |name: &str| example.feature(name).is_some_and(|feature| fits(&feature));
            match own {
                Some(name) => has(name).then(|| name.clone()),
                None => usual.iter().find(|name| has(name)).map(|name| name.to_string()),
            }
        };
        let one = |kind: FeatureKind| move |feature: &Feature<'_, '_>| feature.kind() == kind && feature.len() == 1;
        let (image, encoding) = match find(&IMAGES, &own.image, &one(FeatureKind::Bytes)) {
            Some(image) => {
                let bytes = example.bytes(&image)?;
                let encoding = match is_file(bytes) {
                    true => Encoding::File,
                    false => shape(example, bytes.len()).map_or(Encoding::File, Encoding::Raw),
                };
                (image, encoding)
            }
            None => {
                let image = find(&IMAGES, &own.image, &numbers::is_list)?;
                let length = example.feature(&image)?.len();
                let shape = shape(example, length).or_else(|| square(length))?;
                (image, Encoding::Numbers(shape))
            }
        };
        let (mut class, mut one_hot) = (find(&CLASSES, &own.label, &one(FeatureKind::Ints)), None);
        let name = find(&NAMES, &own.label, &one(FeatureKind::Bytes));
        if class.is_none() && name.is_none() {
            class =
                find(&CLASSES, &own.label, &|f| numbers::is_list(f) && numbers::one_hot(example, f.name()).is_some());
            one_hot = class.as_ref().and_then(|class| example.feature(class)).map(|feature| feature.len());
        }
        (own.label.is_none() || class.is_some() || name.is_some()).then_some(Self {
            image,
            class,
            one_hot,
            name,
            encoding,
        })
    }

    /// Which features are used, in words.
    pub fn words(&self) -> String {
        let mut words = format!("image from `{}`", self.image);
        if let Some(class) = &self.class {
            words += &format!(", class from `{class}`{}", if self.one_hot.is_some() { " (one-hot)" } else { "" });
        }
        if let Some(name) = &self.name {
            words += &format!(", {}name from `{name}`", if self.class.is_some() { "its " } else { "class by " });
        }
        words
    }
}

/// A square, grey or in colour, for want of a stated shape.
fn square(length: usize) -> Option<[usize; 3]> {
    let side = |pixels: usize| Some(pixels.isqrt()).filter(|side| side * side == pixels);
    side(length).map(|side| [side, side, 1]).or_else(|| {
        let pixels = length.is_multiple_of(3).then_some(length / 3)?;
        side(pixels).map(|side| [side, side, 3])
    })
}

/// Whether the bytes begin like an image file of a format that is read.
pub(crate) fn is_file(bytes: &[u8]) -> bool {
    match paceline_image::Format::of(bytes) {
        // Two bytes are too few to tell a JPEG from pixels.
        Some(paceline_image::Format::Jpeg) => bytes.starts_with(&[0xff, 0xd8, 0xff]),
        kind => kind.is_some(),
    }
}

/// The shape of a raw image, if the Example states one that fits its bytes.
fn shape(example: &Example<'_>, length: usize) -> Option<[usize; 3]> {
    let size = |value: i64| usize::try_from(value).ok().filter(|&n| n > 0);
    let fits = |[h, w, c]: [usize; 3]| h.checked_mul(w)?.checked_mul(c).filter(|&n| n == length).map(|_| [h, w, c]);
    let listed = ["shape", "size", "image/shape", "image/size"].iter().find_map(|name| {
        let sizes: Vec<usize> = example.feature(name)?.ints().take(4).map(size).collect::<Option<_>>()?;
        match *sizes {
            [h, w, c] => fits([h, w, c]),
            [h, w] => fits([h, w, 3]).or(fits([h, w, 1])),
            _ => None,
        }
    });
    listed.or_else(|| {
        SHAPES.iter().find_map(|[h, w, c]| {
            let (h, w) = (size(example.int(h)?)?, size(example.int(w)?)?);
            match example.int(c) {
                Some(c) => fits([h, w, size(c)?]),
                None => fits([h, w, 3]).or(fits([h, w, 1])),
            }
        })
    })
}
