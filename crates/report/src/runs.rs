//! The list of a folder's runs.

use paceline_base::layout::{Column, Style, table};
use paceline_base::text;
use paceline_record::{RunEntry, Work};

use crate::format;

/// Runs, one in a row.
pub fn runs_table(runs: &[&RunEntry], style: Style) -> String {
    let texts = |text: &dyn Fn(&RunEntry) -> String| runs.iter().map(|run| text(run)).collect::<Vec<_>>();
    let model = |run: &RunEntry| match run.work {
        Work::Train => run.model.clone(),
        Work::Prepare => "prepare".into(),
        Work::Speedtest => "speedtest".into(),
    };
    let mut columns = vec![
        Column::left("run", texts(&|run| run.name.clone())).shrinking(12),
        Column::left("status", texts(&|run| run.status.as_ref().map_or("unreadable", |s| s.name()).into())),
        Column::left("model", texts(&model)).shrinking(8).minor(4),
        Column::left("data", texts(&|run| run.data.clone())).shrinking(10).minor(5),
        Column::right("epochs", texts(&epochs)),
    ];
    // Accuracies have columns unless all that was measured are runs that count none.
    let classified = runs.iter().any(|run| run.best_val_accuracy.or(run.test_accuracy).is_some());
    let others = runs.iter().any(|run| run.best_val_accuracy.is_none() && run.best_val_loss.is_some());
    if classified || !others {
        columns.extend([
            Column::right("val %", texts(&|run| format::accuracy(run.best_val_accuracy))),
            Column::right("test %", texts(&|run| format::accuracy(run.test_accuracy))).minor(1),
        ]);
    }
    if others {
        columns.push(Column::right("val loss", texts(&|run| format::maybe_loss(run.best_val_loss))).minor(1));
    }
    if runs.iter().any(|run| run.best_val_absolute_error.is_some()) {
        columns.push(Column::right("val abs error", texts(&|run| format::maybe_loss(run.best_val_absolute_error))));
    }
    if runs.iter().any(|run| run.test_absolute_error.is_some()) {
        let column = Column::right("test abs error", texts(&|run| format::maybe_loss(run.test_absolute_error)));
        columns.push(column.minor(1));
    }
    columns.extend([
        Column::right("ex/s", texts(&|run| run.examples_per_s.map_or(format::NONE.into(), format::rate))).minor(2),
        Column::left("began (UTC)", texts(&|run| text::date(run.started).trim_end_matches(" UTC").into())),
        Column::right("size", texts(&|run| text::bytes(run.bytes))).minor(3),
    ]);
    table(&columns, style)
}

/// Epochs done, of those asked for.
fn epochs(run: &RunEntry) -> String {
    match run.epochs_planned {
        0 => format::NONE.into(),
        planned if planned == run.epochs => run.epochs.to_string(),
        planned => format!("{}/{planned}", run.epochs),
    }
}
