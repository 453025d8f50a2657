//! The IDX format of MNIST and its relatives, plain or gzip.
//!
//! A file is `00 00 TYPE RANK`, then RANK big-endian 32-bit dimensions, then the elements, last dimension fastest. The
//! format has no checksum, so the reader is strict instead: the file must hold exactly what its header promises. Nothing
//! is allocated on the header's word, and gzip is told by its first bytes, not by the name.

#[cfg(test)]
mod packed;
mod read;
mod write;

#[cfg(test)]
pub(crate) use packed::{Packing, write};
pub(crate) use read::{decode, read, read_header};

use crate::{DataError, Result};
use serde::Serialize;

/// The element types of the format. Only [`Element::U8`] is read; the others are named in errors and by `data info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Element {
    /// Unsigned byte, 0x08.
    U8,
    /// Signed byte, 0x09.
    I8,
    /// 16-bit integer, 0x0B.
    I16,
    /// 32-bit integer, 0x0C.
    I32,
    /// 32-bit float, 0x0D.
    F32,
    /// 64-bit float, 0x0E.
    F64,
}

impl Element {
    /// The type of a header's third byte.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x08 => Self::U8,
            0x09 => Self::I8,
            0x0B => Self::I16,
            0x0C => Self::I32,
            0x0D => Self::F32,
            0x0E => Self::F64,
            _ => return None,
        })
    }

    /// The header's third byte.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::U8 => 0x08,
            Self::I8 => 0x09,
            Self::I16 => 0x0B,
            Self::I32 => 0x0C,
            Self::F32 => 0x0D,
            Self::F64 => 0x0E,
        }
    }

    /// Bytes of one element.
    #[cfg(test)]
    pub(crate) fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::I16 => 2,
            Self::I32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Its name, as in errors.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::U8 => "unsigned byte",
            Self::I8 => "signed byte",
            Self::I16 => "16-bit integer",
            Self::I32 => "32-bit integer",
            Self::F32 => "32-bit float",
            Self::F64 => "64-bit float",
        }
    }
}

/// What a file says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Header {
    /// The element type.
    pub element: Element,
    /// The dimensions, slowest first.
    pub dims: Vec<usize>,
    /// Whether the file is compressed by gzip.
    pub gzip: bool,
}

/// An array of unsigned bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Idx {
    dims: Vec<usize>,
    data: Vec<u8>,
}

impl Idx {
    /// An array of the given dimensions.
    ///
    /// # Errors
    /// [`DataError::LengthMismatch`] if `data` is not as long as the product of `dims`, or if that overflows.
    pub(crate) fn new(dims: Vec<usize>, data: Vec<u8>) -> Result<Self> {
        let expected = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).unwrap_or(usize::MAX);
        if expected != data.len() {
            return Err(DataError::LengthMismatch { what: "IDX array", expected, found: data.len() });
        }
        Ok(Self { dims, data })
    }

    /// The dimensions, slowest first.
    pub(crate) fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// The elements, last dimension fastest.
    pub(crate) fn data(&self) -> &[u8] {
        &self.data
    }

    /// The dimensions and the elements.
    pub(crate) fn into_parts(self) -> (Vec<usize>, Vec<u8>) {
        (self.dims, self.data)
    }
}

#[cfg(test)]
mod tests;
