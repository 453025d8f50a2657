//! Threads within a kernel: a pool that spins for a moment, then sleeps.
//!
//! 1. The driver writes the job, sets the count of busy workers, and raises the generation.
//! 2. A worker that sees a new generation runs its part and lowers the count.
//! 3. The driver runs part 0 and waits for the count to reach zero.
//!
//! A worker that has seen nothing new for a while announces that it sleeps, looks once more, and parks; the driver wakes those that
//! announced it. Nothing is allocated per job. A panic in any part becomes one of the driver, when all parts have ended:
//! until then others may still be writing to the same buffers. What is in these is then no result of anything.

use super::pin;
use paceline_base::{Error, Result};
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a worker spins before it sleeps: longer than the gaps between the kernels of a step.
const SPIN: Duration = Duration::from_micros(50);

/// Looks between two offers of the core to others. When the machine is busy, driver and worker may find themselves on one core: whoever
/// waits there without offering it waits for itself (a kernel of 5 µs then took 58).
const PATIENCE: u32 = 64;

type Job<'a> = &'a (dyn Fn(usize) + Sync);

struct Shared {
    job: UnsafeCell<Option<Job<'static>>>,
    generation: AtomicU64,
    busy: AtomicUsize,
    stop: AtomicBool,
    /// A part of the present job has panicked on a worker.
    panicked: AtomicBool,
    sleeping: Vec<AtomicBool>,
}

// SAFETY: `job` is written only while no worker is busy, before the generation rises (release), and read only after a worker has seen it
// rise (acquire).
unsafe impl Sync for Shared {}

/// The threads that help the driving thread.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl Pool {
    /// A pool for `threads` threads, the driver included; worker i is pinned to the i-th core, counting round.
    pub(crate) fn new(threads: usize, cores: Option<&[usize]>) -> Result<Self> {
        let count = threads.saturating_sub(1);
        let shared = Arc::new(Shared {
            job: UnsafeCell::new(None),
            generation: AtomicU64::new(0),
            busy: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
            sleeping: (0..count).map(|_| AtomicBool::new(false)).collect(),
        });
        let mut pool = Self { shared, workers: Vec::with_capacity(count) };
        for index in 0..count {
            let shared = pool.shared.clone();
            let core = cores.map(|cores| cores[(index + 1) % cores.len()]);
            let worker = thread::Builder::new()
                .name(format!("kernel-{}", index + 1))
                .spawn(move || {
                    if let Some(core) = core {
                        // The cores were checked; a refusal now costs speed only.
                        let _ = pin::pin(core);
                    }
                    work(&shared, index);
                })
                .map_err(|e| {
                    let started = index + 1; // with the driver
                    Error::failure(format!(
                        "{started} of {threads} threads of a device were started, then no more ({e}); use fewer"
                    ))
                })?;
            pool.workers.push(worker);
        }
        // All of them run once: what a thread allocates when it begins is then behind us, also on a busy machine.
        pool.run(&|_| ());
        Ok(pool)
    }

    /// Number of threads, the driver included.
    pub(crate) fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `job(0)` … `job(threads − 1)`, one on each thread, and returns when all are done.
    ///
    /// # Panics
    /// If one of them did.
    pub(crate) fn run(&mut self, job: Job<'_>) {
        let shared = &*self.shared;
        // SAFETY: no worker is busy (the last `run` waited for that, and `&mut self` excludes another), so nobody reads `job`;
        // and no worker uses it after this function returns, so its lifetime may be forgotten.
        unsafe { *shared.job.get() = Some(std::mem::transmute::<Job<'_>, Job<'static>>(job)) };
        shared.busy.store(self.workers.len(), Relaxed);
        shared.generation.fetch_add(1, SeqCst);
        for (worker, sleeping) in self.workers.iter().zip(&shared.sleeping) {
            if sleeping.load(SeqCst) {
                worker.thread().unpark();
            }
        }
        let own = catch_unwind(AssertUnwindSafe(|| job(0)));
        let mut spins = 0_u32;
        while shared.busy.load(Acquire) != 0 {
            spins += 1;
            if spins.is_multiple_of(PATIENCE) {
                thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        if let Err(panic) = own {
            resume_unwind(panic);
        }
        assert!(!shared.panicked.swap(false, Relaxed), "a part of a kernel panicked on another thread");
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        self.shared.generation.fetch_add(1, SeqCst);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            let _ = worker.join();
        }
    }
}

/// A worker's life.
fn work(shared: &Shared, index: usize) {
    let mut seen = 0;
    loop {
        seen = next_generation(shared, index, seen);
        if shared.stop.load(SeqCst) {
            return;
        }
        // SAFETY: the generation has risen, so the job is written, and it stays until `busy` falls.
        let job = unsafe { (*shared.job.get()).expect("a job comes with each generation") };
        if catch_unwind(AssertUnwindSafe(|| job(index + 1))).is_err() {
            shared.panicked.store(true, Relaxed); // the driver sees it with the fall of `busy`
        }
        shared.busy.fetch_sub(1, Release);
    }
}

/// Waits until the generation differs from `seen`: first spinning, then asleep.
fn next_generation(shared: &Shared, index: usize, seen: u64) -> u64 {
    let begin = Instant::now();
    loop {
        for _ in 0..PATIENCE {
            let now = shared.generation.load(Acquire);
            if now != seen {
                return now;
            }
            std::hint::spin_loop();
        }
        if begin.elapsed() > SPIN {
            break;
        }
        thread::yield_now();
    }
    let sleeping = &shared.sleeping[index];
    sleeping.store(true, SeqCst);
    loop {
        // Looked at after the announcement: a driver that raised it before saw no sleeper, one that raises it later will wake us.
        let now = shared.generation.load(SeqCst);
        if now != seen {
            sleeping.store(false, SeqCst);
            return now;
        }
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_runs_once_per_job_also_after_sleep() {
        for threads in 1..5 {
            let mut pool = Pool::new(threads, None).unwrap();
            let counts: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
            for round in 0..200 {
                if round % 50 == 0 {
                    thread::sleep(Duration::from_millis(2));
                }
                pool.run(&|part| {
                    counts[part].fetch_add(1, Relaxed);
                });
            }
            assert!(counts.iter().all(|c| c.load(Relaxed) == 200));
        }
    }

    #[test]
    fn an_unused_pool_stops() {
        for _ in 0..50 {
            drop(Pool::new(3, None).unwrap());
        }
    }

    #[test]
    fn a_panic_of_any_part_reaches_the_driver_after_all_parts_have_ended() {
        let mut pool = Pool::new(3, None).unwrap();
        for bad in 0..3 {
            let ended = AtomicUsize::new(0);
            let run = catch_unwind(AssertUnwindSafe(|| {
                pool.run(&|part| {
                    assert_ne!(part, bad, "meant");
                    ended.fetch_add(1, Relaxed);
                });
            }));
            assert!(run.is_err(), "part {bad}");
            assert_eq!(ended.load(Relaxed), 2, "part {bad}");
        }
        let sum = AtomicUsize::new(0);
        pool.run(&|part| {
            sum.fetch_add(part, Relaxed);
        });
        assert_eq!(sum.load(Relaxed), 3, "the pool goes on");
    }
}
