//! A whole file of records in memory: mapped if it is plain, unpacked if it is not.

use super::frame::{self, Found, HEAD};
use super::reader::Unpacked;
use super::{Limits, Memory, Packing};
use crate::samples::Stamp;
use crate::{DataError, RecordError, Result};
use memmap2::Mmap;
use std::io::Read;
use std::path::Path;

/// How much is unpacked before the records in it are looked at.
const STEP: usize = 1 << 20;

/// The bytes of a file of records, unpacked, with their frames. Nothing is checked until they are scanned.
pub(crate) struct Contents {
    bytes: Bytes,
    name: String,
    packing: Packing,
    stamp: Option<Stamp>,
}

enum Bytes {
    Mapped(Mmap),
    Unpacked(Vec<u8>),
}

impl Contents {
    /// Maps a plain file, unpacks a packed one. Unpacking stops at the first damaged frame, unless `to_the_end`: so a
    /// small file that unpacks to a large nothing is refused early, and in any case at the limit.
    ///
    /// # Errors
    /// [`DataError::Io`]; for packed files [`RecordError`].
    pub(crate) fn open(path: &Path, limits: &Limits, to_the_end: bool) -> Result<Self> {
        Self::open_within(path, limits, to_the_end, &Memory::up_to(u64::MAX))
    }

    /// As [`Contents::open`]; what is unpacked counts for `memory`.
    ///
    /// # Errors
    /// As there, and [`RecordError::NoMemory`].
    pub(crate) fn open_within(path: &Path, limits: &Limits, to_the_end: bool, memory: &Memory) -> Result<Self> {
        let mut file = crate::open_regular(path).map_err(DataError::io("read", path))?;
        let meta = file.metadata().map_err(DataError::io("read", path))?;
        let (name, size, stamp) = (path.display().to_string(), meta.len(), Some(Stamp::of(&meta)));
        let mut first = Vec::with_capacity(Packing::LOOK);
        (&mut file).take(Packing::LOOK as u64).read_to_end(&mut first).map_err(DataError::io("read", path))?;
        let packing = Packing::of(&first);
        // An empty map is refused by some systems.
        if packing != Packing::Plain || size == 0 {
            let input = std::io::Cursor::new(first).chain(file);
            let bytes = unpack(input, &name, limits, to_the_end, memory)?;
            return Ok(Self { bytes: Bytes::Unpacked(bytes), name, packing, stamp });
        }
        // SAFETY: the map is only read, as bytes, for which every value is valid. Another program that writes to the file
        // meanwhile changes what is read, and one that truncates it ends this process by SIGBUS, as it does with every
        // mapped file; shards are therefore renamed into place when complete and never written to again.
        let map = unsafe { Mmap::map(&file) }.map_err(DataError::io("map", path))?;
        Ok(Self { bytes: Bytes::Mapped(map), name, packing, stamp })
    }

    /// The contents of a file that is already in memory; `name` stands for it in errors.
    ///
    /// # Errors
    /// As [`Contents::open`].
    #[cfg(test)]
    pub(crate) fn decode(bytes: &[u8], name: &str, limits: &Limits, to_the_end: bool) -> Result<Self> {
        let packing = Packing::of(&bytes[..bytes.len().min(Packing::LOOK)]);
        let unpacked = match packing {
            Packing::Plain => bytes.to_vec(),
            _ => unpack(bytes, name, limits, to_the_end, &Memory::up_to(u64::MAX))?,
        };
        Ok(Self { bytes: Bytes::Unpacked(unpacked), name: name.into(), packing, stamp: None })
    }

    /// All bytes, frames included.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped(map) => map,
            Bytes::Unpacked(bytes) => bytes,
        }
    }

    /// How the file is packed.
    pub(crate) fn packing(&self) -> Packing {
        self.packing
    }

    /// When the file was written, and which one it is; none for what came from memory.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        self.stamp
    }

    /// The name that stands for it in errors.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// All records in order, without copying.
    pub(crate) fn scan(&self, verify: bool) -> Scan<'_> {
        Scan { contents: self, bytes: self.bytes(), at: 0, verify }
    }
}

/// The records of [`Contents`], one after another: the offset of each and its data.
///
/// An error does not end the walk: the next call goes on with the next record, found by its length or, where that is
/// damaged, by the next length with a right checksum. Whoever allows no errors stops at the first.
pub(crate) struct Scan<'a> {
    contents: &'a Contents,
    bytes: &'a [u8],
    at: usize,
    verify: bool,
}

impl Scan<'_> {
    /// Where the next record begins.
    pub(super) fn offset(&self) -> u64 {
        self.at as u64
    }
}

impl<'a> Iterator for Scan<'a> {
    type Item = Result<(u64, &'a [u8]), RecordError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        match frame::look(self.bytes, at, self.verify) {
            Found::Record(length) => {
                let start = at + HEAD;
                self.at = start + length + 4;
                Some(Ok((at as u64, &self.bytes[start..start + length])))
            }
            Found::End => None,
            bad => {
                self.at = match bad {
                    Found::BadData(length) => at + HEAD + length + 4,
                    _ => frame::resume(self.bytes, at),
                };
                Some(Err(error(bad, self.contents.name.clone(), at, self.bytes.len())))
            }
        }
    }
}

/// The error for what was found at a place of a file whose bytes are all there.
fn error(bad: Found, file: String, at: usize, len: usize) -> RecordError {
    let offset = at as u64;
    match bad {
        Found::BadData(length) => RecordError::DataChecksum { file, offset, length: length as u64 },
        Found::Short(needed) => RecordError::Truncated { file, offset, needed, left: (len - at) as u64 },
        _ => RecordError::LengthChecksum { file, offset },
    }
}

/// Unpacks a stream into memory, following the frames as they come.
fn unpack(input: impl Read, name: &str, limits: &Limits, to_the_end: bool, memory: &Memory) -> Result<Vec<u8>> {
    let mut stream = Unpacked::new(input, name)?;
    let mut bytes: Vec<u8> = Vec::new();
    let mut at = 0;
    loop {
        let start = bytes.len();
        // One byte beyond the limit tells a file that is too large from one that just fits.
        let step = (STEP.max(start / 4) as u64).min(limits.unpacked.saturating_add(1) - start as u64) as usize;
        let too_large = |_| RecordError::TooLarge { file: name.into(), limit: limits.unpacked };
        bytes.try_reserve_exact(step).map_err(too_large)?;
        bytes.resize(start + step, 0);
        let got = stream.fill(&mut bytes[start..])?;
        bytes.truncate(start + got);
        memory.take(got as u64, name)?;
        if bytes.len() as u64 > limits.unpacked {
            return Err(RecordError::TooLarge { file: name.into(), limit: limits.unpacked }.into());
        }
        while !to_the_end && bytes.len() - at >= HEAD {
            match frame::length(&bytes[at..]) {
                None => return Err(RecordError::LengthChecksum { file: name.into(), offset: at as u64 }.into()),
                Some(length) if length > limits.record => {
                    let (file, offset, limit) = (name.into(), at as u64, limits.record);
                    return Err(RecordError::TooLong { file, offset, length, limit }.into());
                }
                Some(length) => {
                    match usize::try_from(length).ok().and_then(|n| at.checked_add(n)?.checked_add(frame::FRAME)) {
                        Some(next) if next <= bytes.len() => at = next,
                        _ => break,
                    }
                }
            }
        }
        if got < step {
            bytes.shrink_to_fit();
            return Ok(bytes);
        }
    }
}
