//! The protobuf wire format, as far as an Example needs it: a cursor over fields, without recursion.
//!
//! Every length is checked against what is left before it is used, so a cursor never leaves its message, and the depth is
//! that of the messages which call it: fixed.

use crate::ExampleError;

/// A message and how far it was read. Offsets are those of the whole record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    record: &'a [u8],
    at: usize,
    end: usize,
}

/// A field: its number and what it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub number: u32,
    pub value: Payload<'a>,
}

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Payload<'a> {
    /// Wire type 0; the value.
    Varint(u64),
    /// Wire type 1; nothing in an Example is of this type.
    Fixed64,
    /// Wire type 2: a message, a string, packed numbers.
    Bytes(Cursor<'a>),
    /// Wire type 5; the four bytes.
    Fixed32([u8; 4]),
}

impl<'a> Cursor<'a> {
    /// A whole record.
    pub(super) fn new(record: &'a [u8]) -> Self {
        Self { record, at: 0, end: record.len() }
    }

    /// Where it stands.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    /// What has not been read.
    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        &self.record[self.at..self.end]
    }

    /// The next field, or none at the end of the message.
    #[inline]
    pub(super) fn field(&mut self) -> Result<Option<Field<'a>>, ExampleError> {
        if self.at == self.end {
            return Ok(None);
        }
        let offset = self.at;
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 || number >= 1 << 29 {
            return Err(ExampleError::FieldNumber { offset, number });
        }
        let value = match (tag & 7) as u8 {
            0 => Payload::Varint(self.varint()?),
            1 => {
                self.take(8, self.at)?;
                Payload::Fixed64
            }
            2 => {
                let offset = self.at;
                let length = self.varint()?;
                Payload::Bytes(self.take(length, offset)?)
            }
            3 | 4 => return Err(ExampleError::Group { offset }),
            5 => {
                let bytes = self.take(4, self.at)?.rest();
                Payload::Fixed32([bytes[0], bytes[1], bytes[2], bytes[3]])
            }
            wire => return Err(ExampleError::WireType { offset, wire }),
        };
        Ok(Some(Field { number: number as u32, value }))
    }

    /// A number of 1 to 10 bytes. As in protobuf, bits beyond the 64th are dropped.
    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, ExampleError> {
        let rest = self.rest();
        if let Some(&byte) = rest.first()
            && byte < 0x80
        {
            self.at += 1;
            return Ok(u64::from(byte));
        }
        let mut value = 0u64;
        for (i, &byte) in rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                self.at += i + 1;
                return Ok(value);
            }
        }
        Err(ExampleError::Varint { offset: self.at })
    }

    /// The next bytes as a message of their own; `offset` is where their length stands.
    #[inline]
    fn take(&mut self, length: u64, offset: usize) -> Result<Self, ExampleError> {
        let left = self.end - self.at;
        // Compared as u64: no length can overflow.
        if length > left as u64 {
            return Err(ExampleError::Length { offset, length, left });
        }
        let start = self.at;
        self.at += length as usize;
        Ok(Self { record: self.record, at: start, end: self.at })
    }
}
