//! What is in a set or in a file: counts, shapes, classes and the statistics of the values; of records the features, of
//! photos the classes; and the first of them as images.

mod csv;
mod images;
mod photos;
mod records;
mod shown;

pub use csv::{CsvFeatures, CsvInfo, CsvPart, CsvTarget};
pub use images::Saved;
pub use photos::{ImageInfo, PhotoPart, PhotoShown, PhotosInfo};
pub use records::{Content, FeatureInfo, IndexInfo, RecordFile, RecordShown, RecordsInfo, Spread, StepInfo};

use crate::catalogue::{Catalogue, Options, SetLocation, folder, sample};
use crate::cifar;
use crate::csv::TargetOptions;
use crate::idx::{self, Element};
use crate::shards;
use crate::tfrecord::Packing;
use crate::{DataError, DataPart, DataSet, Features, Result, Scratch};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The answer of [`Catalogue::look`].
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Info {
    /// Of a whole set.
    Set(Box<SetInfo>),
    /// Of a single IDX file.
    File(FileInfo),
    /// Of files of records.
    Records(Box<RecordsInfo>),
    /// Of a folder or a table of photos.
    Photos(Box<PhotosInfo>),
    /// Of a csv of values, or a folder of them.
    Csv(Box<CsvInfo>),
    /// Of a single image file.
    Image(Box<ImageInfo>),
}

/// How closely to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoOptions {
    /// How many of the first records or photos are shown.
    pub first: usize,
    /// Whether the checksums of records are checked.
    pub verify: bool,
    /// How many bad records may be left out.
    pub skip_bad: usize,
    /// Columns of a csv that are targets, and what they are.
    pub targets: TargetOptions,
}

impl Default for InfoOptions {
    fn default() -> Self {
        Self { first: 3, verify: true, skip_bad: 0, targets: TargetOptions::default() }
    }
}

/// A whole set, as `data info` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct SetInfo {
    /// Its name or path.
    pub name: String,
    /// Where it came from.
    pub origin: String,
    /// Its licence, if known.
    pub licence: Option<String>,
    /// Shape of one sample.
    pub shape: Vec<usize>,
    /// Number of classes.
    pub classes: usize,
    /// The training part.
    pub train: PartInfo,
    /// The test part.
    pub test: Option<PartInfo>,
    /// The files it was read from.
    pub files: Vec<DiskFile>,
    /// Size of the set on disk or in the program, packed as it is there.
    pub bytes: u64,
}

/// A part of a set.
#[derive(Clone, Debug, Serialize)]
pub struct PartInfo {
    /// Number of samples.
    pub count: usize,
    /// How many of each class.
    pub classes: Vec<ClassCount>,
    /// The values, as they are trained on (bytes are scaled to 0…1).
    pub values: Stats,
    /// See [`Labelled::fingerprint`](crate::Labelled::fingerprint).
    pub fingerprint: String,
}

/// A class and how often it occurs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClassCount {
    /// The name of the class; of the parts that an index lists, that of the part.
    pub name: String,
    /// How many samples.
    pub count: usize,
}

/// Statistics of values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stats {
    /// The smallest value of the part.
    pub min: f64,
    /// The largest value of the part.
    pub max: f64,
    /// The mean over all values of all samples.
    pub mean: f64,
    /// The standard deviation (of the population).
    pub std: f64,
}

/// A file and its size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiskFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its size, packed as it is.
    pub bytes: u64,
}

/// A single IDX file.
#[derive(Clone, Debug, Serialize)]
pub struct FileInfo {
    /// The file and its size.
    #[serde(flatten)]
    pub file: DiskFile,
    /// What the header says; only unsigned bytes are trained on.
    pub element: Element,
    /// Dimensions, slowest first.
    pub dims: Vec<usize>,
    /// Whether it is compressed.
    pub gzip: bool,
    /// The elements as they are (0…255); only for unsigned bytes, and nothing for an empty file.
    pub values: Option<Stats>,
}

impl Catalogue {
    #[cfg(test)]
    pub(crate) fn info(&self, name: &str) -> Result<Info> {
        self.look(name, &InfoOptions::default())
    }

    /// What is in a set (by name or path) or in a single file of any kind that this crate reads, as closely as asked for.
    ///
    /// # Errors
    /// As [`Catalogue::open`], and those of the formats.
    pub fn look(&self, name: &str, look: &InfoOptions) -> Result<Info> {
        let path = Path::new(name);
        match self.contents(name)? {
            Contents::Records => return records::look(path, look).map(|info| Info::Records(Box::new(info))),
            Contents::Photos => return photos::look(path, look).map(|info| Info::Photos(Box::new(info))),
            Contents::Csv => return csv::look(path, look).map(|info| Info::Csv(Box::new(info))),
            Contents::Image => return photos::image(path).map(|info| Info::Image(Box::new(info))),
            Contents::Idx => return file_info(path).map(Info::File),
            Contents::Set => {}
        }
        let place = self.resolve(name)?;
        let set = self.open(name, &Options::default())?;
        let (files, bytes) = match &place {
            SetLocation::Known(_, dir) | SetLocation::Folder(dir) | SetLocation::Cifar(dir) => {
                let found =
                    if matches!(place, SetLocation::Cifar(_)) { cifar::present(dir) } else { folder::present(dir) };
                let files = found.into_iter().map(disk_file).collect::<Result<Vec<_>>>()?;
                let bytes = files.iter().map(|file| file.bytes).sum();
                (files, bytes)
            }
            // What is decoded as it is read, and what has columns, was looked at above.
            SetLocation::Shards(_) | SetLocation::Photos(_) | SetLocation::Csv(_) => (Vec::new(), 0),
            SetLocation::Embedded => (Vec::new(), sample::packed_bytes()),
            SetLocation::Fake(_) => (Vec::new(), 0),
        };
        Ok(Info::Set(Box::new(set_info(&set, files, bytes)?)))
    }
}

/// What a name or path holds.
enum Contents {
    Set,
    Idx,
    Records,
    Photos,
    Csv,
    Image,
}

impl Catalogue {
    /// What a name or path holds: names first, then what the content says, then what the name of the file says.
    fn contents(&self, name: &str) -> Result<Contents> {
        let path = Path::new(name);
        if Self::is_name(name) || !path.exists() {
            return Ok(Contents::Set);
        }
        if path.is_dir() {
            // A folder of nothing that is known is said to be no folder of IDX files, unless there may be images in it.
            return Ok(match () {
                () if !folder::present(path).is_empty() || cifar::is_cifar(path) => Contents::Set,
                () if path.join(shards::INDEX).exists() || shards::record_files(path).is_ok() => Contents::Records,
                () if crate::photos::has_images_or_folders(path) => Contents::Photos,
                () if crate::csv::is_values(path)? => Contents::Csv,
                () => Contents::Photos,
            });
        }
        if crate::csv::is_values(path)? {
            return Ok(Contents::Csv);
        }
        if crate::photos::table_kind(path).is_some() {
            return Ok(Contents::Photos);
        }
        let first = first_bytes(path, false)?;
        let file_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_idx = |bytes: &[u8]| matches!(*bytes, [0, 0, code, _, ..] if Element::from_code(code).is_some());
        Ok(match Packing::of(&first) {
            _ if shards::is_record_name(&file_name) => Contents::Records,
            _ if shards::is_image_file(&first) => Contents::Image,
            Packing::Plain if Packing::is_record(&first) => Contents::Records,
            Packing::Plain if is_idx(&first) || file_name.contains("idx") => Contents::Idx,
            Packing::Gzip if is_idx(&first_bytes(path, true)?) || file_name.contains("idx") => Contents::Idx,
            Packing::Gzip | Packing::Zlib => Contents::Records,
            Packing::Plain if crate::photos::is_image_name(path.as_os_str()) => Contents::Image,
            Packing::Plain => {
                let found = first.iter().take(4).map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ");
                let found = if found.is_empty() { "nothing".into() } else { found };
                return Err(DataError::UnknownContent { file: name.into(), found });
            }
        })
    }
}

/// The first bytes of a file, as they are or unpacked (as far as that goes).
fn first_bytes(path: &Path, unpacked: bool) -> Result<Vec<u8>> {
    use std::io::Read;
    let file = crate::open_regular(path).map_err(DataError::io("read", path))?;
    let mut first = Vec::new();
    if unpacked {
        // Damage is for whoever reads the whole file to report.
        let _ = flate2::read::MultiGzDecoder::new(file).take(12).read_to_end(&mut first);
    } else {
        file.take(12).read_to_end(&mut first).map_err(DataError::io("read", path))?;
    }
    Ok(first)
}

impl PartInfo {
    /// Looks at every sample.
    ///
    /// # Errors
    /// If one cannot be read or decoded.
    pub(crate) fn of(part: &DataPart) -> Result<Self> {
        let mut classes: Vec<ClassCount> =
            part.class_names().iter().map(|name| ClassCount { name: name.clone(), count: 0 }).collect();
        let mut sums = Sums::default();
        let mut scratch = Scratch::default();
        let mut bytes = vec![0; part.shape().iter().product()];
        for index in 0..part.len() {
            if let Some(class) = classes.get_mut(part.label(index) as usize) {
                class.count += 1;
            }
            match part {
                DataPart::Memory(samples) => sums.add(samples.features(index)),
                DataPart::Stream(source) => {
                    source.fetch(index, &mut scratch, &mut bytes)?;
                    sums.add(Features::U8 { bytes: &bytes, scale: 1.0 / 255.0, offset: 0.0 });
                }
            }
        }
        Ok(Self { count: part.len(), classes, values: sums.stats(), fingerprint: part.fingerprint() })
    }
}

fn set_info(set: &DataSet, files: Vec<DiskFile>, bytes: u64) -> Result<SetInfo> {
    Ok(SetInfo {
        name: set.name.clone(),
        origin: set.origin.clone(),
        licence: set.licence.clone(),
        shape: set.train.shape().to_vec(),
        classes: set.train.classes(),
        train: PartInfo::of(&set.train)?,
        test: set.test.as_ref().map(PartInfo::of).transpose()?,
        files,
        bytes,
    })
}

fn file_info(path: &Path) -> Result<FileInfo> {
    let file = disk_file(path.to_path_buf())?;
    let header = idx::read_header(path)?;
    let mut values = None;
    if header.element == Element::U8 {
        let array = idx::read(path)?;
        if !array.data().is_empty() {
            let mut sums = Sums::default();
            sums.add(Features::U8 { bytes: array.data(), scale: 1.0, offset: 0.0 });
            values = Some(sums.stats());
        }
    }
    Ok(FileInfo { file, element: header.element, dims: header.dims, gzip: header.gzip, values })
}

fn disk_file(path: PathBuf) -> Result<DiskFile> {
    let bytes = std::fs::metadata(&path).map_err(DataError::io("read", &path))?.len();
    Ok(DiskFile { path, bytes })
}

/// Running sums in f64; those of bytes are whole numbers first, and so exact.
struct Sums {
    n: f64,
    sum: f64,
    squares: f64,
    min: f64,
    max: f64,
}

impl Default for Sums {
    fn default() -> Self {
        Self { n: 0.0, sum: 0.0, squares: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Sums {
    fn add(&mut self, features: Features<'_>) {
        match features {
            // Numbers that stand for something are no values.
            Features::U32(_) | Features::U64(_) => {}
            Features::U8 { bytes, scale, offset } => {
                self.n += bytes.len() as f64;
                let (mut sum, mut squares, mut min, mut max) = (0u64, 0u64, u8::MAX, u8::MIN);
                for &byte in bytes {
                    sum += u64::from(byte);
                    squares += u64::from(byte) * u64::from(byte);
                    min = min.min(byte);
                    max = max.max(byte);
                }
                // In f32, as training sees them: 255 · (1/255) is then exactly 1.
                let ends = [min, max].map(|byte| f64::from(f32::from(byte) * scale + offset));
                let (n, scale, offset) = (bytes.len() as f64, f64::from(scale), f64::from(offset));
                self.sum += scale * sum as f64 + offset * n;
                self.squares +=
                    scale * scale * squares as f64 + 2.0 * scale * offset * sum as f64 + offset * offset * n;
                self.min = self.min.min(ends[0]).min(ends[1]);
                self.max = self.max.max(ends[0]).max(ends[1]);
            }
            Features::F32(values) => {
                self.n += values.len() as f64;
                for value in values.iter().map(|&v| f64::from(v)) {
                    self.sum += value;
                    self.squares += value * value;
                    self.min = self.min.min(value);
                    self.max = self.max.max(value);
                }
            }
        }
    }

    fn stats(&self) -> Stats {
        if self.n == 0.0 {
            return Stats { min: 0.0, max: 0.0, mean: 0.0, std: 0.0 };
        }
        let mean = self.sum / self.n;
        let std = (self.squares / self.n - mean * mean).max(0.0).sqrt();
        Stats { min: self.min, max: self.max, mean, std }
    }
}

#[cfg(test)]
mod tests;
