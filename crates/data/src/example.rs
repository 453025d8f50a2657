//! `tf.train.Example`: named features, each a list of byte strings, floats or integers.

use crate::Result;

/// A feature to be written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A list of byte strings.
    Bytes(&'a [&'a [u8]]),
    /// A list of floats.
    Floats(&'a [f32]),
    /// A list of integers.
    Ints(&'a [i64]),
}

/// Appends an Example to `out`; features are written in the given order.
pub fn write(features: &[(&str, Value<'_>)], out: &mut Vec<u8>) {
    let _ = (features, out);
    todo!()
}

/// An Example read in place: nothing is copied, nothing is allocated but a small table.
#[derive(Clone, Debug, Default)]
pub struct Example<'a> {
    _bytes: &'a [u8],
}

impl<'a> Example<'a> {
    /// Checks and indexes the features of `bytes`. Offsets in errors are relative to `bytes`; the caller adds file and
    /// record.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let _ = bytes;
        todo!()
    }

    /// The first byte string of a feature.
    pub fn bytes(&self, name: &str) -> Option<&'a [u8]> {
        let _ = name;
        todo!()
    }

    /// The first integer of a feature.
    pub fn int(&self, name: &str) -> Option<i64> {
        let _ = name;
        todo!()
    }
}
