//! Wrong flags, keys and values: one line, the reason, what to do, exit code 2, and nothing touched.

use crate::session::{SMALL, Session, has};

/// Runs each line in one session; all must fail with exit code 2 and say these words.
fn refused(s: &Session, table: &[(&str, &[&str])]) {
    for (line, words) in table {
        has(&s.fails(2, line), words);
    }
    assert!(!s.path("runs").exists(), "a refused run leaves no folder");
}

#[test]
fn keys_and_values() {
    let s = Session::new();
    refused(
        &s,
        &[
            ("train --set train.epoch=3", &["no key train.epoch", "did you mean train.epochs?"]),
            ("train --set trian.epochs=3", &["trian.epochs", "train.epochs"]),
            ("train --set epochs", &["no `=`", "--set key=value"]),
            ("train --set train.epochs=many", &["train.epochs", "\"many\" is a string", "whole number"]),
            ("train --set train.epochs=1.5", &["train.epochs", "whole number"]),
            ("train --set train.epochs=0", &["train.epochs", "at least 1"]),
            ("train --set train.batch=0", &["train.batch = 0", "at least 1"]),
            ("train --set train.batch=-4", &["train.batch", "at least 1"]),
            ("train --set train.batch=8*wrokers", &["train.batch", "workers"]),
            ("train --set data.name=fake:4x4:3:200 --set train.batch=181", &["train.batch is 181", "180 training"]),
            ("train --set data.shuffle=maybe", &["data.shuffle", "true or false"]),
            ("train --set data.validation=1.0", &["data.validation", "below 1"]),
            ("train --set model.hidden=128", &["model.hidden", "list"]),
            ("train --set model.hidden=[0]", &["model.hidden", "at least 1"]),
            ("train --set model.dropout=1.0", &["model.dropout", "below 1"]),
            ("train --set model.preset=mpl", &["did you mean mlp?", "softmax"]),
            ("train --set optimizer.name=adm", &["did you mean adam?", "sgd", "adagrad"]),
            ("train --set optimizer.rate=-1", &["optimizer.rate", "above 0"]),
            ("train --set optimizer.rate=nan", &["optimizer.rate"]),
            ("train --set schedule.name=cosinus", &["did you mean cosine?"]),
            ("train --set checkpoint.every=soon", &["checkpoint.every", "epoch", "30s"]),
            ("train --set run.name=a/b", &["run.name"]),
            ("train --strategy mirored", &["--strategy mirored", "did you mean mirrored?", "one-device"]),
            ("train --strategy mirrored --replicas 0", &["--replicas 0", "at least 1"]),
            ("train --strategy one-device --device cpu:99999", &["cpu:99999", "give one of cpu:0"]),
            ("train --strategy one-device --device gpu:0", &["gpu:0", "cpu:N"]),
        ],
    );
}

#[test]
fn keys_that_contradict_each_other() {
    let s = Session::new();
    s.write("plan.toml", "format = 1\nranks = 2\n");
    s.write("model.toml", "format = 1\n");
    refused(
        &s,
        &[
            ("train --plan plan.toml --strategy mirrored", &["strategy.name", "strategy.plan", "remove"]),
            ("train --plan plan.toml --replicas 2", &["strategy.replicas", "strategy.plan"]),
            ("train --replicas 2", &["strategy.replicas", "mirrored"]),
            ("train --strategy mirrored --device cpu:0", &["strategy.device", "one-device"]),
            ("train --set model.file=model.toml --set model.hidden=[8]", &["model.hidden", "model.file"]),
            ("train --set model.preset=softmax --set model.hidden=[8]", &["model.hidden", "softmax"]),
            ("train --set optimizer.name=sgd --set optimizer.momentum=0.5", &["optimizer.momentum", "nesterov"]),
            ("train --set schedule.gamma=0.5", &["schedule.gamma", "constant", "exponential"]),
        ],
    );
}

#[test]
fn names_and_places() {
    let s = Session::new();
    s.write("empty/readme.txt", "nothing here");
    s.train("whole", "--set train.max_steps=2");
    refused(
        &s,
        &[
            ("train --set data.name=mnits", &["no data set named `mnits`", "did you mean mnist?"]),
            ("train --set data.name=fake:4x4", &["fake:4x4", "fake:"]),
            ("train --set data.name=fake:0x4:3:10", &["fake:0x4:3:10"]),
            ("train --set data.name=empty", &["train-images-idx3-ubyte"]),
            ("train nofile.toml", &["nofile.toml", "no such file"]),
            ("train --set model.file=nofile.toml", &["nofile.toml", "no such file"]),
            ("train --plan nofile.toml", &["nofile.toml", "no such file"]),
            ("train --resume nowhere", &["no run at nowhere", "whole"]),
            ("train --resume empty", &["empty is not a run directory"]),
            ("report nowhere", &["no run at nowhere", "whole"]),
            ("report empty", &["empty is not a run directory"]),
            ("data info nowhere", &["no data set named `nowhere`"]),
            ("data get mnits", &["did you mean mnist?"]),
            ("data get fake", &["fake"]),
        ],
    );
}

#[test]
fn an_existing_run_is_never_overwritten() {
    let s = Session::new();
    s.train("mine", "--set train.max_steps=2");
    s.write("notes/todo.txt", "keep me");
    s.write("file", "not a folder");
    let files = ["mine/run.toml", "mine/steps.jsonl", "mine/summary.json"];
    let before = files.map(|f| s.read(f));
    let message = s.fails(2, &format!("train {SMALL} --run-dir mine"));
    has(&message, &["mine already holds a run", "--resume", "--run-dir"]);
    assert!(!message.contains("--name"), "there is no such flag: {message}");
    assert_eq!(files.map(|f| s.read(f)), before);
    has(&s.fails(2, &format!("train {SMALL} --set run.dir=. --set run.name=mine")), &["mine already holds"]);
    has(&s.fails(2, &format!("train {SMALL} --run-dir notes")), &["notes"]);
    assert_eq!(s.read("notes/todo.txt"), "keep me");
    has(&s.fails(2, &format!("train {SMALL} --run-dir file")), &["file is a file", "folder"]);
}

#[test]
fn a_run_is_resumed_only_as_what_it_was() {
    let s = Session::new();
    s.write("other.toml", "format = 1\n");
    s.write_idx("mine", 4, 90, 30);
    s.train("r", "--set train.max_steps=5");
    let before = s.newest("r");
    for (change, words) in [
        ("--set model.hidden=[9]", &["the model", "[8, 16]", "[9, 16]"][..]),
        ("--set train.batch=8", &["train.batch", "the checkpoint has 16, this run 8"]),
        ("--set train.seed=2", &["train.seed", "the checkpoint has 1, this run 2"]),
        ("--set optimizer.name=sgd", &["the optimizer", "adam", "sgd"]),
        ("--set optimizer.beta1=0.8", &["the optimizer", "0.9", "0.8"]),
        ("--set data.name=fake:4x4:3:300", &["the training samples", "data.name"]),
        ("--set data.validation=0.2", &["the training samples", "data.validation"]),
    ] {
        let message = s.fails(2, &format!("train --resume r {change}"));
        has(&message, &["cannot resume r", "begin a new run"]);
        let small = message.to_lowercase();
        has(&small, words);
    }
    has(&s.fails(2, "train other.toml --resume r"), &["--resume takes the configuration of the run", "other.toml"]);
    assert_eq!(s.newest("r"), before, "a refused resume changes nothing");
    assert_eq!(s.summary("r")["attempt"], 1);
    s.ok("train --resume r --set train.max_steps=6");
    assert_eq!(s.newest("r").step, 6);
}

#[test]
fn a_loss_that_is_not_a_number_stops_the_run_and_keeps_what_was_good() {
    let s = Session::new();
    let sgd = "--set optimizer.name=sgd --set checkpoint.every=epoch";
    s.train("r", &format!("{sgd} --set train.epochs=1 --set optimizer.rate=0.01"));
    let good = s.newest("r");
    let message = s.fails(1, "train --resume r --quiet --set train.epochs=3 --set optimizer.rate=1e30");
    has(&message, &["the loss is", "at step", "epoch 2", "last good checkpoint", "optimizer.rate"]);
    let summary = s.summary("r");
    has(&summary["status"]["failed"]["why"].to_string(), &["the loss is", "at step"]);
    assert_eq!(s.newest("r"), good);
    has(&s.ok("report r"), &["failed"]);
    // With a rate that works it goes on from there.
    s.ok("train --resume r --set optimizer.rate=0.01");
    assert_eq!(s.summary("r")["status"], "done");
    assert_eq!(s.newest("r").step, 3 * good.step);
    // The same on several ranks: one line still, and no rank is left waiting.
    let line = format!("train {SMALL} {sgd} --quiet --run-dir both --set optimizer.rate=1e30 --strategy mirrored");
    has(&s.fails(1, &format!("{line} --replicas 2")), &["the loss is", "at step"]);
    let report = s.ok("report both r");
    assert!(!report.contains("-0.0"), "{report}");
}
