//! Three planes to pixels of three channels, and back, in vectors.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2 {
    use bytemuck::cast;
    use std::arch::x86_64::*;

    /// `MERGE[part][channel]`: which of 16 samples go where in a third of 16 pixels.
    const MERGE: [[[u8; 16]; 3]; 3] = {
        let mut of = [[[0x80; 16]; 3]; 3];
        let mut at = 0;
        while at < 48 {
            of[at / 16][at % 3][at % 16] = (at / 3) as u8;
            at += 1;
        }
        of
    };

    /// `SPLIT[channel][part]`: which bytes of a third of 16 pixels go where among the 16 samples of a channel.
    const SPLIT: [[[u8; 16]; 3]; 3] = {
        let mut of = [[[0x80; 16]; 3]; 3];
        let mut at = 0;
        while at < 48 {
            of[at % 3][at / 16][at / 3] = (at % 16) as u8;
            at += 1;
        }
        of
    };

    /// 32 pixels of three planes.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(crate) fn interleave(r: __m256i, g: __m256i, b: __m256i) -> [u8; 96] {
        let part = |p: usize| {
            let pick = |v: __m256i, c: usize| _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(cast(MERGE[p][c])));
            _mm256_or_si256(_mm256_or_si256(pick(r, 0), pick(g, 1)), pick(b, 2))
        };
        let (a, b, c) = (part(0), part(1), part(2));
        cast([
            _mm256_permute2x128_si256::<0x20>(a, b),
            _mm256_permute2x128_si256::<0x30>(c, a),
            _mm256_permute2x128_si256::<0x31>(b, c),
        ])
    }

    /// The three planes of 32 pixels.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(crate) fn split(pixels: &[u8; 96]) -> [__m256i; 3] {
        let [x, y, z]: [__m256i; 3] = cast(*pixels);
        // Thirds of the first 16 pixels in the lower halves, of the other 16 in the upper ones.
        let a = _mm256_permute2x128_si256::<0x30>(x, y);
        let b = _mm256_permute2x128_si256::<0x21>(x, z);
        let c = _mm256_permute2x128_si256::<0x30>(y, z);
        let plane = |ch: usize| {
            let pick = |v: __m256i, p: usize| _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(cast(SPLIT[ch][p])));
            _mm256_or_si256(_mm256_or_si256(pick(a, 0), pick(b, 1)), pick(c, 2))
        };
        [plane(0), plane(1), plane(2)]
    }
}
