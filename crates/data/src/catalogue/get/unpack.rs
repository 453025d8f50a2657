//! A stream, unpacked if it is gzip, hashed, and compared with what it should be, on its way to a writer.

use super::super::known::KnownFile;
use flate2::bufread::MultiGzDecoder;
use paceline_system::hex;
use sha2::{Digest, Sha256};
use std::io::{self, BufRead, Read, Write};

/// What went wrong, and on which side.
#[derive(Debug)]
pub(super) enum Failure {
    /// The source ended badly or is damaged.
    Read {
        source: io::Error,
        /// Unpacked bytes that came before.
        found: u64,
        gzip: bool,
    },
    /// The destination failed.
    Write(io::Error),
    /// The source is whole, but another file.
    Content {
        /// Its digest, or a word on its length.
        found: String,
    },
}

/// Passes on at most the bytes that the file should have; success means that they are the right ones.
pub(super) fn unpack(
    mut input: impl BufRead,
    file: &KnownFile,
    out: &mut dyn Write,
    tell: &mut dyn FnMut(u64),
) -> Result<(), Failure> {
    let first = input.fill_buf().map_err(|source| Failure::Read { source, found: 0, gzip: false })?;
    if first.starts_with(&[0x1f, 0x8b]) {
        pass(MultiGzDecoder::new(input), true, file, out, tell)
    } else {
        pass(input, false, file, out, tell)
    }
}

fn pass(
    mut input: impl Read,
    gzip: bool,
    file: &KnownFile,
    out: &mut dyn Write,
    tell: &mut dyn FnMut(u64),
) -> Result<(), Failure> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    let mut found = 0;
    loop {
        let n = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(source) => return Err(Failure::Read { source, found, gzip }),
        };
        found += n as u64;
        if found > file.bytes {
            return Err(Failure::Content { found: format!("of a longer file (more than {} bytes)", file.bytes) });
        }
        hash.update(&buffer[..n]);
        out.write_all(&buffer[..n]).map_err(Failure::Write)?;
        tell(found);
    }
    if found < file.bytes {
        return Err(Failure::Content { found: format!("of a shorter file ({found} bytes instead of {})", file.bytes) });
    }
    let digest = hex(&hash.finalize());
    if digest == file.sha256 { Ok(()) } else { Err(Failure::Content { found: digest }) }
}
