//! A run directory, from outside: written, killed, resumed, read.

use std::fs;
use std::io::Write;
use std::path::Path;

use paceline_base::Kind;
use paceline_base::TimeSplit;
use paceline_record::{EpochRecord, Patience, RunDir, Status, StepRecord, Summary, read_run, read_summary};
use paceline_system::machine;
use proptest::prelude::*;

fn step(step: u64) -> StepRecord {
    StepRecord {
        epoch: 1 + step / 10,
        step,
        samples: 16,
        batch: 32,
        loss: 1.0 / (step + 1) as f64,
        accuracy: Some(0.1 + 0.2),
        rate: 0.01,
        examples_per_s: 1e5 / 3.0,
        split: TimeSplit { compute: 0.1, wait: 1e-9, ..TimeSplit::default() },
        ..StepRecord::default()
    }
}

fn epoch(epoch: u64, steps: u64) -> EpochRecord {
    EpochRecord {
        epoch,
        step: steps,
        rate: 0.01,
        train_loss: 0.5,
        train_accuracy: Some(0.8),
        examples_per_s: 7.0,
        ..EpochRecord::default()
    }
}

/// A run of the given attempts: (start, steps).
fn write(path: &Path, attempts: &[(u64, u64)]) {
    let dir = RunDir::create(path).unwrap();
    dir.write_run_toml(&toml::toml! { seed = 7 }).unwrap();
    for (i, &(start, end)) in attempts.iter().enumerate() {
        let writer = if i == 0 { dir.begin_steps().unwrap() } else { dir.resume_steps(start).unwrap() };
        assert_eq!(writer.attempt() as usize, i + 1);
        (start..end).for_each(|at| writer.push(step(at)));
        writer.finish().unwrap();
    }
}

#[test]
fn what_is_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("first");
    let dir = RunDir::create(&path).unwrap();
    dir.write_run_toml(&toml::toml! {
        seed = 7
        [train]
        batch = 32
    })
    .unwrap();
    let writer = dir.begin_steps().unwrap();
    (0..20).for_each(|at| writer.push(step(at)));
    writer.push_epoch(epoch(1, 10));
    writer.push_epoch(EpochRecord { val_loss: Some(f64::NAN), ..epoch(2, 20) });
    assert_eq!(writer.finish().unwrap().records, 22);
    let mut summary = Summary {
        name: "first".into(),
        status: Status::Failed { why: "loss is not finite".into() },
        epochs: vec![epoch(1, 10)],
        split: vec![TimeSplit { compute: 3.0, wait: 1.0, ..TimeSplit::default() }],
        examples_per_s: 7.0,
        machine: machine::describe(),
        ..Summary::default()
    };
    summary.derive_figures();
    dir.write_summary(&summary).unwrap();

    let run = read_run(&path).unwrap();
    assert_eq!(run.config["train"]["batch"].as_integer(), Some(32));
    assert_eq!(run.steps, (0..20).map(step).collect::<Vec<_>>());
    assert_eq!(run.epochs[0], epoch(1, 10));
    assert!(run.epochs[1].val_loss.unwrap().is_nan());
    assert_eq!(run.summary.unwrap(), summary);
    assert_eq!(summary.split_fractions.compute, 0.75);
    assert_eq!((run.name.as_str(), run.notes.len()), ("first", 0));
    for file in ["run.toml", "summary.json", "steps.jsonl"] {
        let text = fs::read_to_string(path.join(file)).unwrap();
        assert!(text.lines().take(2).any(|line| line.contains("format")), "{file}");
    }
}

#[test]
fn a_run_never_overwrites_another() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("first"), &[(0, 1)]);
    let error = RunDir::create(folder.path().join("first")).unwrap_err();
    assert_eq!(error.kind(), Kind::User);
    assert!(error.message().contains("--resume") && error.message().contains("another folder"), "{error}");
    // An empty folder is as good as none.
    fs::create_dir(folder.path().join("second")).unwrap();
    RunDir::create(folder.path().join("second")).unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    assert!(RunDir::create(folder.path().join("file")).is_err());
}

#[test]
fn many_that_start_at_once_never_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let gate = std::sync::Barrier::new(16);
    let mut made: Vec<_> = std::thread::scope(|scope| {
        let start = || {
            gate.wait();
            let dirs: Vec<_> = (0..4).map(|_| RunDir::create_next(&runs, "mlp").unwrap()).collect();
            dirs.iter().map(|dir| dir.path().to_path_buf()).collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(start)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    made.sort();
    made.dedup();
    assert_eq!(made.len(), 64);
    // A folder that is there and empty goes to one of them.
    let named = folder.path().join("named");
    fs::create_dir(&named).unwrap();
    let begin = || {
        gate.wait();
        let dir = RunDir::create(&named)?;
        dir.write_run_toml(&toml::toml! { seed = 7 })?;
        Ok::<_, paceline_base::Error>(dir)
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(begin)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1);
    for error in results.into_iter().filter_map(Result::err) {
        assert!(error.kind() == Kind::User && error.message().contains("--run-dir"), "{error}");
    }
}

#[test]
fn a_run_is_running_only_while_somebody_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let dir = RunDir::create(&path).unwrap();
    dir.write_summary(&Summary { name: "run".into(), ..Summary::default() }).unwrap();
    let run = read_run(&path).unwrap();
    assert_eq!(run.summary.unwrap().status, Status::Running);
    let me = format!("process {}", std::process::id());
    assert!(run.notes.iter().any(|n| n.contains("running") && n.contains(&me)), "{:?}", run.notes);
    let before = fs::read(path.join("lock")).unwrap();
    drop(dir); // as a kill would: the summary stays what it was
    assert_ne!(fs::read(path.join("lock")).unwrap(), before, "a clean end is written");
    fs::write(path.join("lock"), before).unwrap(); // a kill has no time for that
    let run = read_run(&path).unwrap();
    assert_eq!(run.summary.unwrap().status, Status::Interrupted);
    let note = run.notes.iter().find(|n| n.contains("ended without a word")).unwrap();
    assert!(note.contains("UTC") && note.contains("--resume"), "{note}");
    assert_eq!(
        read_summary(path.join("summary.json")).unwrap().unwrap().status,
        Status::Running,
        "nothing was written"
    );
    // Runs of older versions have no lock.
    fs::remove_file(path.join("lock")).unwrap();
    assert_eq!(read_run(&path).unwrap().summary.unwrap().status, Status::Interrupted);
    assert!(!path.join("lock").exists(), "a reader makes no files");
}

#[test]
fn a_second_writer_is_refused_and_what_is_only_read_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let dir = RunDir::create(&path).unwrap();
    dir.write_run_toml(&toml::toml! { seed = 7 }).unwrap();
    let error = RunDir::reopen(&path, Patience::Short, &mut |_| {}).unwrap_err();
    assert!(error.message().contains(&format!("process {}", std::process::id())), "{error}");
    let read_only = RunDir::open(&path).unwrap();
    assert_eq!(read_only.resume_steps(0).err().unwrap().kind(), Kind::Internal);
    assert_eq!(read_only.write_summary(&Summary::default()).unwrap_err().kind(), Kind::Internal);
    drop(dir);
    RunDir::reopen(&path, Patience::Short, &mut |_| {}).unwrap().resume_steps(0).unwrap();
}

#[test]
fn a_wrong_path_is_answered_with_the_runs_there_are() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("first"), &[(0, 1)]);
    for wrong in [folder.path().join("frist"), folder.path().to_path_buf()] {
        let error = read_run(wrong).unwrap_err();
        assert_eq!(error.kind(), Kind::User);
        assert!(error.message().contains("holds the runs first"), "{error}");
    }
}

#[test]
fn a_restart_takes_over_from_its_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    write(&path, &[(0, 10), (6, 8), (7, 12)]);
    let run = read_run(&path).unwrap();
    let owners: Vec<_> = run.steps.iter().map(|r| (r.step, r.attempt)).collect();
    let expected: Vec<_> = (0..12)
        .map(|s| {
            (
                s,
                if s < 6 {
                    1
                } else if s < 7 {
                    2
                } else {
                    3
                },
            )
        })
        .collect();
    assert_eq!((owners, run.attempt), (expected, 3));
    // Nothing was taken out of the file itself.
    assert_eq!(fs::read_to_string(path.join("steps.jsonl")).unwrap().lines().count(), 3 + 10 + 2 + 5);
}

#[test]
fn newer_formats_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (file, text) in [
        ("run.toml", "format = 2\n"),
        ("summary.json", r#"{"format":2,"shape":"other"}"#),
        ("steps.jsonl", "{\"format\":2,\"kind\":\"steps\",\"attempt\":1}\n"),
    ] {
        let path = folder.path().join(file.replace('.', "-"));
        write(&path, &[(0, 1)]);
        fs::write(path.join(file), text).unwrap();
        let error = read_run(&path).unwrap_err();
        assert_eq!(error.kind(), Kind::User);
        assert!(error.message().contains(file) && error.message().contains("format 2"), "{error}");
    }
}

#[test]
fn files_without_a_format_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (file, text) in [("run.toml", "seed = 1\n"), ("summary.json", "{}"), ("steps.jsonl", "{\"loss\":1}\n")] {
        let path = folder.path().join(file.replace('.', "-"));
        write(&path, &[(0, 1)]);
        fs::write(path.join(file), text).unwrap();
        assert!(read_run(&path).unwrap_err().message().contains("format"), "{file}");
    }
}

#[test]
fn older_and_partial_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("summary.json"), r#"{"format":1,"name":"old","status":"done","later":"field"}"#).unwrap();
    let run = read_run(&path).unwrap();
    assert_eq!(run.summary.unwrap().status, Status::Done);
    assert_eq!(run.notes.len(), 2, "{:?}", run.notes);
    assert_eq!(read_summary(path.join("none.json")).unwrap(), None);
}

#[test]
fn a_damaged_line_is_left_out_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    write(&path, &[(0, 3)]);
    let text = fs::read_to_string(path.join("steps.jsonl")).unwrap();
    fs::write(path.join("steps.jsonl"), text.replacen("\"step\":1", "\"step\":?", 1)).unwrap();
    let run = read_run(&path).unwrap();
    assert_eq!(run.steps.len(), 2);
    assert!(run.notes.iter().any(|note| note.contains("line 3")), "{:?}", run.notes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Killed at any byte, the directory is read, and after a resume it tells the same as a run that was never killed.
    #[test]
    fn killed_at_any_byte(done in 1u64..12, cut in 0.0..1.0f64, back in 0.0..1.0f64) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        write(&path, &[(0, done)]);
        let steps = path.join("steps.jsonl");
        let bytes = fs::read(&steps).unwrap();
        fs::File::create(&steps).unwrap().write_all(&bytes[..(bytes.len() as f64 * cut) as usize]).unwrap();

        let before = read_run(&path).unwrap().steps.len() as u64;
        prop_assert!(before <= done);
        let start = (before as f64 * back) as u64;
        let dir = RunDir::reopen(&path, Patience::Short, &mut |_| {}).unwrap();
        let writer = dir.resume_steps(start).unwrap();
        (start..15).for_each(|at| writer.push(step(at)));
        writer.finish().unwrap();

        let run = read_run(&path).unwrap();
        let seen: Vec<_> = run.steps.iter().map(|r| StepRecord { attempt: 1, ..*r }).collect();
        prop_assert_eq!(seen, (0..15).map(step).collect::<Vec<_>>());
    }
}
