//! CIFAR-10 as others hand it out: 32×32 pictures in six batches of any number of pictures each.
//!
//! | form | files | a picture |
//! |---|---|---|
//! | binary version | `data_batch_1.bin` … `_5`, `test_batch.bin` | a byte of label, then 1,024 red, green and blue bytes each |
//! | as PNG | `data_batch_1.png` … `_5`, `test_batch.png`, `train_lables.json`, `test_lables.json` (so spelt) | a row of 1,024 RGB pixels |
//! | archive | `cifar-10-binary.tar.gz` | the binary version |
//!
//! All become pictures of [32, 32, 3] with channels last, in the order of the batches.

mod archive;

use crate::idx::Idx;
use crate::{DataError, ImageSet, Result};
use archive::BATCH_LIMIT;
use paceline_image::{Colour, Decoder, Limits, Pixels};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The archive of the binary version.
pub(crate) const ARCHIVE: &str = "cifar-10-binary.tar.gz";
/// Batches of the training part, then that of the test part.
pub(crate) const BATCHES: [&str; 6] =
    ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"];
const TRAINING: usize = 5;
const SIDE: usize = 32;
const PLANE: usize = SIDE * SIDE;
const PICTURE: usize = 3 * PLANE;
const RECORD: usize = 1 + PICTURE;

/// The names of the classes.
pub(crate) const CLASSES: [&str; 10] =
    ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

/// Pictures with channels last, and their labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pictures {
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

/// The training part and the test part.
pub(crate) type Both = [Pictures; 2];

fn bad(file: &Path, reason: impl Into<String>) -> DataError {
    DataError::BadCifar { file: file.display().to_string(), reason: reason.into() }
}

/// Whether a folder holds batches in one of the forms; the archive counts only for `get`.
pub(crate) fn is_cifar(folder: &Path) -> bool {
    ["bin", "png"].iter().any(|kind| folder.join(format!("{}.{kind}", BATCHES[0])).is_file())
}

/// The files of a folder that a set is read from.
pub(crate) fn present(folder: &Path) -> Vec<PathBuf> {
    let kind = if folder.join("data_batch_1.bin").is_file() { "bin" } else { "png" };
    BATCHES.iter().map(|batch| folder.join(format!("{batch}.{kind}"))).filter(|path| path.is_file()).collect()
}

/// Bytes that the batches of a folder take while they are read: all pictures, and the largest file once more.
pub(crate) fn bytes(folder: &Path) -> Result<u64> {
    let (mut all, mut largest) = (0u64, 0);
    for path in present(folder) {
        let len = std::fs::metadata(&path).map_err(DataError::io("read", &path))?.len();
        let png = path.extension().is_some_and(|e| e == "png");
        // What a picture says of itself is checked when it is read.
        let pictures = if png { png_bytes(&path)? } else { len };
        (all, largest) = (all.saturating_add(pictures), largest.max(len));
    }
    Ok(all.saturating_add(largest))
}

/// Bytes of a PNG picture's pixels, by its header.
fn png_bytes(path: &Path) -> Result<u64> {
    let mut start = Vec::new();
    let file = crate::open_regular(path).map_err(DataError::io("read", path))?;
    file.take(64).read_to_end(&mut start).map_err(DataError::io("read", path))?;
    let number =
        |at: usize| start.get(at..at + 4).map_or(0, |b| u64::from(u32::from_be_bytes([b[0], b[1], b[2], b[3]])));
    Ok(number(16).saturating_mul(number(20)).saturating_mul(3)) // width and height of the first chunk
}

/// Reads a folder that holds the batches, or their archive.
pub(crate) fn read(folder: &Path) -> Result<Both> {
    if folder.join("data_batch_1.bin").is_file() {
        return gather(|batch| {
            let path = folder.join(format!("{batch}.bin"));
            let bytes = limited(&path)?;
            Pictures::from_records(&bytes, &path)
        });
    }
    if folder.join("data_batch_1.png").is_file() {
        return read_png(folder);
    }
    let path = folder.join(ARCHIVE);
    if path.is_file() {
        let file = crate::open_regular(&path).map_err(DataError::io("read", &path))?;
        return read_archive(std::io::BufReader::new(file), &path);
    }
    Err(bad(folder, format!("it holds neither data_batch_1.bin, data_batch_1.png nor {ARCHIVE}")))
}

/// A file of at most a batch's size.
fn limited(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = crate::open_regular(path).and_then(|file| file.take(BATCH_LIMIT as u64 + 1).read_to_end(&mut bytes));
    read.map_err(DataError::io("read", path))?;
    if bytes.len() > BATCH_LIMIT {
        return Err(bad(
            path,
            format!("more than {}, which no batch has", paceline_base::text::bytes(BATCH_LIMIT as u64)),
        ));
    }
    Ok(bytes)
}

/// Reads the gzipped archive of the binary version; `name` stands for it in errors.
pub(crate) fn read_archive(input: impl Read, name: &Path) -> Result<Both> {
    let files = archive::unpack(input, name)?;
    gather(|batch| {
        let file = format!("{batch}.bin");
        let bytes = files.iter().find(|(found, _)| *found == file);
        let (_, bytes) = bytes.ok_or_else(|| bad(name, format!("there is no {file} in it")))?;
        Pictures::from_records(bytes, &name.join(file))
    })
}

fn gather(mut read: impl FnMut(&str) -> Result<Pictures>) -> Result<Both> {
    let mut both = Both::default();
    for (index, batch) in BATCHES.iter().enumerate() {
        both[usize::from(index >= TRAINING)].append(read(batch)?);
    }
    Ok(both)
}

fn read_png(folder: &Path) -> Result<Both> {
    let mut both = gather(|batch| {
        let path = folder.join(format!("{batch}.png"));
        let bytes = limited(&path)?;
        let mut out = Pixels::default();
        let mut decoder = Decoder::new(Limits { pixels: (BATCH_LIMIT / 3) as u64 });
        decoder.decode(&bytes, Colour::Rgb, &mut out).map_err(|e| bad(&path, e.to_string()))?;
        if out.width != PLANE || out.channels != 3 {
            let reason =
                format!("a picture of {}×{}, where rows of {PLANE} pixels are expected", out.width, out.height);
            return Err(bad(&path, reason));
        }
        Ok(Pictures { pixels: out.data, labels: Vec::new() })
    })?;
    for (part, name) in both.iter_mut().zip(["train_lables.json", "test_lables.json"]) {
        let path = folder.join(name);
        let text = limited(&path)?;
        part.labels = serde_json::from_slice(&text).map_err(|e| bad(&path, format!("not a list of labels: {e}")))?;
        let pictures = part.pixels.len() / PICTURE;
        if part.labels.len() != pictures {
            return Err(bad(&path, format!("{} labels for {pictures} pictures", part.labels.len())));
        }
    }
    Ok(both)
}

impl Pictures {
    fn from_records(bytes: &[u8], file: &Path) -> Result<Self> {
        if bytes.is_empty() || !bytes.len().is_multiple_of(RECORD) {
            return Err(bad(file, format!("{} bytes, which is not a multiple of {RECORD}", bytes.len())));
        }
        let mut found = Self { pixels: Vec::with_capacity(bytes.len()), labels: Vec::new() };
        for record in bytes.chunks_exact(RECORD) {
            found.labels.push(record[0]);
            let [red, green, blue] = [1, 1 + PLANE, 1 + 2 * PLANE].map(|at| &record[at..at + PLANE]);
            let pixels = red.iter().zip(green).zip(blue);
            found.pixels.extend(pixels.flat_map(|((&r, &g), &b)| [r, g, b]));
        }
        Ok(found)
    }

    fn append(&mut self, mut other: Self) {
        self.pixels.append(&mut other.pixels);
        self.labels.append(&mut other.labels);
    }

    /// As arrays: pictures and labels.
    pub(crate) fn into_arrays(self) -> Result<[Idx; 2]> {
        let count = self.pixels.len() / PICTURE;
        Ok([Idx::new(vec![count, SIDE, SIDE, 3], self.pixels)?, Idx::new(vec![self.labels.len()], self.labels)?])
    }

    /// As samples; `name` stands for them in errors.
    pub(crate) fn into_set(self, name: &str) -> Result<ImageSet> {
        let [images, labels] = self.into_arrays()?;
        ImageSet::new(images, name, labels, name, CLASSES.map(String::from).to_vec())
    }
}

#[cfg(test)]
pub(crate) mod tests;
