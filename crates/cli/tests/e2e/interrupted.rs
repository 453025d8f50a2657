//! kill -9 at random moments, and Ctrl-C: nothing is lost but the steps since the last checkpoint.

use crate::session::{SMALL, Session, has, stopped};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Practically without an end, so that no machine is too fast; tests end it by `train.max_steps`.
const ENDLESS: &str = "--set train.epochs=1000000 --set checkpoint.every=25";

/// Starts a command that heeds signals, also where these tests run under `nohup`.
fn start(s: &Session, line: &str) -> Child {
    let mut command = s.program("env");
    command.arg("--default-signal").arg(env!("CARGO_BIN_EXE_paceline")).args(line.split_whitespace());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn wait_for(what: &str, mut true_now: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !true_now() {
        assert!(begin.elapsed() < Duration::from_secs(600), "{what} did not happen in ten minutes");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Milliseconds below `limit` that differ from run to run; printed, since chance is part of the test.
fn random_below(limit: u64) -> u64 {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
    let ms = u64::from(nanos / 1000).wrapping_mul(6_364_136_223_846_793_005) >> 33;
    println!("killed after {} ms", ms % limit);
    ms % limit
}

fn killed_again_and_again(strategy: &str) {
    let s = Session::new();
    let settings = format!("{SMALL} {ENDLESS} --set model.dropout=0.1 {strategy}");
    let newest = || s.checkpoints("killed").last().copied().unwrap_or(0);
    for kill in 0..12 {
        let before = newest();
        let mut child = if kill == 0 {
            start(&s, &format!("train {settings} --run-dir killed"))
        } else {
            start(&s, "train --resume killed")
        };
        wait_for("run.toml", || s.path("killed/run.toml").exists());
        // Every third one may die before it has done anything, the others after some progress.
        if kill % 3 != 2 {
            wait_for("a checkpoint", || newest() > before);
        }
        std::thread::sleep(Duration::from_millis(random_below(30)));
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), None, "it did not end by itself");
        assert!(newest() >= before, "checkpoints of earlier attempts are still there");
        let data = paceline::record::read_run(s.path("killed")).unwrap();
        let mut seen: Vec<_> = data.steps.iter().map(|r| (r.rank, r.step)).collect();
        seen.sort_unstable();
        assert!(seen.windows(2).all(|w| w[0] != w[1]), "a step is there twice");
        // What a checkpoint stands for is not done again, and so has to be recorded before it, by every rank.
        let (newest, ranks) = (newest(), data.steps.iter().map(|r| r.rank + 1).max().unwrap_or(0));
        for rank in 0..ranks {
            let lines = data.steps.iter().filter(|r| r.rank == rank);
            let recorded: u64 = lines.map(|r| r.steps - (r.step + 1).saturating_sub(newest).min(r.steps)).sum();
            assert_eq!(recorded, newest, "steps of rank {rank} before the checkpoint");
        }
    }
    let end = newest() + 130;
    s.ok(&format!("train --resume killed --set train.max_steps={end}"));
    s.ok(&format!("train {settings} --run-dir whole --set train.max_steps={end}"));
    assert_eq!(s.newest("killed").step, end);
    assert_eq!(s.newest("killed"), s.newest("whole"));
    has(&s.ok("report killed whole"), &["killed", "whole"]);
    let data = paceline::record::read_run(s.path("killed")).unwrap();
    let epochs: Vec<_> = data.epochs.iter().map(|e| e.epoch).collect();
    assert!(epochs.iter().copied().eq(1..=end / 12), "every epoch once: {} of {}", epochs.len(), end / 12);
    assert!(s.checkpoints("killed").len() <= 3, "the newest two and the best");
    let entries = std::fs::read_dir(s.path("killed/checkpoints")).unwrap().flatten();
    let entries = entries.filter(|entry| entry.file_name() != "best").count();
    assert!(entries <= 3, "what kills left half-written is swept, but there are {entries} entries");
}

#[test]
fn kill_nine_at_random_moments() {
    killed_again_and_again("--threads 1");
}

#[test]
fn kill_nine_at_random_moments_with_two_replicas() {
    killed_again_and_again("--strategy mirrored --replicas 2 --set strategy.update=sharded");
}

#[test]
fn kill_nine_at_random_moments_with_gradients_held_back() {
    let top_k = "--set strategy.compress=top-k --set strategy.keep=0.1 --set strategy.update=replicated";
    killed_again_and_again(&format!("--strategy mirrored --replicas 2 {top_k}"));
}

fn stopped_by(signal: &str, code: i32) {
    let s = Session::new();
    let settings =
        format!("{SMALL} --set train.epochs=1000000 --set checkpoint.every=1h --strategy mirrored --replicas 2");
    let child = start(&s, &format!("train {settings} --set strategy.update=sharded --run-dir stopped"));
    wait_for("the first epoch", || {
        std::fs::read_to_string(s.path("stopped/steps.jsonl")).is_ok_and(|t| t.lines().count() > 3)
    });
    let killed = s.program("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    let out = stopped(code, signal, &output);
    has(&out, &["stopped on request; go on with: paceline train --resume stopped"]);
    has(&String::from_utf8_lossy(&output.stderr), &["stopping after this step, with a checkpoint"]);
    assert_eq!(s.summary("stopped")["status"], "stopped");
    let saved = s.newest("stopped").step;
    let end = saved + 50;
    has(&s.ok(&format!("train --resume stopped --set train.max_steps={end}")), &[&format!("step-{saved}")]);
    s.ok(&format!("train {settings} --set strategy.update=sharded --run-dir whole --set train.max_steps={end}"));
    assert_eq!(s.newest("stopped"), s.newest("whole"));
}

#[test]
fn ctrl_c_finishes_the_step_and_writes_a_checkpoint() {
    stopped_by("-INT", 130);
}

#[test]
fn termination_does_the_same() {
    stopped_by("-TERM", 143);
}

#[test]
fn a_lost_terminal_does_the_same() {
    stopped_by("-HUP", 129);
}

#[test]
fn a_scheduler_that_warns_does_the_same_and_can_tell_that_it_is_not_done() {
    stopped_by("-USR1", 85);
}
