//! Sets that are already split: what is trained, validated and tested on is what the user put there.

use crate::prepare::photos;
use crate::session::{Session, has};
use serde_json::json;
use std::process::Command;

const TRAIN: &str = "--set data.size=8 --set model.hidden=[8] --set train.batch=16 --set strategy.threads=1 \
                     --set train.epochs=1";

fn split(s: &Session) {
    photos(s, "photos/train", &["daisy", "roses"], 20);
    photos(s, "photos/val", &["daisy", "roses"], 5);
    photos(s, "photos/test", &["daisy", "roses"], 3);
}

#[test]
fn folders_train_val_and_test_are_used_as_such() {
    let s = Session::new();
    split(&s);
    let text = s.ok(&format!("train {TRAIN} --set data.name=photos --run-dir direct"));
    has(&text, &["40 training and 10 validation samples", "40 train, 10 validation, 6 test"]);
    assert!(!s.summary("direct")["test_accuracy"].is_null(), "{}", s.summary("direct"));

    // The parts go into shards, and come out of them.
    has(&s.ok("prepare photos shards --size 8 --shards 6"), &["40 train, 10 validation, 6 test"]);
    let info = s.json("data info shards --json");
    let parts =
        json!([{"name": "train", "count": 40}, {"name": "validation", "count": 10}, {"name": "test", "count": 6}]);
    assert_eq!(info["index"]["parts"], parts);
    assert_eq!(info["classes"], json!([{"name": "daisy", "count": 28}, {"name": "roses", "count": 28}]));
    has(&s.ok(&format!("train {TRAIN} --set data.name=shards")), &["40 training and 10 validation samples"]);
    // By their names as well, without the index.
    std::fs::remove_file(s.path("shards/index.json")).unwrap();
    has(&s.ok(&format!("train {TRAIN} --set data.name=shards")), &["40 training and 10 validation samples"]);
    has(&s.ok("data info shards"), &["by the names of the files: train 40, validation 10, test 6"]);
    has(&s.ok("data info photos"), &["train: 40 images", "validation: 10 images", "test: 6 images"]);

    let error = s.fails(2, "prepare photos again --size 8 --shards 6 --validation 0.2");
    has(&error, &["validation part of their own", "leave --validation out"]);
    s.write("photos/cats/1.jpg", "x");
    has(&s.fails(2, &format!("train {TRAIN} --set data.name=photos")), &["beside cats", "rename"]);
}

#[test]
fn a_csv_keeps_its_split() {
    let s = Session::new();
    photos(&s, "all", &["daisy", "roses"], 20);
    let mut table = "path,label,split\n".to_string();
    for class in ["daisy", "roses"] {
        for number in 0..20 {
            let name = if number % 5 == 4 { "png" } else { "jpg" };
            let split = if number < 15 { "train" } else { "val" };
            table += &format!("all/{class}/{number:03}.{name},{class},{split}\n");
        }
    }
    s.write("set.csv", table.as_bytes());
    has(&s.ok(&format!("train {TRAIN} --set data.name=set.csv")), &["30 training and 10 validation samples"]);
    s.ok("prepare set.csv shards --size 8 --shards 4 --quiet");
    assert_eq!(s.json("data info shards --json")["index"]["parts"][1], json!({"name": "validation", "count": 10}));
    s.write("set.csv", table.replace(",val", ",later"));
    has(&s.fails(2, &format!("train {TRAIN} --set data.name=set.csv")), &["set.csv:17", "`later`"]);
}

#[test]
fn a_path_to_validate_on() {
    let s = Session::new();
    photos(&s, "photos", &["daisy", "roses"], 20);
    photos(&s, "held", &["roses"], 7);
    let train = |more: &str| format!("train {TRAIN} --set data.name=photos {more}");
    has(&s.ok(&train("--set data.validation=./held --run-dir r")), &["40 training and 7 validation samples"]);
    has(&s.read("r/run.toml"), &["validation = \"./held\""]);
    s.ok("prepare held held-shards --size 8 --shards 2 --one-class --quiet");
    has(&s.ok(&train("--set data.validation=./held-shards")), &["40 training and 7 validation samples"]);
    has(&s.fails(2, &train("--set data.validation=./photos")), &["data.validation", "the training set itself"]);
    has(&s.fails(2, &train("--set data.validation=./nowhere")), &["data.validation", "no such folder"]);
    photos(&s, "other", &["tulips"], 2);
    has(&s.fails(2, &train("--set data.validation=./other")), &["class `tulips`"]);
    has(&s.fails(2, &train("--set data.validation=held")), &["data.validation", "is not understood"]);
}

#[test]
fn what_is_left_out_is_said_and_nothing_is_waited_for() {
    let s = Session::new();
    photos(&s, "photos", &["daisy", "roses"], 10);
    s.write("photos/daisy/list.txt", "x");
    s.write("photos/daisy/scan.tiff", "x");
    let made = Command::new("mkfifo").arg(s.path("photos/roses/pipe.jpg")).status().unwrap();
    assert!(made.success(), "mkfifo must be there");
    let words = "1 .tiff (daisy/scan.tiff), 1 .txt (daisy/list.txt), 1 a pipe (FIFO) (roses/pipe.jpg)";
    has(&s.ok("prepare photos shards --size 8 --shards 2"), &[words]);
    has(&s.ok(&format!("train {TRAIN} --set data.name=photos")), &[words]);
    has(&s.ok("data info photos"), &[words]);
    s.write("set.csv", "photos/daisy/000.jpg,a\nphotos/roses/pipe.jpg,b\n");
    has(&s.fails(2, "prepare set.csv other"), &["set.csv:2", "a pipe (FIFO), not a regular file"]);
    s.write("photos/tulips/1.tiff", "x");
    for command in ["prepare photos other", "data info photos", &format!("train {TRAIN} --set data.name=photos")] {
        has(&s.fails(2, command), &["photos/tulips: a class folder without an image", "1 .tiff (tulips/1.tiff)"]);
    }
}
