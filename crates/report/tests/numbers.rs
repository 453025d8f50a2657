//! Runs whose targets are numbers: their loss and absolute errors are shown, and no accuracy is made up.

#[path = "sample/check.rs"]
mod check;
mod sample;

use paceline_record::{RunData, list_runs};
use paceline_report::{Style, closing_table, compare, comparison_table, digest, html, runs_table, verdicts};
use sample::Sample;
use std::path::Path;

fn numbers(folder: &Path) -> Vec<RunData> {
    let sample = || Sample { name: "plain".into(), numbers: true, ..Sample::default() };
    [sample(), Sample { name: "over".into(), over_fit: 0.04, pace: 0.5, ..sample() }].map(|s| s.write(folder)).to_vec()
}

#[track_caller]
fn nothing_made_up(text: &str) {
    for word in ["ccuracy", "NaN", "null", "val %", "test %", "chance"] {
        assert!(!text.contains(word), "{word}:\n{text}");
    }
}

#[test]
fn the_terminal_shows_loss_and_absolute_error() {
    let folder = tempfile::tempdir().unwrap();
    let runs = numbers(folder.path());
    let compared = comparison_table(&compare(&runs), Style::default());
    nothing_made_up(&compared);
    let results: Vec<&str> = compared.lines().skip(2).take(4).collect();
    let expected = [
        "run    batch  epochs  best  val loss  val abs error  test loss  test abs error",
        "─────  ─────  ──────  ────  ────────  ─────────────  ─────────  ──────────────",
        "plain     32      12    12    0.2140         0.0713     0.2240          0.0813",
        "over      32      12     7    0.3714         0.1238     0.3814          0.1338",
    ];
    assert_eq!(results, expected, "{compared}");
    let last_words = closing_table(&digest(&runs[1]), None, Style::default());
    nothing_made_up(&last_words);
    for line in [
        "  best epoch     7 of 12, by validation loss\n",
        "  validation     loss 0.3714, absolute error 0.1238\n",
        "  test           loss 0.3814, absolute error 0.1338\n",
        "  training       loss 0.1252, absolute error 0.0417\n",
        "  over-fitting since epoch 8: the validation loss rose",
    ] {
        assert!(last_words.contains(line), "{line}{last_words}");
    }
}

#[test]
fn the_page_shows_them_and_its_curves_are_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let runs = numbers(folder.path());
    for page in [html(&runs), html(&runs[..1])] {
        check::check(&page);
        let (_, shown) = page.split_once("<main>").unwrap();
        let (shown, _) = shown.split_once("<script>").unwrap();
        nothing_made_up(shown);
        assert_eq!(page.matches("<figure").count(), 4);
        for part in
            ["Absolute error by epoch", "Validation absolute error by training time", "validation absolute error"]
        {
            assert!(shown.contains(part), "{part}");
        }
    }
}

#[test]
fn runs_of_both_kinds_each_have_their_columns() {
    let folder = tempfile::tempdir().unwrap();
    let mut runs = numbers(folder.path());
    runs.push(Sample { name: "classes".into(), ..Sample::default() }.write(folder.path()));
    let table = comparison_table(&compare(&runs), Style { width: 120, ..Style::default() });
    for title in ["val %", "val abs error", "test %", "test abs error"] {
        assert!(table.contains(title), "{title}:\n{table}");
    }
    assert!(table.contains('–') && !table.contains("NaN"), "{table}");
    let page = html(&runs);
    check::check(&page);
    assert_eq!(page.matches("<figure").count(), 6, "accuracies and absolute errors, by epoch and by time");
    assert!(!page.contains("nothing was recorded"));
}

#[test]
fn a_folder_of_such_runs_is_listed_without_columns_for_accuracies() {
    let folder = tempfile::tempdir().unwrap();
    numbers(folder.path());
    let list = |folder: &Path| {
        let runs = list_runs(folder).unwrap();
        runs_table(&runs.iter().collect::<Vec<_>>(), Style { width: 140, ..Style::default() })
    };
    let table = list(folder.path());
    nothing_made_up(&table);
    assert!(table.contains("val loss") && table.contains("0.1238") && table.contains("0.1338"), "{table}");
    Sample { name: "classes".into(), ..Sample::default() }.write(folder.path());
    let table = list(folder.path());
    assert!(table.contains("val %") && table.contains("val abs error"), "{table}");
}

#[test]
fn a_killed_run_is_told_from_its_records() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = numbers(folder.path()).remove(0);
    run.summary = None;
    run.epochs.truncate(2);
    let summary = digest(&run);
    let partial = summary.partial.unwrap();
    assert!(partial.train_accuracy.is_none() && partial.train_absolute_error.unwrap() > 0.0);
    assert!(!summary.counts_accuracy() && summary.best_val_absolute_error.is_some());
    nothing_made_up(&closing_table(&summary, None, Style::default()));
    run.epochs.clear();
    nothing_made_up(&closing_table(&digest(&run), None, Style::default()));
}

#[test]
fn advice_judges_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let run = Sample { epochs: 4, numbers: true, ..Sample::default() }.write(folder.path());
    let words: Vec<String> = verdicts(&run).iter().map(ToString::to_string).collect();
    assert!(words.iter().any(|w| w.contains("not yet converged") && w.ends_with("the absolute error")), "{words:?}");
    words.iter().for_each(|words| nothing_made_up(words));
}
