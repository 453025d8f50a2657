//! Huffman tables. One lookup gives everything about a symbol: how many bits it takes together with the value that
//! follows, how many bits that value has, and how far the coefficient lies ahead.

use super::bits::Cursor;

/// Bits of the lookup; longer codes (seldom more than one in fifty) are searched for.
const LOOKUP: u32 = 10;

/// In place of a step: longer than the lookup, or no code at all.
const SLOW: u32 = 0xC0;
/// In place of a step: end of block.
const END: u32 = 0x80;

/// No such code.
#[derive(Clone, Copy, Debug)]
pub(super) struct BadCode;

/// What ended a block.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// No such code.
    Code,
    /// A coefficient beyond the 64th.
    Beyond,
}

impl From<BadCode> for Fault {
    fn from(_: BadCode) -> Self {
        Fault::Code
    }
}

/// A table as the file states it, ready for use.
#[derive(Clone)]
pub(super) struct Huffman {
    /// By the next bits: how many of them are code and value, and the step to its coefficient (see [`entry`]).
    lookup: Box<[u32; 1 << LOOKUP]>,
    /// By the next bits: bits of the code, `<< 8` the symbol; 0 for longer codes.
    plain: Box<[u16; 1 << LOOKUP]>,
    /// By length: the first code that is too large, left-aligned to 16 bits, and symbol index minus code.
    ends: [u32; 17],
    offsets: [i32; 17],
    symbols: [u8; 256],
    /// What it was made of.
    made_of: ([u8; 16], usize),
    ac: bool,
}

impl std::fmt::Debug for Huffman {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Huffman").field("lengths", &self.made_of.0).finish_non_exhaustive()
    }
}

impl Huffman {
    /// Whether it is the table of these lengths and symbols.
    pub(super) fn is(&self, ac: bool, lengths: &[u8; 16], symbols: &[u8]) -> bool {
        self.ac == ac && self.made_of == (*lengths, symbols.len()) && self.symbols[..symbols.len()] == *symbols
    }

    /// `None` if the lengths ask for more codes than there are.
    pub(super) fn new(ac: bool, lengths: &[u8; 16], symbols: &[u8]) -> Option<Self> {
        let mut table = Self {
            lookup: Box::new([SLOW << STEP; 1 << LOOKUP]),
            plain: Box::new([0; 1 << LOOKUP]),
            ends: [0; 17],
            offsets: [0; 17],
            symbols: [0; 256],
            made_of: (*lengths, symbols.len()),
            ac,
        };
        table.symbols.get_mut(..symbols.len())?.copy_from_slice(symbols);
        let (mut code, mut index) = (0u32, 0usize);
        for length in 1..=16u32 {
            table.offsets[length as usize] = index as i32 - code as i32;
            for _ in 0..lengths[length as usize - 1] {
                if code >= 1 << length {
                    return None;
                }
                if length <= LOOKUP {
                    let symbol = *symbols.get(index)?;
                    let start = (code << (LOOKUP - length)) as usize;
                    let end = start + (1 << (LOOKUP - length));
                    table.lookup[start..end].fill(entry(ac, symbol, length));
                    table.plain[start..end].fill(u16::from(symbol) << 8 | length as u16);
                }
                code += 1;
                index += 1;
            }
            table.ends[length as usize] = code << (16 - length);
            code <<= 1;
        }
        Some(table)
    }

    /// A symbol by itself. Refills.
    #[inline(always)]
    pub(super) fn symbol(&self, bits: &mut Cursor) -> Result<u8, BadCode> {
        bits.refill();
        let found = self.plain[(bits.next() >> (64 - LOOKUP)) as usize];
        if found != 0 {
            bits.skip(u32::from(found & 0xFF));
            return Ok((found >> 8) as u8);
        }
        let (symbol, length) = self.long_symbol(bits.next()).ok_or(BadCode)?;
        bits.skip(length);
        Ok(symbol)
    }

    /// The symbol that begins the next bits, and its length.
    #[cold]
    fn long_symbol(&self, next: u64) -> Option<(u8, u32)> {
        let next = (next >> 48) as u32;
        let length = (1..=16).find(|&length| next < self.ends[length])?;
        let code = (next >> (16 - length)) as i32;
        Some((self.symbols[(code + self.offsets[length]) as usize & 0xFF], length as u32))
    }

    /// The difference of a DC coefficient. At least 25 more bits are counted afterwards.
    #[inline(always)]
    pub(super) fn difference(&self, bits: &mut Cursor) -> Result<i32, BadCode> {
        bits.refill();
        let found = self.lookup[(bits.next() >> (64 - LOOKUP)) as usize];
        if found >> STEP == SLOW {
            let (symbol, length) = self.long_symbol(bits.next()).ok_or(BadCode)?;
            bits.skip(length);
            return match u32::from(symbol) {
                0 => Ok(0),
                size @ 1..=15 => Ok(extend(bits, size)),
                _ => Err(BadCode),
            };
        }
        if found >> STEP == END {
            bits.skip(found);
            return Ok(0);
        }
        Ok(value(bits, found))
    }

    /// Reads the AC coefficients of a block to where `order` puts them (if `STORE`); returns the index of the last.
    #[inline(always)]
    pub(super) fn coefficients<const STORE: bool>(
        &self,
        bits: &mut Cursor,
        order: &[u8; 64],
        block: &mut [i16; 64],
    ) -> Result<usize, Fault> {
        let mut k = 0;
        macro_rules! one {
            () => {
                let found = self.lookup[(bits.next() >> (64 - LOOKUP)) as usize];
                let last = k;
                k += found >> STEP;
                if k > 63 {
                    match found >> STEP {
                        END => {
                            bits.skip(found);
                            return Ok(last as usize);
                        }
                        SLOW => {
                            let (symbol, length) = self.long_symbol(bits.next()).ok_or(Fault::Code)?;
                            bits.skip(length);
                            let (run, size) = (u32::from(symbol) >> 4, u32::from(symbol) & 15);
                            if size == 0 && run != 15 {
                                return Ok(last as usize);
                            }
                            k = last + run + 1;
                            if k > 63 {
                                return Err(Fault::Beyond);
                            }
                            if size > 0 {
                                let value = extend(bits, size);
                                if STORE {
                                    block[usize::from(order[k as usize & 63]) & 63] = value as i16;
                                }
                            }
                            bits.refill();
                        }
                        _ => return Err(Fault::Beyond),
                    }
                } else if STORE {
                    let value = value(bits, found);
                    block[usize::from(order[k as usize]) & 63] = value as i16;
                } else {
                    bits.skip(found);
                }
                if k == 63 {
                    return Ok(63);
                }
            };
        }
        loop {
            // Two entries of the lookup never take more than 2 × (10 + 10) bits.
            bits.refill();
            one!();
            one!();
        }
    }
}

/// The value that an entry announces (of at least one bit); code and value are dropped.
///
/// A value of n bits whose first is 0 is negative: what its bits say, less 2ⁿ − 1.
#[inline(always)]
fn value(bits: &mut Cursor, entry: u32) -> i32 {
    let from = bits.next() << (entry >> CODE & 63);
    let rest = entry >> REST & 63;
    let (raw, ones) = ((from >> rest) as i32, (u64::MAX >> rest) as i32);
    bits.skip(entry);
    raw - if (from as i64) < 0 { 0 } else { ones }
}

/// The rest of a value whose size is known (`size` 1 to 15). Refills.
#[inline(always)]
pub(super) fn extend(bits: &mut Cursor, size: u32) -> i32 {
    bits.refill();
    value(bits, (64 - size) << REST | size)
}

/// The fields of an entry. In the lowest byte stands how many bits code and value take together: a shift looks at no
/// more than that.
const CODE: u32 = 8;
/// 64 minus the bits of the value.
const REST: u32 = 16;
const STEP: u32 = 24;

fn entry(ac: bool, symbol: u8, length: u32) -> u32 {
    let symbol = u32::from(symbol);
    let (run, size) = if ac { (symbol >> 4, symbol & 15) } else { (0, symbol) };
    match (run, size) {
        // Sixteen zeros are rare, and have no value; sizes beyond 10 come of no 8-bit samples, and would leave no room
        // for two codes between refills.
        (15, 0) => SLOW << STEP,
        (_, 0) => END << STEP | length,
        (_, 11..) if ac => SLOW << STEP,
        (_, 16..) => SLOW << STEP,
        _ => (run + 1) << STEP | (64 - size) << REST | length << CODE | (length + size),
    }
}
