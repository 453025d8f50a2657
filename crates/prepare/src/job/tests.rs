//! Whole jobs: a panic in any stage ends them and leaves nothing behind, and a damaged shard is made again as it was.

use super::*;
use crate::panic::inject::Fault;
use paceline_base::Kind;
use paceline_image::{Pixels, encode_png};
use std::sync::mpsc;
use std::time::Duration;

/// Two classes of small pictures.
fn photos(folder: &Path, count: u8) -> PathBuf {
    let path = folder.join("photos");
    for i in 0..count {
        let class = path.join(if i % 2 == 0 { "a" } else { "b" });
        std::fs::create_dir_all(&class).unwrap();
        let data = (0..12 * 9 * 3).map(|k| (k as u8).wrapping_mul(i + 1)).collect();
        let png = encode_png(&Pixels { width: 12, height: 9, channels: 3, data }).unwrap();
        std::fs::write(class.join(format!("{i:02}.png")), png).unwrap();
    }
    path
}

fn spec(folder: &Path, destination: &str, skip_bad: usize) -> JobSpec {
    let settings = Settings { width: 8, height: 8, shards: 3, ..Settings::default() };
    JobSpec {
        source: folder.join("photos"),
        destination: folder.join(destination),
        settings,
        skip_bad,
        one_class: false,
        names: SettingNames::default(),
    }
}

fn run(spec: &JobSpec) -> Result<Prepared> {
    match begin(spec)? {
        Begun::Complete(prepared) => Ok(*prepared),
        Begun::Job(job) => {
            let threads = Threads { readers: 2, workers: 3 };
            job.run(threads, &mut |_| (), &AtomicBool::new(false)).map(|(prepared, _)| prepared)
        }
    }
}

/// What `work` returns. A job that waits for ever fails here instead of holding up all tests.
fn ends<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    result.recv_timeout(Duration::from_secs(300)).expect("the job to end")
}

/// The files of a folder, by name.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.path().is_file())
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).unwrap()))
        .collect();
    all.sort();
    all
}

/// A panic at `part` in `stage` is told with both, leaves no temporary file, and the next run makes what is missing.
#[track_caller]
fn survives(stage: &str, part: &str) {
    let folder = tempfile::tempdir().unwrap();
    photos(folder.path(), 12);
    run(&spec(folder.path(), "whole", 0)).unwrap();
    let wanted = spec(folder.path(), "shards", 5);
    // The temporary folder's name is what no other test has.
    let unique = folder.path().file_name().unwrap().to_string_lossy().into_owned();
    let item = if part.is_empty() { unique } else { format!("{unique}/{part}") };
    let fault = Fault::new(stage, item);
    let again = wanted.clone();
    let error = ends(move || run(&again)).unwrap_err();
    drop(fault);
    assert_eq!(error.kind(), Kind::Internal, "{error}");
    let file = part.rsplit('/').next().unwrap();
    assert!(error.message().contains(&format!("`{stage}`")) && error.message().contains(file), "{error}");
    assert!(files(&folder.path().join("shards/.prepare/tmp")).is_empty(), "temporary files are left");
    assert!(!folder.path().join("shards/index.json").exists());
    run(&wanted).unwrap();
    assert_eq!(files(&folder.path().join("shards")), files(&folder.path().join("whole")));
}

#[test]
fn a_panic_in_any_stage_ends_the_job() {
    survives("read", "photos/b/03.png");
    survives("decode", "photos/a/08.png");
    survives("write", "shards/.prepare/train-00001-of-00003.tfrec");
    survives("seal", "shards/.prepare/tmp/train-00002-of-00003.tfrec");
}

#[test]
fn a_watcher_that_panics_leaves_no_thread_behind() {
    let folder = tempfile::tempdir().unwrap();
    photos(folder.path(), 12);
    let wanted = spec(folder.path(), "shards", 0);
    let Begun::Job(job) = begin(&wanted).unwrap() else { panic!("there is work to do") };
    let panicked = ends(move || {
        let threads = Threads { readers: 1, workers: 1 };
        let run = || job.run(threads, &mut |_| panic!("a bug"), &AtomicBool::new(false)).map(drop);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err()
    });
    assert!(panicked);
    run(&wanted).unwrap();
}

/// Before, the images of all shards were counted as left out of the first whole one, and those of the damaged shard again.
#[test]
fn a_damaged_shard_is_made_again_under_the_same_allowance() {
    let folder = tempfile::tempdir().unwrap();
    let source = photos(folder.path(), 18);
    std::fs::write(source.join("a/04.png"), b"no image").unwrap();
    std::fs::write(source.join("b/07.png"), b"").unwrap();
    let wanted = spec(folder.path(), "shards", 2);
    let first = run(&wanted).unwrap();
    assert_eq!(first.index.skipped.len(), 2, "{:?}", first.index.skipped);
    let before = files(&wanted.destination);
    for shard in &first.index.shards {
        let path = wanted.destination.join(&shard.file);
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let again = run(&wanted).unwrap();
        assert_eq!(again.kept, 2);
        assert_eq!(again.index, first.index, "each image is listed once, in its place");
        assert_eq!(files(&wanted.destination), before);
    }
    // Fewer may be left out than are: said before anything is made.
    std::fs::remove_file(wanted.destination.join(&first.index.shards[0].file)).unwrap();
    let error = run(&JobSpec { skip_bad: 0, ..wanted.clone() }).unwrap_err();
    assert!(error.message().contains("skip_bad allows 0"), "{error}");
    assert_eq!(run(&wanted).unwrap().index, first.index);
}
