//! Image files as samples.

use super::canvas::Canvas;
use super::{Labelled, Scratch, Source, Stage, as_bytes, fingerprint_of};
use crate::Result;
use crate::photos::Photos;
use crate::regular::read_image;
use paceline_image::Fit;
use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::Instant;

/// Files that are looked at to find out whether a set is grey.
const FIRST: usize = 8;

/// Labelled image files, read and decoded one by one.
pub struct FileImages {
    photos: Photos,
    canvas: Canvas,
    fingerprint: OnceLock<String>,
}

impl FileImages {
    /// The photos, brought to `size` (height and width) if one is given; without it all must have the size of the first.
    ///
    /// # Errors
    /// If one of the first files cannot be read.
    pub fn new(photos: Photos, size: Option<[usize; 2]>, fit: Fit) -> Result<Self> {
        let mut first = Vec::new();
        for index in 0..photos.len().min(FIRST) {
            let path = photos.path(index);
            let mut bytes = Vec::new();
            read_image(&path, &mut bytes)?;
            first.push((path.display().to_string(), Cow::Owned(bytes)));
        }
        let canvas = Canvas::for_images(size, fit, first.into_iter())?;
        Ok(Self { photos, canvas, fingerprint: OnceLock::new() })
    }

    /// Photos for samples of a shape that is known (height, width, channels): another part of a set. Where `fit` is none,
    /// all must have that size.
    pub fn shaped(photos: Photos, shape: [usize; 3], fit: Option<Fit>) -> Self {
        Self { photos, canvas: Canvas { shape, fit }, fingerprint: OnceLock::new() }
    }
}

impl Labelled for FileImages {
    fn len(&self) -> usize {
        self.photos.len()
    }

    fn shape(&self) -> &[usize] {
        &self.canvas.shape
    }

    fn class_names(&self) -> &[String] {
        self.photos.classes()
    }

    fn label(&self, index: usize) -> u32 {
        self.photos.class(index) as u32
    }

    /// Of names, lengths and classes: reading all files would take as long as an epoch.
    fn fingerprint(&self) -> String {
        let take = || {
            let (mut names, mut marks) = (Vec::new(), Vec::with_capacity(2 * self.len()));
            for index in 0..self.len() {
                let length = std::fs::metadata(self.photos.path(index)).map_or(0, |meta| meta.len());
                names.extend_from_slice(self.photos.name(index).as_os_str().as_encoded_bytes());
                names.push(0);
                marks.extend([length as usize, self.photos.class(index)]);
            }
            fingerprint_of([b"photos 1" as &[u8], self.canvas.words().as_bytes(), &names, &as_bytes(&marks)])
        };
        self.fingerprint.get_or_init(take).clone()
    }
}

impl Source for FileImages {
    fn place(&self, index: usize) -> String {
        self.photos.path(index).display().to_string()
    }

    fn stored(&self) -> &'static str {
        "files"
    }

    fn fetch(&self, index: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<()> {
        let begin = Instant::now();
        let path = self.photos.path(index);
        let mut bytes = std::mem::take(&mut scratch.bytes);
        read_image(&path, &mut bytes)?;
        scratch.effort.add(Stage::Read, begin);
        let result = self.canvas.decode(&|| path.display().to_string(), &bytes, scratch, out);
        scratch.bytes = bytes;
        result
    }
}
