//! Chroma back to the resolution of luma: libjpeg's triangle filter for factors of two, repetition for all others.
//!
//! The bodies are plain loops over integers; they are compiled once for every machine and once for AVX2, and give the
//! same bits in both.

use crate::simd::Simd;

/// How a component reaches the resolution of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upsample {
    /// It has it.
    None,
    /// Twice as wide.
    Wide,
    /// Twice as high.
    High,
    /// Twice as wide and as high.
    Both,
    /// Every sample repeated; position × numerator ÷ denominator is the sample's.
    Repeat { across: (usize, usize), down: (usize, usize) },
}

impl Upsample {
    /// Whether rows above and below are looked at.
    pub(super) fn looks_around(self) -> bool {
        matches!(self, Self::High | Self::Both)
    }
}

/// Defines a function that runs its body as compiled for the machine at hand.
macro_rules! compiled_twice {
    ($(#[$doc:meta])* fn $name:ident($($arg:ident: $kind:ty),*) $body:block) => {
        $(#[$doc])*
        pub(super) fn $name(simd: Simd, $($arg: $kind),*) {
            #[inline(always)]
            fn body($($arg: $kind),*) $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            fn avx2($($arg: $kind),*) {
                body($($arg),*)
            }
            match simd {
                Simd::Portable => body($($arg),*),
                #[cfg(target_arch = "x86_64")]
                Simd::Avx2 => {
                    // SAFETY: `Simd::Avx2` is made only where these instructions were found.
                    unsafe { avx2($($arg),*) }
                }
            }
        }
    };
}

compiled_twice! {
    /// Twice as wide; `out` is twice as long as `row`, which has at least one sample.
    fn wide(row: &[u8], out: &mut [u8]) {
        let n = row.len();
        let out = &mut out[..2 * n];
        let (first, last) = (row[0], row[n - 1]);
        out[0] = first;
        out[2 * n - 1] = last;
        // Between two samples lie two pixels, each nearer to one of them.
        for (pair, to) in row.windows(2).zip(out[1..2 * n - 1].as_chunks_mut::<2>().0) {
            let (a, b) = (u16::from(pair[0]), u16::from(pair[1]));
            *to = [((3 * a + b + 2) >> 2) as u8, ((a + 3 * b + 1) >> 2) as u8];
        }
    }
}

compiled_twice! {
    /// Twice as high: one row from the nearer and the farther of two.
    fn high(near: &[u8], far: &[u8], lower: bool, out: &mut [u8]) {
        let bias = if lower { 2 } else { 1 };
        for ((&near, &far), to) in near.iter().zip(far).zip(out) {
            *to = ((3 * u16::from(near) + u16::from(far) + bias) >> 2) as u8;
        }
    }
}

compiled_twice! {
    /// Twice as wide and as high.
    fn both(near: &[u8], far: &[u8], sums: &mut Vec<u16>, out: &mut [u8]) {
        let n = near.len();
        if sums.len() < n {
            sums.resize(n, 0);
        }
        let sums = &mut sums[..n];
        for ((&near, &far), sum) in near.iter().zip(far).zip(sums.iter_mut()) {
            *sum = 3 * u16::from(near) + u16::from(far);
        }
        let out = &mut out[..2 * n];
        out[0] = ((4 * sums[0] + 8) >> 4) as u8;
        out[2 * n - 1] = ((4 * sums[n - 1] + 7) >> 4) as u8;
        for (pair, to) in sums.windows(2).zip(out[1..2 * n - 1].as_chunks_mut::<2>().0) {
            *to = [((3 * pair[0] + pair[1] + 7) >> 4) as u8, ((pair[0] + 3 * pair[1] + 8) >> 4) as u8];
        }
    }
}

/// Every sample repeated; `first` is the position of `out[0]` in the image, `start` that of `row[0]` among the samples.
pub(super) fn repeat(row: &[u8], start: usize, (numerator, denominator): (usize, usize), first: usize, out: &mut [u8]) {
    for (i, to) in out.iter_mut().enumerate() {
        let at = ((first + i) * numerator / denominator).saturating_sub(start);
        *to = row[at.min(row.len() - 1)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn vectors_and_portable_give_the_same_bits(
            near in proptest::collection::vec(any::<u8>(), 1..100),
            seed: u8,
        ) {
            let far: Vec<u8> = near.iter().rev().map(|b| b.wrapping_mul(seed | 1)).collect();
            let run = |simd| {
                let mut of = [vec![0; near.len() * 2], vec![0; near.len()], vec![0; near.len() * 2]];
                let mut sums = Vec::new();
                wide(simd, &near, &mut of[0]);
                high(simd, &near, &far, seed > 99, &mut of[1]);
                both(simd, &near, &far, &mut sums, &mut of[2]);
                of
            };
            prop_assert_eq!(run(Simd::Portable), run(Simd::detect()));
        }
    }
}
