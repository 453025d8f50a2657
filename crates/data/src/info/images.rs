//! The first images of a set, a file of records or a list of photos, as PNG files.

use super::{Contents, InfoOptions, photos, records};
use crate::catalogue::{Catalogue, Options};
use crate::shards::{Encoding, Layout};
use crate::{DataError, Features, Result, Skipped};
use paceline_image::{Colour, Decoder, Limits, Pixels, encode_png};
use std::path::{Path, PathBuf};

impl Catalogue {
    /// Writes the first `look.first` images of what `name` stands for into a folder, which is made if need be. Files are
    /// called by the place of the image, and say which they are. Up to `look.skip_bad` bad ones are passed over.
    ///
    /// # Errors
    /// As [`Catalogue::look`]; [`DataError::NoPictures`] if there are no images in it; [`DataError::Io`].
    pub fn save_images(&self, name: &str, look: &InfoOptions, folder: &Path) -> Result<Saved> {
        let mut skipped = Skipped::up_to(look.skip_bad);
        let mut saver = Saver { folder, saved: Vec::new(), decoder: Decoder::new(Limits::default()) };
        let path = Path::new(name);
        match self.contents(name)? {
            Contents::Records => records::images(path, look, |file, found| {
                if saver.saved.len() < look.first {
                    let stem = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    let stored = found.and_then(|(image, layout)| saver.stored(image, layout, &stem));
                    stored.or_else(|error| skipped.skip(error))?;
                }
                Ok(saver.saved.len() < look.first)
            })?,
            Contents::Photos => {
                let list = crate::photos::Photos::list(path)?;
                for index in photos::first(&list, list.len()) {
                    if saver.saved.len() == look.first {
                        break;
                    }
                    let saved = saver.file(&list.path(index), &list.class_names()[list.label(index) as usize]);
                    saved.or_else(|error| skipped.skip(error))?;
                }
            }
            Contents::Image => saver.file(path, "image")?,
            Contents::Set => {
                let set = self.open(name, &Options::default())?;
                if let Some(train) = set.train.memory() {
                    for index in 0..look.first.min(train.len()) {
                        if let Some(pixels) = pixels(train.features(index), train.shape()) {
                            saver.save(&pixels, &set.class_names[train.label(index) as usize])?;
                        }
                    }
                }
            }
            Contents::Csv => {}
            Contents::Idx => {
                let array = crate::idx::read(path)?;
                if let [_, height, width] = *array.dims()
                    && height * width > 0
                {
                    for image in array.data().chunks_exact(height * width).take(look.first) {
                        saver.save(&Pixels { width, height, channels: 1, data: image.to_vec() }, "image")?;
                    }
                }
            }
        }
        if saver.saved.is_empty() && look.first > 0 {
            return Err(DataError::NoPictures { name: name.into() });
        }
        Ok(Saved { files: saver.saved, skipped: skipped.list().to_vec() })
    }
}

/// Images that were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Paths of the images, in the order of writing.
    pub files: Vec<PathBuf>,
    /// Bad images that were passed over, with the reason.
    pub skipped: Vec<String>,
}

/// A sample as an image, if its shape is one of an image.
fn pixels(features: Features<'_>, shape: &[usize]) -> Option<Pixels> {
    let (height, width, channels) = match *shape {
        [height, width] => (height, width, 1),
        [height, width, channels @ (1 | 3)] => (height, width, channels),
        _ => return None,
    };
    let data = match features {
        Features::U8 { bytes, .. } => bytes.to_vec(),
        Features::F32(values) => values.iter().map(|v| (v.clamp(0.0, 1.0) * 255.0).round() as u8).collect(),
        Features::U32(_) | Features::U64(_) => return None,
    };
    Some(Pixels { width, height, channels, data })
}

struct Saver<'a> {
    folder: &'a Path,
    saved: Vec<PathBuf>,
    decoder: Decoder,
}

impl Saver<'_> {
    /// An image as it is stored in a record.
    fn stored(&mut self, image: &[u8], layout: &Layout, label: &str) -> Result<()> {
        let pixels = match layout.encoding {
            // A shape that does not fit its bytes is refused when the pixels are encoded.
            Encoding::Raw([height, width, channels]) | Encoding::Numbers([height, width, channels]) => {
                Pixels { width, height, channels, data: image.to_vec() }
            }
            Encoding::File => self.decode(image, label)?,
        };
        self.save(&pixels, label)
    }

    fn file(&mut self, path: &Path, label: &str) -> Result<()> {
        let mut bytes = Vec::new();
        crate::regular::read_image(path, &mut bytes)?;
        let pixels = self.decode(&bytes, &path.display().to_string())?;
        self.save(&pixels, label)
    }

    fn decode(&mut self, bytes: &[u8], place: &str) -> Result<Pixels> {
        let mut pixels = Pixels::default();
        let decoded = self.decoder.decode(bytes, Colour::Stored, &mut pixels);
        decoded.map_err(|error| DataError::BadImage { place: place.into(), reason: error.to_string() })?;
        Ok(pixels)
    }

    fn save(&mut self, pixels: &Pixels, label: &str) -> Result<()> {
        std::fs::create_dir_all(self.folder).map_err(DataError::io("create", self.folder))?;
        // A label may hold anything: only what cannot lead elsewhere goes into a name.
        let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let label: String = label.chars().take(80).map(plain).collect();
        let path = self.folder.join(format!("{:05}-{label}.png", self.saved.len()));
        let bad = |e: paceline_image::ImageError| DataError::BadImage { place: label.clone(), reason: e.to_string() };
        std::fs::write(&path, encode_png(pixels).map_err(bad)?).map_err(DataError::io("write", &path))?;
        self.saved.push(path);
        Ok(())
    }
}
