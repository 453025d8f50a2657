//! Writing IDX files, packed or not: for tests, and for the sample that is part of the program.

use super::Idx;
use crate::{DataError, Result};
use flate2::{Compression, write::GzEncoder};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    /// By gzip at its best level, without a time stamp: the same array gives the same file.
    Gzip,
}

impl Idx {
    pub(crate) fn write_to(&self, out: impl Write, packing: Packing) -> io::Result<()> {
        match packing {
            Packing::Plain => self.write_plain(out),
            Packing::Gzip => {
                let mut gz = GzEncoder::new(out, Compression::best());
                self.write_plain(&mut gz)?;
                gz.finish()?.flush()
            }
        }
    }
}

pub(crate) fn write(path: &Path, array: &Idx, packing: Packing) -> Result<()> {
    let file = File::create(path).map_err(DataError::io("create", path))?;
    array.write_to(BufWriter::new(file), packing).map_err(DataError::io("write", path))
}
