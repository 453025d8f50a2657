//! Speed studies: what was measured is read back, whatever happened to the process.

use paceline_record::{
    Cell, Form, Measurement, PageCache, RunDir, Status, Summary, Variant, Work, read_study, work_of,
};

fn measurement(id: u64) -> Measurement {
    Measurement {
        cell: Cell {
            id,
            source: "photos, \"mine\"".into(),
            path: "/data/photos".into(),
            form: Form::Files,
            batch: 8,
            batches: 4,
            repetition: 2,
            page_cache: PageCache::Cold,
            caching: true,
            partitions: 6,
            threads: 2,
            decode: true,
            size: 192,
            verify: true,
            seed: 7,
            skip_bad: 0,
        },
        engine: "local".into(),
        host: "here".into(),
        started: 1.7e9 + 0.1,
        seconds: 0.1 + 0.2,
        images: 32,
        from_cache: 5,
        bytes: 123_456,
        partitions_used: 4,
        resident: Some(0.0),
        not_cold: None,
        skipped: vec!["a.jpg: neither JPEG nor PNG".into()],
    }
}

#[test]
fn what_was_measured_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let dir = RunDir::create(folder.path().join("study")).unwrap();
    dir.write_run_toml(&std::collections::BTreeMap::from([("work", "speedtest")])).unwrap();
    let mut writer = dir.begin_measurements().unwrap();
    let all: Vec<Measurement> = (0..3).map(measurement).collect();
    all.iter().for_each(|m| writer.push(m).unwrap());
    let summary = Summary { work: Work::Speedtest, name: "study".into(), ..Summary::default() };
    dir.write_summary(&summary).unwrap();
    let study = read_study(dir.path()).unwrap();
    assert_eq!(study.measurements, all);
    assert!(study.notes.iter().all(|note| note.contains("running")), "{:?}", study.notes);
    dir.write_summary(&Summary { status: Status::Done, ..summary }).unwrap();
    assert_eq!(read_study(dir.path()).unwrap().notes, [""; 0]);
    assert_eq!(work_of(dir.path()).unwrap(), Work::Speedtest);
    assert_eq!((all[0].cell.images(), all[0].cell.variant()), (32, Variant::Both));
}

#[test]
fn a_study_killed_at_any_byte_keeps_whole_lines() {
    let folder = tempfile::tempdir().unwrap();
    let dir = RunDir::create(folder.path().join("study")).unwrap();
    dir.write_run_toml(&std::collections::BTreeMap::from([("work", "speedtest")])).unwrap();
    let mut writer = dir.begin_measurements().unwrap();
    writer.push(&measurement(0)).unwrap();
    writer.push(&measurement(1)).unwrap();
    let text = std::fs::read(dir.measurements()).unwrap();
    let header = text.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    for length in header..text.len() {
        std::fs::write(dir.measurements(), &text[..length]).unwrap();
        let study = read_study(dir.path()).unwrap();
        let lines = text[..length].iter().filter(|&&byte| byte == b'\n').count() - 1;
        let whole = text.get(length) == Some(&b'\n');
        assert_eq!(study.measurements.len(), lines + usize::from(whole && length > header), "{length}");
        assert!(study.notes[0].contains("no summary.json"));
    }
}

#[test]
fn later_formats_and_other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dir = RunDir::create(folder.path().join("study")).unwrap();
    dir.write_run_toml(&std::collections::BTreeMap::from([("work", "speedtest")])).unwrap();
    for (text, word) in
        [("{\"kind\":\"measurements\",\"format\":2}\n", "format 2"), ("images,seconds\n", "does not begin")]
    {
        std::fs::write(dir.measurements(), text).unwrap();
        let error = read_study(dir.path()).unwrap_err();
        assert!(error.message().contains(word), "{error}");
    }
}

#[test]
fn a_study_without_measurements_is_still_a_study() {
    let folder = tempfile::tempdir().unwrap();
    let dir = RunDir::create(folder.path().join("study")).unwrap();
    dir.write_run_toml(&std::collections::BTreeMap::from([("work", "speedtest")])).unwrap();
    assert_eq!(work_of(dir.path()).unwrap(), Work::Speedtest);
    let study = read_study(dir.path()).unwrap();
    assert!(study.measurements.is_empty() && study.notes.iter().any(|note| note.contains("nothing was measured")));
}
