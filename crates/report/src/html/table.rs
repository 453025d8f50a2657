//! The comparison as a table that sorts when its titles are clicked.

use maud::{Markup, html};

use super::times::bar;
use crate::compare::{Comparison, Row, Score, Wins};
use crate::format;
use crate::terminal::{efficiency, epochs, speed_up};

struct Column {
    title: &'static str,
    number: bool,
    /// What is shown, and what is sorted by (empty sorts last).
    cell: fn(&Row) -> (String, String),
    best: Vec<bool>,
}

/// The table, with what all runs share said above it.
pub(crate) fn table(comparison: &Comparison) -> Markup {
    let rows = &comparison.rows;
    let fastest = |wins, value: fn(&Row) -> Option<f64>| comparison.fastest(wins, value);
    let word = |title, cell: fn(&Row) -> (String, String)| Column { title, number: false, cell, best: vec![] };
    let figure = |title, cell: fn(&Row) -> (String, String), best| Column { title, number: true, cell, best };
    let mut columns = vec![
        word("strategy", |row| same(&row.strategy)),
        figure("batch", |row| (format::count(row.batch), row.batch.to_string()), vec![]),
        figure("epochs", |row| (epochs(row), row.epochs.to_string()), vec![]),
        figure("cores", |row| (row.cores.to_string(), row.cores.to_string()), vec![]),
        figure(
            "time,\u{a0}s",
            |row| (format::seconds(row.seconds), sort_key(Some(row.seconds))),
            fastest(Wins::Smallest, Row::whole_seconds),
        ),
        figure(
            "examples/s",
            |row| (format::rate(row.examples_per_s), sort_key(Some(row.examples_per_s))),
            fastest(Wins::Largest, |row| Some(row.examples_per_s)),
        ),
        figure("speed-up", |row| (speed_up(row), sort_key(row.speed_up)), fastest(Wins::Largest, |row| row.speed_up)),
        figure("per core", |row| (efficiency(row), sort_key(row.efficiency)), vec![]),
        figure(
            "best epoch",
            |row| {
                (
                    row.best_epoch.map_or(format::NONE.into(), |e| e.to_string()),
                    sort_key(row.best_epoch.map(|e| e as f64)),
                )
            },
            vec![],
        ),
        figure(
            "validation,\u{a0}%",
            |row| (format::accuracy(row.val_accuracy), sort_key(row.val_accuracy)),
            comparison.best(Score::ValidationAccuracy),
        ),
        figure(
            "validation loss",
            |row| (format::maybe_loss(row.val_loss), sort_key(row.val_loss)),
            comparison.best(Score::ValidationLoss),
        ),
        figure(
            "validation absolute error",
            |row| (format::maybe_loss(row.val_absolute_error), sort_key(row.val_absolute_error)),
            comparison.best(Score::ValidationAbsoluteError),
        ),
        figure(
            "test,\u{a0}%",
            |row| (format::accuracy(row.test_accuracy), sort_key(row.test_accuracy)),
            comparison.best(Score::TestAccuracy),
        ),
        figure(
            TEST_LOSS,
            |row| (format::maybe_loss(row.test_loss), sort_key(row.test_loss)),
            comparison.best(Score::TestLoss),
        ),
        figure(
            "test absolute error",
            |row| (format::maybe_loss(row.test_absolute_error), sort_key(row.test_absolute_error)),
            comparison.best(Score::TestAbsoluteError),
        ),
        word("status", |row| same(row.status.name())),
        word("model", |row| same(&row.model)),
        word("data", |row| same(&row.data)),
    ];
    let differ = word(DIFFERS, |row| same(&row.differs));
    // What is the same everywhere is said once; columns without any value say nothing.
    let mut shared = Vec::new();
    let accuracy = rows.iter().any(|row| row.counts_accuracy);
    columns.retain(|column| {
        if column.title == TEST_LOSS && accuracy {
            return false; // the accuracy says it
        }
        let texts: Vec<String> = rows.iter().map(|row| (column.cell)(row).0).collect();
        if column.number {
            return texts.iter().any(|text| text != format::NONE);
        }
        let equal = texts.iter().all(|text| *text == texts[0]);
        if equal && !texts[0].is_empty() && texts[0] != "done" {
            shared.push((column.title, texts[0].clone()));
        }
        !equal
    });

    if rows.iter().any(|row| !row.differs.is_empty()) {
        columns.push(differ);
    }
    let compared = rows.iter().any(|row| row.speed_up.is_some());
    // Two tables, each of which fits on a page: what was trained, and how fast.
    let (speed, results): (Vec<Column>, Vec<Column>) = columns.into_iter().partition(|c| SPEED.contains(&c.title));
    html! {
        @if !shared.is_empty() {
            p.shared {
                (if rows.len() > 1 { "All runs" } else { "The run" }) ": "
                @for (i, (title, text)) in shared.iter().enumerate() {
                    @if i > 0 { ", " }
                    (title) " " b { (text) }
                }
                "."
            }
        }
        (compared_table(comparison, &results, false, false))
        (compared_table(comparison, &speed, compared, true))
        @if compared {
            p.muted {
                "Speed-up and the fastest of each kind: against the first run with the same work (network, \
                 samples, batch, optimizer, epochs). Per core: speed-up divided by how many times the cores it had."
            }
        }
    }
}

/// The column of the test's loss, which is shown where no run counts accuracy.
const TEST_LOSS: &str = "test loss";
/// The column of settings, which may wrap.
const DIFFERS: &str = "differs in";
/// Titles of the second table.
const SPEED: [&str; 6] = ["strategy", "cores", "time,\u{a0}s", "examples/s", "speed-up", "per core"];

/// One table; `against` adds the run with which each is compared, `times` a bar of where the time went.
fn compared_table(comparison: &Comparison, columns: &[Column], against: bool, times: bool) -> Markup {
    html! {
        div.card.scroll.compared {
            table.sortable {
                thead {
                    tr {
                        th { button { "run" } }
                        @for column in columns { th class=[column.number.then_some("n")] { button { (column.title) } } }
                        @if against { th { button { "against" } } }
                        @if times { th.where { "where the time went" } }
                    }
                }
                tbody {
                    @for (i, row) in comparison.rows.iter().enumerate() {
                        tr {
                            th scope="row" title=(row.name) data-v=(row.name) { (super::key(i)) (row.name) }
                            @for column in columns { (cell(column, i, row)) }
                            @if against {
                                @let other = comparison.against(i);
                                td.text data-v=(other) data-t="against" { (other) }
                            }
                            @if times { td.where { (bar(&row.fractions, false)) } }
                        }
                    }
                }
            }
        }
    }
}

fn cell(column: &Column, i: usize, row: &Row) -> Markup {
    let (text, sort) = (column.cell)(row);
    let best = column.best.get(i).copied().unwrap_or(false);
    let class = match (column.number, best) {
        (true, true) => "n best",
        (true, false) => "n",
        _ if column.title == DIFFERS => "words",
        _ => "text",
    };
    html! { td class=(class) data-v=(sort) data-t=(column.title) { (text) } }
}

fn same(text: &str) -> (String, String) {
    (text.to_string(), text.to_string())
}

/// What a figure is sorted by.
fn sort_key(value: Option<f64>) -> String {
    value.filter(|v| v.is_finite()).map_or(String::new(), |v| v.to_string())
}
