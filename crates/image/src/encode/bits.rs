//! Bits of entropy-coded data, eight bytes at a time, and the coding of blocks.

use super::tables::Codes;
use crate::simd::Simd;

/// Writes bits, most significant first, with stuffing.
pub(super) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// The last bits, from the bottom, and how many more fit.
    buffer: u64,
    free: u32,
}

impl<'a> Writer<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, buffer: 0, free: 64 }
    }

    /// `count` bits, 1 to 32; those above are zero.
    #[inline(always)]
    fn put(&mut self, bits: u64, count: u32) {
        if count < self.free {
            self.buffer = self.buffer << count | bits;
            self.free -= count;
            return;
        }
        let over = count - self.free;
        // `free` is 64 only before the first bits, which then fit.
        let word = self.buffer << self.free | bits >> over;
        self.word(word);
        self.buffer = bits & ((1 << over) - 1);
        self.free = 64 - over;
    }

    #[inline(always)]
    fn word(&mut self, word: u64) {
        let bytes = word.to_be_bytes();
        let ff = (!word).wrapping_sub(0x0101_0101_0101_0101) & word & 0x8080_8080_8080_8080;
        if ff == 0 {
            self.out.extend_from_slice(&bytes);
            return;
        }
        for byte in bytes {
            self.byte(byte);
        }
    }

    fn byte(&mut self, byte: u8) {
        self.out.push(byte);
        if byte == 0xFF {
            self.out.push(0);
        }
    }

    /// Fills the last byte with ones and writes what is left.
    pub(super) fn finish(mut self) {
        let fill = self.free % 8;
        if fill > 0 {
            self.put((1 << fill) - 1, fill);
        }
        let left = (64 - self.free) / 8;
        for i in (0..left).rev() {
            self.byte((self.buffer >> (8 * i)) as u8);
        }
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

    /// A block that differs from the one before by its mean alone.
    pub(super) fn block_of_mean(&mut self, codes: &Codes, difference: i16) {
        self.value(&codes.dc, 0, difference);
        self.put(u64::from(codes.ac[0] >> 8), codes.ac[0] & 0xFF);
    }

    /// A block in zigzag order, its mean replaced by the difference to the one before.
    #[inline(always)]
    pub(super) fn block(&mut self, simd: Simd, codes: &Codes, zigzag: &[i16; 64]) {
        self.value(&codes.dc, 0, zigzag[0]);
        let mut left = nonzero(simd, zigzag) & !1;
        let mut last = 0;
        while left != 0 {
            let k = left.trailing_zeros();
            left &= left - 1;
            let mut run = k - last - 1;
            while run > 15 {
                self.put(u64::from(codes.ac[0xF0] >> 8), codes.ac[0xF0] & 0xFF);
                run -= 16;
            }
            self.value(&codes.ac, run, zigzag[k as usize & 63]);
            last = k;
        }
        if last < 63 {
            self.put(u64::from(codes.ac[0] >> 8), codes.ac[0] & 0xFF);
        }
    }
}

/// Bit k: coefficient k is not zero.
#[inline(always)]
fn nonzero(simd: Simd, zigzag: &[i16; 64]) -> u64 {
    match simd {
        Simd::Portable => zigzag.iter().rev().fold(0, |mask, &c| mask << 1 | u64::from(c != 0)),
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 => {
            // SAFETY: `Simd::Avx2` is made only where these instructions were found.
            unsafe { avx2::nonzero(zigzag) }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn nonzero(zigzag: &[i16; 64]) -> u64 {
        let v: [__m256i; 4] = bytemuck::cast(*zigzag);
        let zeros = |a: __m256i, b: __m256i| {
            let zero = _mm256_setzero_si256();
            let bytes = _mm256_packs_epi16(_mm256_cmpeq_epi16(a, zero), _mm256_cmpeq_epi16(b, zero));
            _mm256_movemask_epi8(_mm256_permute4x64_epi64::<0b11_01_10_00>(bytes)) as u32
        };
        !(u64::from(zeros(v[0], v[1])) | u64::from(zeros(v[2], v[3])) << 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_written_in_order_with_stuffing() {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        let mut expected = String::new();
        for i in 0..2000u64 {
            let count = (i * 7 % 27 + 1) as u32;
            let bits = if i % 3 == 0 { (1 << count) - 1 } else { i.wrapping_mul(0x9E37_79B9) & ((1 << count) - 1) };
            writer.put(bits, count);
            expected += &format!("{bits:0width$b}", width = count as usize);
        }
        writer.finish();
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
