//! A folder that holds a set: which of the four files are there, and the samples in them.

use super::known::{FILES, TEST_IMAGES, TEST_LABELS, TRAIN_IMAGES, TRAIN_LABELS};
use crate::{DataError, ImageSet, Labelled, Result, idx};
use std::path::{Path, PathBuf};

/// The training and the test part of a folder.
pub(crate) struct Pair {
    pub train: ImageSet,
    pub test: Option<ImageSet>,
}

/// The file of a well-known name: plain or `.gz`, with the dash of the original or the dot that some tools write.
pub(crate) fn find(folder: &Path, name: &'static str) -> Option<PathBuf> {
    let dotted = name.replace("-idx", ".idx");
    [name.to_string(), format!("{name}.gz"), dotted.clone(), format!("{dotted}.gz")]
        .iter()
        .map(|file| folder.join(file))
        .find(|path| path.is_file())
}

/// As [`find`], or an error that names the folder and the file.
pub(crate) fn require(folder: &Path, name: &'static str) -> Result<PathBuf> {
    find(folder, name).ok_or_else(|| DataError::MissingFile { folder: folder.display().to_string(), file: name })
}

/// Whether all four files are there.
pub(crate) fn is_complete(folder: &Path) -> bool {
    FILES.iter().all(|name| find(folder, name).is_some())
}

/// The files of a set that are there.
pub(crate) fn present(folder: &Path) -> Vec<PathBuf> {
    FILES.iter().filter_map(|name| find(folder, name)).collect()
}

/// What gzip makes of a byte at most.
const GZIP_RATIO: u64 = 1032;

/// Bytes that the samples of the folder take in memory: what the headers of its files promise, but no more than the files
/// can hold. A file that is shorter than its promise is damaged, which reading it says better.
pub(crate) fn bytes(folder: &Path) -> Result<u64> {
    let mut all = 0u64;
    for path in present(folder) {
        let header = idx::read_header(&path)?;
        let promised = header.dims.iter().fold(1u64, |n, &d| n.saturating_mul(d as u64));
        let len = std::fs::metadata(&path).map_err(DataError::io("read", &path))?.len();
        let held = if header.gzip { len.saturating_mul(GZIP_RATIO) } else { len };
        all = all.saturating_add(promised.min(held));
    }
    Ok(all)
}

/// Reads the folder. Without `class_names` the classes are the numbers up to the largest training label. The test part
/// may be missing, but not half of it.
pub(crate) fn read(folder: &Path, class_names: Option<Vec<String>>) -> Result<Pair> {
    let train_images = require(folder, TRAIN_IMAGES)?;
    let train_labels = require(folder, TRAIN_LABELS)?;
    let labels = idx::read(&train_labels)?;
    let class_names = class_names.unwrap_or_else(|| {
        let classes = labels.data().iter().max().map_or(0, |&label| usize::from(label) + 1);
        (0..classes).map(|class| class.to_string()).collect()
    });
    let images = idx::read(&train_images)?;
    let train = join(images, &train_images, labels, &train_labels, class_names.clone())?;

    if find(folder, TEST_IMAGES).is_none() && find(folder, TEST_LABELS).is_none() {
        return Ok(Pair { train, test: None });
    }
    let test_images = require(folder, TEST_IMAGES)?;
    let test_labels = require(folder, TEST_LABELS)?;
    let test = join(idx::read(&test_images)?, &test_images, idx::read(&test_labels)?, &test_labels, class_names)?;
    if test.shape() != train.shape() {
        return Err(DataError::ShapeMismatch {
            file: test_images.display().to_string(),
            expected: train.shape().to_vec(),
            found: test.shape().to_vec(),
        });
    }
    Ok(Pair { train, test: Some(test) })
}

fn join(
    images: idx::Idx,
    images_path: &Path,
    labels: idx::Idx,
    labels_path: &Path,
    names: Vec<String>,
) -> Result<ImageSet> {
    ImageSet::new(images, &images_path.display().to_string(), labels, &labels_path.display().to_string(), names)
}
