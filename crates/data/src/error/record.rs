//! What can be wrong with a file of records. Offsets are those of the unpacked bytes.

#![expect(missing_docs, reason = "the message of a variant says what its fields are")]

/// A malformed TFRecord file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The checksum of a length is wrong, so nothing behind it can be found.
    #[error(
        "{file}: the length at byte {offset} fails its checksum; the file is damaged or no TFRecord: get it again, or leave bad records out with skip_bad=N (in training data.skip_bad=N)"
    )]
    LengthChecksum {
        file: String,
        /// Where the record begins.
        offset: u64,
    },
    /// The checksum of the data is wrong.
    #[error(
        "{file}: the record at byte {offset} ({length} bytes) fails its checksum; get the file again, or leave bad records out with skip_bad=N (in training data.skip_bad=N)"
    )]
    DataChecksum {
        file: String,
        /// Where the record begins.
        offset: u64,
        length: u64,
    },
    /// The file ends within a record.
    #[error(
        "{file}: truncated: the record at byte {offset} needs {needed} bytes and {left} are left; get the file again, or leave bad records out with skip_bad=N (in training data.skip_bad=N)"
    )]
    Truncated {
        file: String,
        /// Where the record begins.
        offset: u64,
        /// Bytes of the record, with its frame as far as it is known.
        needed: u64,
        /// Bytes from its beginning to the end of the file.
        left: u64,
    },
    /// A record that is longer than we are willing to hold.
    #[error(
        "{file}: the record at byte {offset} has {}, the most that is read from a stream is {}; it is damaged, or must be split",
        paceline_base::text::bytes(*length),
        paceline_base::text::bytes(*limit)
    )]
    TooLong {
        file: String,
        /// Where the record begins.
        offset: u64,
        length: u64,
        limit: u64,
    },
    /// Damaged gzip or zlib data.
    #[error("{file}: damaged {packing} data after {offset} unpacked bytes ({reason}); get the file again")]
    Unpacking {
        file: String,
        /// `gzip` or `zlib`.
        packing: &'static str,
        /// Bytes unpacked so far.
        offset: u64,
        /// What the decoder said.
        reason: String,
    },
    /// A set whose packed files, or whose many records, take too much memory.
    #[error(
        "{file}: with it the set takes more than {limit} bytes of memory, the most that its unpacked files and the places of its records may take; unpack the files (plain ones are mapped), use fewer of them, or free some memory"
    )]
    NoMemory {
        /// The file with which it was too much.
        file: String,
        limit: u64,
    },
    /// A packed file that is too large to be held in memory.
    #[error(
        "{file}: more than {limit} bytes unpacked, the most that is held in memory; unpack the file: a plain one is mapped"
    )]
    TooLarge { file: String, limit: u64 },
}
