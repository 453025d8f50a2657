//! Runs whose targets are numbers, from training to reports: loss and absolute error everywhere, an accuracy nowhere.

use crate::session::{Session, has};
use serde_json::Value;

const TRAIN: &str = "train --set data.name=line.csv --set model.file=model.toml --set train.batch=16 --set strategy.threads=1 \
                     --set optimizer.rate=0.02";

const MODEL: &str = r#"format = 1
[[layer]]
type = "dense"
units = 4
[[layer]]
type = "relu"
[[layer]]
type = "dense"
units = 1
[[layer]]
type = "mean-squared-error"
"#;

/// A session with `y = 2a - b + 1` at 150 points, and some noise, in `line.csv`, and a model of one hidden layer.
fn session() -> Session {
    let row = |n: usize| {
        let (a, b) = ((n % 11) as f64 / 10.0, (n % 7) as f64 / 6.0);
        format!("{a},{b},{:.4}\n", 2.0 * a - b + 1.0 + (n * 37 % 101) as f64 / 500.0)
    };
    let s = Session::new();
    s.write("model.toml", MODEL);
    s.write("line.csv", format!("a,b,y\n{}", (0..150).map(row).collect::<String>()));
    s
}

#[track_caller]
fn nothing_made_up(text: &str) {
    for word in ["ccuracy", "NaN", "nan %", "val %", "test %", "chance"] {
        // The reason why the loss decides names what is not there.
        let lines: Vec<&str> = text.lines().filter(|line| !line.contains("no accuracy")).collect();
        assert!(!lines.join("\n").contains(word), "{word} in\n{text}");
    }
}

#[test]
fn they_are_shown_recorded_and_reported_without_an_accuracy() {
    let s = session();
    let out = s.ok(&format!("{TRAIN} --set train.epochs=3 --run-dir r"));
    has(&out, &["best epoch by validation loss: the loss counts loss and absolute error, no accuracy"]);
    has(&out, &["epoch 1/3  loss ", "  absolute error ", "by validation loss\n"]);
    let summary = s.summary("r");
    assert_eq!((&summary["monitor"], &summary["classes"]), (&"val-loss".into(), &Value::Null));
    assert_eq!(summary["metrics"], serde_json::json!(["loss", "absolute error", "samples"]));
    let best = &summary["epochs"][summary["best_epoch"].as_u64().unwrap() as usize - 1];
    assert_eq!(summary["best_val_absolute_error"], best["val_absolute_error"]);
    for text in [&s.read("r/steps.jsonl"), &s.ok("report r"), &s.ok("report r --html page.html"), &s.ok("runs ."), &out]
    {
        nothing_made_up(text);
    }
    let written = s.read("r/summary.json");
    assert!(!written.contains("accuracy\":"), "{written}");
    let page = s.read("page.html");
    has(&page, &["Absolute error by epoch", "validation absolute error"]);
    assert!(!page.contains("Accuracy by epoch"));
}

#[test]
fn steps_give_the_figures_of_their_epoch_and_evaluations_those_of_the_run() {
    let s = session();
    s.ok(&format!("{TRAIN} --set train.epochs=2 --set record.every=1 --strategy mirrored --replicas 2 --run-dir r"));
    let run = paceline::record::read_run(s.path("r")).unwrap();
    for epoch in &run.epochs {
        let lines = || run.steps.iter().filter(|line| (line.epoch, line.rank) == (epoch.epoch, 1));
        let samples: u64 = lines().map(|line| line.samples).sum();
        let sum: f64 = lines().map(|line| line.absolute_error.unwrap() * line.samples as f64).sum();
        let (got, wanted) = (sum / samples as f64, epoch.train_absolute_error.unwrap());
        assert!((got - wanted).abs() <= 1e-12 * wanted, "{got} instead of {wanted}");
    }
    let summary = s.summary("r");
    let held = s.json("evaluate r --part validation --json");
    let best = &summary["epochs"][summary["best_epoch"].as_u64().unwrap() as usize - 1];
    for (key, recorded) in [("loss", "val_loss"), ("absolute_error", "val_absolute_error")] {
        let (got, wanted) = (held[key].as_f64().unwrap(), best[recorded].as_f64().unwrap());
        assert!((got - wanted).abs() < 1e-5 * wanted, "{key}: {got} instead of {wanted}");
    }
    assert!(held.get("accuracy").is_none() && held.get("confusion").is_none(), "{held}");
    let shown = s.ok("evaluate r --part validation");
    has(&shown, &["loss ", "  absolute error "]);
    nothing_made_up(&shown);
}

#[test]
fn a_resume_in_mid_epoch_is_exact() {
    let s = session();
    let settings = format!("{TRAIN} --set train.epochs=3 --quiet");
    s.ok(&format!("{settings} --run-dir whole"));
    s.ok(&format!("{settings} --run-dir parts --set train.max_steps=5"));
    let stopped = s.summary("parts");
    assert!(stopped["train_absolute_error"].is_number() && stopped["partial"]["train_absolute_error"].is_number());
    s.ok("train --resume parts --set train.max_steps=0 --quiet");
    assert_eq!(s.newest("parts"), s.newest("whole"));
    let (parts, whole) = (s.summary("parts"), s.summary("whole"));
    for key in ["best_epoch", "best_val_loss", "best_val_absolute_error", "train_absolute_error", "train_loss"] {
        assert_eq!(parts[key], whole[key], "{key}");
        assert!(parts[key].is_number(), "{key}");
    }
    nothing_made_up(&s.ok("report parts whole"));
}

#[test]
fn an_accuracy_cannot_be_asked_for() {
    let s = session();
    has(
        &s.fails(2, &format!("{TRAIN} --set train.monitor=val-accuracy --run-dir r")),
        &["train.monitor is val-accuracy", "no accuracy", "remove train.monitor or set it to val-loss"],
    );
    assert!(!s.path("r").exists());
    let stopping = "--set train.epochs=200 --set train.early_stopping=2 --set train.min_delta=0.01 --quiet";
    s.ok(&format!("{TRAIN} {stopping} --run-dir early"));
    let summary = s.summary("early");
    assert!(summary["epochs"].as_array().unwrap().len() < 200);
    has(&summary["reasons"].to_string(), &["no better validation loss for 2 epochs"]);
}
