//! Image files as samples.

use super::canvas::Canvas;
use super::identity;
use super::{Labelled, Scratch, Source, UNLABELLED, fingerprint_of};
use crate::photos::Photos;
use crate::regular::read_image;
use crate::{Result, forward_to};
use paceline_base::stage::Stage;
use paceline_image::Fit;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::Instant;

/// Files that are looked at to find out whether a set is grey.
const FIRST: usize = 8;

/// Labelled image files, read and decoded one by one.
pub(crate) struct FileImages {
    photos: Photos,
    canvas: Canvas,
    identity: OnceLock<Identity>,
}

/// What stands for the files.
struct Identity {
    fingerprint: String,
    key: String,
}

impl FileImages {
    /// The photos, brought to `size` (height and width) if one is given; without it all must have the size of the first.
    ///
    /// # Errors
    /// If one of the first files cannot be read.
    pub(crate) fn new(photos: Photos, size: Option<[usize; 2]>, fit: Fit) -> Result<Self> {
        let mut first = Vec::new();
        for index in 0..photos.len().min(FIRST) {
            let path = photos.path(index);
            let mut bytes = Vec::new();
            read_image(&path, &mut bytes)?;
            first.push((path.display().to_string(), Cow::Owned(bytes)));
        }
        let canvas = Canvas::for_images(size, fit, first.into_iter())?;
        Ok(Self { photos, canvas, identity: OnceLock::new() })
    }

    /// Of name, class, length and some blocks of every file: reading all of them would take as long as an epoch. The key
    /// also holds when each was written and its inode, which a change between the blocks shows in.
    fn identity(&self) -> &Identity {
        self.identity.get_or_init(|| {
            let seen = identity::look(self.len(), |index| self.photos.path(index));
            let (mut content, mut places) = (Sha256::new(), Sha256::new());
            for (index, seen) in seen.iter().enumerate() {
                let name = self.photos.name(index);
                let name = name.as_os_str().as_encoded_bytes();
                content.update((name.len() as u64).to_le_bytes());
                content.update(name);
                content.update((u64::from(self.photos.label(index))).to_le_bytes());
                content.update([u8::from(seen.is_some())]);
                if let Some(seen) = seen {
                    content.update(seen.length.to_le_bytes());
                    content.update(seen.digest);
                    places.update(seen.stamp.bytes());
                }
            }
            let words = self.canvas.words();
            let fingerprint = fingerprint_of([b"photos 2" as &[u8], words.as_bytes(), &content.finalize()]);
            let key = fingerprint_of([b"places" as &[u8], fingerprint.as_bytes(), &places.finalize()]);
            Identity { fingerprint, key }
        })
    }

    /// Photos for samples of a shape that is known (height, width, channels): another part of a set. Where `fit` is none,
    /// all must have that size.
    pub(crate) fn shaped(photos: Photos, shape: [usize; 3], fit: Option<Fit>) -> Self {
        Self { photos, canvas: Canvas { shape, fit }, identity: OnceLock::new() }
    }
}

/// Image files that are in memory, decoded one by one. They have no classes.
pub struct EncodedImages {
    images: Vec<Vec<u8>>,
    canvas: Canvas,
}

impl EncodedImages {
    /// These files (JPEG, PNG, WebP, BMP, GIF), for samples of a shape (height, width, channels).
    pub fn new(images: Vec<Vec<u8>>, shape: [usize; 3], fit: Fit) -> Self {
        Self { images, canvas: Canvas { shape, fit: Some(fit) } }
    }
}

impl Labelled for EncodedImages {
    forward_to!(images: len);
    forward_to!(canvas: shape);

    fn class_names(&self) -> &[String] {
        &[]
    }

    fn label(&self, _: usize) -> u32 {
        UNLABELLED
    }

    fn fingerprint(&self) -> String {
        let words = self.canvas.words();
        fingerprint_of([b"encoded" as &[u8], words.as_bytes()].into_iter().chain(self.images.iter().map(Vec::as_slice)))
    }
}

impl Source for EncodedImages {
    fn place(&self, index: usize) -> String {
        format!("image {index}")
    }

    fn stored(&self) -> &'static str {
        "files"
    }

    fn fetch(&self, index: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<()> {
        self.canvas.decode(&|| self.place(index), &self.images[index], scratch, out)
    }
}

impl Labelled for FileImages {
    forward_to!(photos: len, class_names, label);
    forward_to!(canvas: shape);

    fn fingerprint(&self) -> String {
        self.identity().fingerprint.clone()
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
        scratch.times.add(Stage::Read, begin);
        let result = self.canvas.decode(&|| path.display().to_string(), &bytes, scratch, out);
        scratch.bytes = bytes;
        result
    }

    fn cache_key(&self) -> String {
        self.identity().key.clone()
    }
}
