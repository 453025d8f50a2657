//! The decoder against libjpeg on damaged files of at most 64 × 64: both decode to the same bits, both refuse, or the
//! difference is of a class that is meant (`compare.rs` has them, with their reasons). Neither panics, and ours stays
//! within the memory and the time that a picture of that size may take.
//!
//! Some seconds of it run with the other tests. As long as you like:
//!
//!     PACELINE_FUZZ_FILES=10000000 cargo test --release -p paceline-image --test differential -- --nocapture
//!
//! `PACELINE_FUZZ_FROM=N` begins with file N: a difference names its number.

mod compare;
mod libjpeg;
mod mutate;

use compare::{Class, PIXELS, compare};
use libjpeg::Coding;
use paceline_image::{Chroma, Decoder, Encoder, Limits, Pixels};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Files without a word in the environment: some seconds.
const FILES: u64 = 30_000;
/// Differences after which it ends.
const ENOUGH: usize = 1000;
/// What a decoder may hold for a file of this size: its pixels, four planes of them with their borders, the coefficients
/// of four components at two bytes, and tables. (A decoder keeps its memory; 16 times the largest plane is plenty.)
const MEMORY: isize = 2 << 20;
/// What no file of this size takes, on any machine, three times in a row.
const TIME: Duration = Duration::from_secs(2);

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.get() + layout.size() as isize;
        HELD.set(held);
        MOST.set(MOST.get().max(held));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Files that Pillow wrote (the fixtures), that our encoder wrote, and that libjpeg wrote: every coding and sampling.
fn seeds() -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "jpg" || e == "jpeg"));
    paths.sort();
    let mut seeds: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    let mut random = mutate::Random::new(1);
    let mut picture = |width: usize, height: usize, channels: usize| {
        let data = (0..width * height * channels).map(|i| {
            let (x, y) = (i / channels % width, i / channels / width);
            (x * 5 + y * (i % channels + 2) * 3 + random.below(16)) as u8
        });
        Pixels { width, height, channels, data: data.collect() }
    };
    for (width, height) in [(16, 16), (33, 7), (64, 64), (1, 40)] {
        for (quality, chroma, channels) in [(60, Chroma::Half, 3), (95, Chroma::Full, 3), (80, Chroma::Full, 1)] {
            let mut out = Vec::new();
            Encoder::new(quality, chroma).encode(&picture(width, height, channels), &mut out).unwrap();
            seeds.push(out);
        }
    }
    for coding in [Coding::Baseline, Coding::Progressive, Coding::Separate] {
        for (sampling, restart) in [((1, 1), 0), ((2, 1), 2), ((1, 2), 0), ((2, 2), 0), ((2, 2), 3), ((4, 1), 0)] {
            let image = picture(37, 21, 3);
            seeds.push(libjpeg::encode(&image.data, (37, 21, 3), sampling, coding, restart));
        }
        let image = picture(24, 24, 1);
        seeds.push(libjpeg::encode(&image.data, (24, 24, 1), (1, 1), coding, 1));
    }
    seeds
}

fn number(key: &str, default: u64) -> u64 {
    match std::env::var(key) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{key}={text}: give a whole number")),
        Err(_) => default,
    }
}

/// One file: its class, and what there is to say.
fn one(decoder: &mut Decoder, pixels: &mut Pixels, bytes: &[u8]) -> (Class, String) {
    MOST.set(HELD.get());
    let before = HELD.get();
    let begin = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| compare(decoder, pixels, bytes)));
    let (class, text) = result.unwrap_or_else(|_| (Class::Finding, "a panic".into()));
    let most = MOST.get() - before;
    if most > MEMORY {
        return (Class::Finding, format!("{most} bytes were allocated"));
    }
    let slow = |decoder: &mut Decoder, pixels: &mut Pixels| {
        let begin = Instant::now();
        let _ = decoder.decode(bytes, paceline_image::Colour::Stored, pixels);
        begin.elapsed() > TIME
    };
    if begin.elapsed() > TIME && (0..3).all(|_| slow(decoder, pixels)) {
        return (Class::Finding, format!("more than {TIME:?}"));
    }
    (class, text)
}

/// Files that showed a difference that was not meant, and what they have to show since.
#[test]
fn what_was_found_stays_mended() {
    let mut decoder = Decoder::new(Limits { pixels: PIXELS as u64 });
    let mut pixels = Pixels::default();
    for (name, expected) in [
        // A refined coefficient for which the band had no room was dropped, and the scan read on as if it were whole.
        ("refined_beyond_its_band", Class::Unnoticed),
        // Markers that stand for nothing were passed over by the length that they state.
        ("reserved_marker", Class::BothRefuse),
        ("reserved_frame_marker", Class::BothRefuse),
        // A table of means with symbols that are no numbers of bits was used as far as it went.
        ("table_of_impossible_codes", Class::BothRefuse),
        // The numbers of tables that a progressive scan does not use were checked, and good files refused.
        ("unused_table_numbers", Class::Same),
    ] {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/differential/findings");
        let bytes = std::fs::read(folder.join(format!("{name}.jpg"))).unwrap();
        let (class, text) = one(&mut decoder, &mut pixels, &bytes);
        assert_eq!(class, expected, "{name}: {text}");
    }
}

#[test]
fn damaged_files_are_decoded_as_libjpeg_does_or_refused() {
    let seeds = seeds();
    let (from, files) = (number("PACELINE_FUZZ_FROM", 0), number("PACELINE_FUZZ_FILES", FILES));
    let mut decoder = Decoder::new(Limits { pixels: PIXELS as u64 });
    let mut pixels = Pixels::default();
    for (i, seed) in seeds.iter().enumerate() {
        let (class, text) = one(&mut decoder, &mut pixels, seed);
        assert_eq!(class, Class::Same, "seed {i}: {text}");
    }
    let next = AtomicU64::new(from);
    let counts: Mutex<BTreeMap<Class, u64>> = Mutex::default();
    let findings: Mutex<BTreeMap<u64, String>> = Mutex::default();
    let work = || {
        let mut decoder = Decoder::new(Limits { pixels: PIXELS as u64 });
        let mut pixels = Pixels::default();
        let mut mine: BTreeMap<Class, u64> = BTreeMap::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= from + files || findings.lock().unwrap().len() >= ENOUGH {
                break;
            }
            let (class, text) = one(&mut decoder, &mut pixels, &mutate::file(&seeds, number));
            *mine.entry(class).or_default() += 1;
            if class == Class::Finding {
                findings.lock().unwrap().insert(number, text);
            }
        }
        mine.into_iter().for_each(|(class, count)| *counts.lock().unwrap().entry(class).or_default() += count);
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let counts = counts.into_inner().unwrap();
    println!("{files} files from {from}, {} seeds: {counts:?}", seeds.len());
    let findings = findings.into_inner().unwrap();
    // Of those that differ in their numbers only, the first.
    let mut kinds: BTreeMap<String, (u64, &str, usize)> = BTreeMap::new();
    for (number, text) in &findings {
        let kind = text.chars().filter(|c| !c.is_ascii_digit()).collect();
        kinds.entry(kind).or_insert((*number, text, 0)).2 += 1;
    }
    for (number, text, count) in kinds.values() {
        let path = std::env::temp_dir().join(format!("paceline-differential-{number}.jpg"));
        std::fs::write(&path, mutate::file(&seeds, *number)).unwrap();
        println!("{count} times, first file {number} ({}): {text}", path.display());
    }
    assert!(
        findings.is_empty(),
        "{} differences; PACELINE_FUZZ_FROM=N PACELINE_FUZZ_FILES=1 repeats one",
        findings.len()
    );
    // A comparison that compares nothing proves nothing.
    let share = |class| counts.get(&class).copied().unwrap_or(0) as f64 / files as f64;
    assert!(files < 1000 || share(Class::Same) > 0.2 && share(Class::BothRefuse) > 0.05, "{counts:?}");
}
