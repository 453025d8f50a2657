//! Which features of an Example hold the image and its class.
//!
//! Ours and the flowers of Google's tutorials: `image`, `class`, `label`. TensorFlow's ImageNet shards:
//! `image/encoded`, `image/class/label`, `image/class/text`. TensorFlow Datasets: `image`, `label` (a number). The first
//! name that a record has wins, and the layout of the first record is that of the set.

use crate::example::{Example, Kind};
use serde::Serialize;

const IMAGES: [&str; 8] =
    ["image", "image/encoded", "image_raw", "image_bytes", "encoded", "jpeg", "img", "image/image_raw"];
const CLASSES: [&str; 6] = ["class", "image/class/label", "label", "class_id", "class_label", "target"];
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
}

/// Which features are used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Layout {
    /// The image: a byte string.
    pub image: String,
    /// The class: a number.
    pub class: Option<String>,
    /// The name of the class: a byte string.
    pub name: Option<String>,
    /// How images are stored.
    pub encoding: Encoding,
}

impl Layout {
    /// The layout of an Example; none if it has no image.
    pub fn of(example: &Example<'_>) -> Option<Self> {
        let find = |names: &[&'static str], kind: Kind| {
            names.iter().copied().find(|name| example.feature(name).is_some_and(|f| f.kind() == kind && f.len() == 1))
        };
        let image = find(&IMAGES, Kind::Bytes)?;
        let bytes = example.bytes(image)?;
        let encoding = match is_file(bytes) {
            true => Encoding::File,
            false => shape(example, bytes.len()).map_or(Encoding::File, Encoding::Raw),
        };
        Some(Self {
            image: image.into(),
            class: find(&CLASSES, Kind::Ints).map(String::from),
            name: find(&NAMES, Kind::Bytes).map(String::from),
            encoding,
        })
    }

    /// Which features are used, in words.
    pub fn words(&self) -> String {
        let mut words = format!("image from `{}`", self.image);
        if let Some(class) = &self.class {
            words += &format!(", class from `{class}`");
        }
        if let Some(name) = &self.name {
            words += &format!(", {}name from `{name}`", if self.class.is_some() { "its " } else { "class by " });
        }
        words
    }
}

/// Whether the bytes begin like an image file of a format that is read.
pub(crate) fn is_file(bytes: &[u8]) -> bool {
    match paceline_image::Kind::of(bytes) {
        // Two bytes are too few to tell a JPEG from pixels.
        Some(paceline_image::Kind::Jpeg) => bytes.starts_with(&[0xff, 0xd8, 0xff]),
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
