//! Counter-based random numbers: values are functions of (seed, use, layer, step, coordinate), never of call order.
//!
//! Philox 4×32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). One block gives the values
//! of four neighbouring coordinates, so vector kernels compute a block once.

/// What a random number is for; keeps streams apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Initial parameter values.
    Init = 1,
    /// Dropout masks, by step and coordinate.
    Dropout = 2,
    /// Made-up samples (`fake`).
    Data = 3,
    /// Augmentation of training samples.
    Augment = 4,
    /// Elements of matrices, and the vectors that check their products.
    Matrix = 5,
}

const M0: u32 = 0xD251_1F53;
const M1: u32 = 0xCD9E_8D57;
const W0: u32 = 0x9E37_79B9;
const W1: u32 = 0xBB67_AE85;

/// One Philox 4×32-10 block.
#[inline]
pub fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let (mut c, mut k) = (counter, key);
    for _ in 0..10 {
        let p0 = u64::from(M0) * u64::from(c[0]);
        let p1 = u64::from(M1) * u64::from(c[2]);
        c = [(p1 >> 32) as u32 ^ c[1] ^ k[0], p1 as u32, (p0 >> 32) as u32 ^ c[3] ^ k[1], p0 as u32];
        k = [k[0].wrapping_add(W0), k[1].wrapping_add(W1)];
    }
    c
}

/// A stream of values indexed by coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    key: [u32; 2],
    step: u32,
    tag: u32,
    high: u32,
}

impl Stream {
    /// The stream of one use, layer and step.
    pub fn new(seed: u64, what: Use, layer: u32, step: u64) -> Self {
        Self {
            key: [seed as u32, (seed >> 32) as u32],
            step: step as u32,
            tag: (what as u32) << 24 | (layer & 0x00FF_FFFF),
            high: (step >> 32) as u32,
        }
    }

    /// The four values at coordinates `4·block … 4·block + 3`.
    #[inline]
    pub fn block(&self, block: u64) -> [u32; 4] {
        philox([block as u32, (block >> 32) as u32 ^ self.high.rotate_left(16), self.step, self.tag], self.key)
    }

    /// The 32 random bits at one coordinate.
    #[inline]
    pub fn bits(&self, coordinate: u64) -> u32 {
        self.block(coordinate / 4)[(coordinate % 4) as usize]
    }

    /// A value in [0, 1) at one coordinate, with 24 bits, the same in f32 and f64.
    #[inline]
    pub fn uniform(&self, coordinate: u64) -> f64 {
        f64::from(self.bits(coordinate) >> 8) / f64::from(1u32 << 24)
    }

    /// A standard normal value at one coordinate (Box–Muller over a block of its own).
    pub fn normal(&self, coordinate: u64) -> f64 {
        let b = self.block(coordinate);
        let u = (f64::from(b[0]) + 1.0) / 4_294_967_297.0;
        let v = f64::from(b[1]) / 4_294_967_296.0;
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_published_values() {
        // Known answers of the Random123 distribution (kat_vectors, philox4x32 10).
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn moments_are_right() {
        let s = Stream::new(7, Use::Init, 3, 0);
        let n = 20_000;
        let mean = (0..n).map(|i| s.uniform(i)).sum::<f64>() / n as f64;
        let var = (0..n).map(|i| s.normal(i).powi(2)).sum::<f64>() / n as f64;
        assert!((mean - 0.5).abs() < 0.01 && (var - 1.0).abs() < 0.05, "{mean} {var}");
    }

    #[test]
    fn streams_differ() {
        let a = Stream::new(1, Use::Dropout, 0, 0);
        for b in [
            Stream::new(2, Use::Dropout, 0, 0),
            Stream::new(1, Use::Init, 0, 0),
            Stream::new(1, Use::Dropout, 1, 0),
            Stream::new(1, Use::Dropout, 0, 1),
        ] {
            assert_ne!(a.block(0), b.block(0));
        }
    }
}
