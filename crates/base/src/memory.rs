//! A device's memory as data: where buffers lie in it, what their elements are, and what is put into them.

use crate::sample::IndexWidth;
use crate::units::DType;
use serde::{Deserialize, Serialize};

/// Values on the host, as a source has them; a device converts on the way in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values<'a> {
    /// `byte · scale + offset`
    U8 {
        /// As they lie in the file.
        bytes: &'a [u8],
        /// A byte is multiplied by it first.
        scale: f32,
        /// Added after scaling.
        offset: f32,
    },
    /// As they are.
    F32(&'a [f32]),
    /// As they are; rounded by a device of less precision.
    F64(&'a [f64]),
    /// Bytes that stay bytes.
    Bytes(&'a [u8]),
    /// Indices of 32 bits.
    U32(&'a [u32]),
    /// Indices of 64 bits.
    U64(&'a [u64]),
}

impl Values<'_> {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Self::U8 { bytes, .. } | Self::Bytes(bytes) => bytes.len(),
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::U32(values) => values.len(),
            Self::U64(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What the elements of a buffer are, whatever floats its device computes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Elements {
    /// Floats of the device.
    Float,
    /// Indices.
    Index(IndexWidth),
    /// Bytes.
    Byte,
}

impl Elements {
    /// Their type on a device with these floats.
    pub fn dtype(self, float: DType) -> DType {
        match self {
            Self::Float => float,
            Self::Index(width) => width.dtype(),
            Self::Byte => DType::U8,
        }
    }
}

/// Where a buffer lies in its device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Its first byte.
    pub at: usize,
    /// Its elements, at most.
    pub len: usize,
    /// Their type.
    pub dtype: DType,
    /// Whether it holds another number of elements in every step: as many as were loaded or received last.
    pub varies: bool,
}

impl Slot {
    /// A buffer that is always full.
    pub fn new(at: usize, len: usize, dtype: DType) -> Self {
        Self { at, len, dtype, varies: false }
    }

    /// Bytes of `len` elements.
    pub fn bytes_of(&self, len: usize) -> usize {
        len * self.dtype.size()
    }

    /// One past its last byte; none if no number says it.
    pub fn end(&self) -> Option<usize> {
        self.len.checked_mul(self.dtype.size())?.checked_add(self.at)
    }
}

/// Where each buffer of a rank lies in its device's memory. Made by lowering, before the first step.
///
/// Buffers may overlap: a bucket covers the gradients within it, and buffers of different phases share room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arena {
    /// Bytes in all.
    pub bytes: usize,
    /// By buffer.
    pub slots: Vec<Slot>,
}

impl Arena {
    /// Room for buffers one after another, each on cache lines of its own.
    pub fn packed(float: DType, buffers: impl IntoIterator<Item = (Elements, usize)>) -> Self {
        let mut arena = Self::default();
        for (elements, len) in buffers {
            let slot = Slot::new(arena.bytes, len, elements.dtype(float));
            arena.bytes += slot.bytes_of(len).next_multiple_of(ALIGN);
            arena.slots.push(slot);
        }
        arena
    }

    /// Room for `len` elements of one type, with buffers at these places: first element and length.
    pub fn of(dtype: DType, len: usize, places: &[(usize, usize)]) -> Self {
        let size = dtype.size();
        let slot = |&(at, len): &(usize, usize)| Slot::new(at.saturating_mul(size), len, dtype);
        Self { bytes: len * size, slots: places.iter().map(slot).collect() }
    }
}

/// Buffers begin at multiples of this many bytes: a cache line.
pub const ALIGN: usize = 64;
