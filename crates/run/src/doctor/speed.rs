//! How fast cores compute and move memory, one alone and all at once: medians of short rounds, so that a neighbour's moment does not count.

use paceline_base::Result;
use paceline_kernels::cpu::Gemm;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

const ROUNDS: usize = 9;
/// Rows and columns of the product: larger than the second-level cache, and a matter of milliseconds.
const SIDE: usize = 768;

/// Operations per second of `threads` threads that multiply matrices.
pub fn flops(threads: usize) -> Result<f64> {
    // Room is made here, where there is someone to tell.
    let gemms = (0..threads).map(|_| Gemm::new()).collect::<Result<Vec<_>>>()?;
    let work = 2.0 * (SIDE as f64).powi(3);
    Ok(together(gemms, work, |mut gemm| {
        let (a, b, mut c) = (vec![0.5; SIDE * SIDE], vec![0.5; SIDE * SIDE], vec![0.0; SIDE * SIDE]);
        move || gemm.add_product([SIDE; 3], &a, &b, &mut c)
    }))
}

/// Bytes per second, read and written, of `threads` threads that copy more than any cache holds.
pub fn memory(threads: usize, free: u64) -> f64 {
    let most = if free == 0 { u64::MAX } else { free / 8 / threads as u64 };
    let size = (256u64 << 20).div_ceil(threads as u64).max(16 << 20).min(most).max(1 << 20) as usize;
    together(vec![(); threads], 2.0 * size as f64, |()| {
        let (from, mut to) = (vec![1u8; size], vec![0u8; size]);
        move || {
            to.copy_from_slice(&from);
            std::hint::black_box(&mut to);
        }
    })
}

/// The sum of the threads' rates; each is the amount of a round over its median time. All begin together, and go on until all are done, so that
/// none is measured alone.
fn together<T: Send, W: FnMut()>(seeds: Vec<T>, amount: f64, make: impl Fn(T) -> W + Sync) -> f64 {
    let threads = seeds.len();
    let (ready, done) = (Barrier::new(threads), AtomicUsize::new(0));
    let one = |seed: T| {
        let mut work = make(seed);
        work(); // warms caches and pages
        ready.wait();
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let begin = Instant::now();
            work();
            times.push(begin.elapsed().as_secs_f64());
        }
        done.fetch_add(1, Relaxed);
        while done.load(Relaxed) < threads {
            work();
        }
        times.sort_by(f64::total_cmp);
        amount / times[times.len() / 2]
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = seeds.into_iter().map(|seed| scope.spawn(move || one(seed))).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or(0.0)).sum()
    })
}
