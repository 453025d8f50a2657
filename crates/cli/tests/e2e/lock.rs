//! A run directory has one writer at a time, and says who; a run that was killed does not say that it runs.

use crate::session::{SMALL, Session, done, has, stopped};
use std::process::{Child, Stdio};

/// Practically without an end.
const ENDLESS: &str = "--quiet --set train.epochs=1000000 --set checkpoint.every=25";

fn start(s: &Session, line: &str) -> Child {
    s.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn wait_for_a_checkpoint(s: &Session, run: &str, child: &mut Child) {
    while s.checkpoints(run).is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn headers(s: &Session, run: &str) -> usize {
    s.read(&format!("{run}/steps.jsonl")).matches("\"kind\":\"steps\"").count()
}

#[test]
fn a_resume_beside_a_running_training_is_refused_and_changes_nothing() {
    let s = Session::new();
    let mut first = start(&s, &format!("train {SMALL} {ENDLESS} --run-dir r"));
    wait_for_a_checkpoint(&s, "r", &mut first);
    let before = s.read("r/run.toml");
    let words = [&format!("process {} on ", first.id()), "r is being written by", "one writer at a time", "--run-dir"];
    has(&s.fails(2, "train --resume r --set train.seed=5"), &words);
    has(&s.fails(2, &format!("train {SMALL} --run-dir r")), &["already holds a run"]);
    assert_eq!((s.read("r/run.toml"), headers(&s, "r")), (before, 1));
    assert_eq!(s.json("report r --json")[0]["status"], "running");
    let sent = s.program("kill").args(["-INT", &first.id().to_string()]).status().unwrap();
    assert!(sent.success());
    stopped(130, "the first", &first.wait_with_output().unwrap());
    assert_eq!(s.summary("r")["status"], "stopped");
    let end = s.newest("r").step;
    s.ok(&format!("train {SMALL} {ENDLESS} --set train.max_steps={end} --run-dir whole"));
    assert_eq!(s.newest("r"), s.newest("whole"), "the one that was there went on undisturbed");
    s.ok(&format!("train --resume r --set train.max_steps={}", end + 3)); // and now the folder is free
}

#[test]
fn a_killed_run_is_interrupted_until_it_is_resumed() {
    let s = Session::new();
    let mut child = start(&s, &format!("train {SMALL} {ENDLESS} --run-dir r"));
    wait_for_a_checkpoint(&s, "r", &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(s.summary("r")["status"], "running", "it had no time to say anything else");
    let names = |s: &Session| {
        let mut names: Vec<_> = std::fs::read_dir(s.path("r")).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names(&s);
    assert_eq!(s.json("report r --json")[0]["status"], "interrupted");
    let page = s.ok("report r --html page.html");
    has(&page, &["interrupted", "ended without a word at", "--resume r"]);
    has(&s.read("page.html"), &["interrupted", "ended without a word"]);
    assert_eq!(names(&s), before, "reading makes no files");
    s.ok(&format!("train --resume r --set train.max_steps={}", s.newest("r").step + 5));
    assert_eq!(s.json("report r --json")[0]["status"], "done");
    assert_eq!(s.summary("r")["attempt"], 2);
}

#[test]
fn parallel_starts_never_share_a_folder() {
    const STARTS: u64 = 10;
    let s = Session::new();
    // The choice of kernels is made once, so that the starts are as close together as they can be.
    s.ok(&format!("train {SMALL} --quiet --set train.max_steps=1 --run-dir first"));
    let children: Vec<_> = (1..=STARTS)
        .map(|seed| (seed, start(&s, &format!("train {SMALL} --set train.epochs=1 --set train.seed={seed}"))))
        .collect();
    let mut folders = Vec::new();
    for (seed, child) in children {
        let out = done("one of many", &child.wait_with_output().unwrap());
        let folder = out.lines().find_map(|line| line.strip_prefix("run: ")).unwrap().to_string();
        let config: toml::Table = s.read(&format!("{folder}/run.toml")).parse().unwrap();
        assert_eq!(config["config"]["train"]["seed"].as_integer(), Some(seed as i64), "{folder}");
        assert_eq!((s.summary(&folder)["seed"].as_u64(), headers(&s, &folder)), (Some(seed), 1), "{folder}");
        folders.push(folder);
    }
    folders.sort();
    folders.dedup();
    assert_eq!(folders.len() as u64, STARTS);
}

#[test]
fn of_parallel_starts_with_one_name_one_begins() {
    let s = Session::new();
    s.ok(&format!("train {SMALL} --quiet --set train.max_steps=1 --run-dir first"));
    let line =
        |seed: u64| format!("train {SMALL} --quiet --set train.epochs=3 --set train.seed={seed} --run-dir named");
    let children: Vec<_> = (1..=6).map(|seed| (seed, start(&s, &line(seed)))).collect();
    let mut winners = Vec::new();
    for (seed, child) in children {
        let output = child.wait_with_output().unwrap();
        match output.status.code() {
            Some(0) => winners.push(seed),
            code => {
                assert_eq!(code, Some(2));
                has(&String::from_utf8_lossy(&output.stderr), &["named", "--run-dir"]);
            }
        }
    }
    assert_eq!(winners.len(), 1, "{winners:?}");
    assert_eq!(s.summary("named")["seed"].as_u64(), Some(winners[0]));
    assert_eq!((s.summary("named")["status"].clone(), headers(&s, "named")), ("done".into(), 1));
}
