//! What this core can do at most: multiply-adds on registers only.

use super::isa::{Body, Detected, Isa};
use super::simd::Simd;
use std::hint::black_box;
use std::time::Instant;

/// Independent chains: enough for every latency there is.
const CHAINS: usize = 12;

struct Chains(usize);

impl Body for Chains {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let (a, b) = (s.splat(black_box(0.5)), s.splat(black_box(1.0)));
        let mut sums = [a; CHAINS];
        for _ in 0..self.0 {
            for sum in &mut sums {
                *sum = s.fma(*sum, a, b);
            }
        }
        let mut all = sums[0];
        for sum in &sums[1..] {
            all = s.add(all, *sum);
        }
        black_box(s.sum(all));
    }
}

/// Floating-point operations per second of one core; none for plain Rust, where what the compiler makes of a loop bounds nothing.
///
/// The best of many short moments: whatever else runs only makes it slower.
pub fn peak_flops(isa: Isa) -> Option<f64> {
    let detected = Detected::new(isa).filter(|_| isa != Isa::Portable)?;
    let rounds = 20_000;
    let mut best = f64::INFINITY;
    for _ in 0..200 {
        let begin = Instant::now();
        // SAFETY: it touches no memory.
        unsafe { detected.run(Chains(rounds)) };
        best = best.min(begin.elapsed().as_secs_f64());
    }
    Some(2.0 * (rounds * CHAINS * detected.lanes()) as f64 / best)
}
