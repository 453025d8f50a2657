//! Bits of entropy-coded data, and the coding of blocks. Stuffing comes last, into all of a picture at once: until then
//! bits are written without any branch.

use super::tables::Codes;
use crate::cosine::ORDER;
use crate::simd::Simd;

/// What a pen can write. A block takes at most 64 times 27 bits, so that it never goes further.
const WINDOW: usize = MASK + 1 + 8;
/// Positions within it; with this mask the compiler knows that no bits leave the window.
const MASK: usize = 511;

/// Writes a picture's blocks to a buffer.
pub(super) struct Writer<'a> {
    coded: &'a mut Vec<u8>,
    length: usize,
    rest: Rest,
}

/// Bits that do not fill a byte yet, from the top, and how many.
#[derive(Clone, Copy, Default)]
struct Rest {
    buffer: u64,
    used: u32,
}

/// Writes bits, most significant first. To be kept in registers: made for one block.
struct Pen<'a> {
    window: &'a mut [u8; WINDOW],
    at: usize,
    rest: Rest,
}

impl Pen<'_> {
    #[inline(always)]
    fn place(self) -> (usize, Rest) {
        (self.at, self.rest)
    }

    /// `count` bits, 1 to 32; those above are zero.
    #[inline(always)]
    fn put(&mut self, bits: u64, count: u32) {
        let Rest { buffer, used } = &mut self.rest;
        *used += count;
        *buffer |= bits << ((64 - *used) & 63);
        let at = self.at & MASK;
        self.window[at..at + 8].copy_from_slice(&buffer.to_be_bytes());
        self.at += (*used / 8) as usize;
        *buffer <<= *used & 0x38;
        *used &= 7;
    }

    /// A code alone.
    #[inline(always)]
    fn code(&mut self, entry: u32) {
        self.put(u64::from(entry >> 8), entry & 0xFF);
    }

    /// A value with its code: the code, then as many bits as the value has.
    #[inline(always)]
    fn value(&mut self, codes: &[u32; 256], run: u32, value: i16) {
        let value = i32::from(value);
        let size = 32 - value.unsigned_abs().leading_zeros();
        let entry = codes[(run << 4 | size) as usize & 0xFF];
        let bits = (value + (value >> 31)) as u32 & ((1 << size) - 1);
        self.put(u64::from(entry >> 8) << size | u64::from(bits), (entry & 0xFF) + size);
    }
}

impl<'a> Writer<'a> {
    /// What is in the buffer is overwritten.
    pub(super) fn new(coded: &'a mut Vec<u8>) -> Self {
        Self { coded, length: 0, rest: Rest::default() }
    }

    #[inline(always)]
    fn pen(&mut self) -> Pen<'_> {
        if self.coded.len() < self.length + WINDOW {
            self.coded.resize(2 * self.length + 16 * WINDOW, 0);
        }
        let window = self.coded[self.length..].first_chunk_mut().expect("room was made");
        Pen { window, at: 0, rest: self.rest }
    }

    /// Goes on where a pen has come to.
    #[inline(always)]
    fn keep(&mut self, (written, rest): (usize, Rest)) {
        self.length += written;
        self.rest = rest;
    }

    /// Fills the last byte with ones and appends everything, with stuffing, to `out`.
    pub(super) fn finish(mut self, out: &mut Vec<u8>) {
        let fill = (8 - self.rest.used) % 8;
        if fill > 0 {
            let mut pen = self.pen();
            pen.put((1 << fill) - 1, fill);
            let place = pen.place();
            self.keep(place);
        }
        stuff(&self.coded[..self.length], out);
    }

    /// A block that differs from the one before by its mean alone.
    pub(super) fn block_of_mean(&mut self, codes: &Codes, difference: i16) {
        let mut pen = self.pen();
        pen.value(&codes.dc, 0, difference);
        pen.code(codes.ac[0]);
        let place = pen.place();
        self.keep(place);
    }

    /// A block in the order of [`ORDER`], with the difference of its mean to the one before.
    #[inline(always)]
    pub(super) fn block(&mut self, simd: Simd, codes: &Codes, difference: i16, block: &[i16; 64]) {
        let mut pen = self.pen();
        pen.value(&codes.dc, 0, difference);
        let mut left = nonzero(simd, block) & !1;
        let mut last = 0;
        while left != 0 {
            let k = left.trailing_zeros();
            left &= left - 1;
            let mut run = k - last - 1;
            while run > 15 {
                pen.code(codes.ac[0xF0]);
                run -= 16;
            }
            pen.value(&codes.ac, run, block[usize::from(ORDER[k as usize & 63]) & 63]);
            last = k;
        }
        if last < 63 {
            pen.code(codes.ac[0]);
        }
        let place = pen.place();
        self.keep(place);
    }
}

/// Appends bytes, each 0xFF with a zero behind it.
fn stuff(mut from: &[u8], out: &mut Vec<u8>) {
    while let Some((eight, rest)) = from.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*eight);
        let ff = (!word).wrapping_sub(0x0101_0101_0101_0101) & word & 0x8080_8080_8080_8080;
        if ff == 0 {
            out.extend_from_slice(eight);
            from = rest;
            continue;
        }
        let (before, rest) = from.split_at(ff.trailing_zeros() as usize / 8 + 1);
        out.extend_from_slice(before);
        out.push(0);
        from = rest;
    }
    for &byte in from {
        out.push(byte);
        if byte == 0xFF {
            out.push(0);
        }
    }
}

/// Bit k: the coefficient that [`ORDER`] names as k is not zero.
#[inline(always)]
fn nonzero(simd: Simd, block: &[i16; 64]) -> u64 {
    match simd {
        Simd::Portable => {
            ORDER.iter().rev().fold(0, |mask, &at| mask << 1 | u64::from(block[usize::from(at) & 63] != 0))
        }
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 => {
            // SAFETY: `Simd::Avx2` is made only where these instructions were found.
            unsafe { avx2::nonzero(block) }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::ORDER;
    use bytemuck::cast;
    use std::arch::x86_64::*;

    /// `PICK[half][lane]`: which bytes of a lane go where in a half of the order. The lanes are those of the two vectors
    /// into which packing puts the coefficients.
    const PICK: [[[u8; 32]; 4]; 2] = {
        let mut of = [[[0x80; 32]; 4]; 2];
        let mut k = 0;
        while k < 64 {
            let at = ORDER[k] as usize;
            let lane = at / 32 * 2 + at % 16 / 8;
            of[k / 32][lane][k % 32] = (at % 32 / 16 * 8 + at % 8) as u8;
            k += 1;
        }
        of
    };

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn nonzero(block: &[i16; 64]) -> u64 {
        let v: [__m256i; 4] = cast(*block);
        let zeros = |a: __m256i, b: __m256i| {
            let zero = _mm256_setzero_si256();
            _mm256_packs_epi16(_mm256_cmpeq_epi16(a, zero), _mm256_cmpeq_epi16(b, zero))
        };
        let (a, b) = (zeros(v[0], v[1]), zeros(v[2], v[3]));
        let lanes = [
            _mm256_permute4x64_epi64::<0x44>(a),
            _mm256_permute4x64_epi64::<0xEE>(a),
            _mm256_permute4x64_epi64::<0x44>(b),
            _mm256_permute4x64_epi64::<0xEE>(b),
        ];
        let half = |h: usize| {
            let pick = |lane: usize| _mm256_shuffle_epi8(lanes[lane], cast(PICK[h][lane]));
            let all = _mm256_or_si256(_mm256_or_si256(pick(0), pick(1)), _mm256_or_si256(pick(2), pick(3)));
            u64::from(_mm256_movemask_epi8(all) as u32)
        };
        !(half(0) | half(1) << 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_written_in_order_with_stuffing() {
        let (mut coded, mut out) = (Vec::new(), Vec::new());
        let mut writer = Writer::new(&mut coded);
        let mut expected = String::new();
        for i in 0..2000u64 {
            let count = (i * 7 % 27 + 1) as u32;
            let bits = if i % 3 == 0 { (1 << count) - 1 } else { i.wrapping_mul(0x9E37_79B9) & ((1 << count) - 1) };
            let mut pen = writer.pen();
            pen.put(bits, count);
            let place = pen.place();
            writer.keep(place);
            expected += &format!("{bits:0width$b}", width = count as usize);
        }
        writer.finish(&mut out);
        while !expected.len().is_multiple_of(8) {
            expected.push('1');
        }
        let mut clean = Vec::new();
        let mut it = out.iter();
        while let Some(&byte) = it.next() {
            clean.push(format!("{byte:08b}"));
            if byte == 0xFF {
                assert_eq!(it.next(), Some(&0));
            }
        }
        assert_eq!(clean.concat(), expected);
    }

    #[test]
    fn masks_agree() {
        for seed in 0..200u32 {
            let block: [i16; 64] = std::array::from_fn(|i| {
                (seed.wrapping_mul(2654435761).wrapping_add(i as u32 * 40503 * seed) >> 14 & 3) as i16 - 1
            });
            assert_eq!(nonzero(Simd::Portable, &block), nonzero(Simd::detect(), &block));
        }
    }
}
