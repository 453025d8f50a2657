//! One feature: checked once, then iterated in place.

use super::wire::{Cursor, Payload};
use crate::ExampleError;
use serde::Serialize;

/// What a feature is a list of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FeatureKind {
    /// Of nothing: the feature has a name only.
    #[default]
    None,
    /// Byte strings.
    Bytes,
    /// 32-bit floats.
    Floats,
    /// 64-bit integers.
    Ints,
}

impl FeatureKind {
    /// Its name, as `data info` shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::Bytes => "bytes",
            Self::Floats => "float",
            Self::Ints => "int",
        }
    }
}

/// An entry of the table: which pieces make up the list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub name: &'a str,
    kind: FeatureKind,
    count: usize,
    first: usize,
    pieces: usize,
}

/// Reads an entry of the map: `{ string key = 1; Feature value = 2 }`, both of which may come more than once.
pub(super) fn entry<'a>(mut message: Cursor<'a>, pieces: &mut Vec<&'a [u8]>) -> Result<Entry<'a>, ExampleError> {
    let mut entry = Entry { name: "", kind: FeatureKind::None, count: 0, first: pieces.len(), pieces: 0 };
    while let Some(field) = message.field()? {
        match (field.number, field.value) {
            (1, Payload::Bytes(key)) => entry.name = text(key)?,
            (2, Payload::Bytes(value)) => entry.add(value, pieces)?,
            _ => {}
        }
    }
    entry.pieces = pieces.len() - entry.first;
    Ok(entry)
}

/// Reads a `Feature` that stands alone, as in the lists of a SequenceExample.
pub(super) fn alone(value: Cursor<'_>) -> Result<(FeatureKind, usize), ExampleError> {
    let mut entry = Entry { name: "", kind: FeatureKind::None, count: 0, first: 0, pieces: 0 };
    entry.add(value, &mut Vec::new())?;
    Ok((entry.kind, entry.count))
}

pub(super) fn text(bytes: Cursor<'_>) -> Result<&str, ExampleError> {
    std::str::from_utf8(bytes.rest()).map_err(|_| ExampleError::Name { offset: bytes.offset() })
}

impl<'a> Entry<'a> {
    /// Reads a `Feature` and adds its lists to those that came before it.
    fn add(&mut self, mut feature: Cursor<'a>, pieces: &mut Vec<&'a [u8]>) -> Result<(), ExampleError> {
        while let Some(field) = feature.field()? {
            let (kind, list) = match (field.number, field.value) {
                (1, Payload::Bytes(list)) => (FeatureKind::Bytes, list),
                (2, Payload::Bytes(list)) => (FeatureKind::Floats, list),
                (3, Payload::Bytes(list)) => (FeatureKind::Ints, list),
                _ => continue,
            };
            let count = check(kind, list)?;
            if kind != self.kind {
                // Of two kinds in one feature the last counts.
                pieces.truncate(self.first);
                (self.kind, self.count) = (kind, 0);
            }
            self.count += count;
            if count > 0 {
                pieces.push(list.rest());
            }
        }
        Ok(())
    }
}

/// Checks a list to the last byte and counts its values, so that the iterators below need no errors.
fn check(kind: FeatureKind, mut list: Cursor<'_>) -> Result<usize, ExampleError> {
    let mut count = 0;
    while let Some(field) = list.field()? {
        if field.number != 1 {
            continue;
        }
        count += match (kind, field.value) {
            (FeatureKind::Bytes, Payload::Bytes(_))
            | (FeatureKind::Floats, Payload::Fixed32(_))
            | (FeatureKind::Ints, Payload::Varint(_)) => 1,
            (FeatureKind::Floats, Payload::Bytes(packed)) => {
                let length = packed.rest().len();
                if length % 4 != 0 {
                    return Err(ExampleError::PackedFloats { offset: packed.offset(), length });
                }
                length / 4
            }
            (FeatureKind::Ints, Payload::Bytes(mut packed)) => {
                let mut n = 0;
                while !packed.rest().is_empty() {
                    packed.varint()?;
                    n += 1;
                }
                n
            }
            _ => 0,
        };
    }
    Ok(count)
}

/// A feature of an [`super::Example`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Feature<'a, 'e> {
    name: &'a str,
    kind: FeatureKind,
    count: usize,
    pieces: &'e [&'a [u8]],
}

impl<'a, 'e> Feature<'a, 'e> {
    pub(super) fn of(entry: &Entry<'a>, pieces: &'e [&'a [u8]]) -> Self {
        let pieces = &pieces[entry.first..entry.first + entry.pieces];
        Self { name: entry.name, kind: entry.kind, count: entry.count, pieces }
    }

    pub(crate) fn name(&self) -> &'a str {
        self.name
    }

    /// What it is a list of.
    pub(crate) fn kind(&self) -> FeatureKind {
        self.kind
    }

    /// How many values.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The byte strings; none if it is of another kind.
    pub(crate) fn byte_strings(&self) -> ByteStrings<'a, 'e> {
        ByteStrings(Fields::new(if self.kind == FeatureKind::Bytes { self.pieces } else { &[] }))
    }

    /// The floats; none if it is of another kind.
    pub(crate) fn floats(&self) -> Floats<'a, 'e> {
        let fields = Fields::new(if self.kind == FeatureKind::Floats { self.pieces } else { &[] });
        Floats { fields, packed: &[] }
    }

    /// The integers; none if it is of another kind.
    pub(crate) fn ints(&self) -> Ints<'a, 'e> {
        let fields = Fields::new(if self.kind == FeatureKind::Ints { self.pieces } else { &[] });
        Ints { fields, packed: Cursor::new(&[]) }
    }
}

/// The fields with number 1 of all pieces of a list.
#[derive(Clone, Debug)]
struct Fields<'a, 'e> {
    pieces: std::slice::Iter<'e, &'a [u8]>,
    piece: Cursor<'a>,
}

impl<'a, 'e> Fields<'a, 'e> {
    fn new(pieces: &'e [&'a [u8]]) -> Self {
        Self { pieces: pieces.iter(), piece: Cursor::new(&[]) }
    }
}

impl<'a> Iterator for Fields<'a, '_> {
    type Item = Payload<'a>;

    fn next(&mut self) -> Option<Payload<'a>> {
        loop {
            // The pieces were checked: an error here cannot be, and would end the list.
            match self.piece.field().ok().flatten() {
                Some(field) if field.number == 1 => return Some(field.value),
                Some(_) => {}
                None => self.piece = Cursor::new(self.pieces.next()?),
            }
        }
    }
}

/// The byte strings of a feature.
#[derive(Clone, Debug)]
pub(crate) struct ByteStrings<'a, 'e>(Fields<'a, 'e>);

impl<'a> Iterator for ByteStrings<'a, '_> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.0.find_map(|value| match value {
            Payload::Bytes(bytes) => Some(bytes.rest()),
            _ => None,
        })
    }
}

/// The floats of a feature.
#[derive(Clone, Debug)]
pub(crate) struct Floats<'a, 'e> {
    fields: Fields<'a, 'e>,
    packed: &'a [u8],
}

impl Iterator for Floats<'_, '_> {
    type Item = f32;

    fn next(&mut self) -> Option<f32> {
        loop {
            if let Some((four, rest)) = self.packed.split_first_chunk() {
                self.packed = rest;
                return Some(f32::from_le_bytes(*four));
            }
            match self.fields.next()? {
                Payload::Fixed32(four) => return Some(f32::from_le_bytes(four)),
                Payload::Bytes(packed) => self.packed = packed.rest(),
                _ => {}
            }
        }
    }
}

/// The integers of a feature.
#[derive(Clone, Debug)]
pub(crate) struct Ints<'a, 'e> {
    fields: Fields<'a, 'e>,
    packed: Cursor<'a>,
}

impl Iterator for Ints<'_, '_> {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        loop {
            if let Ok(value) = self.packed.varint() {
                return Some(value as i64);
            }
            match self.fields.next()? {
                Payload::Varint(value) => return Some(value as i64),
                Payload::Bytes(packed) => self.packed = packed,
                _ => {}
            }
        }
    }
}
