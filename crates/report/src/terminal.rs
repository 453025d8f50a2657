//! The comparison on a terminal.
//!
//! What is the same in all runs is said once above the table, which leaves room for what differs.

use paceline_base::Activity;
use paceline_base::layout::{Column, Style, paragraphs, table};

use crate::compare::{Comparison, Row, Score, Wins};
use crate::format::{self, plain};

/// The comparison as aligned tables: results, speed, and where the time went.
pub fn comparison_table(comparison: &Comparison, style: Style) -> String {
    let rows = &comparison.rows;
    if rows.is_empty() {
        return "no runs to compare\n".into();
    }
    let mut shared = Vec::new();
    let names = || Column::left("run", rows.iter().map(|row| row.name.clone())).shrinking(12);
    let (mut results, mut speed) = (vec![names()], vec![names()]);
    for (title, text) in [
        ("model", (|row: &Row| row.model.clone()) as fn(&Row) -> String),
        ("data", |row| row.data.clone()),
        ("strategy", |row| row.strategy.clone()),
        ("status", |row| row.status.name().into()),
    ] {
        let cells: Vec<String> = rows.iter().map(text).collect();
        if cells.iter().all(|cell| *cell == cells[0]) {
            if !cells[0].is_empty() && cells[0] != "done" {
                shared.push(format!("{title} {}", plain(&cells[0])));
            }
        } else {
            let column = Column::left(title, cells).shrinking(if title == "status" { 7 } else { 10 });
            if title == "strategy" { &mut speed } else { &mut results }.push(column);
        }
    }
    results.extend(figures(comparison));
    speed.extend(speeds(comparison));
    let mut out = String::new();
    if !shared.is_empty() {
        let shared = format!("{} {}", if rows.len() > 1 { "all runs:" } else { "run:" }, shared.join(", "));
        out.push_str(&paragraphs(&shared, style.width));
        out.push('\n');
    }
    out.push_str(&table(&results, style));
    let against = match rows.iter().any(|row| row.speed_up.is_some()) {
        true => "\nspeed, against the first run with the same work, in all and for each core",
        false => "\nspeed",
    };
    out.push_str(&paragraphs(against, style.width));
    out.push('\n');
    out.push_str(&table(&speed, style));
    out.push_str("\nwhere the time went, percent\n\n");
    out.push_str(&table(&times(comparison), style));
    out
}

/// What was trained, and how well.
fn figures(comparison: &Comparison) -> Vec<Column> {
    let rows = &comparison.rows;
    let texts = |text: fn(&Row) -> String| rows.iter().map(text).collect::<Vec<_>>();
    let mut columns = vec![
        Column::right("batch", texts(|row| row.batch.to_string())).minor(1),
        Column::right("epochs", texts(epochs)),
        Column::right("best", texts(|row| row.best_epoch.map_or(format::NONE.into(), |epoch| epoch.to_string())))
            .minor(3),
    ];
    let accuracy = rows.iter().any(|row| row.counts_accuracy);
    if accuracy {
        columns.push(
            Column::right("val %", texts(|row| format::accuracy(row.val_accuracy)))
                .marking(&comparison.best(Score::ValidationAccuracy)),
        );
    }
    let loss = Column::right("val loss", texts(|row| format::maybe_loss(row.val_loss)))
        .marking(&comparison.best(Score::ValidationLoss));
    columns.push(if accuracy { loss.minor(2) } else { loss });
    let if_known = |title, score: Score| {
        let known = rows.iter().any(|row| score.of(row).is_some());
        known.then(|| {
            let cells = rows.iter().map(|row| format::maybe_loss(score.of(row)));
            Column::right(title, cells).marking(&comparison.best(score))
        })
    };
    columns.extend(if_known("val abs error", Score::ValidationAbsoluteError));
    if rows.iter().any(|row| row.test_accuracy.is_some()) {
        columns.push(
            Column::right("test %", texts(|row| format::accuracy(row.test_accuracy)))
                .marking(&comparison.best(Score::TestAccuracy)),
        );
    }
    if !accuracy {
        columns.extend(if_known("test loss", Score::TestLoss));
    }
    columns.extend(if_known("test abs error", Score::TestAbsoluteError));
    if rows.iter().any(|row| !row.differs.is_empty()) {
        columns.push(Column::left("differs in", texts(|row| row.differs.clone())).shrinking(16));
    }
    columns
}

/// How fast, on what, and compared with which run.
fn speeds(comparison: &Comparison) -> Vec<Column> {
    let rows = &comparison.rows;
    let texts = |text: fn(&Row) -> String| rows.iter().map(text).collect::<Vec<_>>();
    let fastest = |wins, value: fn(&Row) -> Option<f64>| comparison.fastest(wins, value);
    let mut columns = vec![
        Column::right("cores", texts(|row| row.cores.to_string())).minor(2),
        Column::right("time s", texts(|row| format::seconds(row.seconds)))
            .marking(&fastest(Wins::Smallest, Row::whole_seconds)),
        Column::right("ex/s", texts(|row| format::rate(row.examples_per_s)))
            .marking(&fastest(Wins::Largest, |row| Some(row.examples_per_s))),
    ];
    if rows.iter().any(|row| row.speed_up.is_some()) {
        columns.extend([
            Column::right("speed-up", texts(speed_up)).marking(&fastest(Wins::Largest, |row| row.speed_up)),
            Column::right("per core", texts(efficiency)).minor(1),
            Column::left("against", (0..rows.len()).map(|row| comparison.against(row))).shrinking(10),
        ]);
    }
    columns
}

fn times(comparison: &Comparison) -> Vec<Column> {
    let rows = &comparison.rows;
    let mut columns = vec![Column::left("run", rows.iter().map(|row| row.name.clone())).shrinking(8)];
    for activity in Activity::ALL {
        let column = Column::right(activity.name(), rows.iter().map(|row| format::share(row.fractions.get(activity))));
        let any = rows.iter().any(|row| row.fractions.get(activity) > 0.0);
        columns.push(if any { column } else { column.minor(1) });
    }
    columns
}

/// Epochs done, of those planned where these differ.
pub(crate) fn epochs(row: &Row) -> String {
    if row.epochs_planned > row.epochs {
        format!("{}/{}", row.epochs, row.epochs_planned)
    } else {
        row.epochs.to_string()
    }
}

/// `2.5×`.
pub(crate) fn speed_up(row: &Row) -> String {
    row.speed_up.map_or(format::NONE.into(), |ratio| format!("{ratio:.2}×"))
}

/// `46 %`.
pub(crate) fn efficiency(row: &Row) -> String {
    row.efficiency.map_or(format::NONE.into(), |share| format!("{} %", format::share(share)))
}
