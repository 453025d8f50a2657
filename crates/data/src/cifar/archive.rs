//! Just enough of tar to take a few small files out of a gzipped archive: headers of 512 bytes, then the content.

use super::{BATCHES, bad};
use crate::{DataError, Result};
use flate2::read::GzDecoder;
use std::io::{self, Read};
use std::path::Path;

const BLOCK: usize = 512;
/// The largest batch that is read, twice a published one: a damaged header must not take all memory.
pub(super) const BATCH_LIMIT: usize = 1 << 26;
/// The most that an archive may unpack to, over all of its files, whether they are wanted or not. The published one has
/// 185 megabytes.
const TOTAL_LIMIT: u64 = 1 << 28;

/// The batches of an archive, by their last name; other files are passed over.
pub(super) fn unpack(input: impl Read, name: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    // One byte beyond the limit tells an archive that is too large from one that just fits.
    let mut input = GzDecoder::new(input).take(TOTAL_LIMIT + 1);
    let too_large = || DataError::ArchiveTooLarge { file: name.display().to_string(), limit: TOTAL_LIMIT };
    let cut = |e: io::Error| DataError::CorruptGzip { file: name.display().to_string(), reason: e.to_string() };
    let mut found = Vec::new();
    loop {
        let mut header = [0; BLOCK];
        input.read_exact(&mut header).map_err(|e| if input.limit() == 0 { too_large() } else { cut(e) })?;
        if header.iter().all(|&b| b == 0) {
            io::copy(&mut input, &mut io::sink()).map_err(cut)?; // to the end, where gzip's own checksum stands
            return if input.limit() == 0 { Err(too_large()) } else { Ok(found) };
        }
        let size = octal(&header[124..136]).filter(|&size| size <= BATCH_LIMIT);
        let size = size.ok_or_else(|| bad(name, "not a tar archive of small files"))?;
        let path = String::from_utf8_lossy(&header[..100]);
        let file = path.trim_end_matches('\0').rsplit('/').next().unwrap_or_default().to_string();
        let wanted = BATCHES.iter().any(|batch| file.strip_suffix(".bin") == Some(batch));
        if wanted && found.iter().any(|(other, _)| *other == file) {
            return Err(bad(name, format!("{file} is in it twice")));
        }
        let padded = size.next_multiple_of(BLOCK) as u64;
        let mut content = Vec::new();
        let mut input_part = input.by_ref().take(padded);
        let read = match wanted {
            true => input_part.read_to_end(&mut content).map(|n| n as u64),
            false => io::copy(&mut input_part, &mut io::sink()),
        };
        if read.map_err(cut)? < padded {
            return Err(if input.limit() == 0 { too_large() } else { cut(io::ErrorKind::UnexpectedEof.into()) });
        }
        content.truncate(size);
        if wanted {
            found.push((file, content));
        }
    }
}

/// A number as tar writes it: octal digits, then a space or a zero byte.
fn octal(field: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(field).ok()?;
    usize::from_str_radix(text.trim_matches(|c| c == '\0' || c == ' '), 8).ok()
}
