//! The feed: rows do not depend on threads, readers or caches, and errors and ends reach those who wait.

use paceline_base::portion::Portion;
use paceline_base::region::split_range;
use paceline_base::stage::Stage;
use paceline_data::{DataError, Labelled, Order, Result, Scratch, Source, Supply, Visits};
use paceline_prepare::feed::{Augment, DiskCache, Feed, FeedOptions, MemoryCache, check};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// Images that are a function of their number; some may be bad.
struct Toy {
    count: usize,
    names: Vec<String>,
    bad: Vec<usize>,
    panics: bool,
    /// Nor can it say where a bad one is.
    lost: bool,
    /// How long a decoding takes.
    pause: Duration,
    decoded: AtomicUsize,
}

const SHAPE: [usize; 3] = [5, 4, 3];
const SIZE: usize = 60;
/// Samples of a disk cache that are compared with their source when it is opened.
const COMPARED: usize = 16;

fn toy(count: usize) -> Toy {
    let names = (0..3).map(|c| c.to_string()).collect();
    Toy {
        count,
        names,
        bad: Vec::new(),
        panics: false,
        lost: false,
        pause: Duration::ZERO,
        decoded: AtomicUsize::new(0),
    }
}

fn pixels(index: usize) -> Vec<u8> {
    (0..SIZE).map(|i| (index * 31 + i * 7) as u8).collect()
}

impl Labelled for Toy {
    fn len(&self) -> usize {
        self.count
    }
    fn shape(&self) -> &[usize] {
        &SHAPE
    }
    fn class_names(&self) -> &[String] {
        &self.names
    }
    fn label(&self, index: usize) -> u32 {
        (index % 3) as u32
    }
    fn fingerprint(&self) -> String {
        format!("toy-{}", self.count)
    }
}

impl Source for Toy {
    fn place(&self, index: usize) -> String {
        assert!(!self.lost, "a second bug");
        format!("toy.tfrec, record {index}")
    }
    fn stored(&self) -> &'static str {
        "jpeg"
    }
    fn fetch(&self, index: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<()> {
        let begin = Instant::now();
        std::thread::sleep(self.pause);
        if self.bad.contains(&index) {
            assert!(!self.panics, "a decoder with a bug");
            return Err(DataError::NotIdx { file: self.place(index), found: "00".into() });
        }
        self.decoded.fetch_add(1, Ordering::Relaxed);
        out.copy_from_slice(&pixels(index));
        scratch.times.add(Stage::Decode, begin);
        Ok(())
    }
}

const COLOURFUL: Augment =
    Augment { flip: true, crop: 0.5, pad: 0, brightness: 0.3, contrast: 0.3, saturation: 0.3, hue: 0.1 };

fn options(count: usize, threads: usize, ranks: usize) -> FeedOptions {
    FeedOptions {
        visits: Visits::all(Order::new(count, 3)),
        augment: Some((COLOURFUL, 9)),
        threads,
        rows: 12,
        ranks: 0..ranks,
        start: 0,
        end: 3 * count as u64,
    }
}

/// All rows from `options.start` on in batches of 7, each rank reading its share, with labels.
fn read(source: Arc<dyn Source>, options: FeedOptions) -> BTreeMap<u64, (u32, Vec<u8>)> {
    let (ranks, start, end) = (options.ranks.len(), options.start, options.end);
    let feed = Feed::new(source, options).unwrap();
    let mut all = BTreeMap::new();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..ranks)
            .map(|rank| {
                let feed = &feed;
                scope.spawn(move || {
                    let mut rows = Vec::new();
                    let mut at = start;
                    while at < end {
                        let batch = at..(at + 7).min(end);
                        let share = (batch.end - batch.start).div_ceil(ranks as u64);
                        let from = (batch.start + rank as u64 * share).min(batch.end);
                        let mine = from..(from + share).min(batch.end);
                        feed.wait(rank, mine.clone()).unwrap();
                        for position in mine {
                            feed.look(position, &mut |features| {
                                let paceline_data::Features::U8 { bytes, .. } = features else { panic!("bytes") };
                                rows.push((position, (feed.label(position), bytes.to_vec())));
                            });
                        }
                        feed.release(rank, batch.end);
                        at = batch.end;
                    }
                    rows
                })
            })
            .collect();
        all = readers.into_iter().flat_map(|r| r.join().unwrap()).collect();
    });
    all
}

#[test]
fn rows_do_not_depend_on_threads_ranks_or_where_it_began() {
    let source = || Arc::new(toy(25)) as Arc<dyn Source>;
    let expected = read(source(), options(25, 1, 1));
    assert_eq!(expected.len(), 75);
    for (threads, ranks) in [(3, 1), (1, 2), (2, 3), (5, 4)] {
        assert_eq!(read(source(), options(25, threads, ranks)), expected, "{threads} threads, {ranks} ranks");
    }
    let later = read(source(), FeedOptions { start: 32, ..options(25, 2, 2) });
    assert_eq!(later, expected.range(32..).map(|(p, row)| (*p, row.clone())).collect());
    // Every sample once an epoch, with its label; epochs differ.
    let order = Order::new(25, 3);
    for (&position, (label, _)) in &expected {
        assert_eq!(*label as usize, order.at(position / 25, position as usize % 25) % 3);
    }
    let plain = read(source(), FeedOptions { augment: None, ..options(25, 2, 1) });
    for (&position, (_, row)) in &plain {
        assert_eq!(*row, pixels(order.at(position / 25, position as usize % 25)));
    }
    assert_ne!(plain, expected);
}

/// What `local` of three ranks see, in batches of 7 that begin anew with every pass of 25.
fn read_some(
    source: Arc<Toy>,
    local: Range<usize>,
    own: Option<Order>,
    start: u64,
    rows: usize,
) -> BTreeMap<u64, (u32, Vec<u8>)> {
    let shares = |n| local.clone().map(move |rank| split_range(n, 3, rank));
    let portion = Portion::new(25, 7, shares(7), shares(4));
    let visits = match own {
        Some(order) => Visits::own(order, portion),
        None => Visits::shared(Order::new(25, 3), portion),
    };
    let options = FeedOptions { visits, rows, start, ranks: local.clone(), ..options(25, 2, 3) };
    let end = options.end;
    let feed = &Feed::new(source, options).unwrap();
    let reader = |rank: usize| {
        let (mut seen, mut at) = (Vec::new(), start);
        while at < end {
            let batch = 7.min(25 - at % 25);
            let mine = split_range(batch as usize, 3, rank);
            let mine = at + mine.start as u64..at + mine.end as u64;
            feed.wait(rank, mine.clone()).unwrap();
            for position in mine {
                feed.look(position, &mut |features| {
                    let paceline_data::Features::U8 { bytes, .. } = features else { panic!("bytes") };
                    seen.push((position, (feed.label(position), bytes.to_vec())));
                });
            }
            at += batch;
            feed.release(rank, at);
        }
        seen
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = local.clone().map(|rank| scope.spawn(move || reader(rank))).collect();
        readers.into_iter().flat_map(|r| r.join().unwrap()).collect()
    })
}

#[test]
fn processes_decode_only_what_their_ranks_read_and_together_see_all() {
    let expected = read(Arc::new(toy(25)), options(25, 2, 1));
    for (start, rows) in [(0, 5), (0, 40), (32, 6)] {
        let mut together = BTreeMap::new();
        for local in [0..1, 1..3] {
            let source = Arc::new(toy(25));
            let seen = read_some(source.clone(), local.clone(), None, start, rows);
            assert_eq!(source.decoded.load(Ordering::Relaxed), seen.len(), "ranks {local:?} decode what they read");
            assert!(!seen.is_empty() && seen.len() < expected.len());
            together.extend(seen);
        }
        assert_eq!(together, expected.range(start..).map(|(p, row)| (*p, row.clone())).collect());
    }
}

#[test]
fn a_process_with_its_own_samples_walks_through_them() {
    // 8 samples of its own, of 25 in all; ranks 1 and 2 of 3 read 4, 4, 4 and 2 rows a pass.
    let order = Order::new(8, 5);
    let seen = read_some(Arc::new(toy(8)), 1..3, Some(order.clone()), 0, 9);
    assert_eq!(seen.len(), 3 * 14);
    for (count, (label, _)) in seen.values().enumerate() {
        assert_eq!(*label as usize, order.at(count as u64 / 8, count % 8) % 3);
    }
    let later = read_some(Arc::new(toy(8)), 1..3, Some(order), 32, 9);
    assert_eq!(later, seen.range(32..).map(|(p, row)| (*p, row.clone())).collect());
}

#[test]
fn a_rank_that_reads_what_was_not_asked_for_is_an_error() {
    let visits = Visits::shared(Order::new(25, 3), Portion::new(25, 5, std::iter::once(0..2), []));
    let feed = Feed::new(Arc::new(toy(25)), FeedOptions { visits, ..options(25, 1, 1) }).unwrap();
    feed.wait(0, 5..7).unwrap();
    assert!(feed.wait(0, 6..8).unwrap_err().message().contains("not asked for"));
}

#[test]
fn caches_change_nothing_and_decode_once() {
    let folder = tempfile::tempdir().unwrap();
    let expected = read(Arc::new(toy(25)), options(25, 2, 1));
    for disk in [false, true] {
        let inner = Arc::new(toy(25));
        let cached: Arc<dyn Source> = if disk {
            Arc::new(DiskCache::new(inner.clone(), folder.path(), "toys").unwrap())
        } else {
            Arc::new(MemoryCache::new(inner.clone(), 25 * 60).unwrap())
        };
        assert_eq!(read(cached, options(25, 1, 1)), expected, "disk {disk}");
        assert_eq!(inner.decoded.load(Ordering::Relaxed), 25, "disk {disk}: three epochs, one decoding");
    }
    // A later run reads the file and decodes nothing but the samples that it compares.
    let inner = Arc::new(toy(25));
    let again = DiskCache::new(inner.clone(), folder.path(), "toys").unwrap();
    assert!(again.note().unwrap().contains("are read from"));
    assert_eq!(inner.decoded.load(Ordering::Relaxed), COMPARED);
    assert_eq!(read(Arc::new(again), options(25, 3, 2)), expected);
    assert_eq!(inner.decoded.load(Ordering::Relaxed), COMPARED);
}

#[test]
fn a_sample_that_several_want_at_once_is_decoded_once() {
    let folder = tempfile::tempdir().unwrap();
    for disk in [false, true] {
        let inner = Arc::new(Toy { pause: Duration::from_millis(30), ..toy(3) });
        let cached: Arc<dyn Source> = if disk {
            Arc::new(DiskCache::new(inner.clone(), folder.path(), "toys").unwrap())
        } else {
            Arc::new(MemoryCache::new(inner.clone(), 3 * 60).unwrap())
        };
        let together = Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let (mut scratch, mut out) = (Scratch::default(), vec![0; SIZE]);
                    together.wait();
                    cached.fetch(1, &mut scratch, &mut out).unwrap();
                    assert_eq!(out, pixels(1), "disk {disk}");
                });
            }
        });
        assert_eq!(inner.decoded.load(Ordering::Relaxed), 1, "disk {disk}");
    }
}

#[test]
fn a_memory_cache_has_a_limit() {
    let error = MemoryCache::new(Arc::new(toy(25)), 25 * 60 - 1).err().unwrap();
    let words = ["data.cache=memory would take", "data.cache_limit", "data.cache=disk"];
    assert!(words.iter().all(|word| error.message().contains(word)), "{error}");
}

fn cache_file(folder: &Path) -> std::path::PathBuf {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

#[test]
fn a_damaged_disk_cache_is_noticed_and_mended() {
    let folder = tempfile::tempdir().unwrap();
    let expected = read(Arc::new(toy(25)), options(25, 2, 1));
    let fill = || {
        let inner = Arc::new(toy(25));
        let cache = Arc::new(DiskCache::new(inner.clone(), folder.path(), "toys").unwrap());
        assert_eq!(read(cache.clone(), options(25, 2, 1)), expected);
        (inner.decoded.load(Ordering::Relaxed), cache.note().map(String::from), cache.outcome())
    };
    assert_eq!(fill(), (25, None, None));
    let file = cache_file(folder.path());
    let whole = std::fs::read(&file).unwrap();
    // A flipped bit in a sample: that one is decoded again and put right.
    let mut bytes = whole.clone();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    // (It is the last one, which is also compared when the file is opened: not if it is damaged.)
    let (decoded, _, outcome) = fill();
    assert_eq!(decoded, COMPARED);
    assert!(outcome.unwrap().contains("1 damaged samples"));
    assert_eq!(std::fs::read(&file).unwrap(), whole);
    // A damaged head or a wrong length: all of it is made again, saying so.
    for damage in [|b: &mut Vec<u8>| b[20] ^= 1, |b: &mut Vec<u8>| b.truncate(700), |b: &mut Vec<u8>| b.clear()] {
        let mut bytes = whole.clone();
        damage(&mut bytes);
        std::fs::write(&file, &bytes).unwrap();
        let (decoded, note, _) = fill();
        assert_eq!(decoded, 25);
        assert!(note.unwrap().contains("is made anew"));
        assert_eq!(std::fs::read(&file).unwrap(), whole);
    }
}

#[test]
fn a_cache_that_was_not_finished_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Arc::new(DiskCache::new(Arc::new(toy(25)), folder.path(), "toys").unwrap());
    read(cache.clone(), FeedOptions { end: 24, ..options(25, 2, 1) });
    assert!(cache.outcome().unwrap().contains("1 sample was not read"));
    // Killed: the temporary file stays behind, unlocked.
    let part = cache_file(folder.path());
    let stale = part.with_extension("").with_extension("0123456789abcdef.part");
    std::fs::copy(&part, &stale).unwrap();
    drop(cache);
    assert_eq!(cache_file(folder.path()), stale);
    drop(DiskCache::new(Arc::new(toy(25)), folder.path(), "toys").unwrap());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "what a dead run left is removed");
}

#[test]
fn a_cache_goes_without_bad_samples() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..2 {
        let inner = Arc::new(Toy { bad: vec![4, 20], ..toy(25) });
        let cache = DiskCache::new(inner.clone(), folder.path(), "toys").unwrap();
        let checked = check(&cache, 2, 2).unwrap();
        assert_eq!((checked.good.len(), checked.bad.len()), (23, 2));
        let decoded = inner.decoded.load(Ordering::Relaxed);
        assert!(if round == 0 { decoded == 23 } else { decoded <= COMPARED }, "round {round}: {decoded}");
        assert_eq!(cache.outcome(), None);
    }
    assert!(cache_file(folder.path()).extension().is_some_and(|e| e == "decoded"));
}

#[test]
fn a_bad_sample_is_an_error_that_names_it() {
    let order = Order::new(25, 3);
    for panics in [false, true] {
        let source = Toy { bad: vec![order.at(0, 9)], panics, ..toy(25) };
        let feed = Feed::new(Arc::new(source), options(25, 2, 1)).unwrap();
        feed.wait(0, 0..7).unwrap();
        feed.release(0, 7);
        let error = feed.wait(0, 7..14).unwrap_err();
        assert!(error.message().contains(&format!("toy.tfrec, record {}", order.at(0, 9))), "{error}");
        assert_eq!(error.message().contains("data.skip_bad"), !panics, "{error}");
        assert_eq!(error.message().contains("a decoder with a bug"), panics, "{error}");
    }
}

/// Before, a source that panicked while it was asked for the place took the thread with it, and ranks waited for ever.
#[test]
fn nobody_waits_for_an_input_thread_that_is_gone() {
    let order = Order::new(25, 3);
    let source = Arc::new(Toy { bad: vec![order.at(0, 9)], panics: true, lost: true, ..toy(25) });
    for cached in [false, true] {
        let source: Arc<dyn Source> =
            if cached { Arc::new(MemoryCache::new(source.clone(), 1 << 20).unwrap()) } else { source.clone() };
        let feed = Arc::new(Feed::new(source, options(25, 2, 1)).unwrap());
        let (done, result) = std::sync::mpsc::channel();
        let waiting = feed.clone();
        std::thread::spawn(move || {
            waiting.wait(0, 0..7).unwrap();
            waiting.release(0, 7);
            let _ = done.send(waiting.wait(0, 7..14));
        });
        let error = result.recv_timeout(Duration::from_secs(300)).expect("an answer").unwrap_err();
        assert_eq!(error.kind(), paceline_base::Kind::Internal, "{error}");
        assert!(error.message().contains("position 9") && error.message().contains("a decoder with a bug"), "{error}");
    }
}

#[test]
fn a_panic_while_samples_are_checked_is_a_bug_and_no_bad_sample() {
    let source = Toy { bad: vec![3], panics: true, ..toy(25) };
    let error = check(&source, 3, 5).unwrap_err();
    assert_eq!(error.kind(), paceline_base::Kind::Internal);
    assert!(error.message().contains("record 3") && error.message().contains("a decoder with a bug"), "{error}");
}

#[test]
fn bad_samples_are_found_before() {
    let source = Toy { bad: vec![3, 17], ..toy(25) };
    let checked = check(&source, 3, 2).unwrap();
    assert_eq!(checked.good, (0..25).filter(|i| ![3, 17].contains(i)).collect::<Vec<_>>());
    assert!(checked.bad.len() == 2 && checked.bad[0].contains("record 3") && checked.bad[1].contains("record 17"));
    assert!(check(&source, 2, 1).unwrap_err().to_string().contains("record"));
}

#[test]
fn those_who_wait_are_let_go() {
    let feed = Feed::new(Arc::new(toy(25)), FeedOptions { end: 5, ..options(25, 1, 1) }).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| feed.wait(0, 3..8)); // beyond the end: it would wait for ever
        std::thread::sleep(std::time::Duration::from_millis(30));
        feed.stop();
        assert!(waits.join().unwrap().unwrap_err().message().contains("stopped"));
    });
    // A full ring whose readers left.
    drop(Feed::new(Arc::new(toy(25)), options(25, 4, 2)).unwrap());
}

#[test]
fn stages_are_counted() {
    let feed = Feed::new(Arc::new(toy(25)), options(25, 2, 1)).unwrap();
    for batch in 0..10 {
        feed.wait(0, batch * 7..batch * 7 + 7).unwrap();
        feed.release(0, batch * 7 + 7);
    }
    let stages = feed.stages();
    let names: Vec<_> = stages.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["decode", "augment", "deliver"]);
    assert!(stages[0].items >= 70 && stages[0].busy > 0.0 && stages[0].threads == 2);
    assert_eq!((stages[2].items, stages[2].bytes), (10, 70 * SIZE as u64));
}
