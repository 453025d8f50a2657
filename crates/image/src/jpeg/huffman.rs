//! Huffman tables. One lookup gives everything about a symbol: how many bits it takes together with the value that
//! follows, how many bits that value has, and how far the coefficient lies ahead.

use super::bits::Bits;

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
    /// By the next bits: bits of code and value, `<< 8` bits of the value, `<< 16` the step to its coefficient.
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
            lookup: Box::new([SLOW << 16; 1 << LOOKUP]),
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
    pub(super) fn symbol(&self, bits: &mut Bits) -> Result<u8, BadCode> {
        bits.refill();
        let found = self.plain[(bits.buffer >> (64 - LOOKUP)) as usize];
        if found != 0 {
            bits.skip(u32::from(found & 0xFF));
            return Ok((found >> 8) as u8);
        }
        self.long_symbol(bits)
    }

    #[cold]
    fn long_symbol(&self, bits: &mut Bits) -> Result<u8, BadCode> {
        let next = (bits.buffer >> 48) as u32;
        for length in 1..=16 {
            if next < self.ends[length] {
                let code = (next >> (16 - length)) as i32;
                bits.skip(length as u32);
                return Ok(self.symbols[(code + self.offsets[length]) as usize & 0xFF]);
            }
        }
        Err(BadCode)
    }

    /// The difference of a DC coefficient.
    #[inline(always)]
    pub(super) fn difference(&self, bits: &mut Bits) -> Result<i32, BadCode> {
        bits.refill();
        let found = self.lookup[(bits.buffer >> (64 - LOOKUP)) as usize];
        if found >> 16 == SLOW {
            let size = u32::from(self.long_symbol(bits)?);
            if size > 15 {
                return Err(BadCode);
            }
            bits.refill();
            return Ok(if size == 0 { 0 } else { value(bits, size, size) });
        }
        Ok(value(bits, found & 0xFF, found >> 8 & 0xFF))
    }

    /// Reads the AC coefficients of a block to where `order` puts them (if `STORE`); returns the index of the last.
    #[inline(always)]
    pub(super) fn coefficients<const STORE: bool>(
        &self,
        bits: &mut Bits,
        order: &[u8; 64],
        block: &mut [i16; 64],
    ) -> Result<usize, Fault> {
        let (mut k, mut last) = (0, 0);
        macro_rules! one {
            () => {
                let found = self.lookup[(bits.buffer >> (64 - LOOKUP)) as usize];
                k += found >> 16;
                if k > 63 {
                    match found >> 16 {
                        END => {
                            bits.skip(found & 0xFF);
                            return Ok(last as usize);
                        }
                        SLOW => {
                            k -= SLOW;
                            match self.slow_coefficient(bits)? {
                                None => return Ok(last as usize),
                                Some((step, value)) => {
                                    k += step;
                                    if k > 63 {
                                        return Err(Fault::Beyond);
                                    }
                                    last = k;
                                    if STORE {
                                        block[usize::from(order[k as usize & 63]) & 63] = value;
                                    }
                                }
                            }
                        }
                        _ => return Err(Fault::Beyond),
                    }
                } else {
                    last = k;
                    if STORE {
                        let value = value(bits, found & 0xFF, found >> 8 & 0xFF);
                        block[usize::from(order[k as usize & 63]) & 63] = value as i16;
                    } else {
                        bits.skip(found & 0xFF);
                    }
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

    /// A long code: the step and the value, or the end of the block. Leaves at least 28 counted bits.
    #[cold]
    #[inline(never)]
    fn slow_coefficient(&self, bits: &mut Bits) -> Result<Option<(u32, i16)>, BadCode> {
        bits.refill();
        let symbol = u32::from(self.long_symbol(bits)?);
        let (run, size) = (symbol >> 4, symbol & 15);
        if size == 0 && run != 15 {
            bits.refill();
            return Ok(None);
        }
        bits.refill();
        let value = if size == 0 { 0 } else { value(bits, size, size) as i16 };
        bits.refill();
        Ok(Some((run + 1, value)))
    }
}

/// The last `size` of the next `total` bits as a signed value (`total` ≥ 1, `size` ≤ `total`); all are dropped.
#[inline(always)]
fn value(bits: &mut Bits, total: u32, size: u32) -> i32 {
    let mask = (1u32 << size) - 1;
    let raw = (bits.buffer >> (64 - total)) as u32 & mask;
    let half = (1u32 << size) >> 1;
    bits.skip(total);
    raw as i32 - if raw < half { mask as i32 } else { 0 }
}

/// The rest of a value whose size is known, for progressive scans (`size` 1 to 15).
#[inline(always)]
pub(super) fn extend(bits: &mut Bits, size: u32) -> i32 {
    bits.refill();
    value(bits, size, size)
}

fn entry(ac: bool, symbol: u8, length: u32) -> u32 {
    let symbol = u32::from(symbol);
    if !ac {
        return if symbol > 15 { SLOW << 16 } else { symbol << 8 | (length + symbol) };
    }
    let (run, size) = (symbol >> 4, symbol & 15);
    match (run, size) {
        (15, 0) => 16 << 16 | length,
        (_, 0) => END << 16 | length,
        // Larger than 8-bit samples give: not worth the room that two refill-free steps need.
        (_, 11..) => SLOW << 16,
        _ => (run + 1) << 16 | size << 8 | (length + size),
    }
}
