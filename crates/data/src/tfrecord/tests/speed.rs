//! How fast records are read from the page cache, against copying the same bytes.
//!
//!     PACELINE_RECORDS=FOLDER|FILE cargo test --release -p paceline-data --lib records_speed -- --ignored --nocapture
//!
//! The ways are measured in turn, each round opens the files anew, and the best round counts: what is compared is what
//! the work costs, not what else the machine did. `touch` reads one byte of each page: what any reader of a map pays.

use crate::shards::record_files;
use crate::tfrecord::{Contents, File, Limits, Reader};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes and records that a way of reading has seen.
type Seen = (u64, u64);

type Way = (&'static str, fn(&Path, &mut Vec<u8>) -> crate::Result<Seen>);

const WAYS: [Way; 7] = [
    ("read into a buffer", |path, buffer| {
        let mut file = std::fs::File::open(path).expect("readable");
        let size = file.metadata().expect("readable").len() as usize;
        buffer.resize(size.max(buffer.len()), 0);
        std::io::Read::read_exact(&mut file, &mut buffer[..size]).expect("readable");
        Ok((size as u64, 0))
    }),
    ("map and copy", |path, buffer| {
        let contents = Contents::open(path, &Limits::default(), false)?;
        let size = contents.bytes().len();
        buffer.resize(size.max(buffer.len()), 0);
        buffer[..size].copy_from_slice(contents.bytes());
        Ok((size as u64, 0))
    }),
    ("map and touch", |path, _| {
        let contents = Contents::open(path, &Limits::default(), false)?;
        black_box(contents.bytes().iter().step_by(4096).map(|&byte| u64::from(byte)).sum::<u64>());
        Ok((contents.bytes().len() as u64, 0))
    }),
    ("scan, verified", |path, _| scan(path, true)),
    ("scan, not verified", |path, _| scan(path, false)),
    ("File::open, verified", |path, _| {
        let file = File::open(path, true)?;
        Ok((file.contents().bytes().len() as u64, black_box(file.len()) as u64))
    }),
    ("Reader, verified", |path, buffer| {
        let mut reader = Reader::new(std::fs::File::open(path).expect("readable"), "stream", true)?;
        let (mut bytes, mut records) = (0, 0);
        while reader.next(buffer)?.is_some() {
            bytes += buffer.len() as u64 + 16;
            records += 1;
        }
        Ok((bytes, records))
    }),
];

fn scan(path: &Path, verify: bool) -> crate::Result<Seen> {
    let contents = Contents::open(path, &Limits::default(), false)?;
    let mut records = 0;
    for record in contents.scan(verify) {
        black_box(record?);
        records += 1;
    }
    Ok((contents.bytes().len() as u64, records))
}

#[test]
#[ignore = "measures, and compares nothing"]
fn records_speed() -> crate::Result<()> {
    const ROUNDS: usize = 20;
    let what = std::env::var_os("PACELINE_RECORDS").expect("PACELINE_RECORDS names a folder or a file of records");
    let what = PathBuf::from(what);
    let files = if what.is_dir() { record_files(&what)? } else { vec![what] };

    let mut best = [(Duration::MAX, (0, 0)); WAYS.len()];
    let mut buffer = Vec::new();
    for _ in 0..=ROUNDS {
        for ((_, way), best) in WAYS.iter().zip(&mut best) {
            let start = Instant::now();
            let mut seen = (0, 0);
            for file in &files {
                let (bytes, records) = way(file, &mut buffer)?;
                seen = (seen.0 + bytes, seen.1 + records);
            }
            let time = start.elapsed();
            if time < best.0 {
                *best = (time, seen);
            }
        }
    }
    let copy = best[1].0.as_secs_f64();
    for ((name, _), (time, (bytes, records))) in WAYS.iter().zip(best) {
        let seconds = time.as_secs_f64();
        println!(
            "{name:<22} {:>8.0} MB/s {:>6.2} × copy  {:>8} records",
            bytes as f64 / 1e6 / seconds,
            copy / seconds,
            if records == 0 { "–".to_string() } else { records.to_string() }
        );
    }
    Ok(())
}
