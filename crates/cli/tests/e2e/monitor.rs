//! One value decides what the best epoch is: its checkpoint is on disk and marked, early stopping waits for it, advice names it.

use crate::session::{Session, flat, has};
use serde_json::Value;

/// Few samples and a network that soon knows them by heart: the validation loss rises while the accuracy goes on changing.
const HEART: &str = "--set data.name=fashion-sample --set data.validation=0.5 --set model.hidden=[64] --set train.batch=100 \
                     --set optimizer.rate=0.01 --set strategy.threads=1";

/// The best epoch by the records alone: highest accuracy, or lowest loss.
fn best(summary: &Value, monitor: &str) -> u64 {
    let mut epochs: Vec<&Value> = summary["epochs"].as_array().unwrap().iter().collect();
    let figure = |epoch: &Value, key: &str| epoch[key].as_f64().unwrap();
    epochs.sort_by(|a, b| {
        let by_accuracy = figure(b, "val_accuracy").total_cmp(&figure(a, "val_accuracy"));
        let by_loss = figure(a, "val_loss").total_cmp(&figure(b, "val_loss"));
        if monitor == "val-loss" { by_loss.then(by_accuracy) } else { by_accuracy.then(by_loss) }
    });
    epochs[0]["epoch"].as_u64().unwrap()
}

#[test]
fn the_epoch_that_advice_names_is_on_disk_and_marked() {
    let s = Session::new();
    let mut seen = Vec::new();
    for monitor in ["val-accuracy", "val-loss"] {
        let out = s.ok(&format!(
            "train {HEART} --set train.epochs=12 --set checkpoint.keep=1 --set train.monitor={monitor} --run-dir {monitor}"
        ));
        let summary = s.summary(monitor);
        let epoch = best(&summary, monitor);
        assert_eq!(summary["best_epoch"], epoch, "{monitor}");
        let kept = summary["best_checkpoint"].as_str().unwrap();
        assert_eq!(kept, format!("checkpoints/step-{}", summary["best_step"]));
        let link = std::fs::read_link(s.path(format!("{monitor}/checkpoints/best"))).unwrap();
        assert_eq!(std::path::Path::new("checkpoints").join(link), std::path::Path::new(kept));
        // Whole, and with the best epoch's own progress in it.
        let manifest: toml::Table = s.read(&format!("{monitor}/checkpoints/best/manifest.toml")).parse().unwrap();
        assert_eq!(manifest["progress"]["epoch"].as_integer(), Some(epoch as i64));
        has(&out, &[&format!("best epoch     {epoch} of 12, by validation {}", &monitor[4..])]);
        assert_eq!(s.checkpoints(monitor).len(), if epoch == 12 { 1 } else { 2 }, "the newest and the best");
        // By loss, the best epoch lies before the rise that is called over-fitting; by accuracy it may be the last.
        assert!(epoch < 12 || monitor == "val-accuracy", "the example no longer over-fits");
        has(&flat(&out), &["over-fitting since epoch"]);
        if epoch < 12 {
            let advice = format!("keep epoch {epoch} ({kept})");
            has(&flat(&out), &[&advice]);
            has(&s.ok(&format!("report {monitor}")), &[&advice]);
        }
        seen.push(s.newest(monitor));
    }
    assert_eq!(seen[0], seen[1], "what is monitored does not change what is trained");
}

#[test]
fn early_stopping_waits_for_the_monitored_value() {
    let s = Session::new();
    for monitor in ["val-accuracy", "val-loss"] {
        let settings = format!("--set train.epochs=60 --set train.early_stopping=3 --set train.monitor={monitor}");
        s.ok(&format!("train {HEART} {settings} --run-dir {monitor}"));
        let summary = s.summary(monitor);
        let epochs = summary["epochs"].as_array().unwrap();
        let value = |epoch: &Value| match monitor {
            "val-loss" => -epoch["val_loss"].as_f64().unwrap(),
            _ => epoch["val_accuracy"].as_f64().unwrap(),
        };
        // The value did not get better in the last three, and in every three before it did.
        let better = |n: usize| {
            epochs[n - 3..n].iter().map(value).fold(f64::MIN, f64::max)
                > epochs[..n - 3].iter().map(value).fold(f64::MIN, f64::max)
        };
        assert!(epochs.len() < 60 && !better(epochs.len()), "{monitor}: {} epochs", epochs.len());
        assert!((4..epochs.len()).all(better), "{monitor} should have ended before epoch {}", epochs.len());
        let words = if monitor == "val-loss" { "loss" } else { "accuracy" };
        has(&summary["reasons"].to_string(), &[&format!("no better validation {words} for 3 epochs")]);
    }
}

#[test]
fn a_resume_keeps_what_is_monitored() {
    let s = Session::new();
    s.train("r", "--set train.epochs=2 --set train.monitor=val-loss");
    has(
        &s.fails(2, "train --resume r --set train.epochs=3 --set train.monitor=val-accuracy"),
        &["train.monitor", "loss"],
    );
    s.ok("train --resume r --set train.epochs=3");
    assert_eq!(s.summary("r")["monitor"], "val-loss");
}

#[test]
fn a_checkpoint_of_an_older_version_goes_on() {
    let s = Session::new();
    s.train("new", "--set train.epochs=4 --set train.early_stopping=3");
    s.train("old", "--set train.epochs=2 --set train.early_stopping=3");
    // What the first version wrote: no monitor, no reference, but the lowest loss.
    for checkpoint in s.checkpoints("old") {
        let path = format!("old/checkpoints/step-{checkpoint}/manifest.toml");
        let mut manifest: toml::Table = s.read(&path).parse().unwrap();
        let progress = manifest["progress"].as_table_mut().unwrap();
        assert!(progress.remove("monitor").is_some() && progress.remove("reference").is_some());
        progress.insert("lowest_loss".into(), toml::Value::Float(0.5));
        s.write(&path, toml::to_string(&manifest).unwrap());
    }
    s.ok("train --resume old --set train.epochs=4");
    assert_eq!(s.newest("old"), s.newest("new"));
    assert_eq!(s.summary("old")["best_epoch"], s.summary("new")["best_epoch"]);
}

#[test]
fn a_loss_that_ran_away_is_not_called_over_fitting() {
    let s = Session::new();
    let away = "--set optimizer.name=sgd --set optimizer.rate=50 --set train.epochs=3 --set model.hidden=[32] --set strategy.threads=1";
    let out = s.ok(&format!("train {away} --run-dir away"));
    let words = "where guessing evenly among 10 classes gives 2.303; lower the learning rate";
    has(&flat(&out), &["diverged in epoch", words]);
    assert!(!out.contains("over-fitting") && !out.contains("at chance"), "{out}");
}
