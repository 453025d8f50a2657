//! The HTML page: whole, closed to the outside, and safe with whatever runs say of themselves.

#[path = "sample/check.rs"]
mod check;
mod sample;

use check::check;
use paceline_record::{EpochRecord, RunData, Status, StepRecord, Summary};
use paceline_report::{html, write_html};
use sample::{Sample, four, ten};

#[test]
fn four_runs() {
    let folder = tempfile::tempdir().unwrap();
    let page = html(&four(folder.path()));
    check(&page);
    for part in [
        "4 runs compared",
        "over-fitting since epoch 8",
        "ranks idle",
        "Configuration",
        "mirrored ×4",
        "AMD EPYC",
        "rank 3",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // A link in a configuration is text, not a link.
    assert!(page.contains("https://example.org/&lt;here&gt;"));
    assert_eq!(page.matches("<figure").count(), 4);
}

#[test]
fn one_run_and_ten() {
    let folder = tempfile::tempdir().unwrap();
    let one = html(&[Sample::default().write(folder.path())]);
    check(&one);
    assert!(one.contains("<h1>single-32</h1>") && !one.contains("speed-up"));
    let page = html(&ten(folder.path()));
    check(&page);
    for i in 0..10 {
        assert!(page.contains(&format!("curve run-{i} r{i}")), "{i}");
    }
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
}

#[test]
fn hostile_names_stay_text() {
    let folder = tempfile::tempdir().unwrap();
    let evil = "\"><script>alert(1)</script><img onerror='x'>";
    let mut run = Sample { epochs: 2, ..Sample::default() }.write(folder.path());
    let summary = run.summary.as_mut().unwrap();
    summary.name = evil.into();
    summary.model = evil.into();
    summary.strategy = evil.into();
    summary.reasons = vec![evil.into()];
    summary.warnings = vec![evil.into()];
    summary.status = Status::Failed { why: evil.into() };
    summary.machine.cpu = evil.into();
    run.notes = vec![evil.into()];
    run.config.insert(evil.into(), toml::Value::String(evil.into()));
    let other = Sample { name: "plain".into(), epochs: 2, ..Sample::default() }.write(folder.path());
    let page = html(&[run, other]);
    check(&page);
    assert!(!page.contains("<script>alert") && !page.contains("<img"));
    assert_eq!(page.matches("onerror").count(), page.matches("&lt;/script&gt;&lt;img onerror").count());
}

#[test]
fn runs_without_validation_epochs_or_anything() {
    let folder = tempfile::tempdir().unwrap();
    let page = html(&[Sample { validation: false, ..Sample::default() }.write(folder.path())]);
    check(&page);
    assert!(page.contains("training accuracy") && page.contains("nothing was recorded for this"));
    for runs in [
        vec![],
        vec![RunData { name: "bare".into(), ..RunData::default() }],
        vec![Sample { name: "none".into(), epochs: 0, ..Sample::default() }.write(folder.path())],
        vec![Sample { name: "short".into(), epochs: 1, ..Sample::default() }.write(folder.path()), RunData::default()],
    ] {
        check(&html(&runs));
    }
}

#[test]
fn values_that_are_no_numbers() {
    let bad = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300, 0.0, 1e-300];
    let epochs: Vec<EpochRecord> = (1..)
        .zip(bad)
        .map(|(epoch, value)| EpochRecord {
            epoch,
            train_loss: value,
            train_accuracy: Some(value),
            val_loss: Some(value),
            val_accuracy: Some(value),
            seconds: value,
            examples_per_s: value,
            ..EpochRecord::default()
        })
        .collect();
    let steps = (0..).zip(bad).map(|(step, loss)| StepRecord { step, loss, ..StepRecord::default() }).collect();
    let mut summary = Summary { name: "bad".into(), epochs: epochs.clone(), ..Summary::default() };
    summary.derive_figures();
    let run = RunData { name: "bad".into(), summary: Some(summary), steps, epochs, ..RunData::default() };
    let page = html(&[run]);
    check(&page);
    assert!(page.contains("diverged in epoch 1"));
}

#[test]
fn the_page_is_written_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    write_html(&path, &four(folder.path())).unwrap();
    check(&std::fs::read_to_string(&path).unwrap());
    assert!(write_html(&folder.path().join("absent/report.html"), &[]).is_err());
}
