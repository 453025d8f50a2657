//! Huffman tables: symbols by themselves, and what sequential scans make of them with the tables of `lookup`.

use super::bits::Cursor;
use super::lookup::{Pairs, Singles, extend};

/// Bits of the lookup of single symbols; longer codes (seldom more than one in fifty) are searched for.
const LOOKUP: u32 = 10;

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
    fast: Fast,
    /// By the next bits: bits of the code, `<< 8` the symbol; 0 for longer codes.
    plain: Box<[u16; 1 << LOOKUP]>,
    /// By length: the first code that is too large, left-aligned to 16 bits, and symbol index minus code.
    ends: [u32; 17],
    offsets: [i32; 17],
    symbols: [u8; 256],
    /// What it was made of.
    made_of: ([u8; 16], usize),
}

/// Symbols together with the values that follow them.
#[derive(Clone)]
enum Fast {
    Dc(Singles),
    Ac(Pairs),
}

impl std::fmt::Debug for Huffman {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Huffman").field("lengths", &self.made_of.0).finish_non_exhaustive()
    }
}

impl Huffman {
    /// Whether it is the table of these lengths and symbols.
    pub(super) fn is(&self, ac: bool, lengths: &[u8; 16], symbols: &[u8]) -> bool {
        matches!(self.fast, Fast::Ac(_)) == ac
            && self.made_of == (*lengths, symbols.len())
            && self.symbols[..symbols.len()] == *symbols
    }

    /// `None` if the lengths ask for more codes than there are (one of each length, all ones, belongs to none: ITU T.81,
    /// annex C), or if a symbol for means is more than a number of bits. libjpeg refuses the same.
    pub(super) fn new(ac: bool, lengths: &[u8; 16], symbols: &[u8]) -> Option<Self> {
        if !ac && symbols.iter().any(|&symbol| symbol > 15) {
            return None;
        }
        let mut codes = Vec::with_capacity(symbols.len());
        let mut plain = Box::new([0; 1 << LOOKUP]);
        let (mut ends, mut offsets, mut kept) = ([0; 17], [0; 17], [0; 256]);
        kept.get_mut(..symbols.len())?.copy_from_slice(symbols);
        let (mut code, mut index) = (0u32, 0usize);
        for length in 1..=16u32 {
            offsets[length as usize] = index as i32 - code as i32;
            if code + u32::from(lengths[length as usize - 1]) > 1 << length {
                return None;
            }
            for _ in 0..lengths[length as usize - 1] {
                let symbol = symbols.get(index).copied();
                if length <= LOOKUP {
                    let start = (code << (LOOKUP - length)) as usize;
                    let end = start + (1 << (LOOKUP - length));
                    plain[start..end].fill(u16::from(symbol?) << 8 | length as u16);
                }
                if let Some(symbol) = symbol {
                    codes.push((symbol, code << (16 - length), length));
                }
                code += 1;
                index += 1;
            }
            if code >= 1 << length {
                return None;
            }
            ends[length as usize] = code << (16 - length);
            code <<= 1;
        }
        let fast = if ac { Fast::Ac(Pairs::new(&codes)) } else { Fast::Dc(Singles::new(&codes)) };
        Some(Self { fast, plain, ends, offsets, symbols: kept, made_of: (*lengths, symbols.len()) })
    }

    /// A symbol by itself. Refills.
    #[inline(always)]
    pub(super) fn symbol(&self, bits: &mut Cursor) -> Result<u8, BadCode> {
        bits.refill();
        let (symbol, length) = self.begins(bits.next()).ok_or(BadCode)?;
        bits.skip(length);
        Ok(symbol)
    }

    /// The symbol that begins the next bits, and its length.
    #[inline(always)]
    fn begins(&self, next: u64) -> Option<(u8, u32)> {
        let found = self.plain[(next >> (64 - LOOKUP)) as usize];
        if found != 0 { Some(((found >> 8) as u8, u32::from(found & 0xFF))) } else { self.long_symbol(next) }
    }

    #[cold]
    fn long_symbol(&self, next: u64) -> Option<(u8, u32)> {
        let next = (next >> 48) as u32;
        let length = (1..=16).find(|&length| next < self.ends[length])?;
        let code = (next >> (16 - length)) as i32;
        Some((self.symbols[(code + self.offsets[length]) as usize & 0xFF], length as u32))
    }

    /// The difference of a DC coefficient. At least 31 more bits are counted afterwards.
    #[inline(always)]
    pub(super) fn difference(&self, bits: &mut Cursor) -> Result<i32, BadCode> {
        let Fast::Dc(singles) = &self.fast else { return Err(BadCode) };
        bits.refill();
        if let Some(value) = singles.take(bits) {
            return Ok(value);
        }
        let (symbol, length) = self.long_symbol(bits.next()).ok_or(BadCode)?;
        bits.skip(length);
        match u32::from(symbol) {
            0 => Ok(0),
            size @ 1..=15 => Ok(extend(bits, size)),
            _ => Err(BadCode),
        }
    }

    /// Reads the AC coefficients of a block to where `order` puts them (if `STORE`); returns the index of the last. In
    /// place of the mean stands anything then: what is to be put nowhere is put there.
    #[inline(always)]
    pub(super) fn coefficients<const STORE: bool>(
        &self,
        bits: &mut Cursor,
        order: &[u8; 64],
        block: &mut [i16; 64],
    ) -> Result<usize, Fault> {
        let Fast::Ac(pairs) = &self.fast else { return Err(Fault::Code) };
        let mut k = 0;
        loop {
            // Two entries never take more than 2 × (10 + 10) bits. They are looked at together, because what costs most
            // is that nobody can foresee where a block ends: the fewer the places, the better it is guessed.
            bits.refill();
            let mut ahead = *bits;
            let pair = pairs.of(bits);
            ahead.skip(pair.bits());
            let next = pairs.of(&ahead);
            let (middle, last) = (k + pair.last(), k + pair.last() + next.last());
            let mut put = |k: u32, value: i16, mask: u64| {
                if STORE {
                    block[usize::from(order[k as usize & 63]) & (mask & 63) as usize] = value;
                }
            };
            if last < 63 {
                // Where an entry has only one coefficient, the last replaces what the first has put there.
                put(k + pair.first(), pair.value(), !0);
                put(middle, pair.last_value(bits), !0);
                put(middle + next.first(), next.value(), !0);
                put(last, next.last_value(&ahead), !0);
                ahead.skip(next.bits());
                *bits = ahead;
                k = last;
                continue;
            }
            // The block ends here, or something needs a closer look: in the first entry or in the second. Which of them
            // is as hard to foresee, and so decided without a branch.
            let mask = 0u64.wrapping_sub(u64::from(middle < 63));
            put(k + pair.first(), pair.value(), mask);
            put(middle, pair.last_value(bits), mask);
            bits.skip(pair.bits() & mask as u32);
            k += pair.last() & mask as u32;
            let pair = next.or(pair, mask);
            let last = k + (pair.first() & 63);
            if pair.ends() && last < 63 {
                put(last, pair.value(), pair.mask());
                bits.skip(pair.bits());
                return Ok(last as usize);
            }
            let (symbol, length) = self.begins(bits.next()).ok_or(Fault::Code)?;
            let (run, size) = (u32::from(symbol) >> 4, u32::from(symbol) & 15);
            if size == 0 && run != 15 {
                bits.skip(length);
                return Ok(k as usize);
            }
            k += run + 1;
            if k > 63 {
                return Err(Fault::Beyond);
            }
            bits.skip(length);
            if size > 0 {
                let value = extend(bits, size);
                if STORE {
                    block[usize::from(order[k as usize]) & 63] = value as i16;
                }
            }
            if k == 63 {
                return Ok(63);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::bits::Bits;
    use super::*;
    use crate::cosine::ORDER;
    use proptest::prelude::*;

    /// Symbol by symbol.
    fn slowly(table: &Huffman, bits: &mut Cursor, block: &mut [i16; 64]) -> Result<usize, ()> {
        let mut k = 0;
        while k < 63 {
            let symbol = table.symbol(bits).map_err(|_| ())?;
            let (run, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
            if size == 0 && run < 15 {
                return Ok(k);
            }
            k += run + 1;
            if k > 63 {
                return Err(());
            }
            block[usize::from(ORDER[k])] = if size > 0 { extend(bits, size) as i16 } else { 0 };
        }
        Ok(63)
    }

    proptest! {
        #[test]
        fn two_at_once_are_the_same_as_one_by_one(
            wanted in proptest::collection::vec((1u32..=16, any::<u8>(), 0u8..4), 1..200),
            data in proptest::collection::vec(0u8..=254, 1..2000),
        ) {
            // Codes as long as wanted while there is room; most symbols as photos have them.
            let (mut lengths, mut room) = ([0u8; 16], 1 << 16);
            let mut by_length: Vec<(u32, u8)> = Vec::new();
            for (length, any, kind) in wanted {
                if room > 1 << (16 - length) {
                    room -= 1 << (16 - length);
                    lengths[length as usize - 1] += 1;
                    by_length.push((length, match kind {
                        0 => any,
                        1 => 0,
                        _ => (any & 0x30) | (any % 4 + 1),
                    }));
                }
            }
            by_length.sort_by_key(|&(length, _)| length);
            let symbols: Vec<u8> = by_length.into_iter().map(|(_, symbol)| symbol).collect();
            let table = Huffman::new(true, &lengths, &symbols).unwrap();
            let (mut fast, mut slow) = (Bits::default(), Bits::default());
            fast.begin(&data, 0);
            slow.begin(&data, 0);
            while !fast.overrun() {
                let (mut a, mut b) = ([0; 64], [0; 64]);
                let mut cursor = fast.cursor();
                let last = table.coefficients::<true>(&mut cursor, &ORDER, &mut a);
                let state = cursor.state();
                fast.keep(state);
                let mut cursor = slow.cursor();
                let expected = slowly(&table, &mut cursor, &mut b);
                let state = cursor.state();
                slow.keep(state);
                prop_assert_eq!(last.map_err(|_| ()), expected);
                if expected.is_err() {
                    break;
                }
                a[0] = 0;
                prop_assert_eq!(a, b);
                prop_assert_eq!(fast.read(), slow.read());
            }
        }
    }
}
