//! A small fuzzer on stable Rust: seeded mutations of valid files, with a bound on memory.
//!
//! An input that makes the target behave in a way not seen before (another kind of result) joins the corpus, so that
//! mutations pile up. Everything follows from the seed: the same seed and number of executions give the same inputs.

use super::memory::peak;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What is fuzzed.
pub(crate) struct Target {
    /// The name of the test.
    pub name: &'static str,
    /// Valid inputs to begin with.
    pub corpus: Vec<Vec<u8>>,
    /// Makes checksums right again after a mutation, so that what lies behind them is reached too.
    pub repair: fn(&mut [u8]),
    /// Runs the input and says how it behaved.
    pub run: fn(&[u8]) -> String,
}

/// The most memory that an input of this length may take.
fn bound(length: usize) -> i64 {
    (64 << 20) + 32 * length as i64
}

/// Inputs are not grown beyond this.
const LONGEST: usize = 1 << 16;

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}: `{text}` is no number")))
}

impl Target {
    /// Runs for `PACELINE_FUZZ_SECONDS` (2), from `PACELINE_FUZZ_SEED`; or the one input of `PACELINE_FUZZ_REPLAY`.
    pub(crate) fn fuzz(self) {
        if let Ok(path) = std::env::var("PACELINE_FUZZ_REPLAY") {
            let input = std::fs::read(&path).unwrap_or_else(|e| panic!("cannot read {path}: {e}"));
            println!("{}: {}", self.name, self.execute(&input).unwrap_or_else(|e| panic!("{e}")));
            return;
        }
        let seconds: Option<f64> = variable("PACELINE_FUZZ_SECONDS");
        // A run by hand explores; the run of every change is always the same.
        let clock = || std::time::UNIX_EPOCH.elapsed().map_or(1, |t| t.as_nanos() as u64);
        let seed = variable("PACELINE_FUZZ_SEED").unwrap_or_else(|| if seconds.is_some() { clock() } else { 1 });
        let end = Instant::now() + Duration::from_secs_f64(seconds.unwrap_or(2.0));

        let mut random = Random(seed);
        let mut corpus = self.corpus.clone();
        let (mut seen, mut executions, mut slowest) = (HashSet::new(), 0u64, Duration::ZERO);
        while executions < corpus.len() as u64 || Instant::now() < end {
            let input = match corpus.get(executions as usize) {
                Some(valid) if executions < self.corpus.len() as u64 => valid.clone(),
                _ => {
                    let mut input = corpus[random.below(corpus.len())].clone();
                    for _ in 0..=random.below(4) {
                        mutate(&mut input, &corpus, &mut random);
                    }
                    input.truncate(LONGEST);
                    if random.below(2) == 0 {
                        (self.repair)(&mut input);
                    }
                    input
                }
            };
            let start = Instant::now();
            match self.execute(&input) {
                Ok(behaviour) => {
                    if seen.insert(behaviour) && corpus.len() < 4096 {
                        corpus.push(input);
                    }
                }
                Err(why) => self.report(&input, seed, executions, &why),
            }
            slowest = slowest.max(start.elapsed());
            executions += 1;
        }
        println!(
            "{}: {executions} executions, seed {seed}, {} kinds of result, {} inputs kept, slowest {:.0} ms",
            self.name,
            seen.len(),
            corpus.len(),
            slowest.as_secs_f64() * 1e3
        );
    }

    /// Runs one input: neither a panic nor too much memory.
    fn execute(&self, input: &[u8]) -> Result<String, String> {
        let (result, held) = peak(|| catch_unwind(AssertUnwindSafe(|| (self.run)(input))));
        let behaviour = result.map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or("a panic".into())
        })?;
        if held > bound(input.len()) {
            return Err(format!("{held} bytes of memory for an input of {} bytes", input.len()));
        }
        Ok(behaviour)
    }

    fn report(&self, input: &[u8], seed: u64, executions: u64, why: &str) -> ! {
        let name = self.name;
        let path: PathBuf = std::env::temp_dir().join(format!("paceline-fuzz-{name}-{seed}-{executions}"));
        let kept = std::fs::write(&path, input);
        panic!(
            "{name}, seed {seed}, execution {executions}: {why}\nthe input is in {} ({kept:?}); replay it with\n  PACELINE_FUZZ_REPLAY={} cargo test -p paceline-data --lib fuzz::{name} -- --nocapture",
            path.display(),
            path.display()
        )
    }
}

/// SplitMix64: small, seeded, the same everywhere.
pub(crate) struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// One change: bits, bytes, blocks, ends, or a number that may be a length.
fn mutate(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let rest = input.len() - at;
    match random.below(10) {
        0 | 1 if rest > 0 => input[at] ^= 1 << random.below(8),
        2 if rest > 0 => input[at] = [0, 1, 0x7f, 0x80, 0xff, 0x0a, b'"', b','][random.below(8)],
        3 if rest > 0 => input[at] = random.next() as u8,
        4 => input.truncate(at),
        5 => {
            let length = random.below(rest.min(64) + 1);
            input.drain(at..at + length);
        }
        6 => {
            let length = random.below(rest.min(256) + 1);
            let block = input[at..at + length].to_vec();
            let to = random.below(input.len() + 1);
            input.splice(to..to, block);
        }
        7 => {
            let other = &corpus[random.below(corpus.len())];
            let from = random.below(other.len() + 1);
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        8 => {
            let number = number(input.len(), random);
            let bytes: Vec<u8> = match random.below(4) {
                0 => number.to_le_bytes().to_vec(),
                1 => (number as u32).to_be_bytes().to_vec(),
                2 => (number as u16).to_be_bytes().to_vec(),
                _ => varint(number),
            };
            for (slot, byte) in input[at..].iter_mut().zip(bytes) {
                *slot = byte;
            }
        }
        _ => {
            let number = number(input.len(), random);
            let bytes = if random.below(2) == 0 { varint(number) } else { vec![number as u8; random.below(32)] };
            input.splice(at..at, bytes);
        }
    }
}

/// Numbers at which lengths go wrong.
fn number(length: usize, random: &mut Random) -> u64 {
    let near = length as u64;
    let edges = [
        0,
        1,
        16,
        near,
        near.wrapping_sub(1),
        near + 1,
        near.wrapping_sub(16),
        0x7fff,
        0xffff,
        1 << 16,
        (1 << 31) - 1,
        1 << 31,
        u64::from(u32::MAX),
        1 << 32,
        i64::MAX as u64,
        u64::MAX - 15,
        u64::MAX,
    ];
    match random.below(edges.len() + 2) {
        n if n < edges.len() => edges[n],
        _ => random.next() >> random.below(64),
    }
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}
