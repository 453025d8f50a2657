//! What cannot work is refused before the first step, with figures; and a signal ends a run that is still being made ready.

use crate::session::{Session, has};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Far more than any machine needs; only a test that hangs gets here.
const SAFETY: Duration = Duration::from_secs(600);

/// Of `open(2)` on Linux: a pipe without a reader is an error and not a wait.
const O_NONBLOCK: i32 = 0o4000;

#[test]
fn a_million_of_anything_is_refused_at_once() {
    let s = Session::new();
    let refused = |line: &str, words: &[&str]| has(&s.fails(2, line), words);
    let mirrored = "train --strategy mirrored --run-dir r";
    refused(&format!("{mirrored} --replicas 1000000"), &["1000000 threads are asked for", "strategy.replicas"]);
    refused(&format!("{mirrored} --replicas 1000000 --set train.batch=32*workers"), &["1000000 threads"]);
    refused("train --threads 100000 --run-dir r", &["100000 threads are asked for in one process, but at most"]);
    refused(&format!("{mirrored} --replicas 1000 --threads 1000"), &["1000 ranks × 1000 threads = 1000000"]);
    refused(&format!("{mirrored} --replicas 33 --set train.batch=32"), &["33 replicas, but train.batch is 32"]);
    s.write("plan.toml", "format = 1\nranks = 1000000\n");
    refused("train --plan plan.toml --run-dir r", &["plan.toml", "ranks is 1000000; give at most 4096"]);
    refused("train --plan plan.toml --explain", &["ranks is 1000000; give at most 4096"]);
    s.write("wide.toml", "format = 1\nranks = 4096\n");
    refused("train --plan wide.toml --run-dir r", &["4096 ranks", "ranks in the plan"]);
    refused("train --set data.threads=100000 --run-dir r", &["100000 threads", "data.threads"]);
    refused("matmul --n 8 --ranks 100000", &["100000 ranks", "--ranks"]);
    std::fs::create_dir(s.path("photos")).unwrap();
    refused("prepare photos shards --threads 100000", &["100000 threads", "--threads or --readers"]);
    assert!(!s.path("r").exists(), "nothing was begun");
}

#[test]
fn data_beyond_memory_is_refused_by_its_header() {
    let s = Session::new();
    let file = |name: &str, dims: &[u32]| {
        let mut bytes = vec![0, 0, 8, dims.len() as u8];
        dims.iter().for_each(|d| bytes.extend(d.to_be_bytes()));
        s.write(&format!("huge/{name}"), &bytes);
        // As long as it promises, and empty: nothing of it is on the disk.
        let len = dims.iter().map(|&d| u64::from(d)).product::<u64>() + bytes.len() as u64;
        OpenOptions::new().write(true).open(s.path(format!("huge/{name}"))).unwrap().set_len(len).unwrap();
    };
    file("train-images-idx3-ubyte", &[40_000_000, 1000, 100]);
    file("train-labels-idx1-ubyte", &[40_000_000]);
    has(&s.fails(2, "train --set data.name=huge --run-dir r"), &["huge takes 3.6 TiB in memory, but", "are free"]);
}

fn ended(mut child: Child) -> (ExitStatus, String) {
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begin.elapsed() > SAFETY {
            child.kill().unwrap();
            panic!("the signal was not heard");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut words = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut words).unwrap();
    (status, words)
}

/// A model file that never comes: whatever takes long before the first step is like it.
fn stopped_while_starting(signal: &str, code: i32) {
    let s = Session::new();
    assert!(s.program("mkfifo").arg(s.path("model.toml")).status().unwrap().success());
    let mut command = s.command("train --set data.name=fake:4:2:64 --set model.file=model.toml --run-dir r");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let begin = Instant::now();
    // A writer finds a reader when the program waits for its model.
    let writer = loop {
        match OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(s.path("model.toml")) {
            Ok(writer) => break writer,
            Err(_) => {
                assert!(child.try_wait().unwrap().is_none() && begin.elapsed() < SAFETY, "it does not read its model")
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(s.program("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    let (status, words) = ended(child);
    drop(writer);
    assert_eq!(status.code(), Some(code), "{words}");
    has(&words, &["stopped on request before the work began"]);
    assert!(!s.path("r").exists(), "nothing was begun");
}

#[test]
fn ctrl_c_is_heard_while_starting() {
    stopped_while_starting("-INT", 130);
}

#[test]
fn termination_is_heard_while_starting() {
    stopped_while_starting("-TERM", 143);
}

#[test]
fn the_warning_of_a_scheduler_is_heard_while_starting() {
    stopped_while_starting("-USR1", 85);
}

#[test]
fn a_caller_of_the_library_may_stop_it_while_starting() {
    let s = Session::new();
    let config = paceline::Config::from_parts(None, &["data.name=fake:4:2:64", "train.batch=8"]).unwrap();
    let place = paceline::Place::New(s.path("r"));
    let error = paceline::train(&config, &place, &paceline::Silent, &AtomicBool::new(true)).unwrap_err();
    assert!(error.message().contains("before the first step"), "{error}");
    assert!(!s.path("r").exists(), "nothing was begun");
}
