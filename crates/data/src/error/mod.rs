//! What can be wrong with data: one variant for each way, so that a caller can tell them apart and a test can name them.
//!
//! Every message is lower case, begins with the file, name or address that it is about, and ends in what to do.

#![expect(missing_docs, reason = "the message of a variant says what its fields are")]

mod csv;
mod example;
mod photos;
mod record;
mod shards;

pub use csv::{CsvError, MixedCell};
pub use example::ExampleError;
pub use photos::PhotoError;
pub use record::RecordError;
pub use shards::ShardError;

use std::path::{Path, PathBuf};

/// The result type of this crate.
pub type Result<T, E = DataError> = std::result::Result<T, E>;

/// A malformed file, an unknown name, a failed download.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    // ---- the format ----
    /// The first four bytes are not `00 00 TYPE RANK`.
    #[error(
        "{file}: not an IDX file: it begins with {found}, not with 00 00 TYPE RANK; give an IDX file (plain or gzip), such as train-images-idx3-ubyte.gz"
    )]
    NotIdx {
        file: String,
        /// Its first bytes, in hexadecimal.
        found: String,
    },
    /// An IDX file whose elements are not unsigned bytes.
    #[error(
        "{file}: unsupported element type {code:#04x} ({name}); images and labels must be unsigned bytes (0x08): convert the file"
    )]
    UnsupportedType {
        file: String,
        /// The type byte of the header.
        code: u8,
        /// Its name in the IDX format.
        name: &'static str,
    },
    /// Fewer bytes than the header promises.
    #[error("{file}: truncated: its header needs {expected} bytes (unpacked) and it has {found}; fetch the file again")]
    Truncated {
        file: String,
        /// Bytes that the header promises, the header included.
        expected: u64,
        /// Bytes that there are.
        found: u64,
    },
    /// More bytes than the header promises.
    #[error(
        "{file}: bytes after the end: its header needs {expected} bytes (unpacked) and it has more; fetch the file again"
    )]
    TrailingBytes {
        file: String,
        /// Bytes that the header promises, the header included.
        expected: u64,
    },
    /// The product of the dimensions cannot be addressed.
    #[error(
        "{file}: the dimensions {dims:?} are more than this machine can address; the header is damaged: fetch the file again"
    )]
    TooLarge {
        file: String,
        /// The dimensions of the header.
        dims: Vec<u64>,
    },
    /// More than there is memory for.
    #[error(
        "{what} takes {} in memory, but {} are free; free some, take a machine with more, or turn it into records, which are \
         read while training (paceline prepare)",
        paceline_base::text::bytes(*needs),
        paceline_base::text::bytes(*free)
    )]
    DoesNotFit {
        what: String,
        /// Bytes of its samples.
        needs: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// A damaged gzip stream.
    #[error("{file}: damaged gzip data ({reason}); fetch the file again")]
    CorruptGzip {
        file: String,
        /// What the decoder said.
        reason: String,
    },

    /// A file of which nothing is known.
    #[error(
        "{file}: of no kind that is known (it begins with {found}); give a TFRecord, IDX or image file (JPEG, PNG, WebP, BMP, GIF), a csv of values, a csv or tsv of path,label, or a folder of these"
    )]
    UnknownContent {
        file: String,
        /// Its first bytes, in hexadecimal.
        found: String,
    },
    /// Something without images, of which images were wanted.
    #[error("{name}: no images in it to write as PNG; give records or samples of images")]
    NoPictures {
        /// The file or set.
        name: String,
    },
    /// A malformed file of records.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A record that is no Example.
    #[error(
        "{place}: not a tf.train.Example: {source}; write the record again, or leave bad records out with skip_bad=N (in training data.skip_bad=N)"
    )]
    Example {
        /// File and record.
        place: String,
        /// What is wrong, and at which byte of the record.
        source: ExampleError,
    },
    /// A wrong csv of values.
    #[error(transparent)]
    Csv(#[from] CsvError),
    /// A wrong list of photos.
    #[error(transparent)]
    Photos(#[from] PhotoError),
    /// A wrong folder of shards.
    #[error(transparent)]
    Shards(#[from] ShardError),

    // ---- sets ----
    /// Images with the rank of labels, or the other way round.
    #[error(
        "{file}: wrong rank: it has {found} dimensions and {expected}; check that images and labels are not mixed up"
    )]
    WrongRank {
        file: String,
        /// What is needed, as words.
        expected: &'static str,
        /// The number of dimensions found.
        found: usize,
    },
    /// No samples, or samples without a single value.
    #[error(
        "{file}: holds no samples (dimensions {dims:?}); give a set with at least one sample of at least one value"
    )]
    Empty {
        /// Which file or set.
        file: String,
        dims: Vec<usize>,
    },
    /// Images and labels of different number.
    #[error("{images_file} holds {} and {labels_file} holds {}; give two files of one set",
        paceline_base::text::counted(*images, "image"),
        paceline_base::text::counted(*labels, "label")
    )]
    CountMismatch {
        /// The file of images.
        images_file: String,
        /// How many images.
        images: usize,
        /// The file of labels.
        labels_file: String,
        /// How many labels.
        labels: usize,
    },
    /// A label that is not below the number of classes.
    #[error("{file}: label {label} at index {index} is out of range: the set has {classes} classes (0 to {max}); correct the label or the list of classes", max = classes.saturating_sub(1))]
    LabelOutOfRange {
        /// Which file or set.
        file: String,
        /// Index of the sample.
        index: usize,
        label: u32,
        /// Number of classes.
        classes: usize,
    },
    /// Training and test samples of different shape.
    #[error("{file}: samples of shape {found:?}, but the training samples are {expected:?}; give two parts of one set")]
    ShapeMismatch {
        file: String,
        /// Shape of a training sample.
        expected: Vec<usize>,
        /// Shape of a test sample.
        found: Vec<usize>,
    },
    /// A buffer whose length is not what its shape needs.
    #[error("{what}: {found} values, but its shape needs {expected}; give as many values as the shape has")]
    LengthMismatch {
        what: &'static str,
        /// What the shape needs.
        expected: usize,
        /// What was given.
        found: usize,
    },
    /// A value that is none to compute with.
    #[error("{what}: {value} at sample {index} is not finite; give finite numbers")]
    NotFinite {
        what: &'static str,
        /// Index of the sample.
        index: usize,
        value: f32,
    },
    /// An index of a list that is not below the bound.
    #[error(
        "lists of indices: index {index} of sample {sample} is not below {bound}; give a larger bound, or correct the index"
    )]
    IndexBeyond {
        /// Index of the sample.
        sample: usize,
        index: u64,
        bound: u64,
    },
    /// A subset that names a sample which is not there.
    #[error("subset: index {index} is out of range of a set of {len} samples; give indices below {len}")]
    IndexOutOfRange {
        index: usize,
        /// How many samples there are.
        len: usize,
    },
    /// A text that is no validation split.
    #[error(
        "`{text}` is not a validation split; give a fraction between 0 and 1, such as 0.1, or `test`, `own`, `auto`, or a path such as ./val"
    )]
    BadSplit {
        /// What was given.
        text: String,
    },
    /// A split that leaves one of its parts without samples.
    #[error(
        "a validation fraction of {fraction} of {samples} samples leaves the {part} part empty; use another fraction or more samples"
    )]
    EmptyPart {
        /// Which part is empty: training or validation.
        part: &'static str,
        /// The fraction asked for.
        fraction: f64,
        /// How many samples there are to split.
        samples: usize,
    },
    /// A set without a test part was to be validated on it.
    #[error("{name}: has no test part to validate on; give a validation fraction instead, such as 0.1")]
    NoTestPart {
        /// Name of the set.
        name: String,
    },

    /// A set without a validation part was to be validated on it.
    #[error("{name}: has no validation part of its own; give a validation fraction instead, such as 0.1")]
    NoValidationPart {
        /// Name of the set.
        name: String,
    },

    /// Something to validate on that cannot be.
    #[error("data.validation = \"{path}\": {reason}")]
    ValidationSet {
        /// What was given.
        path: String,
        /// What is wrong with it, and what to do.
        reason: String,
    },

    /// A record that was found to be bad when its file was opened, and kept its place.
    #[error("{reason}")]
    BadRecord {
        /// What is wrong with it, with file and byte.
        reason: String,
    },
    /// Samples without classes, where classes are needed.
    #[error(
        "{what}: has no labels to compare with; give class folders, a csv of path,label, a csv of values with its target columns, labelled shards, or IDX files with their labels, or use `paceline predict`, which needs none"
    )]
    NoLabels {
        /// What was given.
        what: String,
    },
    /// Images for a model that takes none.
    #[error(
        "{what}: holds images, but the model was not trained on images; give samples of the kind that it was trained on"
    )]
    NoImageModel {
        /// What was given.
        what: String,
    },
    /// Samples of another shape than a model takes.
    #[error(
        "{file}: samples of shape {found:?}, but the model takes {expected:?}; give data of that shape (image files are brought to it by themselves)"
    )]
    ModelShape {
        /// What was given.
        file: String,
        /// What the model takes.
        expected: Vec<usize>,
        /// What there is.
        found: Vec<usize>,
    },
    /// An image that cannot be decoded.
    #[error("{place}: bad image: {reason}; mend or remove it")]
    BadImage {
        /// File, and record if it is in one.
        place: String,
        /// What the decoder said.
        reason: String,
    },
    /// An image of another size than the others.
    #[error(
        "{place}: the image is {}×{} with {}, but samples are {}×{} with {}; give data.size, to which all are brought",
        found[1], found[0], paceline_base::text::counted(found[2], "channel"), expected[1], expected[0], expected[2]
    )]
    ImageSize {
        /// File, and record if it is in one.
        place: String,
        /// Height, width, channels of a sample.
        expected: [usize; 3],
        /// Height, width, channels of this image.
        found: [usize; 3],
    },

    // ---- the catalogue ----
    /// Neither a known name nor a folder.
    #[error(
        "no data set named `{name}`; give one of {known}, or a path: a folder of record shards, of class folders with images or of IDX files, a file of records, a csv of values, or a csv of path,label{hint}"
    )]
    UnknownSet {
        /// What was given.
        name: String,
        /// "; did you mean …?" or nothing.
        hint: String,
        /// The known names.
        known: String,
    },
    /// A known set that is not on this machine.
    #[error(
        "{name} is not on this machine (looked in {looked}); run `paceline data get {name}`, or `paceline data get {name} --from DIR` if you have its files"
    )]
    NotPresent {
        /// Name of the set.
        name: String,
        /// The folders that were searched.
        looked: String,
    },
    /// A folder in which a file of the set is missing.
    #[error("{folder}: no file {file} (or {file}.gz); give the folder that holds the four IDX files")]
    MissingFile {
        folder: String,
        /// The well-known name of the missing file.
        file: &'static str,
    },
    /// A folder, file or archive that is not CIFAR-10 in any of its forms.
    #[error(
        "{file}: not CIFAR-10: {reason}; give the folder of the binary version (data_batch_1.bin …), of its PNG form, or of cifar-10-binary.tar.gz"
    )]
    BadCifar {
        /// The file or folder.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An archive that unpacks to more than any of its kind.
    #[error("{file}: unpacks to more than {}, which the archive of CIFAR-10 does not; get it again", paceline_base::text::bytes(*limit))]
    ArchiveTooLarge { file: String, limit: u64 },
    /// A description of a made-up set that does not follow the grammar.
    #[error("`{spec}`: {reason}; write fake:SHAPE:CLASSES:COUNT, such as fake:28x28x1:10:60000")]
    BadFake {
        /// What was given.
        spec: String,
        /// What is wrong with it.
        reason: String,
    },
    /// `get` for something that needs no getting.
    #[error("{name}: nothing to get: {reason}; use it directly, as in `data = \"{name}\"`")]
    NothingToGet {
        /// What was given.
        name: String,
        reason: &'static str,
    },
    /// No folder for the cache is known.
    #[error("no cache folder: neither PACELINE_CACHE, XDG_CACHE_HOME nor HOME is set; set PACELINE_CACHE to a folder")]
    NoCache,
    /// A file with another content than the published one.
    #[error(
        "{file}: wrong content: SHA-256 {found}, expected {expected}; it is another file or a damaged one: get it from another place"
    )]
    WrongDigest {
        /// The file or address.
        file: String,
        /// The published digest.
        expected: String,
        /// The digest of what came.
        found: String,
    },
    /// A server that cannot be reached.
    #[error("cannot reach {url} ({reason}); check the network, or fetch the files elsewhere and give their folder")]
    Unreachable {
        url: String,
        /// What the network said.
        reason: String,
    },
    /// A server that answers, but not with the file.
    #[error(
        "{url}: the server answered with status {status}; give another address, or the folder of files that were fetched elsewhere"
    )]
    HttpStatus {
        url: String,
        /// The status code.
        status: u16,
    },
    /// A download that ended before its end.
    #[error(
        "{url}: the download ended early, after {found} of {expected} bytes (unpacked): {reason}; run the same command again"
    )]
    DownloadCut {
        url: String,
        /// Unpacked bytes that should have come.
        expected: u64,
        /// Unpacked bytes that came.
        found: u64,
        /// What the network or the decoder said.
        reason: String,
    },
    /// An address that is not `http://`.
    #[error(
        "{url}: only http:// addresses can be fetched (the content is checked by SHA-256, not by TLS); give an http:// address, or fetch the files and give their folder"
    )]
    NotPlainHttp { url: String },
    /// A failed file operation.
    #[error("cannot {doing} {}: {source}; check the path and its permissions", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl DataError {
    /// For `map_err`: a failed file operation.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { doing, path, source }
    }
}

impl From<DataError> for paceline_base::Error {
    /// Data that the user gave is theirs to correct; a network or a disk that failed is the world's doing.
    fn from(error: DataError) -> Self {
        match &error {
            DataError::Io { doing, path, source } => Self::io(doing, path, source),
            DataError::Unreachable { .. } | DataError::HttpStatus { .. } | DataError::DownloadCut { .. } => {
                Self::failure(error.to_string())
            }
            _ => Self::user(error.to_string()),
        }
    }
}
