//! Disk caches: never another set's pixels, never in each other's way, and nothing removed that somebody uses.

use paceline_data::example::{self, Value};
use paceline_data::tfrecord::{Packing, Writer};
use paceline_data::{Catalogue, DataPart, Labelled, Options, Result, Scratch, Source};
use paceline_image::{Chroma, Encoder, Pixels};
use paceline_prepare::feed::DiskCache;
use paceline_prepare::feed::cache::{self, CacheFile, Selection, State};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

const SIZE: usize = 60;
const COUNT: usize = 25;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Images that are a function of their number and of the ink; all inks have one name, as if it did not say enough.
struct Toy {
    ink: u8,
    names: Vec<String>,
}

fn toy(ink: u8) -> Arc<Toy> {
    Arc::new(Toy { ink, names: vec!["a".into(), "b".into()] })
}

fn pixels(ink: u8, index: usize) -> Vec<u8> {
    (0..SIZE).map(|i| (index * 31 + i * 7) as u8 ^ ink).collect()
}

impl Labelled for Toy {
    fn len(&self) -> usize {
        COUNT
    }
    fn shape(&self) -> &[usize] {
        &[5, 4, 3]
    }
    fn class_names(&self) -> &[String] {
        &self.names
    }
    fn label(&self, index: usize) -> u32 {
        (index % 2) as u32
    }
    fn fingerprint(&self) -> String {
        "toy".into()
    }
}

impl Source for Toy {
    fn place(&self, index: usize) -> String {
        format!("toy.tfrec, record {index}")
    }
    fn stored(&self) -> &'static str {
        "jpeg"
    }
    fn fetch(&self, index: usize, _: &mut Scratch, out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(&pixels(self.ink, index));
        Ok(())
    }
}

fn sample(source: &dyn Source, index: usize) -> Vec<u8> {
    let mut out = vec![0; source.shape().iter().product()];
    source.fetch(index, &mut Scratch::default(), &mut out).unwrap();
    out
}

/// Reads a range of samples through a cache and checks them.
fn check(cache: &DiskCache, ink: u8, range: std::ops::Range<usize>) {
    for index in range {
        assert_eq!(sample(cache, index), pixels(ink, index), "sample {index}");
    }
}

/// Opens a cache, reads everything and checks it: what it said.
fn fill(folder: &Path, ink: u8) -> Option<String> {
    let cache = DiskCache::new(toy(ink), folder, "toys").unwrap();
    check(&cache, ink, 0..COUNT);
    cache.note().map(String::from)
}

/// A folder, and nobody else's turn: a process that another test starts holds this one's locks between fork and exec.
struct Temp(tempfile::TempDir, #[allow(dead_code)] MutexGuard<'static, ()>);

impl Temp {
    fn new() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Self(tempfile::tempdir().unwrap(), turn)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn ends_in(path: &Path, end: &str) -> bool {
    path.extension().is_some_and(|e| e == end)
}

// ---- whose pixels

const SIDE: usize = 16;

/// A raw shard: a ramp within a black border, or its inversion. Lengths, labels and borders are equal.
fn write_raw(folder: &Path, inverted: bool) {
    let mut writer = Writer::new(Vec::new(), Packing::Plain);
    for number in 0..40_usize {
        let inside = |at: usize| (3..SIDE - 3).contains(&at);
        let value = |at: usize| match (at * 3 + number) as u8 {
            _ if !inside(at / SIDE) || !inside(at % SIDE) => 0,
            value if inverted => 255 - value,
            value => value,
        };
        let (image, mut bytes): (Vec<u8>, _) = ((0..SIDE * SIDE).map(value).collect(), Vec::new());
        let features = [
            ("image", Value::Bytes(&[&image])),
            ("class", Value::Ints(&[(number % 2) as i64])),
            ("shape", Value::Ints(&[SIDE as i64, SIDE as i64, 1])),
        ];
        example::write(&features, &mut bytes);
        writer.write(&bytes).unwrap();
    }
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("part.tfrec"), writer.finish().unwrap()).unwrap();
}

fn source_of(folder: &Path) -> Arc<dyn Source> {
    let set = Catalogue::with_cache("nowhere").open(folder.to_str().unwrap(), &Options::default()).unwrap();
    match set.train {
        DataPart::Stream(source) => source,
        DataPart::Memory(_) => panic!("{} was read into memory", folder.display()),
    }
}

#[test]
fn a_cache_of_other_records_is_not_used() {
    let temp = Temp::new();
    let kept = temp.path().join("decoded");
    for (name, inverted) in [("a", false), ("b", true)] {
        write_raw(&temp.path().join(name), inverted);
    }
    for (name, caches) in [("a", 1), ("b", 2), ("a", 2)] {
        let source = source_of(&temp.path().join(name));
        let cache = DiskCache::new(source.clone(), &kept, name).unwrap();
        for index in 0..source.len() {
            assert_eq!(sample(&cache, index), sample(&*source, index), "{name} {index}");
        }
        drop(cache);
        assert_eq!(files(&kept).len(), caches, "{name}");
    }
}

#[test]
fn a_cache_of_photos_that_changed_is_not_used() {
    let temp = Temp::new();
    let (kept, photos) = (temp.path().join("decoded"), temp.path().join("photos"));
    // Of one length, because a comment fills it up; one pixel in the middle of one photo differs.
    let write = |changed: bool| {
        for number in 0..30 {
            let mut data = vec![90; 32 * 32 * 3];
            data[32 * 16 * 3 + 48] = if changed && number == 13 { 255 } else { number };
            let mut jpeg = Vec::new();
            Encoder::new(95, Chroma::Full)
                .encode(&Pixels { width: 32, height: 32, channels: 3, data }, &mut jpeg)
                .unwrap();
            assert!(jpeg.len() < 8_000);
            jpeg.resize(8_000, 0);
            let class = photos.join(["x", "y"][number as usize % 2]);
            fs::create_dir_all(&class).unwrap();
            fs::write(class.join("new"), jpeg).unwrap();
            fs::rename(class.join("new"), class.join(format!("{number:02}.jpg"))).unwrap();
        }
        source_of(&photos)
    };
    let before: Vec<Vec<u8>> = {
        let source = write(false);
        let cache = DiskCache::new(source.clone(), &kept, "photos").unwrap();
        (0..source.len()).map(|index| sample(&cache, index)).collect()
    };
    let source = write(true);
    let cache = DiskCache::new(source.clone(), &kept, "photos").unwrap();
    let after: Vec<Vec<u8>> = (0..source.len()).map(|index| sample(&cache, index)).collect();
    assert_eq!(after, (0..source.len()).map(|index| sample(&*source, index)).collect::<Vec<_>>());
    assert_eq!(after.iter().zip(&before).filter(|(a, b)| a != b).count(), 1);
}

#[test]
fn samples_are_compared_before_a_file_is_believed() {
    let temp = Temp::new();
    assert_eq!(fill(temp.path(), 0), None);
    // Another ink under the same name: made anew, and for the next run it is right.
    let note = fill(temp.path(), 255).unwrap();
    assert!(note.contains("is made anew") && note.contains("other pixels than toy.tfrec, record 0"), "{note}");
    assert_eq!(files(temp.path()).len(), 1);
    assert!(fill(temp.path(), 255).unwrap().contains("are read from"));
}

// ---- two at once

#[test]
fn two_caches_of_the_same_samples_in_one_process_do_not_wait_for_each_other() {
    let temp = Temp::new();
    // The same process number and the same folder, as in two containers.
    let (one, two) = (
        DiskCache::new(toy(1), temp.path(), "training").unwrap(),
        DiskCache::new(toy(1), temp.path(), "validation").unwrap(),
    );
    assert_eq!(files(temp.path()).len(), 2);
    check(&one, 1, 0..13);
    check(&two, 1, 10..COUNT);
    let third = DiskCache::new(toy(1), temp.path(), "third").unwrap();
    check(&one, 1, 0..COUNT);
    let whole = files(temp.path()).into_iter().find(|path| ends_in(path, "decoded")).unwrap();
    let first = fs::read(&whole).unwrap();
    assert_eq!(one.outcome(), None);
    // The first to finish has the name; the other goes on with what it wrote.
    check(&two, 1, 0..COUNT);
    check(&two, 1, 0..COUNT);
    assert_eq!(two.outcome(), None);
    drop(third);
    let left = files(temp.path());
    assert_eq!(left, std::slice::from_ref(&whole));
    assert_eq!(fs::read(&whole).unwrap(), first, "the first is not written over");
    check(&one, 1, 0..COUNT);
    drop((one, two));
    assert!(fill(temp.path(), 1).unwrap().contains("are read from"));
}

#[test]
fn what_a_finished_file_holds_is_not_lost_to_a_slower_writer() {
    let temp = Temp::new();
    let slow = DiskCache::new(toy(1), temp.path(), "slow").unwrap();
    check(&slow, 1, 0..3);
    // Another process fills a damaged file's place meanwhile.
    fill(temp.path(), 1);
    let whole = files(temp.path()).into_iter().find(|path| ends_in(path, "decoded")).unwrap();
    let mut bytes = fs::read(&whole).unwrap();
    bytes[40] ^= 1;
    fs::write(&whole, &bytes).unwrap();
    check(&slow, 1, 0..COUNT);
    drop(slow);
    assert_ne!(fs::read(&whole).unwrap(), bytes, "a damaged file is replaced");
    assert!(fill(temp.path(), 1).unwrap().contains("are read from"));
}

// ---- other processes

/// What [`child`] is asked to do.
const FOLDER: &str = "PACELINE_TEST_CACHE_FOLDER";
const SAMPLES: &str = "PACELINE_TEST_CACHE_SAMPLES";

#[test]
#[ignore = "the second process of other tests here, which start it"]
fn child() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("only the other tests start this one"));
    let samples = std::env::var(SAMPLES).unwrap().parse().unwrap();
    let cache = DiskCache::new(toy(1), &folder, "of the child").unwrap();
    check(&cache, 1, 0..samples);
    println!("\nready");
    std::io::stdout().flush().unwrap();
    // Until the parent goes away or ends us.
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// A second process that has read so many samples through a cache and still has it open.
struct Second(Child);

impl Second {
    fn with(folder: &Path, samples: usize) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--ignored", "--nocapture"])
            .env(FOLDER, folder)
            .env(SAMPLES, samples.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "ready"), "the second process ended early");
        Self(child)
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn listed(folder: &Path) -> Vec<CacheFile> {
    cache::list(folder).unwrap()
}

#[test]
fn a_living_process_keeps_its_file_and_a_dead_one_does_not() {
    let temp = Temp::new();
    let second = Second::with(temp.path(), 5);
    let part = files(temp.path());
    assert!(part.len() == 1 && ends_in(&part[0], "part"), "{part:?}");
    let seen = &listed(temp.path())[0];
    assert_eq!((seen.state, seen.in_use, seen.samples), (State::Partial, Some(true), Some(COUNT)));
    assert_eq!(seen.owner.as_ref().unwrap().process, second.0.id());
    assert_eq!(seen.data.as_deref(), Some("of the child"));
    // Neither another run nor clearing touches it, not even by force.
    drop(DiskCache::new(toy(1), temp.path(), "toys").unwrap());
    let cleared = cache::clear(temp.path(), &Selection { force: true, ..Selection::default() }).unwrap();
    assert!(cleared[0].kept.as_ref().unwrap().contains(&format!("process {}", second.0.id())), "{cleared:?}");
    assert_eq!(files(temp.path()), part);
    second.kill();
    assert_eq!(listed(temp.path())[0].in_use, Some(false));
    drop(DiskCache::new(toy(1), temp.path(), "toys").unwrap());
    assert_eq!(files(temp.path()), [] as [PathBuf; 0]);
}

#[test]
fn a_whole_file_that_another_process_reads_is_not_cleared() {
    let temp = Temp::new();
    // One that the second process wrote, and one that it only reads.
    for _ in 0..2 {
        let second = Second::with(temp.path(), COUNT);
        let seen = &listed(temp.path())[0];
        assert_eq!((seen.state, seen.in_use, seen.sample_bytes), (State::Whole, Some(true), Some(SIZE)));
        let cleared = cache::clear(temp.path(), &Selection::default()).unwrap();
        assert!(cleared[0].kept.as_ref().unwrap().contains("running process"), "{cleared:?}");
        // Two may read it.
        assert!(fill(temp.path(), 1).unwrap().contains("are read from"));
        second.kill();
    }
    assert_eq!(listed(temp.path())[0].in_use, Some(false));
    let cleared = cache::clear(temp.path(), &Selection::default()).unwrap();
    assert!(cleared.len() == 1 && cleared[0].kept.is_none());
    assert_eq!(files(temp.path()), [] as [PathBuf; 0]);
}

// ---- the folder

/// A file under way of another host, which nobody here has locked.
fn foreign(folder: &Path, days: u32) -> PathBuf {
    let path = folder.join(format!("2-abc-5x4x3.node{days}.c0ffee.77.0123456789abcdef.part"));
    fs::write(&path, "half").unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(SystemTime::now() - days * DAY).unwrap();
    path
}

#[test]
fn what_another_host_writes_is_left_for_a_week() {
    let temp = Temp::new();
    let (young, old) = (foreign(temp.path(), 6), foreign(temp.path(), 8));
    // Of an older version, whose names do not say whose they are.
    let nameless = temp.path().join("0123456789abcdef-5x4x3.4711.part");
    fs::write(&nameless, "half").unwrap();
    drop(DiskCache::new(toy(1), temp.path(), "toys").unwrap());
    assert!(young.exists() && nameless.exists() && !old.exists());
    let seen = listed(temp.path()).into_iter().find(|file| file.path == young).unwrap();
    assert_eq!((seen.state, seen.in_use, seen.owner.unwrap().host.as_str()), (State::Partial, None, "node6"));
    let clear = |force| cache::clear(temp.path(), &Selection { force, ..Selection::default() }).unwrap();
    for cleared in clear(false) {
        assert!(cleared.needs_force && cleared.kept.as_ref().unwrap().contains("use force"), "{cleared:?}");
    }
    assert!(clear(true).iter().all(|cleared| cleared.kept.is_none()));
    assert_eq!(files(temp.path()), [] as [PathBuf; 0]);
}

#[test]
fn only_what_was_chosen_is_cleared() {
    let temp = Temp::new();
    let folder = temp.path();
    assert!(listed(&folder.join("absent")).is_empty());
    fill(folder, 1);
    let recent = files(folder)[0].clone();
    let aged = folder.join("old-one.decoded");
    fs::copy(&recent, &aged).unwrap();
    File::options().write(true).open(&aged).unwrap().set_modified(SystemTime::now() - 40 * DAY).unwrap();
    fs::write(folder.join("notes.txt"), "not a cache").unwrap();
    let names = |list: Vec<CacheFile>| list.iter().map(CacheFile::name).collect::<Vec<_>>();
    assert_eq!(names(listed(folder)), ["toy-5x4x3.decoded", "old-one.decoded"], "those used last come first");
    // Opening is use.
    File::options().write(true).open(&recent).unwrap().set_modified(SystemTime::now() - 50 * DAY).unwrap();
    fill(folder, 1);
    let clear = |which: Selection| cache::clear(folder, &which);
    let cleared = clear(Selection { older_than: Some(30 * DAY), ..Selection::default() }).unwrap();
    assert_eq!(names(cleared.into_iter().map(|cleared| cleared.file).collect()), ["old-one.decoded"]);
    let named = |name: &str| Selection { names: vec![name.into()], ..Selection::default() };
    assert!(clear(named("toad")).unwrap_err().message().contains("begins with `toad`"));
    fs::copy(&recent, folder.join("toy-copy.decoded")).unwrap();
    assert!(clear(named("toy")).unwrap_err().message().contains("stands for 2 files"));
    assert_eq!(clear(named("toy-5")).unwrap().len(), 1);
    assert_eq!(clear(named("toy-copy.decoded")).unwrap().len(), 1);
    assert_eq!(files(folder), [folder.join("notes.txt")]);
}

#[test]
fn a_newer_format_is_refused_and_an_older_one_made_anew() {
    let temp = Temp::new();
    fill(temp.path(), 1);
    let file = files(temp.path())[0].clone();
    let whole = fs::read(&file).unwrap();
    let with_format = |format: u32| {
        let mut bytes = whole.clone();
        bytes[8..12].copy_from_slice(&format.to_le_bytes());
        fs::write(&file, bytes).unwrap();
    };
    with_format(3);
    assert_eq!(listed(temp.path())[0].state, State::Newer);
    let error = DiskCache::new(toy(1), temp.path(), "toys").err().unwrap();
    let words = ["format 3", "newer version", "paceline data cache --clear"];
    assert!(words.iter().all(|word| error.message().contains(word)), "{error}");
    with_format(1);
    assert_eq!(listed(temp.path())[0].state, State::Older);
    assert!(fill(temp.path(), 1).unwrap().contains("is made anew: it has format 1, which an older version wrote"));
    assert_eq!(fs::read(&file).unwrap(), whole);
    // Numbers that would overflow or take all memory.
    for (at, value) in [(12, u32::MAX), (20, u32::MAX), (28, u32::MAX), (32, u32::MAX)] {
        let mut bytes = whole.clone();
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        fs::write(&file, bytes).unwrap();
        assert_eq!(listed(temp.path())[0].state, State::Damaged, "byte {at}");
    }
}
