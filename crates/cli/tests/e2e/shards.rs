//! Training from record shards and image folders: decoded ahead, augmented, cached; the same bits however it is done.

use crate::session::{Newest, Session, has};
use paceline_data::example::{self, Value};
use paceline_data::tfrecord::{Packing, Writer};
use paceline_image::{Chroma, Encoder, Pixels};
use std::process::Stdio;

/// 12 × 10 pixels in three classes of different colour, with noise that depends on the number.
fn picture(number: usize) -> Pixels {
    let (width, height) = (12, 10);
    let mut data = Vec::new();
    for at in 0..width * height {
        for channel in 0..3 {
            let base = if number % 3 == channel { 180 } else { 60 };
            data.push((base + (number * 31 + at * 7 + channel * 3) % 50) as u8);
        }
    }
    Pixels { width, height, channels: 3, data }
}

fn jpeg(pixels: &Pixels) -> Vec<u8> {
    let mut bytes = Vec::new();
    Encoder::new(90, Chroma::Full).encode(pixels, &mut bytes).unwrap();
    bytes
}

/// Three shards of 40 records; `spoil` may change the bytes of an image.
pub(crate) fn write_shards(s: &Session, folder: &str, spoil: impl Fn(usize, &mut Vec<u8>)) {
    for shard in 0..3 {
        let mut writer = Writer::new(Vec::new(), Packing::Plain);
        for record in 0..40 {
            let number = shard * 40 + record;
            let mut image = jpeg(&picture(number));
            spoil(number, &mut image);
            let mut bytes = Vec::new();
            let features = [
                ("image", Value::Bytes(&[&image])),
                ("class", Value::Ints(&[(number % 3) as i64])),
                ("label", Value::Bytes(&[["red", "green", "blue"][number % 3].as_bytes()])),
            ];
            example::write(&features, &mut bytes);
            writer.write(&bytes).unwrap();
        }
        s.write(&format!("{folder}/part-{shard}.tfrec"), writer.finish().unwrap());
    }
}

/// 108 training and 12 validation samples: seven steps of 16 an epoch, the last one partial.
const SETTINGS: &str = "--set data.name=shards --set model.hidden=[8] --set train.batch=16 --set strategy.threads=1 \
                        --set train.epochs=3";
const AUGMENT: &str = "--set augment.flip=true --set augment.crop=0.5 --set augment.brightness=0.3 \
                       --set augment.contrast=0.3 --set augment.saturation=0.3 --set augment.hue=0.1";

fn session() -> Session {
    let s = Session::new();
    write_shards(&s, "shards", |_, _| ());
    s
}

fn newest_of(s: &Session, run: &str, more: &str) -> Newest {
    s.ok(&format!("train {SETTINGS} {AUGMENT} {more} --run-dir {run}"));
    s.newest(run)
}

/// Items of a stage of a run's input.
fn items(s: &Session, run: &str, stage: &str) -> u64 {
    let summary = s.summary(run);
    let stages = summary["stages"].as_array().unwrap();
    stages.iter().find(|found| found["name"] == stage).map_or(0, |found| found["items"].as_u64().unwrap())
}

#[test]
fn it_learns_and_says_how_input_was_made() {
    let s = session();
    let text = s.ok(&format!("train {SETTINGS} --set train.epochs=12 --run-dir r"));
    has(&text, &["108 training and 12 validation samples"]);
    let summary = s.summary("r");
    assert!(summary["best_val_accuracy"].as_f64().unwrap() > 0.9, "{summary}");
    assert_eq!(summary["input"]["stored"], "records");
    assert_eq!(summary["input"]["shape"].as_array().unwrap().len(), 3);
    assert!(items(&s, "r", "decode") >= 12 * 108);
    assert!(summary["reasons"].to_string().contains("ahead into"), "{summary}");
    has(&s.ok("report r"), &["r"]);
    has(&s.ok(&format!("train {SETTINGS} --summary")), &["360"]);
}

#[test]
fn neither_input_threads_nor_prefetch_nor_caches_change_bits() {
    let s = session();
    let expected = newest_of(&s, "one", "--set data.threads=1");
    assert_eq!(newest_of(&s, "three", "--set data.threads=3 --set data.prefetch=1"), expected);
    assert_eq!(newest_of(&s, "memory", "--cache memory"), expected);
    assert_eq!(newest_of(&s, "disk", "--cache disk"), expected);
    // After the first epoch nothing is decoded: the validation part is decoded by its own feed.
    assert!(items(&s, "one", "decode") >= 3 * 108);
    for run in ["memory", "disk"] {
        assert_eq!(items(&s, run, "decode"), 108, "{run}");
    }
    // A later run finds the file.
    assert_eq!(newest_of(&s, "again", "--cache disk"), expected);
    assert_eq!(items(&s, "again", "decode"), 0);
    assert_ne!(newest_of(&s, "seed", "--set train.seed=2"), expected);
}

#[test]
fn resumed_in_mid_epoch_it_is_the_same() {
    let s = session();
    let whole = newest_of(&s, "whole", "");
    for (run, more) in [("parts", ""), ("cached", "--cache memory"), ("mirrored", "--strategy mirrored --replicas 2")] {
        let expected = if run == "mirrored" { newest_of(&s, "whole-mirrored", more) } else { newest_of(&s, run, more) };
        if run != "mirrored" {
            assert_eq!(expected, whole);
        }
        let run = format!("{run}-stopped");
        s.ok(&format!("train {SETTINGS} {AUGMENT} {more} --run-dir {run} --set train.max_steps=4"));
        s.ok(&format!("train --resume {run} --set train.max_steps=11"));
        s.ok(&format!("train --resume {run} --set train.max_steps=0"));
        assert_eq!(s.newest(&run), expected, "{run}");
    }
}

#[test]
fn replicas_give_the_same_mathematics() {
    let s = session();
    newest_of(&s, "one", "");
    for (run, replicas) in [("two", 2), ("three", 3)] {
        newest_of(&s, run, &format!("--strategy mirrored --replicas {replicas}"));
        s.model("one").near(&s.model(run), 1e-4, run);
    }
    // A layout is chosen by trial on decoded samples.
    let auto =
        format!("train {SETTINGS} --strategy mirrored --replicas auto --set strategy.threads=auto --run-dir auto");
    s.ok(&auto);
    let reasons = s.summary("auto")["reasons"].to_string();
    has(&reasons, &["short trial", "decoding counted in"]);
}

#[test]
fn the_order_goes_over_all_shards() {
    let s = session();
    let name = s.path("shards").display().to_string();
    let set = paceline_data::Catalogue::with_cache("/nowhere").open(&name, &Default::default()).unwrap();
    let paceline_data::DataPart::Stream(source) = &set.train else { panic!("records are not in memory") };
    let order = paceline_data::Order::new(source.len(), 1);
    for epoch in 0..5 {
        let places: Vec<String> = (0..16).map(|position| source.place(order.at(epoch, position))).collect();
        for shard in 0..3 {
            let file = format!("part-{shard}.tfrec");
            assert!(
                places.iter().any(|place| place.contains(&file)),
                "epoch {epoch}: no record of {file} in {places:?}"
            );
        }
    }
}

#[test]
fn a_bad_image_ends_training_or_is_left_out() {
    let s = Session::new();
    write_shards(&s, "shards", |number, image| {
        if number == 57 || number == 90 {
            image.truncate(100)
        }
    });
    let error = s.fails(2, &format!("train {SETTINGS} --run-dir r"));
    has(&error, &["shards/part-", "record 1", "data.skip_bad"]);
    let error = s.fails(2, &format!("train {SETTINGS} --run-dir r1 --set data.skip_bad=1"));
    has(&error, &["more than data.skip_bad = 1 bad samples"]);
    let text = s.ok(&format!("train {SETTINGS} --run-dir r2 --set data.skip_bad=2"));
    has(&text, &["left out: ", "part-1.tfrec record 17", "part-2.tfrec record 10"]);
    let expected = s.newest("r2");
    s.ok(&format!("train {SETTINGS} --run-dir r3 --set data.skip_bad=9 --cache memory --set data.threads=3"));
    assert_eq!(s.newest("r3"), expected);
}

#[test]
fn folders_tables_and_sizes() {
    let s = Session::new();
    let mut table = String::new();
    for number in 0..60 {
        let class = ["red", "green", "blue"][number % 3];
        let name = format!("photos/{class}/{number}.jpg");
        s.write(&name, jpeg(&picture(number)));
        table += &format!("{name},{class}\n");
    }
    s.write("photos.csv", table);
    let settings = SETTINGS.replace("data.name=shards", "data.name=photos");
    s.ok(&format!("train {settings} --run-dir folder"));
    s.ok(&format!("train {} --run-dir table", SETTINGS.replace("data.name=shards", "data.name=photos.csv")));
    assert_eq!(s.newest("folder"), s.newest("table"));
    // Another size, and one photo that differs.
    s.write("photos/red/wide.jpg", jpeg(&Pixels { width: 20, height: 6, channels: 3, data: vec![99; 360] }));
    has(&s.fails(2, &format!("train {settings} --run-dir mixed")), &["wide.jpg", "20×6", "12×10", "data.size"]);
    for fit in ["crop", "pad", "stretch"] {
        let sized = format!("train {settings} --run-dir {fit} --set data.size=8x6 --set data.fit={fit}");
        s.ok(&sized);
        assert_eq!(s.summary(fit)["input"]["shape"].to_string(), "[6,8,3]");
    }
}

#[test]
fn samples_in_memory_are_augmented_too() {
    let s = Session::new();
    let settings = "--set data.name=fake:8x8x3:3:200 --set model.hidden=[8] --set train.batch=16 \
                    --set strategy.threads=1 --set train.epochs=2";
    s.ok(&format!("train {settings} --run-dir plain"));
    s.ok(&format!("train {settings} {AUGMENT} --run-dir a --set data.threads=1"));
    s.ok(&format!("train {settings} {AUGMENT} --run-dir b --set data.threads=2"));
    assert_eq!(s.newest("a"), s.newest("b"));
    assert_ne!(s.newest("a"), s.newest("plain"));
}

#[test]
fn settings_that_do_nothing_are_refused() {
    let s = session();
    let check = |line: &str, words: &[&str]| has(&s.fails(2, &format!("train --run-dir r {line}")), words);
    check("--cache disk", &["data.cache is given", "in memory already"]);
    check("--set data.size=8", &["data.size is given", "in memory already"]);
    check("--set data.threads=2", &["data.threads is given"]);
    check("--set data.fit=pad", &["no data.size to fit images to"]);
    check("--set data.cache_limit=1", &["data.cache_limit is given"]);
    check("--set augment.crop=0.5 --set augment.pad=2", &["augment.crop and augment.pad"]);
    check("--set data.name=fake:4:3:60 --set augment.flip=true", &["augment:", "no images"]);
    check("--set data.name=shards --cache dsik", &["data.cache", "did you mean disk"]);
    let tight = "--set data.name=shards --cache memory --set data.cache_limit=0.00001";
    check(tight, &["data.cache=memory would take 42.2 KiB", "data.cache=disk"]);
    check("--set data.name=shards --set data.size=0", &["data.size"]);
}

#[test]
fn killed_while_it_fills_a_cache() {
    let s = session();
    let expected = newest_of(&s, "expected", "");
    for _ in 0..3 {
        let run = s.path("cache-runs");
        let _ = std::fs::remove_dir_all(&run);
        let line = format!("train {SETTINGS} {AUGMENT} --cache disk --set train.epochs=500 --run-dir cache-runs/r");
        let mut child = s.command(&line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let folder = s.path("cache/decoded");
        // As soon as there is a file, whatever is in it.
        while !std::fs::read_dir(&folder).is_ok_and(|mut d| d.next().is_some()) {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it cached anything");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(newest_of(&s, "cache-runs/after", "--cache disk"), expected);
        let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
        assert!(files.iter().all(|f| f.extension().is_some_and(|e| e == "decoded")), "{files:?}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
