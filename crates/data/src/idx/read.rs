//! Reading IDX without believing it.
//!
//! 1. Look at the first two bytes: `1f 8b` is gzip, and what follows is about the unpacked stream.
//! 2. Read the header; refuse another magic, then another element type.
//! 3. Read at most one byte more than the dimensions promise, into a buffer that at most doubles with what has really
//!    come, so that a header which promises terabytes costs nothing.
//! 4. Too few bytes are [`DataError::Truncated`], one too many is [`DataError::TrailingBytes`]. Reading to the end also
//!    makes the gzip decoder check its checksum.

use super::{Element, Header, Idx};
use crate::{DataError, Result};
use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// The first step of the buffer; a file that ends before it never costs more.
const FIRST_STEP: usize = 1 << 20;

/// Reads a file of unsigned bytes, plain or gzip.
///
/// # Errors
/// One [`DataError`] for each way in which the file can be wrong.
pub(crate) fn read(path: &Path) -> Result<Idx> {
    let file = crate::open_regular(path).map_err(DataError::io("read", path))?;
    unpacked(BufReader::with_capacity(1 << 16, file), path)?.array()
}

/// Decodes a file that is already in memory; `name` stands for it in errors.
///
/// # Errors
/// As [`read`].
pub(crate) fn decode(bytes: &[u8], name: &str) -> Result<Idx> {
    unpacked(bytes, Path::new(name))?.array()
}

/// Reads the header alone, of any element type.
///
/// # Errors
/// As [`read`], but for those of the content.
pub(crate) fn read_header(path: &Path) -> Result<Header> {
    let file = crate::open_regular(path).map_err(DataError::io("read", path))?;
    let mut source = unpacked(BufReader::new(file), path)?;
    let gzip = source.gzip;
    let (element, dims) = source.header()?;
    let dims = to_usize(&dims).ok_or(DataError::TooLarge { file: source.name(), dims })?;
    Ok(Header { element, dims, gzip })
}

/// A stream of unpacked bytes that counts them and knows its name.
struct Source<'a> {
    reader: Box<dyn Read + 'a>,
    path: &'a Path,
    gzip: bool,
    seen: u64,
}

fn unpacked<'a>(mut reader: impl BufRead + 'a, path: &'a Path) -> Result<Source<'a>> {
    let gzip = reader.fill_buf().map_err(DataError::io("read", path))?.starts_with(&[0x1f, 0x8b]);
    let reader: Box<dyn Read + 'a> = if gzip { Box::new(MultiGzDecoder::new(reader)) } else { Box::new(reader) };
    Ok(Source { reader, path, gzip, seen: 0 })
}

impl Source<'_> {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Errors of the decoder are about the content; those with a number from the system are about the file.
    fn failed(&self, source: io::Error) -> DataError {
        if self.gzip && source.raw_os_error().is_none() {
            DataError::CorruptGzip { file: self.name(), reason: source.to_string() }
        } else {
            DataError::Io { doing: "read", path: self.path.to_path_buf(), source }
        }
    }

    /// Fills as much of `buffer` as the stream has.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.reader.read(&mut buffer[done..]) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.failed(e)),
            }
        }
        self.seen += done as u64;
        Ok(done)
    }

    /// Element type and dimensions.
    fn header(&mut self) -> Result<(Element, Vec<u64>)> {
        let mut magic = [0; 4];
        let n = self.fill(&mut magic)?;
        let [0, 0, code, rank] = magic else { return Err(self.not_idx(&magic[..n])) };
        if n < 4 {
            return Err(self.not_idx(&magic[..n]));
        }
        let Some(element) = Element::from_code(code) else {
            return Err(DataError::UnsupportedType { file: self.name(), code, name: "unknown" });
        };
        let mut bytes = vec![0; 4 * usize::from(rank)];
        if self.fill(&mut bytes)? < bytes.len() {
            let expected = 4 + bytes.len() as u64;
            return Err(DataError::Truncated { file: self.name(), expected, found: self.seen });
        }
        let dims = bytes.chunks_exact(4).map(|d| u64::from(u32::from_be_bytes([d[0], d[1], d[2], d[3]]))).collect();
        Ok((element, dims))
    }

    /// The whole array, which must end where the stream ends.
    fn array(mut self) -> Result<Idx> {
        let (element, dims) = self.header()?;
        if element != Element::U8 {
            return Err(DataError::UnsupportedType { file: self.name(), code: element.code(), name: element.name() });
        }
        let shape = to_usize(&dims);
        // A zero anywhere makes the product zero, even where a partial product would overflow.
        let product = if dims.contains(&0) { Some(0) } else { dims.iter().try_fold(1u64, |n, &d| n.checked_mul(d)) };
        let total = product.and_then(|n| usize::try_from(n).ok()).filter(|&n| n < isize::MAX as usize - FIRST_STEP);
        let (Some(shape), Some(total)) = (shape, total) else {
            return Err(DataError::TooLarge { file: self.name(), dims });
        };
        let expected = self.seen + total as u64;

        let mut data = Vec::new();
        while data.len() < total {
            let step = (total - data.len()).min(data.len().max(FIRST_STEP));
            let start = data.len();
            data.try_reserve_exact(step).map_err(|_| DataError::TooLarge { file: self.name(), dims: dims.clone() })?;
            data.resize(start + step, 0);
            let n = self.fill(&mut data[start..])?;
            if n < step {
                return Err(DataError::Truncated { file: self.name(), expected, found: self.seen });
            }
        }
        if self.fill(&mut [0])? != 0 {
            return Err(DataError::TrailingBytes { file: self.name(), expected });
        }
        Ok(Idx { dims: shape, data })
    }

    fn not_idx(&self, first: &[u8]) -> DataError {
        let found = match first {
            [] => "nothing".to_string(),
            _ => first.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" "),
        };
        DataError::NotIdx { file: self.name(), found }
    }
}

fn to_usize(dims: &[u64]) -> Option<Vec<usize>> {
    dims.iter().map(|&d| usize::try_from(d).ok()).collect()
}
