//! `paceline prepare`: the same bytes however it is run, nothing lost however it ends.

use crate::session::Session;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Writes `count` small photos in each of these classes, as JPEG (every fifth as PNG).
pub(crate) fn photos(s: &Session, folder: &str, classes: &[&str], count: usize) {
    let mut encoder = paceline_image::Encoder::new(92, paceline_image::Chroma::Half);
    for (c, class) in classes.iter().enumerate() {
        for i in 0..count {
            let (width, height) = (40 + (i * 7) % 30, 36 + (i * 11) % 40);
            let byte = |x: usize, y: usize, k: usize| ((x * (3 + k) + y * (5 + c) + i * 31 + k * 60) % 256) as u8;
            let data = (0..width * height * 3).map(|n| byte(n / 3 % width, n / 3 / width, n % 3)).collect::<Vec<u8>>();
            let pixels = paceline_image::Pixels { width, height, channels: 3, data };
            if i % 5 == 4 {
                s.write(&format!("{folder}/{class}/{i:03}.png"), paceline_image::encode_png(&pixels).unwrap());
            } else {
                let mut file = Vec::new();
                encoder.encode(&pixels, &mut file).unwrap();
                s.write(&format!("{folder}/{class}/{i:03}.jpg"), file);
            }
        }
    }
}

/// Every file of a folder, by name.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    entries.map(|p| (p.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&p).unwrap_or_default())).collect()
}

const SMALL: &str = "--size 24 --shards 6 --quiet";

#[test]
fn the_same_bytes_for_any_number_of_threads() {
    let s = Session::new();
    photos(&s, "photos", &["daisy", "roses", "tulips"], 30);
    s.ok(&format!("prepare photos one {SMALL} --validation 0.2 --threads 1 --readers 1"));
    s.ok(&format!("prepare photos many {SMALL} --validation 0.2 --threads 5 --readers 3"));
    let one = files(&s.path("one"));
    assert_eq!(one.len(), 7, "six shards and the index, and nothing else: {:?}", one.keys());
    assert!(one == files(&s.path("many")));
    // Another seed is another order; another split another part.
    s.ok(&format!("prepare photos seed {SMALL} --validation 0.2 --seed 2"));
    assert!(one != files(&s.path("seed")));

    let info = s.json("data info one --json");
    assert_eq!(info["records"], 90, "{info}");
    let index: serde_json::Value = serde_json::from_slice(&one["index.json"]).unwrap();
    let per_part = |part: &str| {
        let shards = index["shards"].as_array().unwrap().iter().filter(|x| x["part"] == part);
        shards.map(|x| x["records"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((per_part("train"), per_part("validation")), (72, 18));
    assert_eq!(index["classes"], serde_json::json!(["daisy", "roses", "tulips"]));
    assert_eq!(index["shape"], serde_json::json!([24, 24, 3]));
}

#[test]
fn killed_at_any_moment_it_continues() {
    let s = Session::new();
    photos(&s, "photos", &["a", "b"], 150);
    let line = "prepare photos shards --size 160 --shards 12 --threads 1 --quiet";
    s.ok("prepare photos whole --size 160 --shards 12 --quiet");
    let whole = files(&s.path("whole"));
    let mut kills = 0;
    for round in 0..40 {
        let mut child = s.command(line).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(15 + 20 * round));
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        // What can be seen is whole; of a very early kill that is nothing.
        let seen = if s.path("shards").exists() { files(&s.path("shards")) } else { Default::default() };
        for (name, bytes) in seen {
            if name.ends_with(".tfrec") {
                assert!(whole[&name] == bytes, "{name} is not whole after a kill");
            }
        }
    }
    assert!(kills > 0);
    s.ok(line);
    assert!(files(&s.path("shards")) == whole);
    let again = s.ok("prepare photos shards --size 160 --shards 12");
    assert!(again.contains("nothing to do"), "{again}");
}

#[test]
fn a_damaged_or_missing_shard_is_made_again() {
    let s = Session::new();
    photos(&s, "photos", &["a", "b"], 20);
    s.ok(&format!("prepare photos shards {SMALL}"));
    let before = files(&s.path("shards"));
    let name = "train-00002-of-00006.tfrec";
    let mut bytes = fs::read(s.path(format!("shards/{name}"))).unwrap();
    bytes[40] ^= 1;
    s.write(&format!("shards/{name}"), &bytes);
    fs::remove_file(s.path("shards/train-00004-of-00006.tfrec")).unwrap();
    // The same folder, however it is written.
    let words = s.ok("prepare photos/ shards/ --size 24 --shards 6");
    assert!(words.contains("4 of 6 shards were finished before"), "{words}");
    assert!(before == files(&s.path("shards")));
}

#[test]
fn other_settings_or_other_images_are_not_mixed() {
    let s = Session::new();
    photos(&s, "photos", &["a", "b"], 20);
    s.ok(&format!("prepare photos shards {SMALL}"));
    let before = files(&s.path("shards"));
    let words = s.fails(2, "prepare photos shards --size 32 --shards 6 --quiet");
    assert!(words.contains("width 24 instead of 32"), "{words}");
    photos(&s, "photos", &["c"], 3);
    let words = s.fails(2, &format!("prepare photos shards {SMALL}"));
    assert!(words.contains("changed"), "{words}");
    assert!(before == files(&s.path("shards")), "nothing was touched");
    s.write("full/letter.txt", "mine");
    let words = s.fails(2, &format!("prepare photos full {SMALL}"));
    assert!(words.contains("letter.txt"), "{words}");
    assert_eq!(files(&s.path("full")).len(), 1);
}

#[test]
fn a_class_that_loses_all_its_images_is_told() {
    let s = Session::new();
    photos(&s, "photos", &["a", "b"], 4);
    s.write("photos/gone/empty.jpg", "");
    let words = s.ok("prepare photos shards --size 24 --shards 2 --skip-bad 1");
    assert!(words.contains("gone"), "{words}");
}

#[test]
fn bad_images_are_an_error_or_counted() {
    let s = Session::new();
    photos(&s, "photos", &["a", "b"], 40);
    s.write("photos/a/empty.jpg", "");
    s.write("photos/b/cut.jpg", &fs::read(s.path("photos/b/000.jpg")).unwrap()[..300]);
    s.write("photos/b/text.png", "not an image");
    let words = s.fails(2, &format!("prepare photos shards {SMALL}"));
    assert!(words.contains("--skip-bad") && words.contains("photos/"), "{words}");
    let words = s.fails(2, &format!("prepare photos shards {SMALL} --skip-bad 2"));
    assert!(words.contains("--skip-bad"), "{words}");
    // The same folder, more patience: what was finished is kept.
    let summary = s.json("prepare photos shards --size 24 --shards 6 --skip-bad 3 --json");
    assert_eq!(summary["prepared"]["records"], 80);
    assert_eq!(summary["prepared"]["skipped"], 3);
    let index = s.read("shards/index.json");
    for name in ["empty.jpg", "cut.jpg", "text.png"] {
        assert!(index.contains(name), "{name} is listed");
    }
    // Which are left out does not depend on the threads either.
    s.ok(&format!("prepare photos other {SMALL} --skip-bad 3 --threads 4"));
    assert!(files(&s.path("shards")) == files(&s.path("other")));
}

#[test]
fn wrong_input_is_answered() {
    let s = Session::new();
    photos(&s, "photos", &["a", "b"], 4);
    photos(&s, "one", &["a"], 4);
    fs::create_dir(s.path("empty")).unwrap();
    s.write("file", "");
    for (line, word) in [
        ("prepare nowhere shards", "nowhere"),
        ("prepare empty shards", "empty"),
        ("prepare one shards", "--one-class"),
        ("prepare photos shards --shards 9", "more than there are images (8)"),
        ("prepare photos shards --shards 0", "at least 1"),
        ("prepare photos shards --size 0", "--size"),
        ("prepare photos shards --size 12y5", "--size"),
        ("prepare photos shards --quality 0", "--quality"),
        ("prepare photos shards --fit corp", "did you mean crop?"),
        ("prepare photos shards --validation 1.5", "--validation"),
        ("prepare photos shards --shards 1 --validation 0.5", "--shards of at least 2"),
        ("prepare photos file", "file"),
        ("prepare photos shards --engine spork", "did you mean spark?"),
        ("prepare photos shards --engine spark", "--master"),
        ("prepare photos shards --partitions 4", "--engine spark"),
    ] {
        let words = s.fails(2, line);
        assert!(words.contains(word), "{line}: {words}");
        assert!(!s.path("shards").exists(), "{line} leaves nothing behind");
    }
    s.ok("prepare one single --shards 2 --size 16 --one-class --quiet");
}

#[test]
fn without_spark_it_says_how_to_install_it() {
    let s = Session::new();
    photos(&s, "photos", &["a", "b"], 4);
    let run = s
        .command("prepare photos shards --engine spark --master local[2]")
        .env_remove("SPARK_HOME")
        .env("PATH", "/nonexistent")
        .env("PYSPARK_PYTHON", "/nonexistent/python3")
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(run.status.code(), Some(2), "{words}");
    assert!(words.contains("pip install pyspark"), "{words}");
    assert!(!s.path("shards").exists());
}

#[test]
fn names_that_are_not_utf_8_are_read() {
    use std::os::unix::ffi::OsStrExt;
    let s = Session::new();
    photos(&s, "photos", &["a", "b"], 6);
    let strange = s.path("photos/a").join(std::ffi::OsStr::from_bytes(b"caf\xe9.jpg"));
    fs::copy(s.path("photos/a/001.jpg"), strange).unwrap();
    let summary = s.json("prepare photos shards --size 24 --shards 2 --json");
    assert_eq!(summary["prepared"]["records"], 13);
}

#[test]
fn a_table_of_paths_and_labels_is_a_source() {
    let s = Session::new();
    photos(&s, "photos", &["a", "b"], 6);
    let lines: String = (0..6)
        .filter(|i| i % 5 != 4)
        .map(|i| format!("photos/{}/{i:03}.jpg,{}\n", if i % 2 == 0 { "a" } else { "b" }, ["even", "odd"][i % 2]))
        .collect();
    s.write("labels.csv", format!("path,label\n{lines}"));
    let summary = s.json("prepare labels.csv shards --size 24 --shards 2 --json");
    assert_eq!(summary["prepared"]["records"], 5);
    assert!(s.read("shards/index.json").contains("\"odd\""));
}

#[test]
fn a_full_disk_loses_nothing() {
    let s = Session::new();
    photos(&s, "photos", &["a", "b"], 60);
    // A limit on the size of files stands in for a full disk: the write fails in the middle of the one large shard.
    let line = "prepare photos shards --size 64 --shards 1 --quiet";
    let program = env!("CARGO_BIN_EXE_paceline");
    let run =
        s.program("sh").args(["-c", &format!("trap '' XFSZ; ulimit -f 16; exec {program} {line}")]).output().unwrap();
    let words = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(run.status.code(), Some(1), "{words}");
    assert!(words.contains("run the same command again"), "{words}");
    assert!(files(&s.path("shards")).keys().all(|name| !name.ends_with(".tfrec")));
    s.ok(line);
    s.ok("prepare photos whole --size 64 --shards 1 --quiet");
    assert!(files(&s.path("shards")) == files(&s.path("whole")));
}

#[test]
fn two_at_once_into_one_folder() {
    let s = Session::new();
    photos(&s, "photos", &["a", "b"], 150);
    let line = "prepare photos shards --size 224 --shards 4 --threads 1 --quiet";
    let mut first = s.command(line).spawn().unwrap();
    while !s.path("shards/.prepare/job.json").exists() {
        assert!(first.try_wait().unwrap().is_none(), "it ended too early for this test");
        std::thread::sleep(Duration::from_millis(1));
    }
    // Held still, so that it cannot end before the second has begun.
    let signal =
        |name: &str| assert!(s.program("kill").args([name, &first.id().to_string()]).status().unwrap().success());
    signal("-STOP");
    let second = s.command(line).output().unwrap();
    signal("-CONT");
    assert!(first.wait().unwrap().success());
    let words = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(2), "{words}");
    assert!(words.contains("another `paceline prepare`"), "{words}");
    assert_eq!(files(&s.path("shards")).len(), 5);
}

#[test]
fn raw_packed_grey_and_padded_shards_hold_what_they_say() {
    let s = Session::new();
    photos(&s, "photos", &["a", "b"], 10);
    for (name, flags) in [
        ("raw", "--raw"),
        ("gzip", "--packing gzip"),
        ("zlib", "--packing zlib --raw"),
        ("grey", "--colour grey"),
        ("pad", "--fit pad --size 32x16"),
        ("stretch", "--fit stretch --full-decode --chroma 444"),
    ] {
        s.ok(&format!("prepare photos {name} --size 24 --shards 2 --quiet {flags}")
            .replace("--size 24 ", if flags.contains("--size") { "" } else { "--size 24 " }));
        let info = s.json(&format!("data info {name} --json"));
        assert_eq!(info["records"], 20, "{name}: {info}");
    }
    let index: serde_json::Value = serde_json::from_str(&s.read("pad/index.json")).unwrap();
    assert_eq!(index["shape"], serde_json::json!([16, 32, 3]), "height before width");
}

#[test]
fn a_preparation_is_a_run_that_can_be_compared() {
    let s = Session::new();
    photos(&s, "photos", &["a", "b"], 30);
    let words = s.ok("prepare photos first --size 24 --shards 2");
    for expected in ["images/s", "slowest", "decode", "runs/prepare-1"] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
    s.ok("prepare photos second --size 24 --shards 2 --threads 1 --full-decode");
    let table = s.ok("report runs/prepare-1 runs/prepare-2");
    assert!(table.contains("prepare-1") && table.contains("images/s"), "{table}");
    assert!(s.read("report.html").contains("prepare-2"));
}

#[test]
fn the_example_trains_from_prepared_photos() {
    let s = Session::new();
    photos(&s, "photos", &["a", "b"], 40);
    s.ok("prepare photos shards --size 64 --validation 0.2 --quiet");
    s.write("photos.toml", include_str!("../../../../examples/photos.toml"));
    let summary = s.json("train photos.toml --set train.epochs=2 --set strategy.threads=1 --json");
    assert_eq!(summary["epochs"].as_array().unwrap().len(), 2, "{summary}");
    assert_eq!(summary["status"], "done");
}
