//! Signals that ask for the end: exit codes, one request that comes as several signals, and jobs of `launch`.
//!
//! What training keeps is in `interrupted.rs`; a program that has not begun yet, in `refused.rs`.

use crate::prepare::photos;
use crate::session::{SMALL, Session, has, stopped};
use std::process::{Child, Stdio};
use std::time::Duration;

/// Practically without an end.
const ENDLESS: &str = "--quiet --set train.epochs=1000000";

fn start(s: &Session, line: &str) -> Child {
    s.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn send(s: &Session, signal: &str, pid: u32) {
    assert!(s.program("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

fn wait_until(child: &mut Child, what: &str, mut true_now: impl FnMut() -> bool) {
    while !true_now() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Steps have been done and recorded.
fn trains(s: &Session, run: &str) -> bool {
    std::fs::read_to_string(s.path(format!("{run}/steps.jsonl"))).is_ok_and(|t| t.lines().count() > 3)
}

/// The newest checkpoint stands after the last step that was done.
fn assert_saved(s: &Session, run: &str) {
    let done: u64 = paceline::record::read_run(s.path(run)).unwrap().steps.iter().map(|r| r.steps).sum();
    assert_eq!(s.newest(run).step, done);
}

/// The processes that a process has started.
fn children(pid: u32) -> Vec<u32> {
    let of = |entry: std::fs::DirEntry| -> Option<u32> {
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let parent: u32 = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
        (parent == pid).then(|| entry.file_name().to_str()?.parse().ok())?
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(of).collect()
}

#[test]
fn one_request_may_come_as_several_signals() {
    let s = Session::new();
    let mut child = start(&s, &format!("train {SMALL} {ENDLESS} --set checkpoint.every=1h --run-dir r"));
    wait_until(&mut child, "the first steps", || trains(&s, "r"));
    // As from `timeout -s INT`, which signals the process and then its group; held still, so that all are there at once.
    for signal in ["-STOP", "-INT", "-TERM", "-HUP", "-CONT"] {
        send(&s, signal, child.id());
    }
    let output = child.wait_with_output().unwrap();
    let code = output.status.code().unwrap_or(0);
    assert!([130, 143, 129].contains(&code), "{output:?}");
    assert_eq!(s.summary("r")["status"], "stopped");
    assert_saved(&s, "r");
}

#[test]
fn nohup_is_respected() {
    let s = Session::new();
    let line = format!("train {SMALL} {ENDLESS} --set checkpoint.every=25 --run-dir r");
    let program = env!("CARGO_BIN_EXE_paceline");
    let mut command = s.program("sh");
    command.args(["-c", &format!("trap '' HUP; exec {program} {line}")]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let newest = || s.checkpoints("r").last().copied().unwrap_or(0);
    wait_until(&mut child, "a checkpoint", || newest() > 0);
    send(&s, "-HUP", child.id());
    let before = newest();
    wait_until(&mut child, "another checkpoint", || newest() > before + 100);
    send(&s, "-TERM", child.id());
    stopped(143, &line, &child.wait_with_output().unwrap());
}

#[test]
fn a_run_that_was_done_when_the_signal_came_is_done() {
    let s = Session::new();
    s.ok(&format!("train {SMALL} --set train.epochs=1 --run-dir r"));
    let out = s.ok("train --resume r");
    has(&out, &["nothing is left to do"]);
}

#[test]
fn preparing_ends_with_the_code_of_the_signal_and_continues() {
    let s = Session::new();
    photos(&s, "photos", &["a", "b"], 150);
    let line = "prepare photos shards --size 224 --shards 4 --threads 1";
    let mut child = start(&s, line);
    wait_until(&mut child, "its work", || s.path("shards/.prepare/job.json").exists());
    for signal in ["-STOP", "-TERM", "-CONT"] {
        send(&s, signal, child.id());
    }
    let output = child.wait_with_output().unwrap();
    stopped(143, line, &output);
    // The signal may have come a moment before the work began.
    let words = String::from_utf8_lossy(&output.stderr);
    if !words.contains("before the work began") {
        has(&words, &["finished shards are kept"]);
        assert_eq!(s.summary("runs/prepare-1")["status"], "stopped");
    }
    s.ok(line);
}

#[test]
fn a_study_ends_with_the_code_of_the_signal_and_keeps_what_it_has() {
    let s = Session::new();
    photos(&s, "photos", &["a", "b"], 8);
    let line = "speedtest photos --batch 2 --batches 2 --repetitions 100000 --size 24 --cache-state warm --run-dir r";
    let mut child = start(&s, line);
    let some = || std::fs::read_to_string(s.path("r/measurements.jsonl")).is_ok_and(|t| t.lines().count() > 3);
    wait_until(&mut child, "a measurement", some);
    send(&s, "-INT", child.id());
    stopped(130, line, &child.wait_with_output().unwrap());
    assert_eq!(s.summary("r")["status"], "stopped");
}

#[test]
fn a_product_ends_with_the_code_of_the_signal_and_leaves_nothing() {
    let s = Session::new();
    let line = "matmul --n 20000 --block 200 --ranks 1 --out c.npy";
    let mut child = start(&s, line);
    let begun =
        || std::fs::read_dir(s.path("")).unwrap().flatten().any(|e| e.file_name().to_string_lossy().ends_with(".tmp"));
    wait_until(&mut child, "its file", begun);
    send(&s, "-INT", child.id());
    let output = child.wait_with_output().unwrap();
    stopped(130, line, &output);
    has(&String::from_utf8_lossy(&output.stderr), &["stopped on request before the end; nothing is kept"]);
    assert_eq!(std::fs::read_dir(s.path("")).unwrap().count(), 0, "nothing is left");
}

/// A job of one process; `to_process` is signalled, and not `launch`.
fn launched(signal: &str, code: i32, to_process: bool) {
    let s = Session::new();
    let line = format!("launch --np 1 --json -- train {SMALL} {ENDLESS} --set checkpoint.every=1h --run-dir r");
    let mut child = start(&s, &line);
    wait_until(&mut child, "the first steps", || trains(&s, "r"));
    let process = children(child.id());
    assert_eq!(process.len(), 1);
    send(&s, signal, if to_process { process[0] } else { child.id() });
    let output = child.wait_with_output().unwrap();
    stopped(code, &line, &output);
    has(&String::from_utf8_lossy(&output.stderr), &["\"stopping\"", "\"finished\""]);
    assert_eq!(s.summary("r")["status"], "stopped");
    assert_saved(&s, "r");
}

#[test]
fn launch_hands_requests_on_and_ends_with_their_code() {
    launched("-TERM", 143, false);
    launched("-USR1", 85, false);
}

#[test]
fn a_signal_to_a_process_of_a_job_stops_all_of_it() {
    launched("-TERM", 143, true);
    launched("-USR1", 85, true);
}

#[test]
fn launch_is_stopped_before_the_first_step() {
    let s = Session::new();
    assert!(s.program("mkfifo").arg(s.path("model.toml")).status().unwrap().success());
    let line = "launch --np 1 -- train --set data.name=fake:4:2:64 --set model.file=model.toml --run-dir r";
    let mut child = start(&s, line);
    let pid = child.id();
    wait_until(&mut child, "its process", || children(pid).len() == 1);
    send(&s, "-TERM", child.id());
    stopped(143, line, &child.wait_with_output().unwrap());
    assert!(!s.path("r").exists(), "nothing was begun");
}
