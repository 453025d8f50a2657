//! Files that are not what they should be: configurations, models, plans and IDX data.

use crate::session::{SMALL, Session, has, idx_header, idx_images, idx_labels};

#[test]
fn configuration_files() {
    let s = Session::new();
    for (text, words) in [
        ("[train]\nepochs = 1\n", &["c.toml", "`format = 1` is missing"][..]),
        ("format = 9\n", &["c.toml, line 1", "format = 9 is newer", "update paceline"]),
        ("format = \"one\"\n", &["c.toml", "format"]),
        ("format = 1\n[train\nepochs = 1\n", &["c.toml, line 2", "not TOML"]),
        ("format = 1\n[train]\nepoch = 1\n", &["c.toml, line 3", "did you mean train.epochs?"]),
        ("format = 1\n[trian]\nepochs = 1\n", &["c.toml, line 2", "trian", "train"]),
        ("format = 1\n[train]\nepochs = \"three\"\n", &["c.toml, line 3", "train.epochs", "whole number"]),
        ("format = 1\ntrain = 3\n", &["c.toml", "train"]),
        ("format = 1\n[train]\nepochs = 1\nepochs = 2\n", &["c.toml", "line 4"]),
    ] {
        s.write("c.toml", text);
        has(&s.fails(2, "train c.toml"), words);
    }
    s.write("c.toml", [0xff, 0xfe, 0x00]);
    has(&s.fails(2, "train c.toml"), &["c.toml", "UTF-8"]);
    has(&s.fails(2, "train --set model.file=c.toml"), &["c.toml", "UTF-8"]);
    has(&s.fails(2, "train --plan c.toml"), &["c.toml", "UTF-8"]);
    assert!(!s.path("runs").exists());
}

#[test]
fn model_files() {
    let s = Session::new();
    let end = "[[layer]]\nname = \"last\"\ntype = \"dense\"\nunits = \"classes\"\n[[layer]]\ntype = \"softmax-cross-entropy\"\n";
    let flat = "format = 1\n[[layer]]\nname = \"flat\"\ntype = \"flatten\"\n";
    let wide = "[[layer]]\nname = \"wide\"\ntype = \"dense\"\nunits = 7\n";
    let with = |middle: &str| format!("{flat}{middle}{end}");
    for (text, words) in [
        (end.to_string(), &["`format = 1` is missing"][..]),
        (format!("format = 2\n{end}"), &["format 2 is newer"]),
        ("format = 1\n".into(), &["no [[layer]]"]),
        (with("[[layer]]\ntype = \"dens\"\nunits = 3\n"), &["\"dens\"", "did you mean dense?"]),
        (with("[[layer]]\ntype = \"dense\"\nunit = 3\n"), &["unit", "did you mean units?"]),
        (with("[[layer]]\ntype = \"relu\"\ninputs = [\"wdie\"]\n"), &["wdie"]),
        (with("[[layer]]\nname = \"flat\"\ntype = \"relu\"\n"), &["flat"]),
        (format!("format = 1\n{wide}{end}"), &["layer wide", "7 units", "[4, 4]", "flatten"]),
        (
            with(&format!("{wide}[[layer]]\nname = \"sum\"\ntype = \"add\"\ninputs = [\"wide\", \"flat\"]\n")),
            &["layer sum", "[7]", "[16]"],
        ),
        (format!("{flat}{wide}[[layer]]\ntype = \"softmax-cross-entropy\"\n"), &["[7]", "[3]"]),
        (format!("{flat}{wide}"), &["not a loss"]),
        ("format = 1\n[[layer]\n".into(), &["model.toml"]),
    ] {
        s.write("model.toml", &text);
        let message = s.fails(2, "train --threads 1 --set data.name=fake:4x4:3:200 --set model.file=model.toml");
        has(&message, words);
        has(&message, &["model.toml"]);
    }
    assert!(!s.path("runs").exists());
}

#[test]
fn plan_files() {
    let s = Session::new();
    let split =
        |ranks: usize, op: &str, split: &str| format!("format = 1\nranks = {ranks}\n[operators.{op}]\n{split}\n");
    for (text, words) in [
        ("ranks = 2\n".to_string(), &["`format = 1` is missing"][..]),
        ("format = 3\nranks = 2\n".into(), &["format 3 is newer"]),
        ("format = 1\n".into(), &["ranks"]),
        ("format = 1\nranks = 0\n".into(), &["at least 1"]),
        ("format = 1\nrank = 2\n".into(), &["did you mean ranks?"]),
        (split(2, "hidden2", "split = { out = 2 }"), &["no operator hidden2", "did you mean hidden1?"]),
        (split(2, "hidden1", "split = { outs = 2 }"), &["hidden1", "did you mean out?"]),
        (split(2, "hidden1", "split = { out = 3 }"), &["hidden1", "rank 2", "2 ranks"]),
        (split(16, "hidden1", "split = { out = 9 }"), &["hidden1", "1 to 8"]),
        (split(2, "hidden1", "split = { out = 2 }\nranks = [0]"), &["hidden1", "2 parts"]),
        (split(2, "hidden1", "split = { out = 2 }\nranks = [0, 5]"), &["hidden1", "rank 5"]),
        (split(2, "loss", "split = { out = 2 }"), &["loss", "out"]),
        ("format = 1\nranks = [".into(), &["plan.toml"]),
    ] {
        s.write("plan.toml", &text);
        let message = s.fails(2, &format!("train {SMALL} --plan plan.toml"));
        has(&message, words);
        has(&message, &["plan.toml"]);
    }
    assert!(!s.path("runs").exists());
}

#[test]
fn idx_files() {
    let s = Session::new();
    let (images, labels) = ("set/train-images-idx3-ubyte", "set/train-labels-idx1-ubyte");
    let mut wrong_magic = idx_images(60, 4);
    wrong_magic[0] = 9;
    let mut floats = idx_images(60, 4);
    floats[2] = 0x0d;
    let mut truncated = idx_images(60, 4);
    truncated.truncate(500);
    let longer = [idx_images(60, 4), vec![0; 3]].concat();
    let mut bad_label = idx_header(&[30]);
    bad_label.extend((0..30).map(|i| if i == 17 { 200 } else { i % 3 }));
    for (file, bytes, words) in [
        (images, wrong_magic, &["not an IDX file", "09 00 08 03"][..]),
        (images, floats, &["unsupported element type 0x0d"]),
        (images, truncated, &["truncated", "976", "500"]),
        (images, longer, &["bytes after the end", "976"]),
        (images, idx_images(0, 4), &["no samples"]),
        (images, Vec::new(), &[]),
        (images, vec![0x1f, 0x8b, 8, 0, 0, 0], &["gzip"]),
        (images, idx_labels(60), &["rank"]),
        (labels, idx_labels(59), &["60 images", "59 labels"]),
        ("set/t10k-labels-idx1-ubyte", bad_label, &["label 200 at index 17", "out of range"]),
        ("set/t10k-images-idx3-ubyte", idx_images(30, 5), &["[5, 5]", "[4, 4]"]),
    ] {
        s.write_idx("set", 4, 60, 30);
        s.write(file, bytes);
        let message = s.fails(2, "train --threads 1 --set data.name=set");
        has(&message, words);
        has(&message, &[file.rsplit('/').next().unwrap()]);
        // `data info` says the same of the folder.
        assert_eq!(s.fails(2, "data info set"), message);
    }
    s.write_idx("set", 4, 60, 30);
    std::fs::remove_file(s.path(labels)).unwrap();
    has(&s.fails(2, "train --threads 1 --set data.name=set"), &["train-labels-idx1-ubyte", "four IDX files"]);
    assert!(!s.path("runs").exists());
}
