//! Writing records. The same records give the same bytes: gzip is written without a time stamp.

use super::{Packing, masked_crc};
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use std::io::{self, Write};

/// Frames records and packs them; what was written is complete only after [`Writer::finish`].
pub struct Writer<W: Write> {
    output: Output<W>,
}

enum Output<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
    Zlib(ZlibEncoder<W>),
}

impl<W: Write> Writer<W> {
    /// A writer of plain or packed records. Each record is written in three pieces: give a buffered stream.
    pub fn new(output: W, packing: Packing) -> Self {
        let level = Compression::default();
        let output = match packing {
            Packing::Plain => Output::Plain(output),
            Packing::Gzip => Output::Gzip(GzEncoder::new(output, level)),
            Packing::Zlib => Output::Zlib(ZlibEncoder::new(output, level)),
        };
        Self { output }
    }

    /// Appends a record.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn write(&mut self, record: &[u8]) -> io::Result<()> {
        let mut head = [0; 12];
        head[..8].copy_from_slice(&(record.len() as u64).to_le_bytes());
        let sum = masked_crc(&head[..8]);
        head[8..].copy_from_slice(&sum.to_le_bytes());
        let out: &mut dyn Write = match &mut self.output {
            Output::Plain(out) => out,
            Output::Gzip(out) => out,
            Output::Zlib(out) => out,
        };
        out.write_all(&head)?;
        out.write_all(record)?;
        out.write_all(&masked_crc(record).to_le_bytes())
    }

    /// Ends the file, flushes and gives the stream back. (A packed file that was not finished cannot be read.)
    ///
    /// # Errors
    /// Those of the stream.
    pub fn finish(self) -> io::Result<W> {
        let mut out = match self.output {
            Output::Plain(out) => out,
            Output::Gzip(out) => out.finish()?,
            Output::Zlib(out) => out.finish()?,
        };
        out.flush()?;
        Ok(out)
    }
}
