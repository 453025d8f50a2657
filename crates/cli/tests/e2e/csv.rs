//! Csv files of values: what is said of them, trained on numbers to be met, and predicted.

use crate::session::{Session, has};
use serde_json::{Value, json};

const TRAIN: &str = "--set model.file=model.toml --set train.batch=16 --set strategy.threads=1 --set train.epochs=30 \
                     --set optimizer.rate=0.05 --quiet";

/// One number, from numbers or from lists of indices.
fn model(first: &str) -> String {
    format!("format = 1\n{first}[[layer]]\ntype = \"dense\"\nunits = 1\n[[layer]]\ntype = \"mean-squared-error\"\n")
}

/// `y = 2a - b + 1` at 120 points.
fn line_of_numbers() -> String {
    let row = |n: usize| {
        let (a, b) = ((n % 11) as f64 / 10.0, (n % 7) as f64 / 6.0);
        format!("{a},{b},{}\n", 2.0 * a - b + 1.0)
    };
    format!("a,b,y\n{}", (0..120).map(row).collect::<String>())
}

#[test]
fn info_says_what_is_in_it_and_why() {
    let s = Session::new();
    s.write("houses.csv", "size,rooms,price\n85.5,3,310000\n120,4,455000\n");
    has(
        &s.ok("data info houses.csv"),
        &[
            "train: 2 rows",
            "features: dense [2], values 3 to 120",
            "target price: numbers, 310000 to 455000, mean 382500.000",
            "`310000` is not from 0 to 999 (line 2)",
            "`price` is the target because it is the last column",
        ],
    );
    has(&s.ok("data info houses.csv --target rooms,price"), &["target rooms: numbers", "target price: numbers"]);
    has(&s.fails(2, "data info houses.csv --target prize"), &["no column `prize`", "did you mean price?"]);
    s.write("baskets.csv", "items,again\n3 17 9,yes\n,no\n5,yes\n");
    has(
        &s.ok("data info baskets.csv"),
        &["lists, shortest 0, mean 1.3, longest 3, largest index 17", "target again: 2 classes", "`yes` is no number"],
    );
    assert_eq!(s.json("data info baskets.csv --json")["parts"][0]["targets"][0]["classes"][1]["count"], 2);
}

#[test]
fn numbers_are_trained_evaluated_and_predicted() {
    let s = Session::new();
    s.write("line.csv", line_of_numbers());
    s.write("model.toml", model(""));
    s.ok(&format!("train {TRAIN} --set data.name=line.csv --run-dir r"));
    let notes = s.ok("data info line.csv");
    has(&notes, &["targets in `y` are numbers to be met"]);
    let model: Value = serde_json::from_str(&s.read("r/model.json")).unwrap();
    assert_eq!((&model["format"], &model["targets"]), (&json!(2), &json!({"numbers": {"each": 1}})));
    assert_eq!(model["columns"], json!({"features": ["a", "b"], "targets": [{"name": "y"}]}));
    // Columns in another order, one more, and no target.
    s.write("new.csv", "b,id,a\n0.5,7,0.25\n1,8,0\n");
    let lines = s.ok("predict r new.csv --format csv --quiet");
    let rows: Vec<Vec<&str>> = lines.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0], ["input", "y", "y_known", "error"]);
    for (row, expected) in rows[1..].iter().zip([1.0, 0.0]) {
        let value: f64 = row[1].parse().unwrap();
        assert!((value - expected).abs() < 0.2, "{lines}");
        assert_eq!(row[2], "");
    }
    let known = s.ok("predict r line.csv --format jsonl --quiet");
    let first: Value = serde_json::from_str(known.lines().next().unwrap()).unwrap();
    assert_eq!(first["known"]["y"], 1.0);
    has(&s.ok("predict r new.csv"), &["y", "known", "new.csv:0"]);
    let evaluation = s.json("evaluate r line.csv --json");
    assert!(evaluation["loss"].as_f64().unwrap() < 0.05, "{evaluation}");
    has(&s.fails(2, "evaluate r new.csv"), &["no column `y`, which the model has"]);
    has(&s.fails(2, "predict r fashion-sample"), &["samples of shape [28, 28]"]);
}

#[test]
fn lists_are_trained_and_predicted() {
    let s = Session::new();
    // Each odd index counts one, each even one nothing.
    let row = |n: usize| {
        let items: Vec<usize> = (0..n % 4).map(|k| (n * 7 + k * 3) % 10).collect();
        let words: Vec<String> = items.iter().map(usize::to_string).collect();
        format!("{},{}.0\n", words.join(" "), items.iter().filter(|&index| index % 2 == 1).count())
    };
    s.write("baskets/train.csv", format!("items,odd\n{}", (0..200).map(row).collect::<String>()));
    s.write("baskets/test.csv", format!("items,odd\n{}", (200..220).map(row).collect::<String>()));
    s.write("model.toml", model("[[layer]]\ntype = \"embedding\"\ncolumns = 4\n"));
    s.ok(&format!("train {TRAIN} --set data.name=baskets --set data.targets=numbers --run-dir r"));
    let model: Value = serde_json::from_str(&s.read("r/model.json")).unwrap();
    assert_eq!(model["features"], json!({"lists": {"width": "32", "bound": 10}}));
    // Without the target column, and with a list that is longer than any that was trained on.
    s.write("new.csv", "items\n1 3 5\n\"\"\n0 1 2 3 4 5 6 7 8 9\n");
    let lines = s.ok("predict r new.csv --format csv --quiet");
    let values: Vec<f64> = lines.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().parse().unwrap()).collect();
    for (value, expected) in values.iter().zip([3.0, 0.0, 5.0]) {
        assert!((value - expected).abs() < 0.5, "{lines}");
    }
    assert_eq!(s.json("evaluate r --json")["samples"], 20);
    s.write("beyond.csv", "items\n1 10\n");
    has(&s.fails(2, "predict r beyond.csv"), &["beyond.csv: line 2: column `items`: index 10 is not below 10"]);
}

#[test]
fn keys_of_columns_are_for_a_csv() {
    let s = Session::new();
    has(&s.fails(2, "train --set data.target=y"), &["data.target is given, but fashion-sample is no csv of values"]);
    s.write("t.csv", "x,y\n1,0\n2,1\n");
    has(
        &s.fails(2, "train --set data.name=t.csv --set data.label=y"),
        &["data.label names a feature of records", "data.target"],
    );
    s.write("mixed.csv", "x,y,z\n1,0.5,red\n2,1.5,blue\n");
    let error = s.fails(2, "train --set data.name=mixed.csv --set data.target=y,z");
    has(&error, &["targets of mixed kinds", "`y` holds `0.5` in line 2", "`z` holds `red` in line 2", "data.targets"]);
}
