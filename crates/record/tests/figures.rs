//! Which figures of results stand in files: all of a classification, as ever; of other losses only what they count.

use paceline_record::{EpochRecord, PartialEpoch, RunDir, StepRecord, Summary, list_runs, read_run};
use serde_json::Value;

/// Lines of `steps.jsonl` as they were written before losses said what they count.
const STEP: &str = r#"{"kind":"step","attempt":1,"epoch":2,"step":9,"steps":4,"rank":0,"samples":128,"share":128,"batch":32,"loss":1.1984446346759796,"accuracy":0.171875,"rate":0.001,"examples_per_s":2366426.3264928823,"split":{"input":0.000010425,"compute":0.000043625,"wait":0.0,"transfer":4e-8,"update":0.0,"checkpoint":0.0}}"#;
const EPOCH: &str = r#"{"kind":"epoch","attempt":1,"epoch":2,"step":12,"rate":0.001,"train_loss":1.1929781913757325,"train_accuracy":0.19444444444444445,"val_loss":1.2117649078369142,"val_accuracy":0.2,"seconds":0.000073599,"eval_seconds":4.828e-6,"examples_per_s":2445685.4033342847}"#;
/// The same of `summary.json`: a run that has not finished its first epoch, and one that has, without a test part.
const BEFORE: &str = r#""best_checkpoint":null,"best_val_accuracy":null,"best_val_loss":null,"final_val_accuracy":null,"final_val_loss":null,"train_accuracy":null,"train_loss":null,"test_accuracy":null,"test_loss":null,"validation_samples":0"#;
const AFTER: &str = r#""best_checkpoint":null,"best_val_accuracy":0.2,"best_val_loss":1.2117649078369142,"final_val_accuracy":0.2,"final_val_loss":1.2117649078369142,"train_accuracy":0.19444444444444445,"train_loss":1.1929781913757325,"test_accuracy":null,"test_loss":null,"validation_samples":0"#;

/// The lines of a new run that recorded this step and epoch.
fn lines(dir: &RunDir, step: StepRecord, epoch: EpochRecord) -> Vec<String> {
    let writer = dir.begin_steps().unwrap();
    writer.push(step);
    writer.push_epoch(epoch);
    writer.finish().unwrap();
    let text = std::fs::read_to_string(dir.path().join("steps.jsonl")).unwrap();
    text.lines().skip(1).map(String::from).collect()
}

/// An epoch of a loss that counts absolute errors.
fn numbers(epoch: u64, val_loss: f64) -> EpochRecord {
    EpochRecord {
        epoch,
        step: 10 * epoch,
        train_loss: 2.0,
        train_absolute_error: Some(1.25),
        val_loss: Some(val_loss),
        val_absolute_error: Some(val_loss / 2.0),
        rate: 0.1,
        examples_per_s: 7.0,
        ..EpochRecord::default()
    }
}

/// The summary of such a run.
fn summary_of_numbers(epochs: Vec<EpochRecord>) -> Summary {
    let metrics = ["loss", "absolute error", "samples"].map(String::from).to_vec();
    let monitor = paceline_base::Monitor::ValLoss;
    let mut summary = Summary { metrics, monitor, epochs, examples_per_s: 7.0, ..Summary::default() };
    summary.derive_figures();
    summary
}

#[test]
fn a_classification_is_written_in_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (step, epoch) = (serde_json::from_str(STEP).unwrap(), serde_json::from_str(EPOCH).unwrap());
    let dir = RunDir::create(folder.path().join("again")).unwrap();
    assert_eq!(lines(&dir, step, epoch), [STEP, EPOCH]);
    let mut summary = Summary::default();
    assert!(serde_json::to_string(&summary).unwrap().contains(BEFORE));
    summary.epochs = vec![epoch];
    summary.derive_figures();
    let text = serde_json::to_string(&summary).unwrap();
    assert!(text.contains(AFTER), "{text}");
    assert!(!text.contains("absolute") && !text.contains("metrics"), "{text}");
}

#[test]
fn a_loss_without_accuracy_leaves_none_in_any_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers");
    let step =
        StepRecord { loss: 2.5, absolute_error: Some(1.5), rate: 0.1, examples_per_s: 7.0, ..StepRecord::default() };
    let epochs = [numbers(1, 3.0), numbers(2, 2.0), numbers(3, 2.5)];
    let dir = RunDir::create(&path).unwrap();
    let written = lines(&dir, step, epochs[0]).join("\n");
    let partial =
        PartialEpoch { epoch: 4, train_loss: 2.0, train_absolute_error: Some(1.0), ..PartialEpoch::default() };
    let summary = Summary { partial: Some(partial), ..summary_of_numbers(epochs.to_vec()) };
    dir.write_summary(&summary).unwrap();
    let text = std::fs::read_to_string(path.join("summary.json")).unwrap();
    for text in [&written, &text] {
        assert!(!text.contains("accuracy") && !text.contains("NaN"), "{text}");
        assert!(text.contains("absolute_error"), "{text}");
    }
    assert!(!written.contains("null"), "{written}");
    let run = read_run(&path).unwrap();
    assert_eq!((run.steps[0], run.epochs[0]), (step, epochs[0]));
    let read = run.summary.unwrap();
    assert_eq!(Summary { status: summary.status.clone(), ..read.clone() }, summary);
    assert_eq!((read.best_epoch, read.best_val_loss, read.best_val_absolute_error), (Some(2), Some(2.0), Some(1.0)));
    assert_eq!((read.final_val_absolute_error, read.train_absolute_error), (Some(1.25), Some(1.25)));
    assert!(read.counts_absolute_error() && !read.counts_accuracy());
    let listed = &list_runs(folder.path()).unwrap()[0];
    assert_eq!((listed.best_val_accuracy, listed.best_val_absolute_error), (None, Some(1.0)));
    // Before the first epoch there is nothing, and nothing is made up.
    let text = serde_json::to_string(&summary_of_numbers(Vec::new())).unwrap();
    assert!(!text.contains("accuracy") && text.contains(r#""best_val_loss":null"#), "{text}");
}

#[test]
fn the_order_of_keys_is_that_of_every_summary() {
    let keys = |summary: &Summary| {
        let text = serde_json::to_string_pretty(summary).unwrap();
        let own = |line: &str| line.strip_prefix("  \"").map(|l| l.split('"').next().unwrap_or_default().to_string());
        let keys: Vec<String> = text.lines().filter_map(own).collect();
        assert_eq!(keys.len(), serde_json::from_str::<Value>(&text).unwrap().as_object().unwrap().len());
        keys
    };
    let mut usual = keys(&Summary::default());
    usual.retain(|key| !key.contains("accuracy"));
    let mut without = keys(&summary_of_numbers(vec![numbers(1, 3.0)]));
    without.retain(|key| !key.contains("absolute_error") && key != "metrics");
    assert_eq!(without, usual);
}

#[test]
fn what_older_versions_wrote_for_no_accuracy_is_read() {
    let text = STEP.replace("0.171875", "\"NaN\"");
    assert!(serde_json::from_str::<StepRecord>(&text).unwrap().accuracy.unwrap().is_nan());
    let text = EPOCH.replace("\"val_accuracy\":0.2", "\"val_accuracy\":null");
    assert_eq!(serde_json::from_str::<EpochRecord>(&text).unwrap().val_accuracy, None);
}
