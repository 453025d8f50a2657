//! How fast two threads sum their buffers, beside plain memcpy, and what the smallest collective costs.
//!
//! `cargo run --release -p paceline-comm --example allreduce_speed [ranks]`
//!
//! "GB/s" is the size of one buffer over the time of one all-reduce. With two ranks each of them reads and writes half
//! of both buffers; in the last column each rank copies the first half of its own buffer to the second and back, which
//! moves as many bytes.

use paceline_base::Result;
use paceline_comm::{Collective, Comm, Threads, host, threads};
use paceline_kernels::Staging;
use std::sync::Barrier;
use std::time::Instant;

/// Calls `run` on all ranks at once, `repeat` times in each of `rounds`; seconds per call in the best round, as the
/// slowest rank sees it. The best round is the one in which nothing else ran on these cores.
fn best(
    comms: &mut [Threads],
    rounds: usize,
    repeat: usize,
    run: impl Fn(&mut Threads, Staging) -> Staging + Sync,
    elements: usize,
) -> f64 {
    let barrier = Barrier::new(comms.len());
    let (barrier, run) = (&barrier, &run);
    std::thread::scope(|scope| {
        let ranks: Vec<_> = comms
            .iter_mut()
            .map(|comm| {
                scope.spawn(move || {
                    let mut data = host::stage(&vec![0.0f32; elements]);
                    let mut best = f64::INFINITY;
                    barrier.wait();
                    for _ in 0..rounds {
                        let began = Instant::now();
                        for _ in 0..repeat {
                            data = run(comm, data);
                        }
                        best = best.min(began.elapsed().as_secs_f64() / repeat as f64);
                    }
                    best
                })
            })
            .collect();
        ranks.into_iter().map(|t| t.join().expect("no panic")).fold(0.0, f64::max)
    })
}

fn main() -> Result<()> {
    let ranks: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(2);
    let all: Vec<usize> = (0..ranks).collect();
    let mut comms = threads(ranks);
    let mut group = None;
    for comm in &mut comms {
        group = Some(comm.group(&all)?);
    }
    let group = group.expect("at least one rank");

    let reduce = |comm: &mut Threads, data: Staging| {
        let ticket = comm.start(Collective::AllReduce, group, 0, data).expect("all ranks are there");
        comm.wait(ticket).expect("all ranks are there")
    };
    let copy = |_: &mut Threads, mut data: Staging| {
        let half = data.bytes().len() / 2;
        let (a, b) = data.bytes_mut().split_at_mut(half);
        b.copy_from_slice(std::hint::black_box(a));
        a.copy_from_slice(std::hint::black_box(b));
        data
    };

    let latency = best(&mut comms, 400, 500, reduce, 4);
    println!("{ranks} ranks, 16 bytes: {:.0} ns per all-reduce", latency * 1e9);
    println!("{:>10} {:>12} {:>10} {:>14}", "bytes", "µs", "GB/s", "memcpy GB/s");
    for shift in [10, 12, 14, 16, 18, 20, 22, 24, 26] {
        let bytes = 1usize << shift;
        let repeat = ((1usize << 24) / bytes).clamp(1, 500);
        let time = best(&mut comms, 30, repeat, reduce, bytes / 4);
        let memcpy = best(&mut comms, 30, repeat, copy, bytes / 4);
        let speed = |t: f64| bytes as f64 / t / 1e9;
        println!("{bytes:>10} {:>12.2} {:>10.2} {:>14.2}", time * 1e6, speed(time), speed(memcpy));
    }
    Ok(())
}
