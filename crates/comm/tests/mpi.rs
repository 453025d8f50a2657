//! Ranks over MPI: real processes. Started plainly, this program starts itself under `mpirun` for several numbers of
//! processes; started by `mpirun`, it is one of them.

mod common;

use common::{Number, expected, input};
use paceline_base::Peer;
use paceline_comm::mpi::{Session, Settings};
use paceline_comm::world::Library;
use paceline_comm::{Collective, Comm, Encoding, Exchange, GroupId, host};
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

struct Counting;
static COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: the system's allocator; only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTING.load(Ordering::Relaxed) {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Scenes: name, processes, and whether the job is to fail.
const SCENES: [(&str, usize, bool); 14] = [
    ("sums", 2, false),
    ("sums", 3, false),
    ("sums", 5, false),
    ("crowds", 2, false),
    ("crowds", 3, false),
    ("groups", 4, false),
    ("messages", 4, false),
    ("rings", 2, false),
    ("rings", 3, false),
    ("codings", 3, false),
    ("steady", 2, false),
    ("late", 3, true),
    ("aborts", 3, true),
    ("leaves", 3, true),
];

fn main() -> ExitCode {
    if let Ok(scene) = std::env::var("PACELINE_SCENE") {
        play(&scene);
        return ExitCode::SUCCESS;
    }
    let mut bad = 0;
    for (scene, processes, fails) in SCENES {
        let begin = Instant::now();
        let (ok, output) = run(scene, processes, fails);
        println!("test {scene} on {processes} processes ... {}", if ok { "ok" } else { "FAILED" });
        if !ok {
            println!("{output}\nafter {:.1} s", begin.elapsed().as_secs_f64());
            bad += 1;
        }
    }
    let good = SCENES.len() - bad;
    println!("\ntest result: {}. {good} passed; {bad} failed; 0 ignored", if bad == 0 { "ok" } else { "FAILED" });
    if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a scene; every process must say that it got through, also where the job fails.
fn run(scene: &str, processes: usize, fails: bool) -> (bool, String) {
    let open = Library::linked() == Some(Library::OpenMpi);
    let mut command = Command::new("timeout");
    command.args(["600", if open { "mpirun.openmpi" } else { "mpirun.mpich" }]);
    if open {
        command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]);
    }
    let folder = std::env::temp_dir().join(format!("paceline-mpi-{}-{scene}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    command.env("PACELINE_SCENE_FOLDER", &folder);
    command.env("PACELINE_SCENE", scene).args(["-np", &processes.to_string()]);
    command.arg(std::env::current_exe().expect("this program"));
    let output = command.output();
    let _ = std::fs::remove_dir_all(&folder);
    match output {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let through = text.matches("through").count() == processes;
            let ok = through && (fails || output.status.success());
            (ok, text + &String::from_utf8_lossy(&output.stderr))
        }
        Err(e) => (false, format!("cannot start mpirun: {e}; install the library's own (openmpi-bin or mpich)")),
    }
}

fn play(scene: &str) {
    let mut session = Session::begin().expect("MPI");
    // Longer than a busy machine holds up a process.
    let brief = Settings { timeout: Duration::from_secs(4), ..Settings::default() };
    let small = Settings { piece: 256, ..Settings::default() };
    let of = |session: &mut Session, settings: &Settings| session.ranks(1, settings).expect("ranks").swap_remove(0);
    match scene {
        "sums" => {
            sums::<f32>(of(&mut session, &small));
            sums::<f64>(of(&mut session, &small)); // ranks can be made again
            sums::<f32>(of(&mut session, &Settings::default()));
        }
        "crowds" => crowds(&mut session),
        "groups" => groups(of(&mut session, &small)),
        "messages" => messages(&mut session),
        "rings" => rings(&mut session),
        "codings" => codings(of(&mut session, &small)),
        "steady" => steady(of(&mut session, &small)),
        "late" => late(of(&mut session, &brief)),
        "aborts" => aborts(of(&mut session, &Settings::default())),
        "leaves" => leaves(of(&mut session, &Settings::default())),
        other => panic!("no scene {other}"),
    }
    println!("through");
    // Whoever ends after a failure ends all: the others must have come through too.
    if SCENES.iter().any(|s| s.0 == scene && s.2) {
        std::io::stdout().flush().expect("standard output");
        let folder = std::env::var("PACELINE_SCENE_FOLDER").expect("the folder of the scene");
        std::fs::write(format!("{folder}/{}", std::process::id()), "").expect("a file in it");
        let through = || std::fs::read_dir(&folder).is_ok_and(|files| files.count() >= session.processes());
        let begin = Instant::now();
        while !through() && begin.elapsed() < Duration::from_secs(300) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

const KINDS: [Collective; 3] = [Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather];

fn all(comm: &mut dyn Comm) -> (Vec<usize>, GroupId) {
    let ranks: Vec<usize> = (0..comm.size()).collect();
    let id = comm.group(&ranks).expect("a group");
    (ranks, id)
}

/// One rank in each process: the bits of a sum in rank order, and the bytes that are predicted.
fn sums<T: Number>(mut comm: Box<dyn Comm>) {
    let (ranks, group) = all(&mut comm);
    let me = comm.rank();
    let mut seq = 0;
    let mut moved = vec![0u64; ranks.len()];
    for len in [0, 1, 2, 15, 16, 17, 64, 100, 1000, 4096, 30_011] {
        // Several at a time, waited for in another order.
        let tickets: Vec<_> = KINDS
            .iter()
            .map(|&what| {
                seq += 1;
                let data = host::stage(&input::<T>(seq, me, len));
                for (from, bytes) in moved.iter_mut().enumerate() {
                    let n = paceline_comm::elements_moved(what, len, ranks.len(), from, me);
                    *bytes += (n * T::DTYPE.size()) as u64;
                }
                (what, seq, comm.start(what.into(), group, seq, data).expect("started"))
            })
            .collect();
        for (what, seq, ticket) in tickets.into_iter().rev() {
            let data = comm.wait(ticket).expect("complete");
            let told = format!("{what} of {len} on rank {me}");
            common::check(host::values::<T>(&data), &expected::<T>(what, seq, &ranks, me, len), &told);
        }
    }
    assert_eq!(comm.counters().received, moved);
}

/// Different numbers of ranks in each process: all get the same bits, summed by process first.
fn crowds(session: &mut Session) {
    let local = 1 + (session.process() + 1) % 3;
    let counts: Vec<usize> = (0..session.processes()).map(|p| 1 + (p + 1) % 3).collect();
    let comms = session.ranks(local, &Settings { piece: 256, ..Settings::default() }).expect("ranks");
    let threads: Vec<_> = comms
        .into_iter()
        .map(|mut comm| {
            let counts = counts.clone();
            std::thread::spawn(move || {
                let (ranks, group) = all(&mut comm);
                let (me, size) = (comm.rank(), ranks.len());
                for (n, len) in [1, 17, 100, 1000, 5003].into_iter().enumerate() {
                    let started: Vec<_> = KINDS
                        .iter()
                        .enumerate()
                        .map(|(k, &what)| {
                            let seq = (n * KINDS.len() + k) as u64;
                            let data = host::stage(&input::<f32>(seq, me, len));
                            (what, seq, comm.start(what.into(), group, seq, data).expect("started"))
                        })
                        .collect();
                    for (what, seq, ticket) in started {
                        let data = comm.wait(ticket).expect("complete");
                        let expected = by_process(what, seq, &counts, me, len);
                        let told = format!("{what} of {len} on rank {me} of {size}");
                        common::check(host::values::<f32>(&data), &expected, &told);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().expect("a rank"));
}

fn by_process(what: Collective, seq: u64, counts: &[usize], me: usize, len: usize) -> Vec<Option<f32>> {
    let size: usize = counts.iter().sum();
    let ranks: Vec<usize> = (0..size).collect();
    let flat = expected::<f32>(what, seq, &ranks, me, len);
    if what == Collective::AllGather {
        return flat;
    }
    let sum = |at: usize| {
        let mut first = 0;
        let sums = counts.iter().map(|&n| {
            first += n;
            (first - n..first).map(|r| f32::any(seq, r, at)).reduce(|a, b| a + b).expect("some rank")
        });
        sums.reduce(|a, b| a + b).expect("some process")
    };
    flat.iter().enumerate().map(|(at, f)| f.map(|_| sum(at))).collect()
}

/// Groups that overlap, each rank in some of them, many operations outstanding.
fn groups(mut comm: Box<dyn Comm>) {
    let sets: [&[usize]; 5] = [&[0, 1], &[1, 2, 3], &[0, 3], &[0, 1, 2, 3], &[2]];
    let me = comm.rank();
    let mine: Vec<Option<GroupId>> =
        sets.iter().map(|s| s.contains(&me).then(|| comm.group(s).expect("a group"))).collect();
    for round in 0..20u64 {
        let mut open = Vec::new();
        for (i, set) in sets.iter().enumerate() {
            let seq = round * 5 + i as u64;
            let len = 37 * (i + 1) + round as usize * 11;
            if let Some(group) = mine[i] {
                let data = host::stage(&input::<f32>(seq, me, len));
                open.push((
                    set,
                    seq,
                    len,
                    comm.start(Collective::AllReduce.into(), group, seq, data).expect("started"),
                ));
            }
        }
        if (round + me as u64).is_multiple_of(3) {
            open.reverse();
        }
        for (set, seq, len, ticket) in open {
            let data = comm.wait(ticket).expect("complete");
            let expected = expected::<f32>(Collective::AllReduce, seq, set, me, len);
            common::check(host::values::<f32>(&data), &expected, "a group");
        }
    }
}

/// Messages between all pairs of ranks, also within a process.
fn messages(session: &mut Session) {
    let local = 1 + session.process() % 2;
    let comms = session.ranks(local, &Settings::default()).expect("ranks");
    let threads: Vec<_> = comms
        .into_iter()
        .map(|mut comm| {
            std::thread::spawn(move || {
                let (me, size) = (comm.rank(), comm.size());
                let mut open = Vec::new();
                for from in 0..size {
                    for to in (0..size).filter(|&to| to != from) {
                        let seq = (from * size + to) as u64;
                        let len = 1000 * from + to;
                        if me == from {
                            let data = host::stage(&input::<f64>(seq, from, len));
                            open.push((None, comm.send(to, seq, data).expect("sent")));
                        } else if me == to {
                            let data = host::stage(&vec![0f64; len]);
                            open.push((Some((from, seq, len)), comm.receive(from, seq, data).expect("expected")));
                        }
                    }
                }
                // The same again with indices, which come as long as they are.
                let room = 1000 * size;
                for from in 0..size {
                    for to in (0..size).filter(|&to| to != from) {
                        let (seq, len) = ((size * size + from * size + to) as u64, 1000 * to + from);
                        if me == from {
                            let ticket = comm.send(to, seq, host::stage(&vec![len as u32; len])).expect("sent");
                            comm.wait(ticket).expect("complete");
                        } else if me == to {
                            let data = host::stage(&vec![0u32; room]).varying();
                            let ticket = comm.receive(from, seq, data).expect("expected");
                            let data = comm.wait(ticket).expect("complete");
                            assert_eq!(host::values::<u32>(&data), vec![len as u32; len]);
                        }
                    }
                }
                for (what, ticket) in open.into_iter().rev() {
                    let data = comm.wait(ticket).expect("complete");
                    if let Some((from, seq, len)) = what {
                        assert_eq!(host::values::<f64>(&data), input::<f64>(seq, from, len));
                        assert_eq!(comm.counters().received[from], (8 * len + 4 * (1000 * me + from)) as u64);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().expect("a rank"));
}

/// Three ranks in each process, and all pairs of ranks write to each other under one number: who sends to whom tells
/// messages apart, within a process and across.
fn rings(session: &mut Session) {
    let comms = session.ranks(3, &Settings::default()).expect("ranks");
    let threads: Vec<_> = comms
        .into_iter()
        .map(|mut comm| {
            std::thread::spawn(move || {
                let (me, size) = (comm.rank(), comm.size());
                for seq in 0..20u64 {
                    // Each rank begins elsewhere, so that orders meet in every order; lengths tell pairs apart.
                    let length = |from: usize, to: usize| 100 * from + to;
                    let mut open = Vec::new();
                    for step in 1..size {
                        let (to, from) = ((me + step) % size, (me + size - step) % size);
                        let data = host::stage(&input::<f32>(seq, me, length(me, to)));
                        open.push((None, comm.send(to, seq, data).expect("sent")));
                        let room = host::stage(&vec![0f32; length(from, me)]);
                        open.push((Some(from), comm.receive(from, seq, room).expect("expected")));
                    }
                    if me.is_multiple_of(2) {
                        open.reverse();
                    }
                    for (from, ticket) in open {
                        let data = comm.wait(ticket).expect("complete");
                        if let Some(from) = from {
                            assert_eq!(host::values::<f32>(&data), input::<f32>(seq, from, length(from, me)));
                        }
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().expect("a rank"));
}

/// In 16 bits: near the sum, the same bits everywhere and as threads give them. Sparse: the very sum.
fn codings(mut comm: Box<dyn Comm>) {
    let (ranks, group) = all(&mut comm);
    let (me, len) = (comm.rank(), 5003);
    let bf16 = |v: f32| {
        let b = v.to_bits();
        f32::from_bits((b.wrapping_add(0x7fff + (b >> 16 & 1))) & 0xffff_0000)
    };
    let sum = |at| bf16(ranks.iter().map(|&r| bf16(f32::any(1, r, at))).reduce(|a, b| a + b).expect("some rank"));
    let owner = |at: usize| (0..ranks.len()).find(|&m| paceline_comm::chunk(len, ranks.len(), m).contains(&at));
    for (seq, what) in KINDS.into_iter().enumerate() {
        let data = host::stage(&input::<f32>(1, me, len));
        let exchange = Exchange { what, encoding: Encoding::Bf16 };
        let ticket = comm.start(exchange, group, 10 + seq as u64, data).expect("started");
        let data = comm.wait(ticket).expect("complete");
        let expected: Vec<Option<f32>> = (0..len)
            .map(|at| match what {
                Collective::AllReduce => Some(sum(at)),
                Collective::ReduceScatter => (owner(at) == Some(me)).then(|| sum(at)),
                Collective::AllGather => owner(at).map(|rank| bf16(f32::any(1, rank, at))),
            })
            .collect();
        common::check(host::values::<f32>(&data), &expected, &exchange.to_string());
    }

    let sparse = Exchange { what: Collective::AllReduce, encoding: Encoding::Sparse };
    for (seq, every) in [(20u64, 100), (21, 1)] {
        let value =
            |rank: usize, at: usize| if (at + rank).is_multiple_of(every) { f32::any(seq, rank, at) } else { 0.0 };
        let mine: Vec<f32> = (0..len).map(|at| value(me, at)).collect();
        let ticket = comm.start(sparse, group, seq, host::stage(&mine)).expect("started");
        let before: u64 = comm.counters().received.iter().sum();
        let data = comm.wait(ticket).expect("complete");
        let moved = comm.counters().received.iter().sum::<u64>() - before;
        let sums = (0..len).map(|at| ranks.iter().map(|&r| value(r, at)).reduce(|a, b| a + b).expect("some rank"));
        for (found, sum) in host::values::<f32>(&data).iter().zip(sums) {
            assert_eq!(*found, sum);
        }
        let whole = (4 * len * 2 * (ranks.len() - 1) / ranks.len()) as u64;
        assert!(if every == 1 { moved > whole } else { moved < whole / 10 }, "{moved} of {whole} bytes");
    }
}

/// After the first rounds nothing is allocated any more.
fn steady(mut comm: Box<dyn Comm>) {
    let (_, group) = all(&mut comm);
    let mut data = Some(host::stage(&vec![1f32; 20_000]));
    let mut small = Some(host::stage(&[1f64; 4]));
    for seq in 0..200u64 {
        if seq == 50 {
            COUNTING.store(true, Ordering::Relaxed);
        }
        let a = comm.start(Collective::AllReduce.into(), group, 2 * seq, data.take().expect("back")).expect("started");
        let b =
            comm.start(Collective::AllReduce.into(), group, 2 * seq + 1, small.take().expect("back")).expect("started");
        small = Some(comm.wait(b).expect("complete"));
        data = Some(comm.wait(a).expect("complete"));
    }
    COUNTING.store(false, Ordering::Relaxed);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), 0);
}

/// The last rank never comes: the others name it, its host and what it did last.
fn late(mut comm: Box<dyn Comm>) {
    let (_, group) = all(&mut comm);
    let last = comm.size() - 1;
    let ticket = comm.start(Collective::AllReduce.into(), group, 7, host::stage(&[1f32; 100])).expect("started");
    comm.wait(ticket).expect("complete");
    if comm.rank() == last {
        // It computes, for longer than the others wait.
        let begin = Instant::now();
        let error = loop {
            if let Err(error) = comm.progress() {
                break error;
            }
            assert!(begin.elapsed() < Duration::from_secs(300), "the others have not failed");
            std::thread::sleep(Duration::from_millis(10));
        };
        assert!(matches!(error.peer(), Some(Peer::Rank(rank)) if rank != last), "{:?}: {error}", error.peer());
        return;
    }
    let ticket = comm.start(Collective::AllReduce.into(), group, 8, host::stage(&[1f32; 100])).expect("started");
    let error = comm.wait(ticket).err().expect("a failure").message().to_string();
    for part in [&format!("missing: rank {last} on "), "all-reduce of seq 8", "last started seq 7", "computes"] {
        assert!(error.contains(part), "{part:?} is not in: {error}");
    }
}

fn aborts(mut comm: Box<dyn Comm>) {
    let (_, group) = all(&mut comm);
    if comm.rank() == 1 {
        comm.abort("the disk is full");
        return;
    }
    let ticket = comm.start(Collective::AllReduce.into(), group, 1, host::stage(&vec![1f32; 100_000]));
    let error = ticket.and_then(|t| comm.wait(t)).err().expect("a failure");
    assert_eq!(error.peer(), Some(Peer::Rank(1)), "{error}");
    let error = error.message();
    assert!(error.contains("rank 1 on ") && error.contains("the disk is full"), "{error}");
}

fn leaves(mut comm: Box<dyn Comm>) {
    let (_, group) = all(&mut comm);
    if comm.rank() == 2 {
        return; // it stays connected while the others find out
    }
    let ticket = comm.start(Collective::AllReduce.into(), group, 1, host::stage(&[1f32; 50]));
    let error = ticket.and_then(|t| comm.wait(t)).err().expect("a failure");
    assert_eq!(error.peer(), Some(Peer::Rank(2)), "{error}");
    let error = error.message();
    assert!(error.contains("rank 2 on ") && error.contains("it left"), "{error}");
}
