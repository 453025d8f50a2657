//! A file of records with the place of every record: 8 bytes for each.

use super::frame::{HEAD, u32_at, u64_at};
use super::{Contents, Limits, Memory};
use crate::{DataError, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// Records between two looks at the memory that is left.
const STEP: usize = 1 << 12;

/// A file of records in memory: mapped if plain, unpacked if not; records can be read in any order.
pub struct File {
    contents: Contents,
    starts: Vec<u64>,
}

impl File {
    /// Opens and finds where every record is. Lengths are always checked; data when `verify`.
    ///
    /// # Errors
    /// [`DataError::Io`] and [`DataError::Record`], with the offset.
    pub fn open(path: &Path, verify: bool) -> Result<Self> {
        Self::open_within(path, verify, &Limits::default(), &Memory::up_to(u64::MAX), None)
    }

    /// Opens with other limits; what is unpacked and the place of every record count for `memory`. Where `bad` is given it hears of every bad
    /// record and may let it be left out; a damaged length leaves out everything up to the next good one.
    ///
    /// # Errors
    /// As [`File::open`], those that `bad` returns, and [`RecordError::NoMemory`](crate::RecordError::NoMemory).
    pub(crate) fn open_within(
        path: &Path,
        verify: bool,
        limits: &Limits,
        memory: &Memory,
        bad: Option<&mut dyn FnMut(DataError) -> Result<()>>,
    ) -> Result<Self> {
        let contents = Contents::open_within(path, limits, bad.is_some(), memory)?;
        Self::index_within(contents, verify, memory, bad)
    }

    /// As [`File::open_within`], but bad records keep their place: with what is wrong with them, by number. What is read of
    /// them means nothing.
    pub(crate) fn open_keeping(
        path: &Path,
        verify: bool,
        limits: &Limits,
        memory: &Memory,
    ) -> Result<(Self, BTreeMap<usize, DataError>)> {
        let contents = Contents::open_within(path, limits, true, memory)?;
        let (mut starts, mut bad) = (Vec::new(), BTreeMap::new());
        let mut scan = contents.scan(verify);
        loop {
            let start = scan.offset();
            match scan.next() {
                None => break,
                Some(Ok(_)) => {}
                Some(Err(error)) => drop(bad.insert(starts.len(), error.into())),
            }
            if starts.len().is_multiple_of(STEP) {
                memory.take(STEP as u64 * Memory::PER_RECORD, contents.name())?;
            }
            starts.push(start);
        }
        Ok((Self { contents, starts }, bad))
    }

    /// Finds the records of contents that are already there.
    ///
    /// # Errors
    /// If the file cannot be read, or is no file of records.
    #[cfg(test)]
    pub(crate) fn index(
        contents: Contents,
        verify: bool,
        bad: Option<&mut dyn FnMut(DataError) -> Result<()>>,
    ) -> Result<Self> {
        Self::index_within(contents, verify, &Memory::up_to(u64::MAX), bad)
    }

    fn index_within(
        contents: Contents,
        verify: bool,
        memory: &Memory,
        mut bad: Option<&mut dyn FnMut(DataError) -> Result<()>>,
    ) -> Result<Self> {
        let mut starts = Vec::new();
        let mut left = 0;
        for record in contents.scan(verify) {
            if left == 0 {
                memory.take(STEP as u64 * Memory::PER_RECORD, contents.name())?;
                left = STEP;
            }
            left -= 1;
            match record {
                Ok((offset, _)) => starts.push(offset),
                Err(error) => match &mut bad {
                    Some(bad) => bad(error.into())?,
                    None => return Err(error.into()),
                },
            }
        }
        Ok(Self { contents, starts })
    }

    /// How many records.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// A record. (Its checksum was checked by `open` if it was to be.)
    #[inline]
    pub fn get(&self, index: usize) -> &[u8] {
        let (bytes, start) = (self.contents.bytes(), self.starts[index] as usize);
        // A mapped file that somebody writes to gives an empty record here, rather than a panic.
        let length = u64_at(bytes, start).filter(|&n| n <= (bytes.len() - start) as u64).unwrap_or(0) as usize;
        bytes.get(start + HEAD..start + HEAD + length).unwrap_or_default()
    }

    /// The length of a record and the checksum that the file has of its data, which was compared with the data if `open`
    /// was to verify.
    pub(crate) fn frame(&self, index: usize) -> (u64, u32) {
        let (bytes, length) = (self.contents.bytes(), self.get(index).len());
        let checksum = u32_at(bytes, self.starts[index] as usize + HEAD + length).unwrap_or_default();
        (length as u64, checksum)
    }

    /// When the file was written and which one it is, as bytes; empty for contents that are no file.
    pub(crate) fn stamp(&self) -> Vec<u8> {
        self.contents.stamp().map_or_else(Vec::new, |stamp| stamp.bytes().to_vec())
    }

    /// Where a record begins, in unpacked bytes.
    pub(crate) fn offset(&self, index: usize) -> u64 {
        self.starts[index]
    }

    /// Leaves records out: keeps those for which `keep` says so.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(usize) -> bool) {
        let mut index = 0;
        self.starts.retain(|_| {
            index += 1;
            keep(index - 1)
        });
    }

    /// The bytes they lie in.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }
}
