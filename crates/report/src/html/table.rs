//! The comparison as a table that sorts when its titles are clicked.

use std::fmt::Write;

use super::chart::COLOURS;
use super::escape::Esc;
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
pub(crate) fn table(comparison: &Comparison) -> String {
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
            |row| (format::seconds(row.seconds), key(Some(row.seconds))),
            fastest(Wins::Smallest, Row::whole_seconds),
        ),
        figure(
            "examples/s",
            |row| (format::rate(row.examples_per_s), key(Some(row.examples_per_s))),
            fastest(Wins::Largest, |row| Some(row.examples_per_s)),
        ),
        figure("speed-up", |row| (speed_up(row), key(row.speed_up)), fastest(Wins::Largest, |row| row.speed_up)),
        figure("per core", |row| (efficiency(row), key(row.efficiency)), vec![]),
        figure(
            "best epoch",
            |row| {
                (row.best_epoch.map_or(format::NONE.into(), |e| e.to_string()), key(row.best_epoch.map(|e| e as f64)))
            },
            vec![],
        ),
        figure(
            "validation,\u{a0}%",
            |row| (format::accuracy(row.val_accuracy), key(row.val_accuracy)),
            comparison.best(Score::ValidationAccuracy),
        ),
        figure(
            "validation loss",
            |row| (format::maybe_loss(row.val_loss), key(row.val_loss)),
            comparison.best(Score::ValidationLoss),
        ),
        figure(
            "test,\u{a0}%",
            |row| (format::accuracy(row.test_accuracy), key(row.test_accuracy)),
            comparison.best(Score::TestAccuracy),
        ),
        word("status", |row| same(row.status.name())),
        word("model", |row| same(&row.model)),
        word("data", |row| same(&row.data)),
    ];
    let differ = word(DIFFERS, |row| same(&row.differs));
    // What is the same everywhere is said once; columns without any value say nothing.
    let mut shared = Vec::new();
    columns.retain(|column| {
        let texts: Vec<String> = rows.iter().map(|row| (column.cell)(row).0).collect();
        if column.number {
            return texts.iter().any(|text| text != format::NONE);
        }
        let equal = texts.iter().all(|text| *text == texts[0]);
        if equal && !texts[0].is_empty() && texts[0] != "done" {
            shared.push(format!("{} <b>{}</b>", column.title, Esc(&texts[0])));
        }
        !equal
    });

    if rows.iter().any(|row| !row.differs.is_empty()) {
        columns.push(differ);
    }
    let compared = rows.iter().any(|row| row.speed_up.is_some());
    let mut out = String::new();
    if !shared.is_empty() {
        let who = if rows.len() > 1 { "All runs" } else { "The run" };
        write!(out, "<p class=\"shared\">{who}: {}.</p>", shared.join(", ")).unwrap();
    }
    // Two tables, each of which fits on a page: what was trained, and how fast.
    let (speed, results): (Vec<Column>, Vec<Column>) = columns.into_iter().partition(|c| SPEED.contains(&c.title));
    push_table(&mut out, comparison, &results, false, false);
    push_table(&mut out, comparison, &speed, compared, true);
    if compared {
        out.push_str(
            "<p class=\"muted\">Speed-up and the fastest of each kind: against the first run with the same work (network, \
             samples, batch, optimizer, epochs). Per core: speed-up divided by how many times the cores it had.</p>",
        );
    }
    out
}

/// The column of settings, which may wrap.
const DIFFERS: &str = "differs in";
/// Titles of the second table.
const SPEED: [&str; 6] = ["strategy", "cores", "time,\u{a0}s", "examples/s", "speed-up", "per core"];

/// One table; `against` adds the run with which each is compared, `times` a bar of where the time went.
fn push_table(out: &mut String, comparison: &Comparison, columns: &[Column], against: bool, times: bool) {
    out.push_str(
        "<div class=\"card scroll compared\"><table class=\"sortable\"><thead><tr><th><button>run</button></th>",
    );
    for column in columns {
        let class = if column.number { " class=\"n\"" } else { "" };
        write!(out, "<th{class}><button>{}</button></th>", column.title).unwrap();
    }
    out.push_str(if against { "<th><button>against</button></th>" } else { "" });
    out.push_str(if times { "<th class=\"where\">where the time went</th>" } else { "" });
    out.push_str("</tr></thead><tbody>");
    for (i, row) in comparison.rows.iter().enumerate() {
        write!(
            out,
            "<tr><th scope=\"row\" title=\"{name}\" data-v=\"{name}\"><span class=\"key r{}\"></span>{name}</th>",
            i % COLOURS,
            name = Esc(&row.name)
        )
        .unwrap();
        for column in columns {
            let (text, sort) = (column.cell)(row);
            let best = column.best.get(i).copied().unwrap_or(false);
            let class = match (column.number, best) {
                (true, true) => " class=\"n best\"",
                (true, false) => " class=\"n\"",
                _ if column.title == DIFFERS => " class=\"words\"",
                _ => " class=\"text\"",
            };
            write!(out, "<td{class} data-v=\"{}\" data-t=\"{}\">{}</td>", Esc(sort), column.title, Esc(text)).unwrap();
        }
        if against {
            write!(out, "<td class=\"text\" data-v=\"{0}\" data-t=\"against\">{0}</td>", Esc(comparison.against(i)))
                .unwrap();
        }
        if times {
            write!(out, "<td class=\"where\">{}</td>", bar(&row.fractions, false)).unwrap();
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
}

fn same(text: &str) -> (String, String) {
    (text.to_string(), text.to_string())
}

fn key(value: Option<f64>) -> String {
    value.filter(|v| v.is_finite()).map_or(String::new(), |v| v.to_string())
}
