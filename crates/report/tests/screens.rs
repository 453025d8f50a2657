//! Tables and closing words in narrow terminals, as files: `tests/screens/*.txt`.

#[path = "../../../tests/expected_screen.rs"]
mod expected_screen;
mod sample;
#[path = "sample/study.rs"]
mod study_sample;

use paceline_base::stage::StageFigures;
use paceline_record::{PreparedSummary, Status, Summary, Work};
use paceline_report::study::{series, tables};
use paceline_report::{Style, closing_table, compare, comparison_table, digest, preparation_table};
use paceline_system::Machine;
use sample::four;
use std::path::Path;

#[track_caller]
fn check(name: &str, screen: impl Fn(Style) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens");
    for width in [60, 80] {
        expected_screen::check(&folder, name, width, &screen(Style { bold: false, width }));
    }
}

#[test]
fn a_comparison() {
    let folder = tempfile::tempdir().unwrap();
    let runs = four(folder.path());
    check("report", |style| comparison_table(&compare(&runs), style));
}

#[test]
fn the_end_of_a_training() {
    let folder = tempfile::tempdir().unwrap();
    let runs = four(folder.path());
    let summary = digest(&runs[2]);
    check("train-closing", |style| closing_table(&summary, Some(Path::new("runs/mirrored-x4/checkpoints")), style));
    let limited = Summary { status: Status::Done, step_limit: Some(300), ..digest(&runs[0]) };
    check("train-step-limit", |style| closing_table(&limited, None, style));
    let failed = Summary { status: Status::Failed { why: "the loss is not finite at step 31".into() }, ..limited };
    assert!(!closing_table(&failed, None, Style::default()).contains("max_steps"), "it ended otherwise");
}

#[test]
fn the_end_of_a_preparation() {
    let stage = |name: &str, threads, busy, starved| {
        let (name, items, bytes) = (name.to_string(), 3670, 228_000_000);
        StageFigures { name, threads, items, bytes, busy, starved, ..StageFigures::default() }
    };
    let summary = Summary {
        work: Work::Prepare,
        strategy: "local".into(),
        seconds_train: 21.5,
        seconds_total: 22.1,
        peak_rss_bytes: 93_000_000,
        machine: Machine { cores: 2, ..Machine::default() },
        prepared: Some(PreparedSummary {
            destination: "/data/flowers/shards".into(),
            shards: 16,
            records: 3670,
            images: 3670,
            skipped: 1,
            bytes_read: 228_000_000,
            bytes_written: 51_000_000,
            ..PreparedSummary::default()
        }),
        stages: vec![
            stage("read", 2, 1.3, 0.0),
            stage("decode", 2, 29.1, 0.4),
            stage("resize", 2, 4.2, 0.0),
            stage("encode", 2, 7.7, 0.0),
            stage("write", 1, 0.2, 20.1),
        ],
        warnings: vec!["1 image of photos/roses could not be decoded and is listed in index.json".into()],
        ..Summary::default()
    };
    check("prepare-closing", |style| preparation_table(&summary, style));
}

#[test]
fn a_speed_study() {
    let study = study_sample::Made { records_gain: 9.0, noise: 0.03, ..study_sample::Made::default() }.study("local");
    check("speedtest-tables", |style| tables(&series(std::slice::from_ref(&study)), style));
}
