//! Writing IDX: for tests, for the embedded sample, and for whoever wants to hand a set to another program.

use super::{Element, Idx};
use crate::{DataError, Result};
use flate2::{Compression, write::GzEncoder};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// How the bytes are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// As they are.
    Plain,
    /// By gzip at its best level, without a time stamp: the same array gives the same file.
    Gzip,
}

impl Idx {
    /// Writes the array.
    ///
    /// # Errors
    /// Those of `out`, and `InvalidInput` for an array that IDX cannot hold: more than 255 dimensions, or one above
    /// 32 bits.
    pub fn write_to(&self, out: impl Write, packing: Packing) -> io::Result<()> {
        match packing {
            Packing::Plain => self.write_plain(out),
            Packing::Gzip => {
                let mut gz = GzEncoder::new(out, Compression::best());
                self.write_plain(&mut gz)?;
                gz.finish()?.flush()
            }
        }
    }

    fn write_plain(&self, mut out: impl Write) -> io::Result<()> {
        let too_large = |_| io::Error::new(io::ErrorKind::InvalidInput, "dimensions too large for IDX");
        let rank = u8::try_from(self.dims().len()).map_err(too_large)?;
        out.write_all(&[0, 0, Element::U8.code(), rank])?;
        for &dim in self.dims() {
            out.write_all(&u32::try_from(dim).map_err(too_large)?.to_be_bytes())?;
        }
        out.write_all(self.data())?;
        out.flush()
    }
}

/// Writes an array as a file.
///
/// # Errors
/// [`DataError::Io`].
pub fn write(path: &Path, array: &Idx, packing: Packing) -> Result<()> {
    let file = File::create(path).map_err(DataError::io("create", path))?;
    array.write_to(BufWriter::new(file), packing).map_err(DataError::io("write", path))
}
