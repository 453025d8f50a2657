//! Images of bytes with their labels: MNIST and its relatives.

use super::{Features, Labelled, Samples, as_bytes, fingerprint_of};
use crate::{DataError, Result, idx::Idx};
use std::sync::{Arc, OnceLock};

/// Images (unsigned bytes, scaled to 0…1) and labels. Cloning shares them.
#[derive(Clone, Debug)]
pub struct ImageSet(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shape: Vec<usize>,
    size: usize,
    pixels: Vec<u8>,
    labels: Vec<u8>,
    class_names: Vec<String>,
    fingerprint: OnceLock<String>,
}

impl ImageSet {
    /// Joins an array of images (count, rows, columns and perhaps channels) and one of labels (count). The two names
    /// stand for them in errors.
    ///
    /// # Errors
    /// [`DataError::WrongRank`], [`DataError::Empty`], [`DataError::CountMismatch`] or [`DataError::LabelOutOfRange`].
    pub fn new(
        images: Idx,
        images_name: &str,
        labels: Idx,
        labels_name: &str,
        class_names: Vec<String>,
    ) -> Result<Self> {
        let (dims, pixels) = images.into_parts();
        let (label_dims, labels) = labels.into_parts();
        if !(3..=4).contains(&dims.len()) {
            return Err(DataError::WrongRank {
                file: images_name.into(),
                expected: "images need 3 (count, rows, columns) or 4 (and channels)",
                found: dims.len(),
            });
        }
        if label_dims.len() != 1 {
            return Err(DataError::WrongRank {
                file: labels_name.into(),
                expected: "labels need 1 (count)",
                found: label_dims.len(),
            });
        }
        if pixels.is_empty() {
            return Err(DataError::Empty { file: images_name.into(), dims });
        }
        if dims[0] != labels.len() {
            return Err(DataError::CountMismatch {
                images_file: images_name.into(),
                images: dims[0],
                labels_file: labels_name.into(),
                labels: labels.len(),
            });
        }
        let classes = class_names.len();
        if let Some(index) = labels.iter().position(|&label| usize::from(label) >= classes) {
            let label = u32::from(labels[index]);
            return Err(DataError::LabelOutOfRange { file: labels_name.into(), index, label, classes });
        }
        let shape = dims[1..].to_vec();
        let size = shape.iter().product();
        Ok(Self(Arc::new(Inner { shape, size, pixels, labels, class_names, fingerprint: OnceLock::new() })))
    }

    /// All labels.
    pub fn labels(&self) -> &[u8] {
        &self.0.labels
    }
}

impl Labelled for ImageSet {
    fn len(&self) -> usize {
        self.0.labels.len()
    }

    fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    fn class_names(&self) -> &[String] {
        &self.0.class_names
    }

    #[inline]
    fn label(&self, index: usize) -> u32 {
        u32::from(self.0.labels[index])
    }

    /// Of shape, pixels and labels; taken once, at the first call.
    fn fingerprint(&self) -> String {
        let set = &*self.0;
        set.fingerprint
            .get_or_init(|| fingerprint_of([b"images" as &[u8], &as_bytes(&set.shape), &set.pixels, &set.labels]))
            .clone()
    }
}

impl Samples for ImageSet {
    #[inline]
    fn features(&self, index: usize) -> Features<'_> {
        let set = &*self.0;
        Features::U8 { bytes: &set.pixels[index * set.size..][..set.size], scale: 1.0 / 255.0, offset: 0.0 }
    }
}
