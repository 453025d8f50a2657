//! Images of bytes with their labels: MNIST and its relatives.

use super::in_memory::InMemory;
use super::{Features, Labelled, Samples, as_bytes, fingerprint_of};
use crate::{DataError, Result, forward_to, idx::Idx};
use std::sync::{Arc, OnceLock};

/// Images (unsigned bytes, scaled to 0…1) and labels. Cloning shares them.
#[derive(Clone, Debug)]
pub(crate) struct ImageSet {
    images: Arc<InMemory<u8, u8>>,
    fingerprint: Arc<OnceLock<String>>,
}

impl ImageSet {
    /// Joins an array of images (count, rows, columns and perhaps channels) and one of labels (count). The two names
    /// stand for them in errors.
    ///
    /// # Errors
    /// [`DataError::WrongRank`], [`DataError::Empty`], [`DataError::CountMismatch`] or [`DataError::LabelOutOfRange`].
    pub(crate) fn new(
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
        let images = Arc::new(InMemory::new(dims[1..].to_vec(), pixels, labels, class_names));
        Ok(Self { images, fingerprint: Arc::default() })
    }
}

impl Labelled for ImageSet {
    forward_to!(images: len, shape, class_names, label);

    /// Of shape, pixels and labels; taken once, at the first call.
    fn fingerprint(&self) -> String {
        let InMemory { values, labels, .. } = &*self.images;
        let take = || fingerprint_of([b"images" as &[u8], &as_bytes(self.shape()), values, labels]);
        self.fingerprint.get_or_init(take).clone()
    }
}

impl Samples for ImageSet {
    #[inline]
    fn features(&self, index: usize) -> Features<'_> {
        Features::pixels(self.images.row(index))
    }
}
