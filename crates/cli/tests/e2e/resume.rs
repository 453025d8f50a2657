//! A run that was stopped and resumed equals one that was not, bit for bit, wherever it stopped.

use crate::session::{SMALL, Session, has};

const HYBRID: &str = include_str!("../../../../examples/hybrid-plan.toml");

/// Stops a run after each of `stops` steps and resumes it; compares with one that was not stopped. `strategy` is not
/// repeated: a resume takes what the run had.
fn check(strategy: &str, stops: &[u64]) {
    let s = Session::new();
    s.write("hybrid.toml", HYBRID);
    let settings = format!("train {SMALL} --set train.epochs=3 --set model.dropout=0.2 {strategy}");
    s.ok(&format!("{settings} --run-dir whole"));
    let (first, rest) = stops.split_first().unwrap();
    s.ok(&format!("{settings} --run-dir parts --set train.max_steps={first}"));
    for stop in rest.iter().chain([&0]) {
        has(&s.ok(&format!("train --resume parts --set train.max_steps={stop}")), &["going on from"]);
    }
    assert_eq!(s.newest("parts"), s.newest("whole"), "{strategy} stopped at {stops:?}");
    let (parts, whole) = (s.summary("parts"), s.summary("whole"));
    assert_eq!(parts["status"], "done");
    for key in ["best_epoch", "best_val_accuracy", "best_val_loss", "train_loss", "test_accuracy", "test_loss"] {
        assert_eq!(parts[key], whole[key], "{key}");
    }
    assert_eq!(parts["attempt"], stops.len() as u64 + 1);
    // Every step once, in order, also of the epochs.
    let data = paceline::record::read_run(s.path("parts")).unwrap();
    let steps: Vec<_> = data.steps.iter().filter(|r| r.rank == 0).map(|r| (r.step, r.steps)).collect();
    assert!(steps.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0), "{steps:?}");
    assert_eq!(data.epochs.iter().map(|e| e.epoch).collect::<Vec<_>>(), [1, 2, 3]);
    has(&s.ok("report parts whole"), &["parts", "whole"]);
}

#[test]
fn in_mid_epoch_at_its_end_and_after_one_step() {
    check("--threads 1", &[17]);
    check("--threads 1", &[12, 24]);
    check("--threads 1", &[1, 11, 12, 13, 35]);
}

#[test]
fn with_every_optimizer() {
    for name in ["sgd", "momentum", "nesterov", "adamw", "adagrad"] {
        check(&format!("--set optimizer.name={name}"), &[7, 20]);
    }
}

#[test]
fn mirrored_and_under_a_plan() {
    check("--strategy mirrored --replicas 2 --set strategy.update=sharded", &[5, 23]);
    check("--strategy mirrored --replicas 3 --set strategy.update=replicated", &[13]);
    check("--plan hybrid.toml", &[5, 23]);
}

#[test]
fn with_layouts_that_a_trial_chose() {
    // Trials depend on the moment, so that two runs may choose otherwise; but the choice is saved, and a resume keeps it.
    let s = Session::new();
    let settings = format!("train {SMALL} --set train.epochs=3 --set model.dropout=0.2 --strategy mirrored");
    s.ok(&format!("{settings} --threads auto --run-dir parts --set train.max_steps=9"));
    let chosen: toml::Table = s.read("parts/run.toml").parse().unwrap();
    let chosen = |key: &str| chosen["config"]["strategy"][key].to_string().replace('"', "");
    s.ok("train --resume parts --set train.max_steps=0");
    let layout = format!(
        "--replicas {} --threads {} --set strategy.update={}",
        chosen("replicas"),
        chosen("threads"),
        chosen("update")
    );
    s.ok(&format!("{settings} {layout} --run-dir whole"));
    assert_eq!(s.newest("parts"), s.newest("whole"), "{layout}");
}

#[test]
fn with_warm_up_and_early_stopping() {
    check("--set schedule.warmup=1.5 --set train.early_stopping=2", &[6, 19]);
    check("--set schedule.name=exponential --set schedule.gamma=0.5", &[6, 19]);
}

#[test]
fn with_a_cosine_that_max_steps_does_not_shorten() {
    check("--set schedule.name=cosine", &[6, 19, 30]);
    check("--set schedule.name=cosine --set schedule.warmup=0.5 --set schedule.length=2.5", &[12, 31]);
}

/// Learning rates by step, of runs that record each.
fn rates(s: &Session, run: &str) -> Vec<f64> {
    paceline::record::read_run(s.path(run)).unwrap().steps.iter().map(|step| step.rate).collect()
}

#[test]
fn more_epochs_of_a_finished_cosine_are_said_with_what_they_do_to_the_rate() {
    let s = Session::new();
    let cosine = "--set schedule.name=cosine --set record.every=1 --set optimizer.rate=0.01";
    s.train("r", &format!("--set train.epochs=2 {cosine}"));
    s.train("kept", &format!("--set train.epochs=2 {cosine}"));
    let out = s.ok("train --resume r --set train.epochs=4");
    let words = ["learning rate changes", "at step 23 before", "0.005 at step 24 now", "4 epochs instead of 2"];
    has(&out, &words);
    has(&out, &["schedule.length = 2 keeps the old curve (0 at step 24)"]);
    let (rates, end) = (rates(&s, "r"), std::f64::consts::PI / 48.0);
    assert!(rates[23] < 1e-4 && (rates[24] - 0.005).abs() < 1e-12, "{} then {}", rates[23], rates[24]);
    assert!((rates[47] - 0.01 * 0.5 * (1.0 + (47.0 * end).cos())).abs() < 1e-12);
    let out = s.ok("train --resume kept --set train.epochs=3 --set schedule.length=2");
    assert!(!out.contains("learning rate changes"), "the same curve:\n{out}");
    assert_eq!(self::rates(&s, "kept")[24..], [0.0; 12]);
    // Nothing is said where nothing changes.
    s.train("constant", "--set train.epochs=1");
    assert!(!s.ok("train --resume constant --set train.epochs=2").contains("learning rate changes"));
}

#[test]
fn on_another_number_of_replicas_or_under_a_plan() {
    let s = Session::new();
    s.write("hybrid.toml", HYBRID);
    let settings = format!("train {SMALL} --set train.epochs=3");
    s.ok(&format!("{settings} --run-dir whole"));
    s.ok(&format!("{settings} --run-dir parts --set train.max_steps=7"));
    s.ok("train --resume parts --set train.max_steps=15 --strategy mirrored --replicas 2");
    s.ok("train --resume parts --set train.max_steps=20 --replicas 3");
    s.ok("train --resume parts --set train.max_steps=0 --strategy single --replicas 1");
    assert_eq!(s.newest("parts").step, 36);
    s.model("whole").near(&s.model("parts"), 1e-4, "other replicas");
    s.ok(&format!("{settings} --run-dir planned --plan hybrid.toml --set train.max_steps=7"));
    s.ok("train --resume planned --set train.max_steps=20");
    assert_eq!(s.newest("planned").step, 20);
}

#[test]
fn a_finished_run_has_nothing_left_and_more_epochs_continue_it() {
    let s = Session::new();
    s.train("r", "--set train.epochs=1");
    let before = s.newest("r");
    s.ok("train --resume r");
    assert_eq!(s.newest("r"), before);
    s.ok("train --resume r --set train.epochs=2");
    s.train("whole", "--set train.epochs=2");
    assert_eq!(s.newest("r"), s.newest("whole"));
}

#[test]
fn a_finished_run_stays_as_it_was() {
    let s = Session::new();
    s.ok(&format!("train {SMALL} --threads 1 --set train.epochs=2 --run-dir done"));
    let before = ["summary.json", "run.toml", "steps.jsonl"].map(|file| s.read(&format!("done/{file}")));
    has(&s.ok("train --resume done"), &["nothing is left to do", "done: done", "where the time went"]);
    assert_eq!(["summary.json", "run.toml", "steps.jsonl"].map(|file| s.read(&format!("done/{file}"))), before);
    has(&s.ok("train --resume done --set train.epochs=3"), &["going on from"]);
    assert_eq!(s.summary("done")["epochs"].as_array().unwrap().len(), 3);
}

#[test]
fn a_run_that_ends_in_its_first_epoch_says_how_fast_it_was_and_how_it_learned() {
    let s = Session::new();
    s.ok(&format!("train {SMALL} --threads 1 --set train.max_steps=5 --run-dir short"));
    let summary = s.summary("short");
    for key in ["seconds_train", "examples_per_s", "train_loss"] {
        assert!(summary[key].as_f64().is_some_and(|value| value > 0.0), "{key} is {}", summary[key]);
    }
}
