//! `paceline predict` and `paceline evaluate`: what a trained model says of any data, and how good it is.

use crate::prepare::photos;
use crate::session::{SMALL, Session, done, flat, has};
use serde_json::{Value, json};
use std::fs;

/// A model of photos of 8×8 on one rank and one thread.
const PHOTOS: &str = "--set data.size=8 --set model.hidden=[8] --set train.batch=16 --set strategy.threads=1 \
                      --set train.epochs=2";

/// A process that does not outlive its test.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines of a jsonl.
fn records(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// Runs a line that must end with this exit code; gives what it printed and what it warned of.
fn run(s: &Session, code: i32, line: &str) -> (String, String) {
    let output = s.command(line).output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(code), "paceline {line}\n{out}{err}");
    assert!(!err.contains("panicked"), "{err}");
    (out, err)
}

#[test]
fn evaluate_gives_the_bits_of_training() {
    let s = Session::new();
    s.ok("train --set model.hidden=[16] --set train.epochs=2 --strategy single --threads 1 --run-dir r --quiet");
    let summary = s.summary("r");
    let test = s.json("evaluate r fashion-sample --json");
    assert_eq!((&test["loss"], &test["accuracy"]), (&summary["test_loss"], &summary["test_accuracy"]), "{test}");
    assert_eq!((&test["part"], &test["samples"]), (&json!("test"), &json!(2000)));
    // Without data it is the run's own; its validation part is what it held out.
    let held = s.json("evaluate r --part validation --json --threads 3");
    let best = summary["best_epoch"].as_u64().expect("a best epoch");
    let epochs = summary["epochs"].as_array().unwrap();
    let best = epochs.iter().find(|e| e["epoch"] == best).unwrap();
    assert_eq!((&held["loss"], &held["accuracy"]), (&best["val_loss"], &best["val_accuracy"]), "{held}");
    assert_eq!(held["samples"], 800);
    // The figures hang together, and predict says the same of each image.
    let classes = test["classes"].as_array().unwrap();
    assert_eq!(classes.iter().map(|c| c["support"].as_u64().unwrap()).sum::<u64>(), 2000);
    let right: u64 = (0..10).map(|i| test["confusion"][i][i].as_u64().unwrap()).sum();
    assert_eq!(right as f64 / 2000.0, test["accuracy"].as_f64().unwrap());
    let all = records(&s.ok("predict r fashion-sample --part test --format jsonl --quiet"));
    assert_eq!(all.len(), 2000);
    assert_eq!(all.iter().filter(|r| r["class"] == r["label"]).count() as u64, right);
    assert_eq!(all[17]["input"], "fashion-sample/test:17");
    // For people.
    let (text, words) = run(&s, 0, "evaluate r");
    has(&text, &["2000 samples of fashion-sample, test part (another: --part)", "Ankle boot", "mean of classes"]);
    has(&words, &["mlp of r, trained for"]);
    let table = s.ok("predict r fashion-sample --part test --top 3");
    assert_eq!(table.lines().count(), 2 + 3 * 2000, "a head, a rule and three lines for each");
}

#[test]
fn photos_shards_tables_and_bad_files_keep_their_order() {
    let s = Session::new();
    photos(&s, "photos", &["daisy", "roses", "tulips"], 20);
    s.ok(&format!("train {PHOTOS} --set data.name=photos --run-dir r --quiet"));
    let summary = s.summary("r");
    let held = s.json("evaluate r photos --json");
    let best = summary["epochs"].as_array().unwrap().iter().find(|e| e["epoch"] == summary["best_epoch"]).unwrap();
    assert_eq!((&held["part"], &held["samples"]), (&json!("validation"), &json!(6)));
    assert_eq!((&held["loss"], &held["accuracy"]), (&best["val_loss"], &best["val_accuracy"]), "{held}");

    // A folder of class folders, a folder of photos, single files: the same predictions for the same photos.
    let all = records(&s.ok("predict r photos --format jsonl --quiet"));
    assert_eq!(all.len(), 60);
    let names: Vec<&str> = all.iter().map(|r| r["input"].as_str().unwrap()).collect();
    assert!(names.is_sorted(), "{names:?}");
    assert_eq!((&all[0]["input"], &all[0]["label"]), (&json!("photos/daisy/000.jpg"), &json!("daisy")));
    let daisies = records(&s.ok("predict r photos/daisy --format jsonl --quiet"));
    assert_eq!(daisies.len(), 20);
    for (one, same) in daisies.iter().zip(&all) {
        assert_eq!((&one["input"], &one["class"]), (&same["input"], &same["class"]));
        assert!(one["label"].is_null(), "images directly in a folder have no class: {one}");
    }

    // Bad files keep their place, all others are predicted, and the exit code says it.
    s.write("bad/notes.txt", "not an image");
    let mut cut = fs::read(s.path("photos/roses/000.jpg")).unwrap();
    cut.truncate(cut.len() / 4);
    s.write("bad/cut.png", &cut[..20]);
    let line = "predict r photos/roses/001.jpg bad/notes.txt photos/roses/002.jpg bad/cut.png bad/gone.jpg";
    let (out, err) = run(&s, 1, &format!("{line} --format jsonl"));
    let list = records(&out);
    let inputs: Vec<&str> = list.iter().map(|r| r["input"].as_str().unwrap()).collect();
    assert_eq!(inputs, line.split(' ').skip(2).collect::<Vec<_>>());
    let bad: Vec<bool> = list.iter().map(|r| r["error"].is_string()).collect();
    assert_eq!(bad, [false, true, false, true, true]);
    assert!(list.iter().all(|r| r["error"].is_string() != r["class"].is_string()), "{list:?}");
    has(&err, &["bad: bad/notes.txt", "bad/gone.jpg", "3 of 5 inputs could not be used", "--skip-bad 3"]);
    run(&s, 0, &format!("{line} --skip-bad 3"));
    run(&s, 1, &format!("{line} --skip-bad 2 --quiet"));
    let (table, _) = run(&s, 1, line);
    assert_eq!(table.lines().filter(|line| line.starts_with('–')).count(), 3, "{table}");

    // A table keeps the order of its lines, with labels or without; what is missing is a bad input.
    s.write(
        "some.csv",
        "photos/tulips/003.jpg,tulips\nphotos/daisy/001.jpg,\nphotos/none.jpg,roses\n\"photos/roses/000.jpg\",roses\n",
    );
    let (out, _) = run(&s, 1, "predict r some.csv --format csv --top 2 --quiet");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "input,label,class,probability,class_2,probability_2,error");
    assert!(lines[1].starts_with("photos/tulips/003.jpg,tulips,"), "{out}");
    assert!(lines[2].starts_with("photos/daisy/001.jpg,,"), "{out}");
    assert!(lines[3].starts_with("photos/none.jpg,roses,,,,,"), "{out}");
    assert!(lines[4].starts_with("photos/roses/000.jpg,roses,") && lines.len() == 5, "{out}");
    s.write("paths.csv", "photos/tulips/003.jpg\nphotos/daisy/001.jpg\n");
    assert_eq!(s.ok("predict r paths.csv --format csv --quiet").lines().count(), 3);

    // Shards give what photos give, one by one; a damaged record keeps its place.
    s.ok("prepare photos shards --size 8 --shards 2 --raw --quiet");
    let whole = records(&s.ok("predict r shards --format jsonl --quiet"));
    assert_eq!(whole.len(), 60);
    let first = whole[0]["input"].as_str().unwrap().to_string();
    assert!(first.ends_with(":0") && first.starts_with("shards/"), "{first}");
    let count = |list: &[Value], class: &str| list.iter().filter(|r| r["class"] == class).count();
    assert_eq!(count(&whole, "daisy"), count(&all, "daisy"), "raw shards of the model's size hold the same pixels");
    let file = first.strip_suffix(":0").unwrap();
    let mut bytes = fs::read(s.path(file)).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[16 + length + 40] ^= 1; // in the second record
    fs::write(s.path(file), &bytes).unwrap();
    let (out, err) = run(&s, 1, "predict r shards --format jsonl");
    let hurt = records(&out);
    assert_eq!(hurt.len(), 60);
    has(hurt[1]["error"].as_str().unwrap(), &["checksum"]);
    assert_eq!(hurt[1]["input"], format!("{file}:1"));
    assert!(hurt.iter().zip(&whole).enumerate().all(|(i, (a, b))| i == 1 || a == b), "all others as before");
    has(&err, &["1 of 60 inputs"]);
    // So does one that is cut off, though the index says another length.
    fs::write(s.path(file), &bytes[..bytes.len() - 10]).unwrap();
    let cut = records(&run(&s, 1, "predict r shards --format jsonl").0);
    assert_eq!(cut.iter().filter(|r| r["error"].is_string()).count(), 2);
    assert_eq!(cut.len(), 60);
    fs::write(s.path(file), &bytes).unwrap();
    let evaluated = run(&s, 1, "evaluate r shards --json").0;
    let evaluated: Value = serde_json::from_str(&evaluated).unwrap();
    assert_eq!((&evaluated["samples"], &evaluated["bad"]), (&json!(59), &json!(1)));
}

#[test]
fn classes_are_matched_by_name() {
    let s = Session::new();
    photos(&s, "photos", &["daisy", "roses", "tulips"], 20);
    s.ok(&format!("train {PHOTOS} --set data.name=photos --run-dir r --quiet"));
    // The second class of the data is the third of the model.
    photos(&s, "held/test", &["daisy", "tulips"], 6);
    let some = s.json("evaluate r held --json");
    let support: Vec<u64> =
        some["classes"].as_array().unwrap().iter().map(|c| c["support"].as_u64().unwrap()).collect();
    assert_eq!(support, [6, 0, 6]);
    assert_eq!(some["part"], "test");
    photos(&s, "other", &["daisy", "orchids"], 3);
    has(&s.fails(2, "evaluate r other"), &["does not know the class `orchids`", "`daisy`, `roses`, `tulips`"]);
    // To predict, they need not be known; the label is shown as it is.
    let list = records(&s.ok("predict r other --format jsonl --quiet"));
    assert_eq!((list.len(), &list[5]["label"]), (6, &json!("orchids")));
    // Folders that are no classes at all are only folders.
    fs::rename(s.path("other"), s.path("years")).unwrap();
    fs::rename(s.path("years/daisy"), s.path("years/2023")).unwrap();
    fs::rename(s.path("years/orchids"), s.path("years/2024 spring")).unwrap();
    let list = records(&s.ok("predict r years --format jsonl --quiet"));
    assert!(list.len() == 6 && list.iter().all(|r| r["label"].is_null()), "{list:?}");
    // Numbers alone are the model's numbers.
    s.write("numbers.csv", "photos/tulips/000.jpg,2\nphotos/daisy/000.jpg,0\n");
    let numbers = s.json("evaluate r numbers.csv --json");
    assert_eq!(numbers["classes"][2]["support"], 1);
    s.write("numbers.csv", "photos/tulips/000.jpg,3\n");
    has(&s.fails(2, "evaluate r numbers.csv"), &["does not know the class `3`"]);
    has(&s.fails(2, "evaluate r photos/daisy"), &["without a class"]);
    has(&s.fails(2, "evaluate r photos/daisy/000.jpg"), &["no labels", "paceline predict"]);
}

#[test]
fn a_run_is_found_by_its_parts_and_read_while_it_is_trained() {
    let s = Session::new();
    // In two attempts: on a busy machine a checkpoint may be overtaken by the next one of its attempt, and not be written.
    s.train("r", "--set train.epochs=1 --set checkpoint.keep=9");
    let step = s.checkpoints("r")[0];
    s.ok("train --resume r --set train.epochs=3 --quiet");
    let all = s.ok("predict r fake:4x4:3:200 --format csv --quiet");
    assert_eq!(s.ok("predict r/run.toml fake:4x4:3:200 --format csv --quiet"), all);
    assert_eq!(s.ok("predict r/checkpoints/best fake:4x4:3:200 --format csv --quiet"), all);
    let first = s.ok(&format!("predict r --checkpoint step-{step} fake:4x4:3:200 --format csv --quiet"));
    assert_ne!(first, all);
    assert_eq!(s.ok(&format!("predict r/checkpoints/step-{step} fake:4x4:3:200 --format csv --quiet")), first);
    assert_eq!(
        s.ok(&format!("predict r --checkpoint r/checkpoints/step-{step} fake:4x4:3:200 --format csv --quiet")),
        first
    );
    s.ok("evaluate r --checkpoint last");
    // To a file: the same bytes, and nothing beside it.
    assert_eq!(s.ok("predict r fake:4x4:3:200 --format csv --output out.csv --quiet"), "");
    assert_eq!(s.read("out.csv"), all);
    // The folder is only read.
    let before: Vec<_> = fs::read_dir(s.path("r")).unwrap().map(|e| e.unwrap().file_name()).collect();
    s.ok("evaluate r");
    let after: Vec<_> = fs::read_dir(s.path("r")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(before, after);
    // Also while another process trains, and holds the lock.
    let mut training =
        Killed(s.command(&format!("train {SMALL} --run-dir live --quiet --set train.epochs=1000000")).spawn().unwrap());
    while !s.path("live/checkpoints/best").exists() {
        assert_eq!(training.0.try_wait().unwrap(), None, "it trains");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    for _ in 0..5 {
        assert_eq!(s.ok("predict live fake:4x4:3:200 --format csv --quiet").lines().count(), 1 + 233);
    }
    assert_eq!(training.0.try_wait().unwrap(), None, "it still trains");
    drop(training);
    // A run of several ranks is read on one.
    s.train("two", "--strategy mirrored --replicas 2 --set train.epochs=1");
    let summary = s.summary("two");
    let test = s.json("evaluate two --json");
    assert_eq!(test["accuracy"], summary["test_accuracy"], "{test}");
    assert!((test["loss"].as_f64().unwrap() - summary["test_loss"].as_f64().unwrap()).abs() < 1e-6);

    // Of an older version: without model.json, by its data.
    fs::remove_file(s.path("r/model.json")).unwrap();
    let (out, err) = run(&s, 0, "predict r fake:4x4:3:200 --format csv");
    assert_eq!(out, all);
    has(&err, &["no model.json"]);
    s.write("r/model.json", "{\"format\": 99}");
    has(&s.fails(2, "predict r fake"), &["format 99", "update paceline"]);
}

#[test]
fn wrong_input_is_answered_with_what_to_do() {
    let s = Session::new();
    s.train("r", "--set train.epochs=1");
    has(&s.fails(2, "predict nowhere fake"), &["there is no run at nowhere", "holds the runs r"]);
    has(&s.fails(2, "predict r no-such-set"), &["no data set named `no-such-set`"]);
    has(&s.fails(2, "predict r fake:8x8:3:20"), &["shape [8, 8]", "the model takes [4, 4]"]);
    s.write_idx("idx", 5, 6, 6);
    has(&s.fails(2, "evaluate r idx"), &["idx/train-images-idx3-ubyte: samples of shape [5, 5]"]);
    fs::create_dir(s.path("empty")).unwrap();
    has(&s.fails(2, "predict r empty"), &["empty: no images below it"]);
    s.write("empty.csv", "path,label\n");
    has(&s.fails(2, "predict r empty.csv"), &["empty.csv: lists no files"]);
    has(&s.fails(2, "predict r fake:4x4:3:20 --part validation"), &["no validation part", "has train, test"]);
    has(&s.fails(2, "predict r fake:4x4:3:20 --checkpoint step-7"), &["no step-7", "step-12"]);
    has(&s.fails(2, "predict r fake:4x4:3:20 --checkpoint nothing"), &["nothing is no checkpoint"]);
    has(&s.fails(2, "predict r fake:4x4:3:20 --output empty"), &["--output empty is a folder"]);
    s.train("never", "--set train.epochs=1 --set checkpoint.every=never");
    has(&s.fails(2, "predict never fake:4x4:3:20"), &["no checkpoint yet", "checkpoint.every"]);
    s.train("short", "--set train.max_steps=3");
    has(
        &s.fails(2, "predict short fake:4x4:3:20"),
        &["no best checkpoint", "checkpoint last takes the newest", "step-3"],
    );
    s.ok("predict short fake:4x4:3:20 --checkpoint last --quiet");
    let help = flat(&s.ok("predict --help"));
    has(&help, &["--top <K>", "--skip-bad <N>", "exit code is then 1"]);
    // Classes of IDX files are numbers; one file alone can be predicted, its labels lie beside it.
    s.write_idx("good", 4, 9, 6);
    let list = records(&s.ok("predict r good/t10k-images-idx3-ubyte --format jsonl --quiet"));
    assert_eq!((list.len(), &list[1]["input"]), (6, &json!("good/t10k-images-idx3-ubyte:1")));
    assert_eq!(s.json("evaluate r good --json")["samples"], 6);
}

#[test]
fn grey_and_colour_go_both_ways() {
    let s = Session::new();
    photos(&s, "photos", &["daisy", "roses"], 10);
    // A model of grey images in memory takes colour photos of any size.
    s.ok("train --set data.name=fake:8x8:2:100 --set model.hidden=[4] --set train.epochs=1 --threads 1 --run-dir grey --quiet");
    assert_eq!(records(&s.ok("predict grey photos --format jsonl --quiet")).len(), 20);
    // A model of colour photos takes grey ones.
    s.ok(&format!("train {PHOTOS} --set data.name=photos --run-dir colour --quiet"));
    let pixels = paceline_image::Pixels { width: 9, height: 7, channels: 1, data: (0..63).collect() };
    s.write("grey.png", paceline_image::encode_png(&pixels).unwrap());
    assert_eq!(records(&s.ok("predict colour grey.png --format jsonl --quiet")).len(), 1);
}

#[test]
fn names_of_any_bytes_do_not_act_on_the_terminal() {
    use std::os::unix::ffi::OsStrExt;
    let s = Session::new();
    photos(&s, "photos", &["daisy", "roses"], 10);
    s.ok(&format!("train {PHOTOS} --set data.name=photos --run-dir r --quiet"));
    fs::create_dir(s.path("odd")).unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"a\x1b[2J\xff,\"\n.jpg");
    fs::copy(s.path("photos/daisy/000.jpg"), s.path("odd").join(odd)).unwrap();
    fs::write(s.path("odd/b\u{202e}.jpg"), "x").unwrap();
    for format in ["table", "csv", "jsonl"] {
        let line = format!("predict r odd --skip-bad 1 --format {format}");
        let output = s.command(&line).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        let out = done(&line, &output);
        assert!(!out.contains(['\x1b', '\u{202e}']) && !err.contains(['\x1b', '\u{202e}']), "{out}{err}");
        if format == "jsonl" {
            let list = records(&out);
            assert_eq!(list[0]["input"], "odd/a\x1b[2J\u{fffd},\"\n.jpg");
            assert_eq!(list[1]["input"], "odd/b\u{202e}.jpg");
        }
    }
}

/// A model file with the other loss: its outputs are estimates, not softmax.
#[test]
fn the_other_loss_gives_its_outputs() {
    let s = Session::new();
    let model = "format = 1\n[[layer]]\ntype = \"flatten\"\n[[layer]]\ntype = \"dense\"\nunits = \"classes\"\n[[layer]]\n\
                 type = \"mean-squared-error\"\n";
    s.write("squares.toml", model);
    let rest = SMALL.replace("--set model.hidden=[8]", "--set model.file=squares.toml");
    s.ok(&format!("train {rest} --set train.epochs=2 --run-dir r --quiet"));
    let list = records(&s.ok("predict r fake:4x4:3:200 --part test --top 3 --format jsonl --quiet"));
    let sum = |r: &Value| r["top"].as_array().unwrap().iter().map(|c| c["probability"].as_f64().unwrap()).sum::<f64>();
    assert!(list.iter().any(|r| (sum(r) - 1.0).abs() > 1e-3), "they need not add up to 1");
    assert!(list.iter().all(|r| (0.0..=1.0).contains(&r["probability"].as_f64().unwrap())));
    let (summary, test) = (s.summary("r"), s.json("evaluate r --json"));
    assert_eq!((&test["loss"], &test["accuracy"]), (&summary["test_loss"], &summary["test_accuracy"]));
}
