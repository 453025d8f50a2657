//! Progressive scans (ITU T.81, annex G): means and bands of details, each first in its high bits, then refined.

use super::bits::Cursor;
use super::entropy::Entropy;
use super::huffman::{BadCode, Huffman};
use super::lookup::extend;
use super::markers::{Scan, Tables};
use super::store::{Coder, Store};
use crate::cosine::ORDER;
use crate::error::Result;

/// Decodes one scan into the store.
pub(super) fn scan(scan: &Scan, tables: &Tables, entropy: &mut Entropy, store: &mut Store) -> Result<()> {
    match (scan.first, scan.high) {
        (0, 0) => {
            let mut coders = Vec::with_capacity(4);
            for c in scan.components() {
                coders.push((tables.dc(c.dc, scan.offset)?, 0));
            }
            store.each_block(scan, entropy, &mut Means { coders, low: scan.low })
        }
        (0, _) => store.each_block(scan, entropy, &mut RefineMeans { bit: 1 << scan.low }),
        (_, high) => {
            let table = tables.ac(scan.components[0].ac, scan.offset)?;
            let band = Band { table, first: scan.first, last: scan.last, low: scan.low, empty: 0 };
            if high == 0 {
                store.each_block(scan, entropy, &mut Details(band))
            } else {
                store.each_block(scan, entropy, &mut RefineDetails(band))
            }
        }
    }
}

struct Means<'a> {
    coders: Vec<(&'a Huffman, i32)>,
    low: u32,
}

impl Coder for Means<'_> {
    fn restart(&mut self) {
        for coder in &mut self.coders {
            coder.1 = 0;
        }
    }

    fn block(&mut self, entropy: &mut Entropy, slot: usize, block: &mut [i16; 64]) -> Result<()> {
        let (table, before) = &mut self.coders[slot];
        let difference = entropy.read(|bits| table.difference(bits))?;
        *before = before.wrapping_add(difference);
        block[0] = (*before << self.low) as i16;
        Ok(())
    }
}

struct RefineMeans {
    bit: i16,
}

impl Coder for RefineMeans {
    fn restart(&mut self) {}

    fn block(&mut self, entropy: &mut Entropy, _: usize, block: &mut [i16; 64]) -> Result<()> {
        if entropy.read(|bits| Ok(bits.bit()))? {
            block[0] |= self.bit;
        }
        Ok(())
    }
}

/// A band of details of one component.
struct Band<'a> {
    table: &'a Huffman,
    first: usize,
    last: usize,
    low: u32,
    /// Blocks that are known to have nothing more.
    empty: u32,
}

impl Band<'_> {
    /// The length of a run of empty blocks, this one included.
    fn run(&mut self, bits: &mut Cursor, exponent: u32) {
        self.empty = 1 << exponent;
        if exponent > 0 {
            self.empty += bits.take(exponent);
        }
    }
}

struct Details<'a>(Band<'a>);

impl Coder for Details<'_> {
    fn restart(&mut self) {
        self.0.empty = 0;
    }

    fn block(&mut self, entropy: &mut Entropy, _: usize, block: &mut [i16; 64]) -> Result<()> {
        let band = &mut self.0;
        if band.empty > 0 {
            band.empty -= 1;
            return Ok(());
        }
        entropy.read(|bits| details(band, bits, block))
    }
}

#[inline(always)]
fn details(band: &mut Band, bits: &mut Cursor, block: &mut [i16; 64]) -> Result<(), BadCode> {
    let mut k = band.first;
    while k <= band.last {
        let symbol = u32::from(band.table.symbol(bits)?);
        let (run, size) = (symbol >> 4, symbol & 15);
        if size == 0 {
            if run < 15 {
                band.run(bits, run);
                band.empty -= 1;
                return Ok(());
            }
            k += 16;
            continue;
        }
        k += run as usize;
        let value = extend(bits, size) << band.low;
        if k > band.last {
            return Err(BadCode);
        }
        block[usize::from(ORDER[k & 63])] = value as i16;
        k += 1;
    }
    Ok(())
}

struct RefineDetails<'a>(Band<'a>);

impl Coder for RefineDetails<'_> {
    fn restart(&mut self) {
        self.0.empty = 0;
    }

    fn block(&mut self, entropy: &mut Entropy, _: usize, block: &mut [i16; 64]) -> Result<()> {
        entropy.read(|bits| refine(&mut self.0, bits, block))
    }
}

#[inline(always)]
fn refine(band: &mut Band, bits: &mut Cursor, block: &mut [i16; 64]) -> Result<(), BadCode> {
    let bit = 1i16 << band.low;
    let mut k = band.first;
    while band.empty == 0 && k <= band.last {
        let symbol = u32::from(band.table.symbol(bits)?);
        let (mut run, size) = (symbol >> 4, symbol & 15);
        let mut value = 0;
        if size == 0 {
            if run < 15 {
                band.run(bits, run);
                break;
            }
        } else {
            value = if bits.bit() { bit } else { -bit };
        }
        // Over what is already there, refining it, and over `run` that stay zero.
        while k <= band.last {
            let c = &mut block[usize::from(ORDER[k & 63])];
            if *c != 0 {
                more(bits, c, bit);
            } else if run == 0 {
                *c = std::mem::take(&mut value);
                k += 1;
                break;
            } else {
                run -= 1;
            }
            k += 1;
        }
        // The band has no room for it.
        if value != 0 {
            return Err(BadCode);
        }
    }
    if band.empty > 0 {
        band.empty -= 1;
        for k in k..=band.last {
            let c = &mut block[usize::from(ORDER[k & 63])];
            if *c != 0 {
                more(bits, c, bit);
            }
        }
    }
    Ok(())
}

/// One more bit of a coefficient that has some.
#[inline(always)]
fn more(bits: &mut Cursor, c: &mut i16, bit: i16) {
    if bits.bit() && *c & bit == 0 {
        *c = c.wrapping_add(if *c > 0 { bit } else { -bit });
    }
}
