//! What can be wrong with an image, and at which byte.

/// The result type of this crate.
pub type Result<T, E = ImageError> = std::result::Result<T, E>;

/// A malformed, hostile or unsupported image. Says at which byte.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// Of a format that is not read.
    #[error("neither JPEG, PNG, WebP, BMP nor GIF: it begins with {found} at byte 0; convert it to one of them")]
    Unknown {
        /// The first bytes, in hexadecimal.
        found: String,
    },
    /// The bytes end before the image does.
    #[error("the image ends at byte {offset}, within {what}; it was cut off: fetch it again")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Where the bytes end.
        offset: usize,
    },
    /// Against the rules of the format.
    #[error("{what} at byte {offset}; the image is damaged: fetch it again or leave it out")]
    Malformed {
        /// What is wrong.
        what: String,
        /// Byte of the file where it was noticed.
        offset: usize,
    },
    /// Within the rules, but of a kind that is not read.
    #[error("{what} at byte {offset} is not supported; convert it to a baseline or progressive 8-bit image")]
    Unsupported {
        /// What it uses.
        what: String,
        /// Where it says so.
        offset: usize,
    },
    /// More pixels than the limits allow.
    #[error(
        "{width}×{height} pixels (stated at byte {offset}) are more than the limit of {limit}; leave it out, or make it smaller"
    )]
    TooLarge {
        /// Pixels in a row, as the header states.
        width: usize,
        /// Rows, as the header states.
        height: usize,
        /// The limit in pixels.
        limit: u64,
        /// Where the size is stated.
        offset: usize,
    },
    /// Far more pixels than a file of its length has, unless it is empty or hostile.
    #[error(
        "{width}×{height} pixels up to byte {bytes}, where the file ends, are more than the limit of {limit} for that length (256 for a byte, 16,777,216 for any file); leave it out, or make it smaller"
    )]
    TooDense {
        /// Pixels in a row, as the header states.
        width: usize,
        /// Rows, as the header states.
        height: usize,
        /// Length of the file.
        bytes: usize,
        /// Pixels that a file of this length may have.
        limit: u64,
    },
    /// A file that asks for far more work than files of its length do.
    #[error(
        "{what} at byte {offset}: more than the limit of {limit} for an image of that length; save it as a baseline JPEG, or leave it out"
    )]
    TooMuchWork {
        /// What there is too much of.
        what: &'static str,
        /// How much of it an image of this length may have.
        limit: u64,
        /// Where it was passed.
        offset: usize,
    },
    /// Pixels that cannot be stored in the wanted format.
    #[error(
        "{width}×{height}×{channels} pixels in {bytes} bytes cannot be encoded as {format}; give 1 to 65,535 pixels a side, 1 or 3 channels, and all of their bytes"
    )]
    Unstorable {
        /// Pixels in a row, as the caller states.
        width: usize,
        /// Rows, as the caller states.
        height: usize,
        /// Channels, as the caller states.
        channels: usize,
        /// Length of the data that was given.
        bytes: usize,
        /// The format.
        format: &'static str,
    },
}

impl ImageError {
    pub(crate) fn malformed(what: impl Into<String>, offset: usize) -> Self {
        Self::Malformed { what: what.into(), offset }
    }

    pub(crate) fn unsupported(what: impl Into<String>, offset: usize) -> Self {
        Self::Unsupported { what: what.into(), offset }
    }
}
