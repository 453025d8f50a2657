//! The order in which samples are visited: a pure function of (seed, epoch, position).
//!
//! A shuffled list would have to be built by every worker, kept in memory and saved for a resume. Here the order is a
//! keyed permutation instead, so any worker can ask for any position of any epoch, at once and without state: that is
//! what makes a run independent of the number of workers and a mid-epoch resume exact.
//!
//! The permutation is a generalised Feistel network (Black and Rogaway, *Ciphers with arbitrary finite domains*, 2002):
//! an index below `n` is written as (left, right) in a grid of `a × b ≥ n` with `a ≈ b ≈ √n`; each round adds a keyed
//! hash of one half to the other, modulo its side. Every round can be undone, so the whole is a bijection of the grid.
//! A result at or beyond `n` is sent through again until it falls below (*cycle walking*), which keeps it a bijection of
//! `0..n`; since the grid exceeds `n` by less than its side, that is rare.
//!
//! The mixers are written out here so that they stay frozen: a change would silently alter the order in which every
//! earlier run visited its samples.

/// The golden-ratio increment of SplitMix64.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
/// Odd numbers without structure, from the literature on 64-bit mixers (Rrmxmx, wyhash).
const SPREAD: u64 = 0xD6E8_FEB8_6659_FD93;
const FOLD: u64 = 0xA076_1D64_78BD_642F;
/// Rounds for large sets. Four make a good permutation if the round function is good (Luby and Rackoff 1988); six leave
/// a margin.
const ROUNDS: usize = 6;
/// Rounds below [`SMALL`], where each round moves only a few bits.
const ROUNDS_SMALL: usize = 24;
/// Below this many samples the extra rounds cost nothing that matters.
const SMALL: u64 = 1 << 10;

/// The order of the samples of a set, over all epochs.
///
/// ```
/// use paceline_data::Order;
///
/// let order = Order::new(60_000, 7);
/// let first_batch: Vec<usize> = (0..128).map(|position| order.at(0, position)).collect();
/// assert_ne!(first_batch[0], order.at(1, 0), "each epoch has its own order");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    n: u64,
    key: Option<u64>,
    left: u64,
    right: u64,
    /// ⌈2⁶⁴ / right⌉, or 0 where a true division is needed.
    reciprocal: u64,
}

impl Order {
    /// The shuffled order of `n` samples.
    pub fn new(n: usize, seed: u64) -> Self {
        let n = n as u64;
        let floor = n.isqrt();
        let left = (floor + u64::from(floor * floor < n)).max(1);
        let right = n.div_ceil(left).max(1);
        let exact = right > 1 && left <= 1 << 16 && right <= 1 << 16;
        let reciprocal = if exact { u64::MAX / right + 1 } else { 0 };
        Self { n, key: Some(keyed(seed, 0)), left, right, reciprocal }
    }

    /// The order of the set itself, the same in every epoch.
    pub fn unshuffled(n: usize) -> Self {
        Self { n: n as u64, key: None, left: 1, right: 1, reciprocal: 0 }
    }

    /// How many samples.
    pub(crate) fn len(&self) -> usize {
        self.n as usize
    }

    /// Whether this order is shuffled.
    #[cfg(test)]
    pub(crate) fn is_shuffled(&self) -> bool {
        self.key.is_some()
    }

    /// The sample at `position` of `epoch`. For a fixed epoch this is a permutation of `0..n`.
    ///
    /// # Panics
    /// If `position` is not below the number of samples.
    #[inline]
    pub fn at(&self, epoch: u64, position: usize) -> usize {
        let mut x = position as u64;
        assert!(x < self.n, "position {position} of an order of {} samples", self.n);
        let Some(key) = self.key else { return position };
        let key = keyed(key, epoch);
        loop {
            x = if self.n < SMALL { self.permute::<ROUNDS_SMALL>(key, x) } else { self.permute::<ROUNDS>(key, x) };
            if x < self.n {
                return x as usize;
            }
        }
    }

    /// The bijection of the grid.
    #[inline]
    fn permute<const ROUNDS: usize>(&self, key: u64, x: u64) -> u64 {
        let mut l = self.divide(x);
        let mut r = x - l * self.right;
        let mut k = key;
        for _ in 0..ROUNDS / 2 {
            k = k.wrapping_add(GOLDEN);
            // The high half of a product maps 64 random bits to a side without a division.
            l = add(l, high(hash(k, r), self.left), self.left);
            k = k.wrapping_add(GOLDEN);
            r = add(r, high(hash(k, l), self.right), self.right);
        }
        l * self.right + r
    }

    /// `x / right`, by a product with the reciprocal where that is exact (Lemire 2019: both below 2³²).
    #[inline]
    fn divide(&self, x: u64) -> u64 {
        if self.reciprocal != 0 { high(x, self.reciprocal) } else { x / self.right }
    }
}

/// SplitMix64's finaliser (Steele, Lea, Flood 2014; constants by Stafford): a bijection of 64 bits with full avalanche.
#[inline]
const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A random function of a key and a counter.
#[inline]
const fn keyed(key: u64, counter: u64) -> u64 {
    mix(key.wrapping_add(counter.wrapping_add(1).wrapping_mul(GOLDEN)))
}

/// The round function. The half is first spread over all 64 bits, so that both halves of the full product change with
/// it; folding them together by xor is what makes the function far from linear. (Without the spreading, neighbouring
/// halves give an arithmetic progression, and orders of four samples are visibly biased.)
#[inline]
fn hash(key: u64, half: u64) -> u64 {
    let spread = half.wrapping_mul(SPREAD) ^ key;
    let product = u128::from(spread) * u128::from(key.rotate_left(32) ^ FOLD);
    (product >> 64) as u64 ^ product as u64
}

/// The high half of a product.
#[inline]
fn high(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

/// Addition modulo `side` of two numbers below it.
#[inline]
fn add(a: u64, b: u64, side: u64) -> u64 {
    let sum = a + b;
    if sum >= side { sum - side } else { sum }
}

#[cfg(test)]
mod tests;
