//! Names that others chose cannot act on the terminal of who reads them.

use crate::session::{SMALL, Session, done, failed, has};
use std::process::Command;

/// Clears the screen, sets the window's title, and turns the direction of what follows.
const EVIL: &str = "a\x1b[2J\x1b]0;owned\x07\u{202e}b";

fn ok(command: &mut Command) -> String {
    done("", &command.output().unwrap())
}

fn fails(command: &mut Command) -> String {
    failed(2, "", &command.output().unwrap())
}

#[track_caller]
fn check(text: &str) {
    assert!(!text.contains(['\x1b', '\x07', '\u{202e}']), "{text:?}");
}

#[test]
fn a_run_is_not_given_a_name_that_acts_on_a_terminal() {
    let s = Session::new();
    let words = fails(s.command(&format!("train {SMALL} --run-dir")).arg(EVIL));
    check(&words);
    has(&words, &["control characters", "--run-dir"]);
    let words = fails(s.command(&format!("train {SMALL} --set")).arg(format!("run.name={EVIL}")));
    check(&words);
    has(&words, &["run.name", "control characters"]);
}

#[test]
fn a_run_that_has_such_a_name_is_shown_without_it() {
    let s = Session::new();
    s.train("plain", "--set train.epochs=1");
    // As it may come from someone else: the folder, the name inside, the words, the class.
    std::fs::rename(s.path("plain"), s.path(EVIL)).unwrap();
    let path = s.path(EVIL).join("summary.json");
    let mut summary: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    for key in ["name", "model", "data", "strategy"] {
        summary[key] = EVIL.into();
    }
    summary["warnings"] = serde_json::json!([EVIL]);
    std::fs::write(&path, summary.to_string()).unwrap();
    let out = ok(s.command("report").arg(EVIL));
    check(&out);
    has(&out, &["a\\u001b[2J"]);
    check(&s.read("report.html"));
    // As JSON it stays JSON, and means the same.
    let out = ok(s.command("report --json").arg(EVIL));
    check(&out);
    let read: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(read[0]["name"], EVIL);
    check(&ok(s.command("train --resume").arg(EVIL)));
    check(&fails(s.command("report").arg(format!("{EVIL}-missing"))));
}

#[test]
fn classes_and_files_of_a_data_set_are_shown_without_them() {
    let s = Session::new();
    for class in [EVIL, "other"] {
        let folder = s.path("photos").join(class);
        std::fs::create_dir_all(&folder).unwrap();
        for i in 0..4 {
            std::fs::write(folder.join(format!("{i}\x1b[2J.png")), b"no image").unwrap();
        }
    }
    let out = s.command("data info photos").output().unwrap();
    check(&String::from_utf8(out.stdout).unwrap());
    check(&String::from_utf8(out.stderr).unwrap());
    let words = fails(&mut s.command("prepare photos shards --size 8"));
    check(&words);
}
