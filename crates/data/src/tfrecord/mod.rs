//! TFRecord: records framed by lengths and masked CRC-32C checksums, plain, gzip or zlib.
//!
//! A record is its length (8 bytes, little-endian), the masked CRC-32C of those 8 bytes, the data, and the masked
//! CRC-32C of the data. There is no header, no count and no end mark; gzip or zlib packs the whole file.
//!
//! A reader never trusts a length: its checksum is always checked, a record must fit into what is left of the file, and
//! memory for a stream grows with the bytes that have really come.
//!
//! [`Reader`] takes a stream, [`Writer`] makes one; within this crate `Contents` is a whole file in memory that can be scanned without
//! copying, and `File` is such a file with the place of every record, for access in any order.

mod contents;
mod file;
mod frame;
mod memory;
mod packing;
mod reader;
mod writer;

pub(crate) use contents::Contents;
pub(crate) use file::File;
pub(crate) use frame::masked_crc;
pub(crate) use memory::Memory;
pub use packing::Packing;
pub use reader::Reader;
pub use writer::Writer;

/// What is refused before memory is taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The longest record that is read from a stream or from a packed file, in bytes. A plain file needs no limit: its
    /// records are mapped, and none can be longer than the file.
    pub record: u64,
    /// The most that is held in memory of one packed file, in unpacked bytes.
    pub unpacked: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { record: 1 << 30, unpacked: 4 << 30 }
    }
}

#[cfg(test)]
mod tests;
