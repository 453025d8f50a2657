//! How fast records are read from the page cache, against copying the same bytes.
//!
//!     cargo run --release -p paceline-data --example records_speed -- FOLDER|FILE [ROUNDS]
//!
//! The ways are measured in turn, each round opens the files anew, and the best round counts: what is compared is what
//! the work costs, not what else the machine did. `touch` reads one byte of each page: what any reader of a map pays.

use paceline_data::shards::record_files;
use paceline_data::tfrecord::{Contents, File, Limits, Reader};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes and records that a way of reading has seen.
type Seen = (u64, u64);

type Way = (&'static str, fn(&Path, &mut Vec<u8>) -> paceline_data::Result<Seen>);

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

fn scan(path: &Path, verify: bool) -> paceline_data::Result<Seen> {
    let contents = Contents::open(path, &Limits::default(), false)?;
    let mut records = 0;
    for record in contents.scan(verify) {
        black_box(record?);
        records += 1;
    }
    Ok((contents.bytes().len() as u64, records))
}

fn main() -> paceline_data::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(what) = arguments.next() else {
        eprintln!("usage: records_speed FOLDER|FILE [ROUNDS]");
        std::process::exit(2);
    };
    let rounds: usize = arguments.next().map_or(20, |n| n.parse().expect("a number of rounds"));
    let what = PathBuf::from(what);
    let files = if what.is_dir() { record_files(&what)? } else { vec![what] };

    let mut best = [(Duration::MAX, (0, 0)); WAYS.len()];
    let mut buffer = Vec::new();
    for _ in 0..=rounds {
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
