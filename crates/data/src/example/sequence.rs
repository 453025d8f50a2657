//! `tf.train.SequenceExample`: recognised and summarised, not trained on.
//!
//! `SequenceExample { Features context = 1; FeatureLists feature_lists = 2 }`, `FeatureLists { map<string, FeatureList>
//! feature_list = 1 }`, `FeatureList { repeated Feature feature = 1 }`. Its context has the place of an Example's
//! features, so every SequenceExample is also an Example with an unknown field: only field 2 tells them apart.

use super::feature::{alone, text};
use super::wire::{Cursor, Payload};
use super::{Example, FeatureKind};
use crate::ExampleError;

#[derive(Clone, Debug)]
pub(crate) struct Sequence<'a> {
    /// The features of its steps; those of the whole sequence are what [`Example::parse`] finds in the same bytes.
    pub lists: Vec<SequenceFeature<'a>>,
}

/// A feature of the steps of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SequenceFeature<'a> {
    pub name: &'a str,
    /// The kind of its values; [`FeatureKind::None`] without steps.
    pub kind: FeatureKind,
    /// How many steps.
    pub steps: usize,
    /// How many values in all steps.
    pub values: usize,
}

impl<'a> Sequence<'a> {
    /// Reads a SequenceExample; none if it has no feature lists, and so is an Example.
    ///
    /// # Errors
    /// As [`Example::parse`].
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Option<Self>, ExampleError> {
        let mut lists = None;
        let mut message = Cursor::new(bytes);
        while let Some(field) = message.field()? {
            if let (2, Payload::Bytes(mut feature_lists)) = (field.number, field.value) {
                let lists = lists.get_or_insert_with(Vec::new);
                while let Some(field) = feature_lists.field()? {
                    if let (1, Payload::Bytes(entry)) = (field.number, field.value) {
                        lists.push(list(entry)?);
                    }
                }
            }
        }
        match lists {
            None => Ok(None),
            Some(lists) => Example::parse(bytes).map(|_context| Some(Self { lists })),
        }
    }
}

/// An entry of the map of lists.
fn list(mut entry: Cursor<'_>) -> Result<SequenceFeature<'_>, ExampleError> {
    let mut feature = SequenceFeature { name: "", kind: FeatureKind::None, steps: 0, values: 0 };
    while let Some(field) = entry.field()? {
        match (field.number, field.value) {
            (1, Payload::Bytes(key)) => feature.name = text(key)?,
            (2, Payload::Bytes(mut steps)) => {
                while let Some(field) = steps.field()? {
                    if let (1, Payload::Bytes(step)) = (field.number, field.value) {
                        let (kind, values) = alone(step)?;
                        feature.kind = feature.kind.max(kind);
                        feature.steps += 1;
                        feature.values += values;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(feature)
}
