//! What can be wrong with a list of photos.

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
        "{folder}: no images below it ({other} other files); give a folder with one folder of .jpg or .png files per class"
    )]
    NoImages {
        /// The folder.
        folder: String,
        /// Files that are no images.
        other: usize,
    },
    /// Images without a class.
    #[error(
        "{folder}: {count} images lie directly in it, such as {first}, and so have no class; put them into class folders, or list them in a csv file of path,label"
    )]
    NoClass {
        /// The folder.
        folder: String,
        /// How many.
        count: usize,
        /// One of them.
        first: String,
    },
    /// A class folder whose name is not UTF-8.
    #[error("{folder}: the class folder {name} is not named in UTF-8; rename it, since class names are stored as text")]
    ClassName {
        /// The folder.
        folder: String,
        /// Its name, as well as it can be shown.
        name: String,
    },
    /// More than can be numbered.
    #[error("{folder}: more than {limit} classes; check that its folders are classes")]
    TooManyClasses {
        /// The folder or table.
        folder: String,
        /// The limit.
        limit: usize,
    },
    /// A line without exactly a path and a label.
    #[error("{table}:{line}: {found} columns instead of path and label; write `path,label`, with quotes around commas")]
    Columns {
        /// The table.
        table: String,
        /// The line, from 1.
        line: usize,
        /// Columns found.
        found: usize,
    },
    /// A quoted field that does not end, or goes on after its end.
    #[error("{table}:{line}: {reason}; write a quote within quotes twice")]
    Quotes {
        /// The table.
        table: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// An empty path or label.
    #[error("{table}:{line}: the {column} is empty; give a path and a label")]
    EmptyField {
        /// The table.
        table: String,
        /// The line, from 1.
        line: usize,
        /// `path` or `label`.
        column: &'static str,
    },
    /// A label that is not UTF-8.
    #[error("{table}:{line}: the label is not UTF-8; save the table as UTF-8")]
    Label {
        /// The table.
        table: String,
        /// The line, from 1.
        line: usize,
    },
    /// A file that is not there.
    #[error("{table}:{line}: no file {path}; paths are relative to the folder of the table")]
    Missing {
        /// The table.
        table: String,
        /// The line, from 1.
        line: usize,
        /// The path.
        path: String,
    },
    /// A table without lines.
    #[error("{table}: lists no files; write a line `path,label` for each image")]
    EmptyTable {
        /// The table.
        table: String,
    },
}
