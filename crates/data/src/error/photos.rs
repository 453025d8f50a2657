//! What can be wrong with a list of photos.

#![expect(missing_docs, reason = "the message of a variant says what its fields are")]

/// A folder or a table that is no list of photos.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PhotoError {
    /// Neither a folder nor a table.
    #[error("{path}: neither a folder of class folders nor a .csv or .tsv file; give one of these")]
    NotPhotos {
        /// What was given.
        path: String,
    },
    /// Nothing in the folder.
    #[error(
        "{folder}: no images below it (it holds {held}); give a folder with one folder of images (jpg, png, webp, bmp, gif) per class"
    )]
    NoImages {
        folder: String,
        /// What there is instead.
        held: String,
    },
    /// A class folder in which there is no image.
    #[error(
        "{class}: a class folder without an image that can be read (it holds {held}); put images there (jpg, png, webp, bmp, gif; convert others), or move the folder elsewhere"
    )]
    ClassWithoutImages {
        class: String,
        /// What there is instead.
        held: String,
    },
    /// Folders for parts beside class folders.
    #[error(
        "{folder}: {parts} may be parts (training, validation, test) or classes, beside {others}; put class folders into train, val and test folders alone, or rename what is a class, or list the images in a csv of path,label"
    )]
    Mixed {
        folder: String,
        /// Folders that are named like parts.
        parts: String,
        /// Those that are not.
        others: String,
    },
    /// Two folders for one part, such as `val` and `validation`.
    #[error("{folder}: two folders for the {part} part; put their class folders into one")]
    TwoFolders { folder: String, part: &'static str },
    /// Parts, but none to train on.
    #[error(
        "{place}: parts for validation or test, but none to train on; name the training part `train`, or give one part alone as a set of its own"
    )]
    NoTraining {
        /// The folder or table.
        place: String,
    },
    /// A part without class folders.
    #[error(
        "{folder}: named like a part of a set, but without class folders; put a folder of images for each class into it"
    )]
    PartWithoutClasses { folder: String },
    /// A class that is validated or tested on and was never learned.
    #[error(
        "{place}: the {part} part has a class `{class}` that the training part does not have; add it there, or take it out of the {part} part"
    )]
    ExtraClass {
        /// The folder or table.
        place: String,
        part: &'static str,
        class: String,
    },
    /// A word in the column `split` that says nothing.
    #[error(
        "{table}:{line}: the split `{word}` is none of train, validation (or val) and test; write one of these, or give the column another name if it means something else"
    )]
    SplitWord {
        table: String,
        /// The line, from 1.
        line: usize,
        word: String,
    },
    /// Nothing in the column `split`.
    #[error("{table}:{line}: the split is empty; write train, validation or test on every line, or remove the column")]
    EmptySplit {
        table: String,
        /// The line, from 1.
        line: usize,
    },
    /// A file that is both trained and validated (or tested) on.
    #[error("{table}: {path} is in the {first} part and in the {second} part; keep one of the lines")]
    InTwoParts {
        table: String,
        path: String,
        /// Its first part.
        first: &'static str,
        /// Its second part.
        second: &'static str,
    },
    /// Something else than a file.
    #[error("{table}:{line}: {path} is {what}, not a regular file; list image files only")]
    NotRegular {
        table: String,
        /// The line, from 1.
        line: usize,
        path: String,
        /// What it is.
        what: &'static str,
    },
    /// Images without a class.
    #[error(
        "{folder}: {} directly in it, such as {first}, without a class; put images into class folders, or list them in a csv file of path,label",
        if *count == 1 { "1 image lies".into() } else { format!("{count} images lie") }
    )]
    NoClass {
        folder: String,
        count: usize,
        /// One of them.
        first: String,
    },
    /// A class folder whose name is not UTF-8.
    #[error("{folder}: the class folder {name} is not named in UTF-8; rename it, since class names are stored as text")]
    ClassName {
        folder: String,
        /// Its name, as well as it can be shown.
        name: String,
    },
    /// More than can be numbered.
    #[error("{folder}: more than {limit} classes; check that its folders are classes")]
    TooManyClasses {
        /// The folder or table.
        folder: String,
        limit: usize,
    },
    /// A line without exactly a path and a label.
    #[error("{table}:{line}: {found} columns instead of path and label; write `path,label`, with quotes around commas")]
    Columns {
        table: String,
        /// The line, from 1.
        line: usize,
        found: usize,
    },
    /// A quoted field that does not end, or goes on after its end.
    #[error("{table}:{line}: {reason}; write a quote within quotes twice")]
    Quotes {
        table: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// An empty path or label.
    #[error("{table}:{line}: the {column} is empty; give a path and a label")]
    EmptyField {
        table: String,
        /// The line, from 1.
        line: usize,
        /// `path` or `label`.
        column: &'static str,
    },
    /// A label that is not UTF-8.
    #[error("{table}:{line}: the label is not UTF-8; save the table as UTF-8")]
    Label {
        table: String,
        /// The line, from 1.
        line: usize,
    },
    /// A file that is not there.
    #[error("{table}:{line}: no file {path}; paths are relative to the folder of the table")]
    Missing {
        table: String,
        /// The line, from 1.
        line: usize,
        path: String,
    },
    /// A table without lines.
    #[error("{table}: lists no files; write a line `path,label` for each image")]
    EmptyTable { table: String },
}
