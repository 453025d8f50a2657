//! TFRecord: records framed by lengths and masked CRC-32C checksums, plain, gzip or zlib.

use crate::Result;
use std::io::{Read, Write};
use std::path::Path;

/// How the whole file is packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// Not at all.
    #[default]
    Plain,
    /// gzip.
    Gzip,
    /// zlib.
    Zlib,
}

/// Reads records one after another, from any stream; the packing is found out from the first bytes.
pub struct Reader<R> {
    _input: R,
}

impl<R: Read> Reader<R> {
    /// `name` is used in errors; `verify` checks the checksums of the data (those of lengths are always checked).
    pub fn new(input: R, name: &str, verify: bool) -> Result<Self> {
        let _ = (name, verify);
        Ok(Self { _input: input })
    }

    /// The next record into `record` (cleared first); its offset in the unpacked stream, or none at the end.
    pub fn next(&mut self, record: &mut Vec<u8>) -> Result<Option<u64>> {
        let _ = record;
        todo!()
    }
}

/// Writes records.
pub struct Writer<W: Write> {
    _output: W,
}

impl<W: Write> Writer<W> {
    /// A writer of plain or packed records.
    pub fn new(output: W, packing: Packing) -> Self {
        let _ = packing;
        Self { _output: output }
    }

    /// Appends a record.
    pub fn write(&mut self, record: &[u8]) -> std::io::Result<()> {
        let _ = record;
        todo!()
    }

    /// Ends the file and gives the stream back.
    pub fn finish(self) -> std::io::Result<W> {
        todo!()
    }
}

/// A file of records in memory: mapped if plain, unpacked if not; records can be read in any order.
pub struct File {}

impl File {
    /// Opens and finds where every record is. Lengths are always checked; data when `verify`.
    pub fn open(path: &Path, verify: bool) -> Result<Self> {
        let _ = (path, verify);
        todo!()
    }

    /// How many records.
    pub fn len(&self) -> usize {
        todo!()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A record. (Its checksum was checked by `open` if it was to be.)
    pub fn get(&self, index: usize) -> &[u8] {
        let _ = index;
        todo!()
    }
}
