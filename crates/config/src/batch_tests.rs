//! Batch expressions: values, messages, and random texts that must never panic.

use super::*;
use paceline_base::random::philox;

fn check(text: &str, workers: usize, expected: &str) {
    let got = match Batch::parse(text) {
        Err(why) => why,
        Ok(batch) => {
            assert_eq!(Batch::parse(&batch.to_string()).as_ref(), Ok(&batch), "{text} is written as {batch}");
            batch.resolve(workers).map_or_else(|e| e.message().to_string(), |b| b.samples().to_string())
        }
    };
    assert!(got == expected || (expected.contains(' ') && got.contains(expected)), "{text}: {got}, wanted {expected}");
}

#[test]
fn expressions_have_their_usual_values() {
    check("64", 3, "64");
    check("32*workers", 4, "128");
    check(" 32 * ( workers + 1 ) ", 3, "128");
    check("2+3*4", 1, "14");
    check("(2+3)*4", 1, "20");
    check("100-10-5", 1, "85");
    check("100-(10-5)", 1, "95");
    check("64/4/2", 1, "8");
    check("64/(4/2)", 1, "32");
    check("100/workers*workers", 3, "100");
    check("2*(workers*3)", 2, "12");
}

#[test]
fn wrong_expressions_say_why() {
    check("100/workers", 3, "train.batch = 100/workers is not whole for 3 workers");
    check("workers-1", 1, "train.batch = workers-1 is 0 for 1 worker; write");
    check("workers-5", 2, "is -3 for 2 workers");
    check("8/(workers-2)", 2, "divides by zero or is too large");
    check("9999999999999*9999999999999", 1, "is too large");
    check(&["9999999999999999999"; 10].join("*"), 1, "is too large");
    check("99999999999999999999", 1, "has a number that is too large");
    check("32*worker", 1, "uses \"worker\"; the only name it can use is workers");
    check("32*", 1, "ends where a number or workers is wanted");
    check("(32", 1, "lacks a closing parenthesis");
    check("32)", 1, "has an unexpected ')'");
    check("32 workers", 1, "has an unexpected 'w'");
    check("-32", 1, "has an unexpected '-'");
    check("1.5*workers", 1, "has an unexpected '.'");
    check("", 1, "ends where");
    check(&"(".repeat(LONGEST), 1, "ends where");
    check(&"(".repeat(100_000), 1, "is longer than 200 characters");
}

/// Words that make texts likely to be nearly right, and some that never are.
const WORDS: [&str; 16] =
    ["workers", "1", "32", "0", "7", "+", "-", "*", "/", "(", ")", " ", "é", "9999999999", "x", "18446744073709551615"];

#[test]
fn random_texts_never_panic_and_are_written_as_they_are_read() {
    let mut read = 0;
    for case in 0..20_000 {
        let text: String = (0..1 + case % 12)
            .flat_map(|block| philox([block, case, 0, 0], [1, 2]))
            .take(1 + case as usize % 41)
            .map(|random| WORDS[random as usize % WORDS.len()])
            .collect();
        let Ok(batch) = Batch::parse(&text) else { continue };
        read += 1;
        assert_eq!(Batch::parse(&batch.to_string()), Ok(batch.clone()), "{text}");
        for workers in [0, 1, 2, 3, usize::MAX] {
            if let Ok(resolved) = batch.resolve(workers) {
                assert!(resolved.samples() > 0, "{text}");
            }
        }
    }
    assert!(read > 100, "only {read} of the random texts were expressions");
}

/// Builds a random expression beside its exact value, computed apart.
fn random_tree(depth: u32, next: &mut impl FnMut() -> u32) -> (String, i128) {
    if depth == 0 || next().is_multiple_of(4) {
        let n = next() % 50;
        return if n == 0 { ("workers".into(), 6) } else { (n.to_string(), i128::from(n)) };
    }
    let ((a, x), (b, y)) = (random_tree(depth - 1, next), random_tree(depth - 1, next));
    match next() % 3 {
        0 => (format!("({a}+{b})"), x + y),
        1 => (format!("({a}-{b})"), x - y),
        _ => (format!("({a}*{b})"), x * y),
    }
}

#[test]
fn random_expressions_have_the_values_of_plain_arithmetic() {
    for case in 0..2_000 {
        let mut count = 0;
        let mut next = || {
            count += 1;
            philox([count, case, 0, 0], [3, 4])[0] >> 8
        };
        let (text, value) = random_tree(3, &mut next);
        if text.len() > LONGEST {
            continue;
        }
        let got = Batch::parse(&text).unwrap().resolve(6).ok().map(|b| b.samples() as i128);
        assert_eq!(got, (1..=1 << 53).contains(&value).then_some(value), "{text}");
    }
}
