//! Reading records from a stream, one after another.
//!
//! 1. Look at the first 12 bytes to find the packing ([`Packing::of`]).
//! 2. Read 12 bytes: the length and its checksum. None at all is the end, fewer is a truncated file.
//! 3. Refuse a length above the limit; read the data in steps that at most double with what has really come.
//! 4. Read the checksum of the data and compare it, if asked to.

use super::frame::{self, FRAME, HEAD, masked_crc};
use super::{Limits, Packing};
use crate::{DataError, RecordError, Result};
use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::path::PathBuf;

/// The first step of a record's buffer.
const FIRST_STEP: u64 = 1 << 18;

/// Reads records one after another, from any stream; the packing is found out from the first bytes.
pub struct Reader<R> {
    input: Unpacked<R>,
    verify: bool,
    limit: u64,
}

impl<R: Read> Reader<R> {
    /// `name` is used in errors; `verify` checks the checksums of the data (those of lengths are always checked).
    ///
    /// # Errors
    /// [`DataError::Io`] from the stream.
    pub fn new(input: R, name: &str, verify: bool) -> Result<Self> {
        Self::with_limits(input, name, verify, Limits::default())
    }

    /// A reader with other limits.
    ///
    /// # Errors
    /// [`DataError::Io`] from the stream.
    pub(crate) fn with_limits(input: R, name: &str, verify: bool, limits: Limits) -> Result<Self> {
        Ok(Self { input: Unpacked::new(input, name)?, verify, limit: limits.record })
    }

    /// How the stream is packed.
    #[cfg(test)]
    pub(crate) fn packing(&self) -> Packing {
        self.input.packing()
    }

    /// The next record into `record` (cleared first); its offset in the unpacked stream, or none at the end.
    ///
    /// # Errors
    /// One [`RecordError`] for each way in which the stream can be wrong. After [`RecordError::DataChecksum`] reading can
    /// go on with the next record; after the others it cannot.
    pub fn next(&mut self, record: &mut Vec<u8>) -> Result<Option<u64>> {
        record.clear();
        let offset = self.input.seen;
        let mut head = [0; HEAD];
        let got = self.input.fill(&mut head)?;
        if got == 0 {
            return Ok(None);
        }
        let file = || self.input.name.clone();
        if got < HEAD {
            return Err(RecordError::Truncated { file: file(), offset, needed: FRAME as u64, left: got as u64 }.into());
        }
        let Some(length) = frame::length(&head) else {
            return Err(RecordError::LengthChecksum { file: file(), offset }.into());
        };
        if length > self.limit {
            return Err(RecordError::TooLong { file: file(), offset, length, limit: self.limit }.into());
        }
        while (record.len() as u64) < length {
            let start = record.len();
            let step = (length - start as u64).min(FIRST_STEP.max(start as u64)) as usize;
            record.resize(start + step, 0);
            let got = self.input.fill(&mut record[start..])?;
            if got < step {
                return Err(self.short(offset, length));
            }
        }
        let mut sum = [0; 4];
        if self.input.fill(&mut sum)? < 4 {
            return Err(self.short(offset, length));
        }
        if self.verify && u32::from_le_bytes(sum) != masked_crc(record) {
            return Err(RecordError::DataChecksum { file: self.input.name.clone(), offset, length }.into());
        }
        Ok(Some(offset))
    }

    fn short(&self, offset: u64, length: u64) -> DataError {
        let (file, needed) = (self.input.name.clone(), length.saturating_add(FRAME as u64));
        RecordError::Truncated { file, offset, needed, left: self.input.seen - offset }.into()
    }
}

/// A stream of unpacked bytes that counts them and knows its name.
pub(super) struct Unpacked<R> {
    stream: Stream<R>,
    name: String,
    pub(super) seen: u64,
}

type Input<R> = BufReader<Chain<Cursor<Vec<u8>>, R>>;

enum Stream<R> {
    Plain(Input<R>),
    Gzip(Box<MultiGzDecoder<Input<R>>>),
    Zlib(Box<ZlibDecoder<Input<R>>>),
}

impl<R: Read> Unpacked<R> {
    /// Looks at the first bytes.
    pub(super) fn new(mut input: R, name: &str) -> Result<Self> {
        let mut first = Vec::with_capacity(Packing::LOOK);
        (&mut input).take(Packing::LOOK as u64).read_to_end(&mut first).map_err(|source| DataError::Io {
            doing: "read",
            path: PathBuf::from(name),
            source,
        })?;
        let packing = Packing::of(&first);
        let input = BufReader::with_capacity(1 << 17, Cursor::new(first).chain(input));
        let stream = match packing {
            Packing::Plain => Stream::Plain(input),
            Packing::Gzip => Stream::Gzip(Box::new(MultiGzDecoder::new(input))),
            Packing::Zlib => Stream::Zlib(Box::new(ZlibDecoder::new(input))),
        };
        Ok(Self { stream, name: name.to_string(), seen: 0 })
    }

    pub(super) fn packing(&self) -> Packing {
        match self.stream {
            Stream::Plain(_) => Packing::Plain,
            Stream::Gzip(_) => Packing::Gzip,
            Stream::Zlib(_) => Packing::Zlib,
        }
    }

    /// Fills as much of `buffer` as the stream has.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            let read = match &mut self.stream {
                Stream::Plain(input) => input.read(&mut buffer[done..]),
                Stream::Gzip(input) => input.read(&mut buffer[done..]),
                Stream::Zlib(input) => match input.read(&mut buffer[done..]) {
                    Ok(0) => end_of(input.get_mut()),
                    other => other,
                },
            };
            match read {
                Ok(0) => break,
                Ok(n) => {
                    done += n;
                    self.seen += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.failed(e)),
            }
        }
        Ok(done)
    }

    /// Errors of the decoder are about the content; those with a number from the system are about the file.
    fn failed(&self, source: io::Error) -> DataError {
        match self.packing() {
            Packing::Plain => DataError::Io { doing: "read", path: PathBuf::from(&self.name), source },
            _ if source.raw_os_error().is_some() => {
                DataError::Io { doing: "read", path: PathBuf::from(&self.name), source }
            }
            packing => RecordError::Unpacking {
                file: self.name.clone(),
                packing: packing.name(),
                offset: self.seen,
                reason: source.to_string(),
            }
            .into(),
        }
    }
}

/// A zlib stream must end where its file ends: what is behind it would be lost without a word.
fn end_of<R: Read>(input: &mut Input<R>) -> io::Result<usize> {
    if input.fill_buf()?.is_empty() {
        Ok(0)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidData, "bytes after the end of the packed data"))
    }
}
