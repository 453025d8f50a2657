//! The tables of the terminal, as a person sees them.

mod sample;

use paceline_record::{RunData, Status, Summary};
use paceline_report::{Style, closing_table, compare, comparison_table, digest};
use sample::{Sample, four};

#[track_caller]
fn check(actual: &str, expected: &str) {
    assert!(actual.trim_end() == expected.trim(), "expected:\n{}\n\nactual:\n{actual}", expected.trim());
}

#[test]
fn runs_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    check(
        &comparison_table(&compare(&four(folder.path())), Style::default()),
        "
all runs: model cnn, data fashion-mnist

run          batch  epochs  best  val %  val loss  test %
───────────  ─────  ──────  ────  ─────  ────────  ──────
single-32       32      12    12  92.36    0.2140   91.96
single-128     128      12    12  86.11    0.3889   85.71
mirrored-x4    128      12    12  91.34    0.2424   90.94
async-x4       128      12     7  86.74    0.3714   86.34

speed, against the first run with the same work, in all and for each core

run          strategy     cores  time s    ex/s  speed-up  per core  against
───────────  ───────────  ─────  ──────  ──────  ────────  ────────  ──────────
single-32    single           2     118   5,096         –         –  –
single-128   single           2     118   5,096     1.00×     100 %
mirrored-x4  mirrored ×4      8    43.3  13,872     2.72×      68 %  single-128
async-x4     ps-async ×4      8    61.4   9,773     1.92×      48 %  single-128

where the time went, percent

run          input  compute  wait  transfer  update  checkpoint
───────────  ─────  ───────  ────  ────────  ──────  ──────────
single-32        4       90    <1         0       5           1
single-128       4       90    <1         0       5           1
mirrored-x4      4       74    10         6       5           1
async-x4         4       53    31         6       5           1
",
    );
}

#[test]
fn long_names_still_fit_and_the_best_is_bold() {
    let folder = tempfile::tempdir().unwrap();
    let runs: Vec<RunData> = (0..3)
        .map(|i| {
            let name = format!("a-very-long-name-of-a-run-in-a-sweep-over-batches-number-{i}");
            Sample { name, batch: 32 << i, pace: 0.2 + 0.1 * f64::from(i), ..Sample::default() }.write(folder.path())
        })
        .collect();
    let plain = comparison_table(&compare(&runs), Style::default());
    assert!(plain.lines().all(|line| line.chars().count() <= 100), "{plain}");
    assert!(plain.contains("…") && plain.contains("number-2"), "{plain}");
    assert!(!plain.contains('\x1b'));
    let bold = comparison_table(&compare(&runs), Style { bold: true, ..Style::default() });
    assert_eq!(bold.matches("\x1b[1m").count(), 3, "validation and test accuracy, and loss:\n{bold}");
}

#[test]
fn nothing_one_and_broken() {
    assert_eq!(comparison_table(&compare(&[]), Style::default()), "no runs to compare\n");
    let bare = RunData { name: "bare".into(), ..RunData::default() };
    let broken = Summary {
        name: "evil\x1b[2J".into(),
        best_val_loss: Some(f64::NAN),
        best_val_accuracy: Some(f64::NAN),
        status: Status::Failed { why: "loss is not finite".into() },
        ..Summary::default()
    };
    let broken = RunData { summary: Some(broken), ..RunData::default() };
    let table = comparison_table(&compare(&[bare, broken]), Style { bold: true, ..Style::default() });
    assert!(table.contains("bare") && table.contains("NaN") && table.contains("failed"), "{table}");
    assert!(!table.contains('\x1b'), "{table:?}");
}

#[test]
fn the_last_words_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = &four(folder.path())[3];
    check(
        &closing_table(&digest(run), Some("runs/async-x4/checkpoints".as_ref()), Style::default()),
        "
async-x4: done

  best epoch     7 of 12, by validation accuracy
  validation     accuracy 86.7 %, loss 0.3714
  test           accuracy 86.3 %, loss 0.3814
  training       accuracy 95.5 %, loss 0.1252
  training time  1 min 01 s (1 min 07 s with evaluation and start)
  throughput     9,773 examples/s
  exactness      statistical: not to rounding what one worker gives (reasons are in summary.json)
  peak memory    312 MiB
  checkpoints    runs/async-x4/checkpoints

  where the time went, percent

                                    ▒ input  █ compute  · wait  ▚ transfer  ▓ update  ░ checkpoint
  ──────  ────────────────────────  ───────  ─────────  ──────  ──────────  ────────  ────────────
  rank 0  ▒██████████████████··▚▚▓        4         74      10           6         5             1
  rank 1  ▒███████████·········▚▚▓        4         46      38           6         5             1
  rank 2  ▒███████████·········▚▚▓        4         46      38           6         5             1
  rank 3  ▒███████████·········▚▚▓        4         46      38           6         5             1

  over-fitting since epoch 8: the validation loss rose from 0.3714 (epoch 7) to 0.5050 while the
    training loss fell from 0.1834 to 0.1252; training accuracy 95.5 % against 82.0 % in validation,
    14 points apart; keep epoch 7, or use more data, augmentation, dropout or weight decay
  ranks idle: ranks 1, 2 and 3 wait for 38 % of the time, for rank 0, which spends 74 % on compute;
    rank 0 is slower or has more to do: give it less, or look at what else runs there
",
    );
}

#[test]
fn last_words_of_a_run_that_has_nothing() {
    let failed = Summary { name: "x".into(), status: Status::Failed { why: "disk full".into() }, ..Summary::default() };
    let text = closing_table(&failed, None, Style::default());
    assert!(text.starts_with("x: failed: disk full\n"), "{text}");
    assert!(!text.contains("NaN") && !text.contains("where the time"), "{text}");
}
