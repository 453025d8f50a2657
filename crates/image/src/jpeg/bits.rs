//! Bits of entropy-coded data. Byte stuffing is taken out of a whole restart interval beforehand, so that the reader
//! refills 56 bits and more without looking at single bytes.

/// Zero bytes behind the data, so that a refill near the end needs no special case.
pub(super) const PADDING: usize = WINDOW;

/// What a cursor can see. A block takes at most 64 times 31 bits, so that it never looks further.
const WINDOW: usize = MASK + 1 + 8;
/// Positions within it; with this mask the compiler knows that no refill leaves the window.
const MASK: usize = 511;
static NOTHING: [u8; WINDOW] = [0; WINDOW];

/// Copies the entropy-coded data that begins at `start` to `out` without its stuffing, up to the next marker or the end
/// of the bytes. Returns the clean length and where it stopped (at the `0xFF` of the marker).
pub(super) fn unstuff(bytes: &[u8], start: usize, out: &mut Vec<u8>) -> (usize, usize) {
    let needed = bytes.len() - start + PADDING;
    if out.len() < needed {
        out.resize(needed, 0);
    }
    let (mut from, mut to) = (start, 0);
    loop {
        while let Some(eight) = bytes.get(from..from + 8) {
            let word = u64::from_le_bytes(eight.try_into().expect("eight bytes"));
            out[to..to + 8].copy_from_slice(eight);
            let ff = (!word).wrapping_sub(0x0101_0101_0101_0101) & word & 0x8080_8080_8080_8080;
            if ff == 0 {
                from += 8;
                to += 8;
                continue;
            }
            let before = ff.trailing_zeros() as usize / 8;
            from += before;
            to += before;
            break;
        }
        // At a 0xFF, or among the last bytes.
        match bytes.get(from) {
            None => break,
            Some(0xFF) => match bytes.get(from + 1) {
                Some(0) => {
                    out[to] = 0xFF;
                    to += 1;
                    from += 2;
                }
                Some(0xFF) => from += 1, // fill bytes before a marker
                _ => break,
            },
            Some(&byte) => {
                out[to] = byte;
                to += 1;
                from += 1;
            }
        }
    }
    out[to..to + PADDING].fill(0);
    (to, from)
}

/// Where the clean byte `index` of the data at `start` stands in the file. Slow: only for messages.
pub(super) fn raw_offset(bytes: &[u8], start: usize, index: usize) -> usize {
    let (mut at, mut clean) = (start, 0);
    while clean < index && at < bytes.len() {
        at += if bytes[at] == 0xFF { 2 } else { 1 };
        clean += 1;
    }
    at.min(bytes.len())
}

/// The clean data of a restart interval, and how far it was read.
#[derive(Debug, Default)]
pub(super) struct Bits {
    /// Clean data and its padding.
    data: Vec<u8>,
    length: usize,
    state: ReadState,
}

/// Where reading has come to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadState {
    position: usize,
    /// The next bits, from the top. Those below the count are also right, but not yet counted.
    buffer: u64,
    /// How many are counted, in the lowest six bits; above them is anything.
    count: u32,
}

/// Reads bits, most significant first; beyond the end come zeros. A value to be kept in registers: take it from [`Bits`]
/// for one block, and give its state back.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    window: &'a [u8; WINDOW],
    /// Where the window begins; the position is relative to it.
    start: usize,
    state: ReadState,
}

impl Bits {
    /// Begins with the data at `start`; returns where it ends.
    pub(super) fn begin(&mut self, bytes: &[u8], start: usize) -> usize {
        let (length, stop) = unstuff(bytes, start, &mut self.data);
        (self.length, self.state) = (length, ReadState::default());
        stop
    }

    #[inline(always)]
    pub(super) fn cursor(&self) -> Cursor<'_> {
        let start = self.state.position;
        let window = self.data.get(start..).and_then(<[u8]>::first_chunk).unwrap_or(&NOTHING);
        Cursor { window, start, state: ReadState { position: 0, ..self.state } }
    }

    /// Goes on where a cursor has come to.
    #[inline(always)]
    pub(super) fn keep(&mut self, state: ReadState) {
        self.state = state;
    }

    /// Bits that were read.
    pub(super) fn read(&self) -> usize {
        self.state.position * 8 - (self.state.count & 63) as usize
    }

    /// Whole bytes that were begun.
    pub(super) fn consumed(&self) -> usize {
        self.read().div_ceil(8)
    }

    /// The data may well have ended before the code at hand did.
    pub(super) fn near_end(&self) -> bool {
        self.read() + 16 > self.length * 8
    }

    /// More was read than there is.
    #[inline(always)]
    pub(super) fn overrun(&self) -> bool {
        self.read() > self.length * 8
    }
}

impl Cursor<'_> {
    #[inline(always)]
    pub(super) fn state(self) -> ReadState {
        ReadState { position: self.start + self.state.position, ..self.state }
    }

    /// The next bits, from the top.
    #[inline(always)]
    pub(super) fn next(&self) -> u64 {
        self.state.buffer
    }

    /// At least 56 bits are counted afterwards.
    #[inline(always)]
    pub(super) fn refill(&mut self) {
        let ReadState { position, buffer, count } = &mut self.state;
        let at = *position & MASK;
        let word = u64::from_be_bytes(self.window[at..at + 8].try_into().expect("eight bytes"));
        let counted = *count & 63;
        *buffer |= word >> counted;
        *position += ((63 - counted) >> 3) as usize;
        *count = counted | 56;
    }

    /// Drops as many bits as the lowest byte of `entry` says, at most as many as are counted.
    #[inline(always)]
    pub(super) fn skip(&mut self, entry: u32) {
        self.state.buffer <<= entry & 63;
        self.state.count = self.state.count.wrapping_sub(entry);
    }

    /// The next `bits` (1 to 16) as a number.
    #[inline(always)]
    pub(super) fn take(&mut self, bits: u32) -> u32 {
        self.refill();
        let value = (self.state.buffer >> (64 - bits)) as u32;
        self.skip(bits);
        value
    }

    #[inline(always)]
    pub(super) fn bit(&mut self) -> bool {
        if self.state.count & 63 == 0 {
            self.refill();
        }
        let bit = self.state.buffer >> 63 != 0;
        self.skip(1);
        bit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stuffing_is_taken_out_and_markers_stop() {
        let mut bytes = vec![9, 9];
        let mut clean = Vec::new();
        for i in 0..100u8 {
            bytes.push(i);
            clean.push(i);
            if i % 7 == 0 {
                bytes.extend([0xFF, 0]);
                clean.push(0xFF);
            }
        }
        let end = bytes.len();
        bytes.extend([0xFF, 0xD9, 1, 2, 3]);
        let mut out = vec![7; 500];
        let (length, stop) = unstuff(&bytes, 2, &mut out);
        assert_eq!((&out[..length], stop), (&clean[..], end));
        assert!(out[length..length + PADDING].iter().all(|&b| b == 0));
        assert_eq!(raw_offset(&bytes, 2, clean.len()), end);
    }

    #[test]
    fn bits_come_in_order_and_the_end_is_noticed() {
        let data: Vec<u8> = (1..=40u8).map(|i| i.wrapping_mul(37)).chain([0; PADDING]).collect();
        let mut bits = Bits { data: data.clone(), length: 40, ..Bits::default() };
        let mut n = 0;
        for step in [1, 5, 16, 3, 7, 11].iter().cycle() {
            if n + step > 320 {
                break;
            }
            let expected = (n..n + step).fold(0, |v, i| v << 1 | u32::from(data[i / 8] >> (7 - i % 8) & 1));
            let mut cursor = bits.cursor();
            assert_eq!(cursor.take(*step as u32), expected);
            let state = cursor.state();
            bits.keep(state);
            assert!(!bits.overrun());
            n += step;
        }
        let one = |bits: &mut Bits| {
            let mut cursor = bits.cursor();
            cursor.bit();
            let state = cursor.state();
            bits.keep(state);
        };
        for _ in n..320 {
            one(&mut bits);
        }
        assert!(!bits.overrun());
        one(&mut bits);
        assert!(bits.overrun());
    }
}
