//! Lookups for sequential scans. What bounds their speed is the chain from one code to the next, a load and a shift long;
//! so an entry for AC coefficients goes as far as its bits reach: over a first coefficient, whose value is in the entry,
//! to the code of a second, whose value may lie beyond.

use super::bits::Cursor;

/// Numbers that steps can be, besides 1 to 32. Longer than the lookup, or no code at all:
const SLOW: u32 = 0xC0;
/// Added to a step: then the block ends.
const END: u32 = 0x80;

/// The value of the bits of `from`, but for the last `rest` (1 to 63) of them. One of n bits whose first is 0 is
/// negative: what its bits say, less 2ⁿ − 1.
#[inline(always)]
fn signed(from: u64, rest: u32) -> i32 {
    let (raw, ones) = ((from >> (rest & 63)) as i32, (u64::MAX >> (rest & 63)) as i32);
    raw - if (from as i64) < 0 { 0 } else { ones }
}

/// The next `size` (1 to 15) bits as a value. Refills.
#[inline(always)]
pub(super) fn extend(bits: &mut Cursor, size: u32) -> i32 {
    bits.refill();
    let value = signed(bits.next(), 64 - size);
    bits.skip(size);
    value
}

const SINGLE: u32 = 10;

/// For DC coefficients: one code and its value. In an entry, from the lowest byte on: bits of both, bits of the code, 63
/// less the bits of the value. 0 for longer codes.
#[derive(Clone)]
pub(super) struct Singles(Box<[u32; 1 << SINGLE]>);

impl Singles {
    /// From symbols, their codes (left-aligned to 16 bits) and lengths.
    pub(super) fn new(codes: &[(u8, u32, u32)]) -> Self {
        let mut of = Box::new([0; 1 << SINGLE]);
        for &(size, code, length) in codes {
            if length <= SINGLE && size < 16 {
                let start = (code >> (16 - SINGLE)) as usize;
                let size = u32::from(size);
                of[start..start + (1 << (SINGLE - length))].fill((63 - size) << 16 | length << 8 | (length + size));
            }
        }
        Self(of)
    }

    /// The value that comes next; `None` if its code is longer.
    #[inline(always)]
    pub(super) fn take(&self, bits: &mut Cursor) -> Option<i32> {
        let entry = self.0[(bits.next() >> (64 - SINGLE)) as usize];
        if entry == 0 {
            return None;
        }
        // In two steps, because a value of no bits is 0.
        let from = bits.next() << (entry >> 8 & 63);
        let rest = entry >> 16 & 63;
        let (raw, ones) = ((from >> 1 >> rest) as i32, (u64::MAX >> 1 >> rest) as i32);
        bits.skip(entry);
        Some(raw - if (from as i64) < 0 { 0 } else { ones })
    }
}

const PAIR: u32 = 10;

/// Up to two coefficients, or one and the end of the block. From the lowest byte on:
///
/// | bytes | |
/// |---|---|
/// | 1 | bits of all: a shift looks at no more than that |
/// | 1 | bits before the value of the last coefficient |
/// | 1 | 64 less the bits of that value |
/// | 1 | 0 if the block ends at once, else all ones |
/// | 2 | value of the first coefficient, if there is a second or the end |
/// | 1 | how far the first coefficient lies ahead; 0 if the block ends at once |
/// | 1 | how far the last does (if there is one only, as far as the first); [`SLOW`]; or the first's and [`END`] |
#[derive(Clone, Copy)]
pub(super) struct Pair(u64);

impl Pair {
    /// The bits of all, and above them anything.
    #[inline(always)]
    pub(super) fn bits(self) -> u32 {
        self.0 as u32
    }

    /// Steps to the first coefficient, in the lowest six bits; above them is anything.
    #[inline(always)]
    pub(super) fn first(self) -> u32 {
        (self.0 >> 48) as u32
    }

    /// Steps to the last; 64 and more for other things.
    #[inline(always)]
    pub(super) fn last(self) -> u32 {
        (self.0 >> 56) as u32
    }

    /// Value of the first.
    #[inline(always)]
    pub(super) fn value(self) -> i16 {
        (self.0 >> 32) as i16
    }

    /// In the lowest six bits: whether there is a first. Above them is anything.
    #[inline(always)]
    pub(super) fn mask(self) -> u64 {
        self.0 >> 24
    }

    /// Value of the last.
    #[inline(always)]
    pub(super) fn last_value(self, bits: &Cursor) -> i16 {
        signed(bits.next() << (self.0 >> 8 & 63), (self.0 >> 16) as u32) as i16
    }

    /// This one, where the mask is set; the other, where it is not.
    #[inline(always)]
    pub(super) fn or(self, other: Self, mask: u64) -> Self {
        Self(self.0 & mask | other.0 & !mask)
    }

    /// The block ends with it.
    #[inline(always)]
    pub(super) fn ends(self) -> bool {
        self.last() & SLOW == END
    }
}

/// For AC coefficients.
#[derive(Clone)]
pub(super) struct Pairs(Box<[Pair; 1 << PAIR]>);

/// What an entry says of one symbol.
#[derive(Clone, Copy)]
struct One {
    step: u32,
    length: u32,
    size: u32,
}

impl One {
    fn new(symbol: u8, length: u32) -> Self {
        let (run, size) = (u32::from(symbol) >> 4, u32::from(symbol) & 15);
        let step = match (run, size) {
            // Sixteen zeros are rare, and have no value; sizes beyond 10 come of no 8-bit samples, and would leave no
            // room for two entries between refills.
            (15, 0) | (_, 11..) => SLOW,
            (_, 0) => END,
            _ => run + 1,
        };
        Self { step, length, size }
    }
}

impl Pairs {
    /// From symbols, their codes (left-aligned to 16 bits) and lengths.
    pub(super) fn new(codes: &[(u8, u32, u32)]) -> Self {
        let mut ones = [One { step: SLOW, length: 0, size: 0 }; 1 << PAIR];
        for &(symbol, code, length) in codes {
            if length <= PAIR {
                let start = (code >> (16 - PAIR)) as usize;
                ones[start..start + (1 << (PAIR - length))].fill(One::new(symbol, length));
            }
        }
        let mut of = Box::new([Pair(0); 1 << PAIR]);
        for (index, (pair, one)) in of.iter_mut().zip(&ones).enumerate() {
            let used = one.length + one.size;
            let entry = |value: i32, first: u32, last: u32, before: u32, size: u32| {
                let steps = u64::from(last) << 56 | u64::from(first) << 48;
                let mask = if first == 0 { 0 } else { 0xFF };
                let tail = mask << 24 | (64 - size) << 16 | before << 8 | (before + size);
                Pair(steps | u64::from(value as u16) << 32 | u64::from(tail))
            };
            *pair = match one.step {
                SLOW | END => entry(0, 0, one.step, one.length, 0),
                step => {
                    // Only what stands within the index is known of the next.
                    let next = if used < PAIR { ones[index << used & ((1 << PAIR) - 1)] } else { ones[index] };
                    if next.step == SLOW || used + next.length > PAIR {
                        entry(0, step, step, one.length, one.size)
                    } else {
                        let value = signed((index as u64) << (64 - PAIR + one.length), 64 - one.size);
                        entry(value, step, step + next.step, used + next.length, next.size)
                    }
                }
            };
        }
        Self(of)
    }

    /// What the next bits begin with.
    #[inline(always)]
    pub(super) fn of(&self, bits: &Cursor) -> Pair {
        self.0[(bits.next() >> (64 - PAIR)) as usize]
    }
}
