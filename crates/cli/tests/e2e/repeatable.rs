//! The same settings give the same bits, whatever the number of threads; replicas and plans give the same mathematics.

use crate::session::{Newest, SMALL, Session};

const HYBRID: &str = include_str!("../../../../examples/hybrid-plan.toml");

/// Larger than [`SMALL`], so that kernels do use their threads.
const WIDE: &str =
    "--set data.name=fake:28x28:10:800 --set model.hidden=[256] --set train.batch=128 --set train.epochs=2";

fn newest_of(s: &Session, run: &str, settings: &str) -> Newest {
    s.ok(&format!("train {settings} --run-dir {run}"));
    s.newest(run)
}

#[test]
fn two_equal_runs_are_equal_in_bits() {
    let s = Session::new();
    s.write("hybrid.toml", HYBRID);
    for (name, strategy) in [
        ("single", "--threads 1"),
        ("mirrored", "--strategy mirrored --replicas 2 --threads 1 --set strategy.update=sharded"),
        ("threaded", "--strategy mirrored --replicas 2 --threads 2 --set strategy.update=replicated"),
        ("three", "--strategy mirrored --replicas 3 --threads 1 --set strategy.bucket=500"),
        ("hybrid", "--plan hybrid.toml --threads 1"),
    ] {
        let settings = format!("{WIDE} --set model.dropout=0.2 {strategy}");
        let first = newest_of(&s, &format!("{name}-1"), &settings);
        assert_eq!(first, newest_of(&s, &format!("{name}-2"), &settings), "{name}");
    }
}

#[test]
fn threads_do_not_change_bits() {
    let s = Session::new();
    for optimizer in ["sgd", "adam"] {
        let settings = format!("{WIDE} --set optimizer.name={optimizer}");
        let one = newest_of(&s, &format!("{optimizer}-1"), &format!("{settings} --threads 1"));
        for threads in [2, 3] {
            let more = newest_of(&s, &format!("{optimizer}-{threads}"), &format!("{settings} --threads {threads}"));
            assert_eq!(one, more, "{optimizer}, {threads} threads");
        }
    }
}

#[test]
fn neither_recording_nor_checkpoints_change_bits() {
    let s = Session::new();
    let settings = format!("{SMALL} --set train.epochs=3 --set model.dropout=0.1");
    let plain = newest_of(&s, "plain", &settings);
    let busy = "--set record.every=1 --set checkpoint.every=2 --set train.eval_batch=7";
    assert_eq!(plain, newest_of(&s, "busy", &format!("{settings} {busy}")));
}

#[test]
fn another_seed_gives_another_run() {
    let s = Session::new();
    let one = newest_of(&s, "one", &format!("{SMALL} --set train.seed=1"));
    assert_ne!(one, newest_of(&s, "two", &format!("{SMALL} --set train.seed=2")));
}

#[test]
fn strategies_and_plans_give_the_same_mathematics() {
    let s = Session::new();
    s.write("hybrid.toml", HYBRID);
    s.write("mixed.toml", "format = 1\nranks = 3\n[operators.hidden1]\nsplit = { out = 3 }\nranks = [2, 0, 1]\n");
    let settings = "--set data.name=fashion-sample --set model.hidden=[32] --set train.batch=50 --set train.epochs=2";
    s.ok(&format!("train {settings} --run-dir single --threads 1"));
    let expected = s.model("single");
    for (name, strategy) in [
        ("one-device", "--strategy one-device --device cpu:0"),
        ("two", "--strategy mirrored --replicas 2 --threads 1"),
        ("seven", "--strategy mirrored --replicas 7 --threads 1"),
        ("hybrid", "--plan hybrid.toml --threads 1"),
        ("mixed", "--plan mixed.toml --threads 1"),
    ] {
        s.ok(&format!("train {settings} --run-dir {name} {strategy}"));
        expected.near(&s.model(name), 1e-4, name);
        let accuracy = |run| s.summary(run)["test_accuracy"].as_f64().unwrap();
        assert!((accuracy("single") - accuracy(name)).abs() < 0.002, "{name}: {}", accuracy(name));
    }
}
