//! What stands for data, and decoded samples that are kept on disk: never another set's, shown and cleared on demand.

use crate::session::{Session, has};
use paceline_data::example::{self, Value};
use paceline_data::tfrecord::{Packing, Writer};
use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

const SIDE: usize = 12;

/// Raw images in two classes: stripes of two widths within a black border, or their inversion. Lengths, labels and the
/// ends of all images are equal.
fn write_raw(s: &Session, folder: &str, inverted: bool) {
    let mut writer = Writer::new(Vec::new(), Packing::Plain);
    for number in 0..60 {
        let inside = |at: usize| (3..SIDE - 3).contains(&at);
        let bright = |column: usize| (column / (1 + number % 2)).is_multiple_of(2) != inverted;
        let pixel = |at: usize| match (at / SIDE, at % SIDE) {
            (row, column) if !inside(row) || !inside(column) => 0,
            (_, column) if bright(column) => 150 + (number + at) as u8 % 100,
            _ => 40,
        };
        let (image, mut bytes): (Vec<u8>, _) = ((0..SIDE * SIDE).map(pixel).collect(), Vec::new());
        let features = [
            ("image", Value::Bytes(&[&image])),
            ("class", Value::Ints(&[(number % 2) as i64])),
            ("shape", Value::Ints(&[SIDE as i64, SIDE as i64, 1])),
        ];
        example::write(&features, &mut bytes);
        writer.write(&bytes).unwrap();
    }
    s.write(&format!("{folder}/part.tfrec"), writer.finish().unwrap());
}

const SETTINGS: &str = "--set model.hidden=[8] --set train.batch=16 --set strategy.threads=1 --set train.epochs=2 --set data.validation=0.2";

fn session() -> Session {
    let s = Session::new();
    write_raw(&s, "a", false);
    write_raw(&s, "b", true);
    s
}

fn train(s: &Session, set: &str, run: &str, more: &str) {
    s.ok(&format!("train {SETTINGS} --set data.name={set} --run-dir {run} {more}"));
}

#[test]
fn a_cache_of_one_set_is_not_trained_on_as_another() {
    let s = session();
    train(&s, "a", "a-plain", "");
    train(&s, "b", "b-plain", "");
    train(&s, "a", "a-disk", "--cache disk");
    train(&s, "b", "b-disk", "--cache disk");
    assert_eq!(s.newest("a-disk"), s.newest("a-plain"));
    assert_eq!(s.newest("b-disk"), s.newest("b-plain"));
    assert_ne!(s.newest("a-plain"), s.newest("b-plain"));
    // The same identity guards a resume; a copy elsewhere is the same set.
    let error = s.fails(2, "train --resume a-plain --set data.name=b --set train.epochs=3");
    has(&error, &["differs in the training samples"]);
    fs::create_dir(s.path("copy")).unwrap();
    fs::copy(s.path("a/part.tfrec"), s.path("copy/part.tfrec")).unwrap();
    s.ok("train --resume a-plain --set data.name=copy --set train.epochs=3");
}

#[test]
fn a_checkpoint_of_an_older_version_is_named_as_such() {
    let s = session();
    train(&s, "a", "r", "");
    let step = *s.checkpoints("r").last().unwrap();
    let file = format!("r/checkpoints/step-{step}/manifest.toml");
    let manifest = s.read(&file);
    let line = manifest.lines().find(|line| line.starts_with("data = \"2-")).unwrap_or_else(|| panic!("{manifest}"));
    s.write(&file, manifest.replace(line, "data = \"0123456789abcdef\""));
    let error = s.fails(2, "train --resume r --set train.epochs=3");
    has(&error, &["cannot resume r", "an older version of paceline", "begin a new run"]);
}

#[test]
fn it_is_shown_and_cleared() {
    let s = session();
    has(&s.ok("data cache"), &["no decoded samples in", "cache/decoded"]);
    train(&s, "a", "a-run", "--cache disk");
    train(&s, "b", "b-run", "--cache disk");
    let text = s.ok("data cache");
    let place = |set: &str| format!("{} (training)", fs::canonicalize(s.path("")).unwrap().join(set).display());
    has(&text, &["2 caches", "60 samples", "not in use", "last used just now", &place("a"), &place("b")]);
    let shown = s.json("data cache --json");
    assert_eq!(shown["caches"].as_array().unwrap().len(), 2);
    let first = &shown["caches"][0];
    assert_eq!((first["samples"].as_u64(), first["sample_bytes"].as_u64()), (Some(60), Some(144)));
    assert_eq!((first["state"].as_str(), first["in_use"].as_bool()), (Some("whole"), Some(false)));
    assert!(shown["bytes"].as_u64().unwrap() >= 2 * 60 * 144, "{shown}");
    // Names, ages, and what is wrong with them.
    has(&s.fails(2, "data cache --clear zebra"), &["begins with `zebra`"]);
    assert_eq!(s.command("data cache --older-than 3d").output().unwrap().status.code(), Some(2), "without --clear");
    assert_eq!(s.command("data cache --clear --older-than soon").output().unwrap().status.code(), Some(2));
    has(&s.ok("data cache --clear --older-than 1d"), &["nothing was removed"]);
    let name = fs::read_dir(s.path("cache/decoded")).unwrap().next().unwrap().unwrap().file_name();
    has(&s.ok(&format!("data cache --clear {}", name.to_str().unwrap())), &["1 removed", "freed"]);
    let cleared = s.json("data cache --clear --json");
    assert_eq!((cleared["bytes"].as_u64(), cleared["caches"][0]["kept"].is_null()), (Some(0), true), "{cleared}");
    assert_eq!(fs::read_dir(s.path("cache/decoded")).unwrap().count(), 0);
    // Who comes next decodes again.
    train(&s, "a", "again", "--cache disk");
    assert_eq!(s.newest("again"), s.newest("a-run"));
}

/// A run that goes on until it is killed.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_a_running_process_uses_is_not_cleared() {
    let s = session();
    let line = format!("train {SETTINGS} --set data.name=a --cache disk --set train.epochs=100000000 --run-dir r");
    let child = s.command(&line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut running = Running(child);
    // Until all samples were read and the file has its name.
    while s.json("data cache --json")["caches"][0]["state"] != "whole" {
        assert!(running.0.try_wait().unwrap().is_none(), "the run ended early");
        std::thread::sleep(Duration::from_millis(20));
    }
    has(&s.ok("data cache"), &["in use"]);
    has(&s.ok("data cache --clear --force"), &["a running process reads it", "nothing was removed"]);
    has(&s.fails(2, "data cache --clear 2-"), &["is not removed: a running process reads it"]);
    drop(running);
    has(&s.ok("data cache --clear 2-"), &["1 removed"]);
}
