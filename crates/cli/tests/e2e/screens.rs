//! Screens of the program in terminals of 60 and 80 columns, compared with `tests/screens/*.txt`; figures that vary from run to run are
//! replaced there.

#[path = "../../../../tests/expected_screen.rs"]
mod expected_screen;

use crate::prepare::photos;
use crate::session::{Session, done};
use std::path::Path;

const WIDTHS: [usize; 2] = [60, 80];

/// What a line prints in a terminal of so many columns.
fn shown(s: &Session, width: usize, line: &str) -> String {
    let output = s.command(line).env("COLUMNS", width.to_string()).output().unwrap();
    done(line, &output)
}

#[track_caller]
fn check(name: &str, width: usize, screen: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens");
    expected_screen::check(&folder, name, width, screen);
}

/// A screen without what varies: numbers, their units, bars, and blanks that line them up.
fn steady(screen: &str) -> String {
    let mut out = String::new();
    for line in screen.lines() {
        let begin = line.len() - line.trim_start().len();
        out.push_str(&line[..begin]);
        out.push_str(&line.split_whitespace().map(steady_word).collect::<Vec<_>>().join(" "));
        out.push('\n');
    }
    for (varies, steady) in [("# k", "#"), ("# M", "#"), ("# ms", "# TIME"), ("# µs", "# TIME"), ("# s", "# TIME")] {
        for end in [" ", "\n", ")", ",", "/"] {
            out = out.replace(&format!("{varies}{end}"), &format!("{steady}{end}"));
        }
    }
    out
}

fn steady_word(word: &str) -> String {
    const BAR: &str = "▒█·▚▓░";
    if word.chars().count() > 3 && word.chars().all(|c| BAR.contains(c)) {
        return "BAR".into();
    }
    if word.chars().all(|c| c == '─') {
        return "──".into();
    }
    let mut out = String::new();
    for c in word.chars() {
        match c {
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            '<' => {}
            // Within a number.
            '.' | ',' if out.ends_with('#') && !word.ends_with(c) => {}
            c => out.push(c),
        }
    }
    out
}

/// Up to a line that begins so, without it.
fn until<'a>(screen: &'a str, begin: &str) -> &'a str {
    let at = screen.find(&format!("\n{begin}")).unwrap_or_else(|| panic!("{begin:?} is not in\n{screen}"));
    &screen[..=at]
}

#[test]
fn help() {
    let s = Session::new();
    for width in WIDTHS {
        check("help", width, &shown(&s, width, "--help"));
        check("train-help", width, &shown(&s, width, "train --help"));
    }
}

#[test]
fn keys() {
    let s = Session::new();
    for width in WIDTHS {
        check("config-explain-train", width, &shown(&s, width, "config explain train"));
        expected_screen::fits("config explain", width, &shown(&s, width, "config explain"));
    }
}

#[test]
fn a_training_and_its_summary() {
    let s = Session::new();
    let set = "--set data.name=fake:4x4:3:200 --set model.hidden=[8] --set train.batch=16 --set strategy.threads=1";
    for width in WIDTHS {
        let screen = shown(&s, width, &format!("train {set} --set train.epochs=2 --run-dir run{width}"));
        expected_screen::fits("train", width, &screen);
        // What it says of the time depends on the machine.
        check("train", width, &steady(until(&screen, "  where the time went")));
        let summary = shown(&s, width, &format!("train {set} --summary"));
        expected_screen::fits("train --summary", width, &summary);
        // How much memory the kernels want depends on the processor.
        check("train-summary", width, until(&summary, "planned for this run"));
    }
}

#[test]
fn preparing_studying_and_listing() {
    let s = Session::new();
    photos(&s, "photos", &["ant", "bee"], 8);
    for width in WIDTHS {
        let screen = shown(&s, width, &format!("prepare photos shards{width} --size 24 --shards 4 --threads 1"));
        expected_screen::fits("prepare", width, &screen);
        check("prepare", width, &steady(until(&screen, "  stage")));
        let tiny = "--batch 2,4 --batches 2,3 --repetitions 2 --size 24 --threads 2 --partitions 4 --cache-state warm";
        let screen = shown(&s, width, &format!("speedtest photos/ shards{width}/ {tiny}"));
        expected_screen::fits("speedtest", width, &screen);
        check("speedtest", width, &steady(until(&screen, "images/s by source")));
        for line in ["data list", "data info photos", &format!("data info shards{width}"), "data cache", "runs"] {
            expected_screen::fits(line, width, &shown(&s, width, line));
        }
    }
}

#[test]
fn pipes_and_files_get_the_same_whatever_the_terminal() {
    let s = Session::new();
    let screen = s.ok("config explain");
    assert!(screen.lines().any(|line| line.chars().count() > 90), "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 100), "{screen}");
    // A line is a record: nothing is broken.
    let out = s.ok("train --set data.name=fake:4x4:3:200 --set strategy.threads=1 --set train.epochs=1");
    assert!(out.lines().any(|line| line.starts_with("epoch 1/1") && line.ends_with("examples/s")), "{out}");
}
