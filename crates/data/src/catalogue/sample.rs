//! The sample that is part of the program: the first 8,000 training and 2,000 test images of Fashion-MNIST.
//!
//! It lets a first run train on something real without a network and without a download. `sample/README.md` says how it
//! was made; `tests/make_sample.rs` makes it again.

use super::known::FASHION_CLASSES;
use crate::{ImageSet, Result, idx};

/// Its name in the catalogue.
pub(crate) const NAME: &str = "fashion-sample";
/// Samples of the training and of the test part.
pub(crate) const COUNTS: (usize, usize) = (8_000, 2_000);

static TRAIN_IMAGES: &[u8] = include_bytes!("../../sample/train-images-idx3-ubyte.gz");
static TRAIN_LABELS: &[u8] = include_bytes!("../../sample/train-labels-idx1-ubyte.gz");
static TEST_IMAGES: &[u8] = include_bytes!("../../sample/t10k-images-idx3-ubyte.gz");
static TEST_LABELS: &[u8] = include_bytes!("../../sample/t10k-labels-idx1-ubyte.gz");

/// Its size inside the program.
pub(crate) fn packed_bytes() -> u64 {
    [TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS].iter().map(|file| file.len() as u64).sum()
}

/// The training part.
pub(crate) fn train() -> Result<ImageSet> {
    part("training", TRAIN_IMAGES, TRAIN_LABELS)
}

/// The test part.
pub(crate) fn test() -> Result<ImageSet> {
    part("test", TEST_IMAGES, TEST_LABELS)
}

fn part(which: &str, images: &[u8], labels: &[u8]) -> Result<ImageSet> {
    let (images_name, labels_name) = (format!("embedded {which} images"), format!("embedded {which} labels"));
    let (images, labels) = (idx::decode(images, &images_name)?, idx::decode(labels, &labels_name)?);
    ImageSet::new(images, &images_name, labels, &labels_name, FASHION_CLASSES.map(String::from).to_vec())
}
