//! How fast ranks sum their buffers, beside plain copying, and, over MPI, beside the library's own all-reduce.
//!
//! `cargo run --release -p paceline-comm --example allreduce_speed -- [--threads N] [--bytes N] [--json]`
//! `mpirun -np 2 target/release/examples/allreduce_speed …` (built with `--features mpi`)
//!
//! "GB/s" is the size of one buffer over the time of one all-reduce. With two threads each of them reads and writes half
//! of both buffers; in the column "memory" each rank copies the first half of its own buffer to the second and back, which
//! moves as many bytes. The library's own is tried whole and in pieces, and its best is shown. Rounds of all three take
//! turns; medians over the rounds, of the slowest rank.

use paceline_base::Staging;
use paceline_base::{Error, Result};
use paceline_comm::{Collective, Comm, GroupId, World, host};
use std::sync::Barrier;
use std::time::Instant;

/// Bytes of the pieces in which the library's all-reduce is tried.
#[cfg(feature = "mpi")]
const PIECES: [usize; 4] = [usize::MAX, 256 << 10, 1 << 20, 4 << 20];

struct Flags {
    threads: usize,
    bytes: Vec<usize>,
    json: bool,
}

fn flags() -> Result<Flags> {
    let mut flags =
        Flags { threads: 2, bytes: vec![16, 1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 25_000_000], json: false };
    let mut words = std::env::args().skip(1);
    let number = |word: Option<String>, flag: &str| {
        word.and_then(|w| w.parse().ok()).ok_or_else(|| Error::user(format!("{flag}: give a number")))
    };
    while let Some(word) = words.next() {
        match &word[..] {
            "--threads" => flags.threads = number(words.next(), "--threads")?,
            "--bytes" => flags.bytes = vec![number(words.next(), "--bytes")?],
            "--json" => flags.json = true,
            other => return Err(Error::user(format!("{other}: give --threads N, --bytes N or --json"))),
        }
    }
    Ok(flags)
}

fn reduce(comm: &mut dyn Comm, group: GroupId, seq: &mut u64, data: Staging) -> Result<Staging> {
    let ticket = comm.start(Collective::AllReduce.into(), group, *seq, data)?;
    *seq += 1;
    comm.wait(ticket)
}

fn copy(mut data: Staging) -> Staging {
    let half = data.bytes().len() / 2;
    let (a, b) = data.bytes_mut().split_at_mut(half);
    b[..half].copy_from_slice(std::hint::black_box(a));
    a.copy_from_slice(std::hint::black_box(&b[..half]));
    data
}

/// Seconds of each kind of work, round by round.
#[derive(Default)]
struct Times {
    ours: Vec<f64>,
    memory: Vec<f64>,
    plain: Vec<Vec<f64>>,
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What one rank measures. `plain` runs the library's own in pieces of a given number of bytes.
fn measure(
    comm: &mut dyn Comm,
    group: GroupId,
    bytes: usize,
    together: &dyn Fn(),
    plain: &mut dyn FnMut(&mut [f32], usize),
    settings: &[usize],
) -> Result<Times> {
    let repeat = ((1usize << 24) / bytes.max(1)).clamp(1, 200);
    let rounds = if bytes > 1 << 26 { 7 } else { 15 };
    let mut data = host::stage(&vec![1.0f32; bytes / 4]);
    let mut own = vec![1.0f32; bytes / 4];
    let (mut times, mut seq) = (Times { plain: vec![Vec::new(); settings.len()], ..Times::default() }, 0);
    for round in 0..=rounds {
        data = reduce(comm, group, &mut seq, data)?; // each kind finds its own buffer where the one before leaves it
        together();
        let begin = Instant::now();
        for _ in 0..repeat {
            data = reduce(comm, group, &mut seq, data)?;
        }
        let ours = begin.elapsed().as_secs_f64() / repeat as f64;
        data = copy(data);
        together();
        let begin = Instant::now();
        for _ in 0..repeat {
            data = copy(data);
        }
        let memory = begin.elapsed().as_secs_f64() / repeat as f64;
        for (i, &piece) in settings.iter().enumerate() {
            plain(&mut own, piece);
            together();
            let begin = Instant::now();
            for _ in 0..repeat {
                plain(&mut own, piece);
            }
            if round > 0 {
                times.plain[i].push(begin.elapsed().as_secs_f64() / repeat as f64);
            }
        }
        if round > 0 {
            times.ours.push(ours); // the first is for pages and caches
            times.memory.push(memory);
        }
    }
    Ok(times)
}

struct Answer {
    ours: f64,
    memory: f64,
    plain: Option<(f64, String)>,
}

/// Over threads of this process.
fn on_threads(world: &mut World, ranks: usize, bytes: usize) -> Result<Answer> {
    let barrier = Barrier::new(ranks);
    let all: Vec<usize> = (0..ranks).collect();
    let comms = world.ranks(ranks)?;
    let times: Vec<Result<Times>> = std::thread::scope(|scope| {
        let handles: Vec<_> = comms
            .into_iter()
            .map(|mut comm| {
                let (barrier, all) = (&barrier, &all);
                scope.spawn(move || {
                    let group = comm.group(all)?;
                    measure(&mut comm, group, bytes, &|| _ = barrier.wait(), &mut |_, _| {}, &[])
                })
            })
            .collect();
        handles.into_iter().map(|h| h.join().expect("no panic")).collect()
    });
    let times = times.into_iter().collect::<Result<Vec<_>>>()?;
    let slowest = |of: fn(&Times) -> &Vec<f64>| times.iter().map(|t| median(of(t).clone())).fold(0.0, f64::max);
    Ok(Answer { ours: slowest(|t| &t.ours), memory: slowest(|t| &t.memory), plain: None })
}

/// Over the processes of a job, one rank in each.
#[cfg(feature = "mpi")]
fn on_processes(world: &mut World, bytes: usize) -> Result<Answer> {
    let all: Vec<usize> = (0..world.processes()).collect();
    let mut comm = world.ranks(1)?.swap_remove(0);
    let library = &*world.session().expect("several processes");
    let group = comm.group(&all)?;
    let together = || library.barrier().expect("connected");
    let mut plain = |values: &mut [f32], piece: usize| {
        values.chunks_mut((piece / 4).max(1)).for_each(|c| library.plain_all_reduce(c).expect("connected"));
    };
    let settings: Vec<usize> = PIECES.into_iter().filter(|&p| p == usize::MAX || p < bytes).collect();
    let times = measure(&mut comm, group, bytes, &together, &mut plain, &settings)?;
    drop(comm);
    let mut medians = vec![median(times.ours), median(times.memory)];
    medians.extend(times.plain.into_iter().map(median));
    let bytes: Vec<u8> = medians.iter().flat_map(|m| m.to_le_bytes()).collect();
    let mut slowest = vec![0.0f64; medians.len()];
    for theirs in world.gather(&bytes)? {
        for (s, b) in slowest.iter_mut().zip(theirs.chunks_exact(8)) {
            *s = s.max(f64::from_le_bytes(b.try_into().expect("eight bytes")));
        }
    }
    let name = |p: usize| if p == usize::MAX { "whole".to_string() } else { format!("pieces of {} KiB", p >> 10) };
    let best = (0..settings.len()).min_by(|&a, &b| slowest[2 + a].total_cmp(&slowest[2 + b]));
    let plain = best.map(|i| (slowest[2 + i], name(settings[i])));
    Ok(Answer { ours: slowest[0], memory: slowest[1], plain })
}

#[cfg(not(feature = "mpi"))]
fn on_processes(_: &mut World, _: usize) -> Result<Answer> {
    Err(Error::internal("several processes without MPI"))
}

fn main() -> Result<()> {
    let flags = flags()?;
    let mut world = World::from_env()?;
    let several = world.processes() > 1;
    let ranks = if several { world.processes() } else { flags.threads };
    let library = match paceline_comm::world::Library::linked() {
        Some(library) if several => format!("{library:?}"),
        _ => String::new(),
    };
    let leads = world.process() == 0;
    if leads && !flags.json {
        println!("{ranks} ranks over {}", if several { &library[..] } else { "threads" });
        println!(
            "{:>10} {:>12} {:>8} {:>12} {:>14}  library's own at its best",
            "bytes", "µs", "GB/s", "memory GB/s", "library GB/s"
        );
    }
    for bytes in flags.bytes {
        let answer = if several { on_processes(&mut world, bytes)? } else { on_threads(&mut world, ranks, bytes)? };
        let speed = |t: f64| bytes as f64 / t / 1e9;
        if !leads {
            continue;
        }
        let (plain, setting) = answer.plain.map_or((None, String::new()), |(s, name)| (Some(s), name));
        if flags.json {
            let number = |n: Option<f64>| n.map_or("null".into(), |n| n.to_string());
            println!(
                "{{\"transport\": \"{}\", \"library\": \"{library}\", \"ranks\": {ranks}, \"bytes\": {bytes}, \"seconds\": {}, \
                 \"memory_seconds\": {}, \"plain_seconds\": {}, \"plain_setting\": \"{setting}\"}}",
                if several { "mpi" } else { "threads" },
                answer.ours,
                answer.memory,
                number(plain)
            );
        } else {
            let plain = plain.map_or(String::new(), |p| format!("{:.2}", speed(p)));
            println!(
                "{bytes:>10} {:>12.2} {:>8.2} {:>12.2} {plain:>14}  {setting}",
                answer.ours * 1e6,
                speed(answer.ours),
                speed(answer.memory)
            );
        }
    }
    Ok(())
}
