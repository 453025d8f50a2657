//! Folders of runs: `paceline runs`, `paceline report DIR`, and pages that are not written over.

use crate::session::{Session, has};

#[test]
fn a_folder_of_runs_is_listed_with_its_groups() {
    let s = Session::new();
    s.train("runs/first", "--set train.epochs=2");
    s.train("runs/study/short", "--set train.epochs=3 --set train.max_steps=5");
    s.write("runs/killed/run.toml", "format = 1\n");
    let list = s.json("runs --json");
    let of = |name: &str| list.as_array().unwrap().iter().find(|run| run["name"] == name).unwrap().clone();
    let first = of("first");
    assert_eq!((&first["status"], &first["epochs"], &first["epochs_planned"]), (&"done".into(), &2.into(), &2.into()));
    assert!(first["test_accuracy"].is_number() || first["best_val_accuracy"].is_number(), "{first}");
    assert!(first["bytes"].as_u64().unwrap() > 1000 && first["started"].as_u64().unwrap() > 0, "{first}");
    assert_eq!((&of("short")["group"], &of("killed")["status"]), (&"study".into(), &"interrupted".into()));
    let table = s.ok("runs");
    has(&table, &["runs: 2 runs", "runs/study: 1 run", "first", "short", "killed", "interrupted", "0/3"]);
    assert!(table.find("first").unwrap() < table.find("short").unwrap(), "{table}");

    // What ended it is said where the run is looked at.
    let closing = s.train("runs/study/again", "--set train.epochs=3 --set train.max_steps=5");
    has(&closing, &["again: done, stopped after 5 steps: train.max_steps"]);
    let report = s.ok("report runs/study");
    has(&report, &["short: note: stopped after 5 steps: train.max_steps", "again", "report: report.html"]);
    assert!(!s.ok("report runs/first --html first.html").contains("max_steps"));
}

#[test]
fn a_folder_without_runs_says_where_there_are_some() {
    let s = Session::new();
    has(&s.fails(2, "runs"), &["runs does not exist", "none were found nearby"]);
    s.train("elsewhere/one", "--set train.max_steps=2");
    s.write("empty/notes.txt", "nothing");
    has(&s.fails(2, "runs"), &["runs does not exist", "elsewhere (1 run)"]);
    has(&s.fails(2, "runs empty"), &["empty holds no runs", "elsewhere (1 run)"]);
    has(&s.fails(2, "report empty"), &["empty is not a run directory", "elsewhere (1 run)"]);
    has(&s.fails(2, "runs elsewhere/one"), &["is one run", "paceline report elsewhere/one"]);
}

#[test]
fn a_page_of_others_is_kept() {
    let s = Session::new();
    s.train("runs/a", "--set train.max_steps=2");
    s.train("runs/b", "--set train.max_steps=2");
    s.write("report.html", "my own notes");
    has(&s.ok("report runs/a"), &["report.html is there already", "report: report-2.html"]);
    assert_eq!(s.read("report.html"), "my own notes");
    // The page of the same run is made anew, that of others is not lost.
    has(&s.ok("report runs/a"), &["report: report-2.html"]);
    has(&s.ok("report runs"), &["report: report-3.html"]);
    has(&s.fails(2, "report runs/b --html report.html"), &["is no report of these runs", "--force"]);
    assert_eq!(s.read("report.html"), "my own notes");
    has(&s.ok("report runs/b --html report.html --force"), &["report: report.html"]);
    has(&s.read("report.html"), &["</html>"]);
}

#[test]
fn silence_does_not_hide_that_an_older_checkpoint_was_used() {
    let s = Session::new();
    s.train("run", "--set train.max_steps=5");
    s.ok("train --resume run --set train.max_steps=10 --quiet");
    s.write("run/checkpoints/step-10/model.safetensors", "damaged");
    let output = s.command("train --resume run --set train.max_steps=15 --quiet").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.is_empty(), "{out}{err}");
    has(&err, &["paceline: warning: checkpoint", "is damaged", "the one before it is used"]);
}
