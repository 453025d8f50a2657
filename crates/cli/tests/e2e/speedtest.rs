//! `paceline speedtest`: files against records, in a run directory from which everything can be drawn again.

use crate::prepare::photos;
use crate::session::{Session, done, has};
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;

/// Few and small: a study of a second.
const TINY: &str = "--batch 2,4 --batches 2,3 --repetitions 2 --size 24 --threads 2 --partitions 4";

/// Photos, and shards of them.
fn data(s: &Session) {
    photos(s, "photos", &["ant", "bee"], 8);
    s.ok("prepare photos shards --size 24 --shards 4 --quiet");
}

fn measurements(s: &Session, run: &str) -> Vec<Value> {
    let text = s.read(&format!("{run}/measurements.jsonl"));
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines[0]["kind"].as_str(), lines[0]["format"].as_u64()), (Some("measurements"), Some(1)));
    lines[1..].to_vec()
}

#[test]
fn a_study_of_files_and_records() {
    let s = Session::new();
    data(&s);
    let text = s.ok(&format!("speedtest photos/ shards/ {TINY} --cache-state warm --run-dir study"));
    has(
        &text,
        &[
            "mean images/s by batch size",
            "fits of images/s",
            "against neither",
            "in words",
            "noise",
            "plots: study/speedtest.html",
        ],
    );
    let all = measurements(&s, "study");
    // Two values of each parameter are few enough for all conditions to be measured over the whole grid.
    assert_eq!(all.len(), 2 * 4 * (2 * 2 * 2));
    for m in &all {
        let size = m["batch"].as_u64().unwrap() * m["batches"].as_u64().unwrap();
        assert_eq!(m["images"].as_u64(), Some(size), "{m}");
        assert!(m["seconds"].as_f64().unwrap() > 0.0 && m["engine"] == "local");
        let caching = m["caching"].as_bool().unwrap();
        assert!(caching || (m["from_cache"] == 0 && m["bytes"].as_u64().unwrap() > 0), "{m}");
    }
    // What caching kept is used again.
    let last = all.iter().rfind(|m| m["caching"] == true && m["batch"] == 2 && m["batches"] == 2).unwrap();
    assert_eq!(last["from_cache"], last["images"], "{last}");
    // The order mixes the parameters.
    let sources: Vec<&str> = all.iter().map(|m| m["source"].as_str().unwrap()).collect();
    assert!(sources[..16].contains(&"photos") && sources[..16].contains(&"shards"), "{sources:?}");
    let csv = s.read("study/speedtest.csv");
    assert_eq!(csv.lines().count(), all.len() + 1);
    assert_eq!(s.summary("study")["work"], "speedtest");
    assert_eq!(s.summary("study")["status"], "done");
    has(&s.read("study/run.toml"), &["format = 1", "work = \"speedtest\"", "[machine]", "repetitions = 2"]);
}

#[test]
fn a_study_is_drawn_again_elsewhere_and_compared() {
    let s = Session::new();
    data(&s);
    for run in ["a", "b"] {
        s.ok(&format!(
            "speedtest photos shards {TINY} --cache-state warm --variants partitioning --run-dir {run} --quiet"
        ));
    }
    let page = s.read("a/speedtest.html");
    // Another machine: neither the data nor the old folder is there.
    std::fs::create_dir(s.path("elsewhere")).unwrap();
    for run in ["a", "b"] {
        std::fs::rename(s.path(run), s.path(format!("elsewhere/{run}"))).unwrap();
    }
    std::fs::remove_dir_all(s.path("photos")).unwrap();
    std::fs::remove_dir_all(s.path("shards")).unwrap();
    let text = s.ok("report elsewhere/a --html again.html");
    has(&text, &["mean images/s by batch size", "report: again.html"]);
    let again = s.read("again.html");
    let plots = |page: &str| page.matches("<figure").map(|_| ()).count();
    assert_eq!((plots(&page), plots(&again)), (5, 5));
    assert_eq!(again.replace("elsewhere/a", "a"), page, "the same page but for the folder");
    has(&s.ok("report elsewhere --html both.html"), &["photos, local, a", "photos, local, b"]);
    assert!(s.read("both.html").contains("2 speed studies compared"));
    let json = s.json("report elsewhere/a --json");
    assert_eq!(json["series"].as_array().unwrap().len(), 2);
    assert!(json["series"][0]["effects"][0]["linear"]["slope"].is_number());
}

#[test]
fn cold_is_measured_or_its_absence_is_said() {
    let s = Session::new();
    data(&s);
    let text = s.ok(&format!("speedtest photos {TINY} --variants neither --run-dir study"));
    let cold: Vec<Value> = measurements(&s, "study").into_iter().filter(|m| m["page_cache"] == "cold").collect();
    if cold.is_empty() {
        has(&text, &["photos is not measured cold"]);
    } else {
        let said = |m: &Value| m["resident"].as_f64().unwrap() < 0.05 || m["not_cold"].is_string();
        assert!(cold.iter().all(said), "{cold:?}");
        has(&text, &["cold reading of photos"]);
    }
}

#[test]
fn cells_are_measured_by_another_process() {
    let s = Session::new();
    data(&s);
    s.ok(&format!("speedtest photos shards {TINY} --cache-state warm --run-dir study --quiet"));
    let cells: String = measurements(&s, "study").iter().take(5).map(|m| format!("{m}\n")).collect();
    let mut child = s
        .command("speedtest-cells --engine spark")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(cells.as_bytes()).unwrap();
    let text = done("speedtest-cells", &child.wait_with_output().unwrap());
    let out: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(out.len(), 5);
    assert!(out.iter().all(|m| m["engine"] == "spark" && m["images"].as_u64().unwrap() > 0));
    s.write("cells.jsonl", "{\"id\": 1}\n");
    has(&s.fails(2, "speedtest-cells --cells cells.jsonl"), &["line 1", "no cell"]);
}

#[test]
fn bad_images_end_the_study_or_are_left_out_and_said() {
    let s = Session::new();
    data(&s);
    s.write("photos/ant/zzz.jpg", b"not an image");
    let line = format!("speedtest photos {TINY} --batch 8 --cache-state warm --variants neither");
    has(&s.fails(2, &format!("{line} --run-dir one")), &["zzz.jpg", "--skip-bad"]);
    // What was measured before it is kept, and says why the study ended.
    assert!(s.read("one/summary.json").contains("zzz.jpg"));
    has(&s.ok(&format!("{line} --skip-bad 1 --run-dir two")), &["1 bad image left out", "zzz.jpg"]);
    assert!(
        measurements(&s, "two")
            .iter()
            .all(|m| m["images"] == m["batch"].as_u64().unwrap() * m["batches"].as_u64().unwrap())
    );
}

#[test]
fn wrong_input_is_answered() {
    let s = Session::new();
    data(&s);
    s.write("empty/readme.txt", "no images here");
    s.write("notes.txt", "no images here");
    let cases = [
        ("speedtest phtos", &["phtos", "did you mean photos?"][..]),
        ("speedtest empty", &["empty"]),
        ("speedtest notes.txt", &["notes.txt", "neither a folder"]),
        ("speedtest photos photos/", &["given twice"]),
        ("speedtest photos --batch 0", &["--batch", "from 1"]),
        ("speedtest photos --repetitions 0", &["--repetitions 0", "at least 1"]),
        ("speedtest photos --cache-state warm,cool", &["--cache-state cool", "cold"]),
        ("speedtest photos --variants cacheing", &["did you mean caching?"]),
        ("speedtest photos --partitions 1", &["--partitions 1"]),
        ("speedtest photos --partitions many", &["--partitions many", "auto"]),
        ("speedtest photos --decode maybe", &["--decode maybe"]),
        ("speedtest photos --time-limit soon", &["--time-limit soon"]),
        (
            "speedtest photos --batch 1000 --batches 1000 --cache-state warm --variants caching",
            &["nothing to measure", "left out"],
        ),
    ];
    for (line, words) in cases {
        has(&s.fails(2, line), words);
    }
    assert!(!s.path("runs/speedtest-1").exists(), "wrong input leaves nothing behind");
    let text =
        s.ok("speedtest photos --batch 16 --batches 3 --repetitions 1 --size 24 --cache-state warm --run-dir few");
    has(&text, &["has 16 images", "read again from the first", "left out"]);
}

#[test]
fn a_time_limit_keeps_what_was_measured() {
    let s = Session::new();
    data(&s);
    let text = s
        .ok("speedtest photos --batch 2,4 --batches 2,3 --repetitions 2000 --size 24 --time-limit 0.3 --run-dir study");
    // How many there are is the machine's business; that they are those in the file is ours.
    has(&text, &["time limit of 0.3 s", "a fair part"]);
    assert_eq!(s.summary("study")["status"], "stopped");
    has(&text, &[&format!("after {} of ", measurements(&s, "study").len())]);
}
