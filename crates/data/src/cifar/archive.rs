//! Just enough of tar to take a few small files out of a gzipped archive: headers of 512 bytes, then the content.

use super::bad;
use crate::{DataError, Result};
use flate2::read::GzDecoder;
use std::io::{self, Read};
use std::path::Path;

const BLOCK: usize = 512;
/// No batch is larger than this: a damaged header must not take all memory.
pub(super) const BATCH_LIMIT: usize = 1 << 28;

/// The files whose names end in `.bin`, by their last name.
pub(super) fn unpack(input: impl Read, name: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut input = GzDecoder::new(input);
    let cut = |e: io::Error| DataError::CorruptGzip { file: name.display().to_string(), reason: e.to_string() };
    let mut found = Vec::new();
    loop {
        let mut header = [0; BLOCK];
        input.read_exact(&mut header).map_err(cut)?;
        if header.iter().all(|&b| b == 0) {
            io::copy(&mut input, &mut io::sink()).map_err(cut)?; // to the end, where gzip's own checksum stands
            return Ok(found);
        }
        let size = octal(&header[124..136]).filter(|&size| size <= BATCH_LIMIT);
        let size = size.ok_or_else(|| bad(name, "not a tar archive of small files"))?;
        let path = String::from_utf8_lossy(&header[..100]);
        let file = path.trim_end_matches('\0').rsplit('/').next().unwrap_or_default().to_string();
        let mut content = Vec::new();
        let padded = size.next_multiple_of(BLOCK) as u64;
        input.by_ref().take(padded).read_to_end(&mut content).map_err(cut)?;
        if (content.len() as u64) < padded {
            return Err(cut(io::ErrorKind::UnexpectedEof.into()));
        }
        content.truncate(size);
        if file.ends_with(".bin") {
            found.push((file, content));
        }
    }
}

/// A number as tar writes it: octal digits, then a space or a zero byte.
fn octal(field: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(field).ok()?;
    usize::from_str_radix(text.trim_matches(|c| c == '\0' || c == ' '), 8).ok()
}
