//! What can be wrong with a folder of shards.

#![expect(missing_docs, reason = "the message of a variant says what its fields are")]

/// A folder of shards that is not what it says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShardError {
    /// No record files.
    #[error(
        "{path}: no record files (.tfrec, .tfrecord, .tfrecords, name-00000-of-00008); give a folder of shards or one file"
    )]
    NoShards { path: String },
    /// An index that is no JSON of the right form.
    #[error("{path}: not an index of shards ({reason}); write the shards again with `paceline prepare`")]
    Index {
        path: String,
        /// What the parser said, with line and column.
        reason: String,
    },
    /// An index of a newer program.
    #[error("{path}: format {found}, and this program knows formats up to {known}; use a newer paceline")]
    NewerIndex {
        path: String,
        found: u32,
        /// The newest known one.
        known: u32,
    },
    /// A shard file of an index that lies elsewhere.
    #[error("{path}: the shard name `{file}` is not a plain file name; the index is damaged or hostile")]
    FileName { path: String, file: String },
    /// A part that the index does not have.
    #[error("{path}: no part `{part}`; it has {known}")]
    NoPart {
        /// The folder or index.
        path: String,
        /// The part asked for.
        part: String,
        /// The parts there are.
        known: String,
    },
    /// A shard whose name says two parts.
    #[error(
        "{path}: {file} may be of the {first} or of the {second} part by its name; rename it, or move it elsewhere"
    )]
    TwoParts { path: String, file: String, first: &'static str, second: &'static str },
    /// A shard whose name says no part, among others that do.
    #[error(
        "{path}: {file} says no part by its name, and {other} does; name all shards train-…, validation-… or test-…, or move some elsewhere"
    )]
    NoPartName {
        path: String,
        file: String,
        /// One with a part.
        other: String,
    },
    /// Shards for validation or test alone.
    #[error(
        "{path}: its shards are for {parts} by their names, and none is to train on; give the folder of training shards, or one file"
    )]
    NoTraining {
        path: String,
        /// The parts there are.
        parts: String,
    },
    /// A class that is validated or tested on and was never learned.
    #[error(
        "{path}: the {part} shards have a class `{class}` that the training shards do not have; add it there, or take it out"
    )]
    ExtraClass { path: String, part: &'static str, class: String },
    /// A shard of another size than the index says.
    #[error(
        "{path}: {found} bytes, but the index says {expected}; the shard was changed or not fully copied: copy or prepare it again"
    )]
    Size {
        path: String,
        /// Bytes in the index.
        expected: u64,
        /// Bytes of the file.
        found: u64,
    },
    /// A shard with another number of records than the index says.
    #[error("{path}: {found} records, but the index says {expected}; the shard was changed: copy or prepare it again")]
    Count {
        path: String,
        /// Records in the index.
        expected: usize,
        /// Records in the file.
        found: usize,
    },
    /// No feature that can be the image.
    #[error(
        "{place}: none of its features is known to be an image ({known}); say which one: data.image=NAME and data.label=NAME"
    )]
    NoImage {
        /// File and record.
        place: String,
        /// The features it has.
        known: String,
    },
    /// The features that the user named are not there, or are no image and no class.
    #[error(
        "{place}: no feature `{wanted}` that can be an image (a file in bytes, or a list of numbers) and a class (a number, a name, or a list with one 1); its features: {known}; `paceline data info` shows them"
    )]
    NoSuchFeatures {
        /// File and record.
        place: String,
        /// The names given.
        wanted: String,
        /// The features it has.
        known: String,
    },
    /// Images of numbers that do not lie in a range with a meaning.
    #[error(
        "{path}: the images in `{feature}` have numbers from {range}; they must lie in 0 to 1, -1 to 1 or 0 to 255"
    )]
    Numbers {
        /// The folder or file.
        path: String,
        feature: String,
        /// The least and the greatest number of all records.
        range: String,
    },
    /// A number that is none.
    #[error("{place}: `{feature}` has a number that is not finite; make the record again, or leave bad records out")]
    NotFinite {
        /// File and record.
        place: String,
        feature: String,
    },
    /// A list that is to say the class and does not.
    #[error("{place}: `{feature}` is not a list of zeros with one 1; make the record again, or leave bad records out")]
    OneHot {
        /// File and record.
        place: String,
        feature: String,
    },
    /// A record without the image that the others have.
    #[error(
        "{place}: no feature `{feature}` with the image; make the record again, or leave bad records out with skip_bad=N (in training data.skip_bad=N)"
    )]
    MissingImage {
        /// File and record.
        place: String,
        feature: String,
    },
    /// A record without a class.
    #[error(
        "{place}: no class: {wanted}; make the record again, or leave bad records out with skip_bad=N (in training data.skip_bad=N)"
    )]
    MissingClass {
        /// File and record.
        place: String,
        /// The features that were looked for.
        wanted: String,
    },
    /// A class that cannot be one.
    #[error(
        "{place}: class {class} is not between 0 and {max}; correct the record, or leave bad records out with skip_bad=N (in training data.skip_bad=N)"
    )]
    Class {
        /// File and record.
        place: String,
        class: i64,
        /// The largest possible one.
        max: usize,
    },
    /// One class with two names.
    #[error(
        "{place}: class {class} is called `{name}` here and `{other}` elsewhere; make the shards again with one list of classes"
    )]
    Names {
        /// Where the second name was seen.
        place: String,
        class: u32,
        /// The second name.
        name: String,
        /// The first name.
        other: String,
    },
    /// A class name that is not UTF-8.
    #[error(
        "{place}: the name of its class is not UTF-8; make the record again, or leave bad records out with skip_bad=N (in training data.skip_bad=N)"
    )]
    ClassName {
        /// File and record.
        place: String,
    },
    /// A raw image whose bytes do not fit its shape.
    #[error(
        "{place}: a raw image of {found} bytes where {shape:?} needs {expected}; make the record again, or leave bad records out with skip_bad=N (in training data.skip_bad=N)"
    )]
    RawSize {
        /// File and record.
        place: String,
        /// Height, width, channels.
        shape: [usize; 3],
        /// Bytes that the shape needs.
        expected: usize,
        /// Bytes that there are.
        found: usize,
    },
    /// No records at all.
    #[error("{path}: its {files} files hold no records; give shards with at least one record")]
    Empty {
        /// The folder or file.
        path: String,
        /// How many files there are.
        files: usize,
    },
}
