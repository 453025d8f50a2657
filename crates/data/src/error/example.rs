//! What can be wrong with a `tf.train.Example`. Offsets count from the beginning of the record.

#![expect(missing_docs, reason = "the message of a variant says what its fields are")]

use super::DataError;

/// A malformed Example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExampleError {
    /// A number that does not end, or not within the record.
    #[error("byte {offset}: a number that does not end")]
    Varint {
        /// Where the number begins.
        offset: usize,
    },
    /// A length beyond the end of what it lies in.
    #[error("byte {offset}: a field of {length} bytes where {left} are left")]
    Length {
        /// Where the length stands.
        offset: usize,
        length: u64,
        /// What is left.
        left: usize,
    },
    /// A field number of 0 or above 2²⁹.
    #[error("byte {offset}: a field with the number {number}, which does not exist")]
    FieldNumber {
        /// Where the field begins.
        offset: usize,
        number: u64,
    },
    /// A wire type that does not exist.
    #[error("byte {offset}: a field of wire type {wire}, which does not exist")]
    WireType {
        /// Where the field begins.
        offset: usize,
        wire: u8,
    },
    /// Groups nest without bound, and an Example has none.
    #[error("byte {offset}: a protobuf group, which an Example does not have")]
    Group {
        /// Where the group begins or ends.
        offset: usize,
    },
    /// Packed floats whose bytes are not a multiple of four.
    #[error("byte {offset}: packed floats of {length} bytes, which is no multiple of 4")]
    PackedFloats {
        /// Where they begin.
        offset: usize,
        length: usize,
    },
    /// A feature whose name is not UTF-8.
    #[error("byte {offset}: the name of a feature is not UTF-8")]
    Name {
        /// Where the name begins.
        offset: usize,
    },
}

impl ExampleError {
    /// With the place of the record: file, number, offset.
    pub(crate) fn at(self, place: impl Into<String>) -> DataError {
        DataError::Example { place: place.into(), source: self }
    }
}

impl From<ExampleError> for DataError {
    fn from(source: ExampleError) -> Self {
        source.at("record")
    }
}
