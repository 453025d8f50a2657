//! The same settings give the same bits, whatever the number of threads; replicas and plans give the same mathematics.

use crate::session::{Newest, SMALL, Session, has};

const HYBRID: &str = include_str!("../../../../examples/hybrid-plan.toml");

/// Larger than [`SMALL`], so that kernels do use their threads.
const WIDE: &str =
    "--set data.name=fake:28x28:10:800 --set model.hidden=[256] --set train.batch=128 --set train.epochs=2";

/// One convolution that has algorithms to choose from.
const CNN: &str = r#"
format = 1
[[layer]]
type = "conv"
channels = 8
kernel = 3
pad = 1
input_channels = 1
[[layer]]
type = "relu"
[[layer]]
type = "flatten"
[[layer]]
type = "dense"
units = "classes"
[[layer]]
type = "softmax-cross-entropy"
"#;

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

/// Convolutions by every algorithm that was measured, large enough for their threads.
const LENET: &str =
    "--set model.preset=lenet --set data.name=fake:28x28:10:400 --set train.batch=64 --set train.epochs=2";

#[test]
fn a_run_is_repeated_with_its_choices() {
    let s = Session::new();
    // Everything that can be is chosen by a clock: replicas, threads, update, algorithms.
    s.ok(&format!("train {LENET} --strategy mirrored --run-dir first --set run.name=named"));
    // As if another hour had chosen otherwise.
    s.write("cache/kernels.toml", "");
    let text = s.ok("train first/run.toml --run-dir again");
    has(&text, &["layout and kernels as in first"]);
    assert!(!text.contains("short trial") && !text.contains("measured now"), "{text}");
    assert_eq!(s.newest("first"), s.newest("again"));
    let warnings = |run: &str| s.summary(run)["warnings"].to_string();
    for word in ["bits may differ", "not the same run", "resumed", "samples are not"] {
        assert!(!warnings("again").contains(word), "{}", warnings("again"));
    }
    // A repetition can be repeated; without --run-dir it gets a name of its own.
    s.ok("train again/run.toml --set run.dir=elsewhere");
    assert_eq!(s.newest("first"), s.newest("elsewhere/lenet-fake-28x28-10-400-1"));
    // Threads change no bit, and what does is said.
    s.ok("train first/run.toml --run-dir threads --threads 3");
    assert_eq!(s.newest("first"), s.newest("threads"));
    assert!(!warnings("threads").contains("not the same run"), "{}", warnings("threads"));
    s.ok("train first/run.toml --run-dir seed --set train.seed=9 --set train.batch=32");
    has(
        &warnings("seed"),
        &["not the same run again", "train.batch (64 → 32)", "train.seed (", "strategy.replicas=auto"],
    );
    assert_ne!(s.newest("first"), s.newest("seed"));
}

#[test]
fn what_stands_against_a_repetition_is_said() {
    let s = Session::new();
    s.write("cnn.toml", CNN);
    s.write_idx("pictures", 12, 60, 12);
    let settings = "--set model.file=cnn.toml --set data.name=pictures --set train.batch=16 --set train.epochs=1";
    s.ok(&format!("train {settings} --threads 1 --run-dir first"));
    // The model is the run's own copy.
    s.write("cnn.toml", "gone");
    s.ok("train first/run.toml --run-dir again");
    assert_eq!(s.newest("first"), s.newest("again"));
    // Another processor, another version, other samples.
    let (cpu, other) = (s.read("first/run.toml"), |key: &str, line: &str| {
        format!("{key} = \"other\"{}", if line.ends_with('\n') { "\n" } else { "" })
    });
    let changed: String = cpu
        .split_inclusive('\n')
        .map(|line| match line.split(" = ").next() {
            Some(key @ ("cpu" | "version")) => other(key, line),
            _ => line.into(),
        })
        .collect();
    s.write("first/run.toml", changed);
    s.write_idx("pictures", 12, 72, 12);
    s.ok("train first/run.toml --run-dir elsewhere");
    let warnings = s.summary("elsewhere")["warnings"].to_string();
    has(&warnings, &["was computed on other", "by version other", "bits may differ", "samples are not those"]);
    // The record alone is not enough: the model lies beside it.
    s.write("copied.toml", s.read("again/run.toml"));
    has(&s.fails(2, "train copied.toml"), &["copied.toml"]);
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
