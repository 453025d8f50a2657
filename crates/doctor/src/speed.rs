//! How fast cores compute and move memory, one alone and all at once. Rounds are short, and the quicker quarter of them counts: whatever else runs
//! only makes a round slower.

use paceline_base::Result;
use paceline_kernels::cpu::Gemm;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Rounds of each thread, at least; and how long it goes on.
const ROUNDS: usize = 8;
const LONGEST: Duration = Duration::from_millis(500);
/// Rows and columns of the product: as large as the second-level cache, and a matter of milliseconds.
const SIDE: usize = 512;
/// Bytes that a round copies.
const PIECE: usize = 16 << 20;

/// Operations per second of `threads` threads that multiply matrices.
pub(crate) fn flops(threads: usize) -> Result<f64> {
    // Room is made here, where there is someone to tell.
    let gemms = (0..threads).map(|_| Gemm::new()).collect::<Result<Vec<_>>>()?;
    let work = 2.0 * (SIDE as f64).powi(3);
    Ok(together(gemms, work, |mut gemm| {
        let (a, b, mut c) = (vec![0.5; SIDE * SIDE], vec![0.5; SIDE * SIDE], vec![0.0; SIDE * SIDE]);
        move || gemm.add_product([SIDE; 3], &a, &b, &mut c)
    }))
}

/// Bytes per second, read and written, of `threads` threads that copy piece after piece of more than any cache holds.
pub(crate) fn memory(threads: usize, free: u64) -> f64 {
    let most = if free == 0 { usize::MAX } else { (free / 8 / threads as u64) as usize };
    let size = (256usize << 20).div_ceil(threads).min(most).next_multiple_of(PIECE);
    together(vec![(); threads], 2.0 * PIECE as f64, |()| {
        let (from, mut to, mut at) = (vec![1u8; size], vec![2u8; size], 0);
        move || {
            to[at..at + PIECE].copy_from_slice(&from[at..at + PIECE]);
            std::hint::black_box(&mut to);
            at = (at + PIECE) % size;
        }
    })
}

/// The sum of the threads' rates: the amount of a round over its time. All begin together, and go on until all are done, so that none is
/// measured alone.
fn together<T: Send, W: FnMut()>(seeds: Vec<T>, amount: f64, make: impl Fn(T) -> W + Sync) -> f64 {
    let threads = seeds.len();
    let (ready, done) = (Barrier::new(threads), AtomicUsize::new(0));
    let one = |seed: T| {
        let mut work = make(seed);
        work(); // warms caches and pages
        ready.wait();
        let (mut times, begin) = (Vec::new(), Instant::now());
        while times.len() < ROUNDS || begin.elapsed() < LONGEST {
            let from = Instant::now();
            work();
            times.push(from.elapsed().as_secs_f64());
        }
        done.fetch_add(1, Relaxed);
        while done.load(Relaxed) < threads {
            work();
        }
        times.sort_by(f64::total_cmp);
        amount / times[times.len() / 4]
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = seeds.into_iter().map(|seed| scope.spawn(move || one(seed))).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or(0.0)).sum()
    })
}
