//! Training over processes of a real MPI library: the bits of threads, plans, compressed gradients, and what is refused.
#![cfg(feature = "mpi")]

use crate::session::{SMALL, Session, has};

const HYBRID: &str = include_str!("../../../../examples/hybrid-plan.toml");

/// Wrong input on two processes. `mpirun` may add lines of its own.
fn refused(s: &Session, line: &str, words: &[&str]) {
    let output = s.command(&format!("launch --np 2 -- train {line}")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{line}\n{text}");
    has(&text, words);
}

#[test]
fn processes_give_the_bits_of_threads() {
    let s = Session::new();
    let settings = format!("{SMALL} --set train.epochs=2 --set model.dropout=0.2");
    for ranks in [2, 3] {
        for update in ["replicated", "sharded"] {
            let run = format!("{update}-{ranks}");
            s.ok(&format!("launch --np {ranks} -- train {settings} --set strategy.update={update} --run-dir p-{run}"));
            let mirrored = format!("--strategy mirrored --replicas {ranks} --set strategy.update={update}");
            s.ok(&format!("train {settings} {mirrored} --run-dir t-{run}"));
            assert_eq!(s.newest(&format!("p-{run}")), s.newest(&format!("t-{run}")), "{run}");
        }
    }
    // Every rank's time is in the summary, and its steps are in the report.
    assert_eq!(s.summary("p-replicated-3")["split"].as_array().unwrap().len(), 3);
    assert!(s.read("p-replicated-3/steps-2.jsonl").contains("\"rank\":2"));
    has(&s.ok("report p-replicated-3"), &["multi-worker-mirrored"]);
}

#[test]
fn several_replicas_in_each_process_equal_one_worker_to_rounding() {
    let s = Session::new();
    s.ok(&format!("launch --np 2 -- train {SMALL} --set train.epochs=2 --replicas 2 --run-dir four"));
    s.ok(&format!("train {SMALL} --set train.epochs=2 --run-dir one"));
    s.model("four").near(&s.model("one"), 1e-4, "two processes of two");
    assert_eq!(s.summary("four")["replicas"], 4);
}

#[test]
fn a_plan_runs_over_processes_and_gives_the_bits_of_threads() {
    let s = Session::new();
    s.write("hybrid.toml", HYBRID);
    let settings = "--set train.epochs=1 --set train.max_steps=40 --threads 1 --plan hybrid.toml";
    s.ok(&format!("launch --np 2 -- train {settings} --run-dir p"));
    s.ok(&format!("train {settings} --run-dir t"));
    assert_eq!(s.newest("p"), s.newest("t"));
    s.write("three.toml", "format = 1\nranks = 3\n");
    refused(&s, "--threads 1 --plan three.toml", &["the plan has 3 ranks", "2 processes"]);
}

#[test]
fn a_run_goes_on_with_another_number_of_processes() {
    let s = Session::new();
    s.ok(&format!("launch --np 3 -- train {SMALL} --set train.max_steps=17 --set train.epochs=3 --run-dir r"));
    s.ok("launch --np 2 -- train --resume r --set train.max_steps=0");
    s.ok(&format!("train {SMALL} --set train.epochs=3 --run-dir one"));
    s.model("r").near(&s.model("one"), 1e-4, "three processes, then two");
}

#[test]
fn compressed_gradients_say_that_they_are_statistical() {
    let s = Session::new();
    for (compress, more) in [("bf16", ""), ("top-k", "--set strategy.keep=0.1")] {
        let settings = format!("{SMALL} --set train.epochs=4 --set strategy.compress={compress} {more}");
        s.ok(&format!("launch --np 2 -- train {settings} --run-dir p-{compress}"));
        let summary = s.summary(&format!("p-{compress}"));
        assert_eq!(summary["exactness"], "Statistical", "{compress}");
        let loss = |n: usize| summary["epochs"][n]["train_loss"].as_f64().unwrap();
        assert!(loss(3) < loss(0), "{compress} learns");
        let mirrored = "--strategy mirrored --replicas 2 --set strategy.update=replicated";
        s.ok(&format!("train {settings} {mirrored} --run-dir t-{compress}"));
        assert_eq!(s.newest(&format!("p-{compress}")), s.newest(&format!("t-{compress}")), "{compress}");
    }
}

#[test]
fn what_cannot_be_spread_is_refused() {
    let s = Session::new();
    for (line, words) in [
        ("--strategy mirrored", &["strategy.name = \"mirrored\" runs in one process", "2 were started"][..]),
        ("--set data.name=fake:4x4:3:4 --set data.validation=0.75 --set train.batch=1", &["2 ranks"]),
        ("--set data.name=fake:4x4:3:40 --set train.batch=1", &["2 ranks", "train.batch is 1", "32*workers"]),
    ] {
        refused(&s, line, words);
    }
}
