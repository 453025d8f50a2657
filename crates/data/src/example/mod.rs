//! `tf.train.Example`: named features, each a list of byte strings, floats or integers.
//!
//! The message, in protobuf's words: `Example { Features features = 1 }`, `Features { map<string, Feature> feature = 1 }`,
//! `Feature { oneof { BytesList = 1, FloatList = 2, Int64List = 3 } }`, each list `{ repeated value = 1 }`. Five levels,
//! so it is read by five nested loops and no recursion.
//!
//! Read as protobuf demands: lists may be packed or not; unknown fields are skipped; a message that comes in several
//! pieces is the pieces put together; of a name that comes twice, and of two kinds in one feature, the last counts.
//! Groups, which nest without bound, are refused.
//!
//! ```
//! use paceline_data::example::{self, Example, Value};
//!
//! let mut record = Vec::new();
//! example::write(&[("label", Value::Bytes(&[b"rose"])), ("size", Value::Ints(&[192, 128]))], &mut record);
//! let read = Example::parse(&record)?;
//! assert_eq!(read.bytes("label"), Some(&b"rose"[..]));
//! # Ok::<(), paceline_data::DataError>(())
//! ```

mod feature;
mod sequence;
mod wire;
mod write;

pub(crate) use feature::Feature;
pub use feature::FeatureKind;
pub(crate) use sequence::Sequence;
pub use write::{Value, write};

use crate::ExampleError;
use feature::{Entry, entry};
use wire::{Cursor, Payload};

/// An Example read in place: nothing is copied, nothing is allocated but a small table.
#[derive(Clone, Debug, Default)]
pub struct Example<'a> {
    entries: Vec<Entry<'a>>,
    /// The pieces of all lists, those of one feature side by side.
    pieces: Vec<&'a [u8]>,
}

impl<'a> Example<'a> {
    /// Checks and indexes the features of `bytes`. Offsets in errors are relative to `bytes`; the caller adds file and
    /// record (`ExampleError::at`).
    ///
    /// # Errors
    /// One [`ExampleError`] for each way in which the message can be wrong.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ExampleError> {
        let mut example = Self { entries: Vec::with_capacity(8), pieces: Vec::with_capacity(8) };
        let mut message = Cursor::new(bytes);
        while let Some(field) = message.field()? {
            if let (1, Payload::Bytes(features)) = (field.number, field.value) {
                example.add(features)?;
            }
        }
        example.keep_last();
        Ok(example)
    }

    /// Adds the entries of a `Features` message.
    fn add(&mut self, mut features: Cursor<'a>) -> Result<(), ExampleError> {
        while let Some(field) = features.field()? {
            if let (1, Payload::Bytes(message)) = (field.number, field.value) {
                self.entries.push(entry(message, &mut self.pieces)?);
            }
        }
        Ok(())
    }

    /// Of several entries of one name the last counts.
    fn keep_last(&mut self) {
        let entries = &self.entries;
        // Compared pair by pair up to a few: faster than sorting, and no hostile input can make it slow.
        let doubled = if entries.len() <= 16 {
            entries.iter().enumerate().any(|(i, e)| entries[..i].iter().any(|other| other.name == e.name))
        } else {
            let mut names: Vec<&str> = entries.iter().map(|e| e.name).collect();
            names.sort_unstable();
            names.windows(2).any(|pair| pair[0] == pair[1])
        };
        if doubled {
            let mut seen = std::collections::HashSet::new();
            let mut kept: Vec<Entry<'a>> = self.entries.iter().rev().filter(|e| seen.insert(e.name)).copied().collect();
            kept.reverse();
            self.entries = kept;
        }
    }

    /// How many features.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All features, in the order in which they are stored.
    pub(crate) fn features(&self) -> impl Iterator<Item = Feature<'a, '_>> {
        self.entries.iter().map(|entry| Feature::of(entry, &self.pieces))
    }

    /// A feature by its name.
    pub(crate) fn feature(&self, name: &str) -> Option<Feature<'a, '_>> {
        self.entries.iter().find(|entry| entry.name == name).map(|entry| Feature::of(entry, &self.pieces))
    }

    /// The first byte string of a feature.
    pub fn bytes(&self, name: &str) -> Option<&'a [u8]> {
        self.feature(name)?.byte_strings().next()
    }

    /// The first integer of a feature.
    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        self.feature(name)?.ints().next()
    }
}
