//! The entropy-coded data of a scan: its restart intervals, and what to say when it ends or breaks.

use super::bits::{Bits, Cursor, raw_offset};
use super::huffman::{BadCode, Fault};
use crate::error::{ImageError, Result};

/// The data of one scan.
pub(super) struct Entropy<'a> {
    bytes: &'a [u8],
    pub(super) bits: &'a mut Bits,
    /// Of the interval at hand: first byte, and where it ends (at a marker or the end of the file).
    start: usize,
    pub(super) stop: usize,
    /// Units between restart markers (0: none), units until the next, and its number.
    interval: usize,
    left: usize,
    number: u8,
}

impl<'a> Entropy<'a> {
    pub(super) fn new(bytes: &'a [u8], start: usize, interval: usize, bits: &'a mut Bits) -> Self {
        let stop = bits.begin(bytes, start);
        Self { bytes, bits, start, stop, interval, left: interval, number: 0 }
    }

    /// Before each unit: whether a new restart interval begins with it, in which case predictions start afresh.
    #[inline(always)]
    pub(super) fn restarts(&mut self) -> Result<bool> {
        if self.interval == 0 {
            return Ok(false);
        }
        if self.left > 0 {
            self.left -= 1;
            return Ok(false);
        }
        self.next_interval()?;
        Ok(true)
    }

    #[cold]
    fn next_interval(&mut self) -> Result<()> {
        self.check()?;
        let expected = 0xD0 + self.number;
        match self.bytes.get(self.stop + 1) {
            Some(&found) if found == expected => {}
            Some(&found) => {
                let what = format!("marker {found:02X} in place of restart marker {expected:02X}");
                return Err(ImageError::malformed(what, self.stop));
            }
            None => return Err(self.ended()),
        }
        self.number = (self.number + 1) % 8;
        self.left = self.interval - 1;
        self.start = self.stop + 2;
        self.stop = self.bits.begin(self.bytes, self.start);
        Ok(())
    }

    /// An error if more was read than there is.
    #[inline(always)]
    pub(super) fn check(&self) -> Result<()> {
        if self.bits.overrun() { Err(self.ended()) } else { Ok(()) }
    }

    /// Reads on by a cursor.
    #[inline(always)]
    pub(super) fn read<T>(&mut self, by: impl FnOnce(&mut Cursor) -> Result<T, BadCode>) -> Result<T> {
        let mut cursor = self.bits.cursor();
        let outcome = by(&mut cursor);
        let state = cursor.state();
        self.bits.keep(state);
        outcome.map_err(|bad| self.fault(bad.into()))
    }

    #[cold]
    fn ended(&self) -> ImageError {
        if self.stop + 1 >= self.bytes.len() {
            ImageError::Truncated { what: "the coded picture", offset: self.bytes.len() }
        } else {
            ImageError::malformed("the coded picture ends too early, with a marker", self.stop)
        }
    }

    /// What is wrong with the data that was just read.
    #[cold]
    pub(super) fn fault(&self, fault: Fault) -> ImageError {
        if self.bits.overrun() || self.bits.near_end() {
            return self.ended();
        }
        let what = match fault {
            Fault::Code => "a bit pattern that is no Huffman code",
            Fault::Beyond => "a coefficient beyond the last of its block",
        };
        ImageError::malformed(what, raw_offset(self.bytes, self.start, self.bits.consumed()))
    }
}
