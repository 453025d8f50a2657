//! `paceline matmul`: products, files, and wrong input.

use crate::session::{Session, has};
use std::process::Stdio;
use std::time::Duration;

#[test]
fn products_go_through_files_and_are_checked() {
    let s = Session::new();
    let text = s.ok("matmul --n 300 --block 100 --ranks 3 --layout both");
    assert!(text.contains("checked by 16 random vectors"), "{text}");
    assert!(text.contains("summa 1×3") && text.contains("diagonal"), "{text}");
    // A·A of a file is the product of the file with itself, whatever the ranks.
    s.ok("matmul --n 90 --block 40 --ranks 2 --out a.npy --seed 5");
    s.ok("matmul --a a.npy --product aa --block 30 --ranks 4 --out aa.npy");
    s.ok("matmul --a a.npy --b a.npy --block 30 --ranks 1 --layout diagonal --out ab.npy");
    assert_eq!(std::fs::read(s.path("aa.npy")).unwrap(), std::fs::read(s.path("ab.npy")).unwrap());
    let trace = |line: &str| {
        let report = s.json(line);
        let layouts = report["layouts"].as_array().unwrap();
        layouts.iter().find_map(|l| l["run"]["trace"].as_f64()).unwrap()
    };
    let (with, without) = (
        trace("matmul --a a.npy --product aa --json"),
        trace("matmul --a a.npy --product trace --layout diagonal --ranks 3 --block 17 --json"),
    );
    assert!((with - without).abs() < 1e-4 * with.abs(), "{with} {without}");
    assert!(s.ok("matmul --n 100 --product trace").contains("the product is not needed"));
    let wrong = s.fails(1, "matmul --n 200 --inject-error 100 --quiet --out wrong.npy");
    has(&wrong, &["wrong: row 0", "wrong.npy was not written"]);
    // An error of a thousandth of an element, which would have passed for rounding.
    let wrong = s.fails(1, "matmul --n 200 --block 50 --inject-error 0.003 --quiet --out wrong.npy");
    has(&wrong, &["wrong: element (0, 0), computed again, has another value", "wrong.npy was not written"]);
    assert!(!s.path("wrong.npy").exists());
}

#[test]
fn what_a_killed_product_left_is_removed_by_the_next() {
    let s = Session::new();
    let temporary = || -> Vec<String> {
        let names =
            std::fs::read_dir(s.path("")).unwrap().flatten().map(|e| e.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.ends_with(".tmp")).collect()
    };
    let start = |line: &str| s.command(line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut child = start("matmul --n 20000 --block 200 --ranks 1 --out c.npy");
    while temporary().is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early for this test");
        std::thread::sleep(Duration::from_millis(2));
    }
    has(&s.fails(2, "matmul --n 40 --ranks 1 --out c.npy"), &["another job is writing c.npy"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(temporary().len(), 1, "a kill leaves it");
    s.ok("matmul --n 40 --ranks 1 --out c.npy");
    assert!(temporary().is_empty() && s.path("c.npy").exists());
}

#[test]
fn wrong_input_is_named() {
    let s = Session::new();
    s.write("text.npy", "1 2 3");
    for (line, expected) in [
        ("matmul", "give --n"),
        ("matmul --n 0", "--n is 0"),
        ("matmul --n 10 --ranks 0", "no ranks"),
        ("matmul --n 10 --block 0", "--block is 0"),
        ("matmul --a absent.npy", "absent.npy: no such file"),
        ("matmul --a text.npy", "is no .npy file"),
        ("matmul --n 10 --out text.npy", "text.npy exists"),
        ("matmul --n 10 --memory 5", "--memory allows"),
    ] {
        let message = s.fails(2, line);
        assert!(message.contains(expected), "{line}: {message}");
    }
    let message = s.command("matmul --n 10 --memory cows").output().unwrap();
    assert!(String::from_utf8_lossy(&message.stderr).contains("such as 800MB"));
}
