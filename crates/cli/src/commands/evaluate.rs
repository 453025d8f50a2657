//! `paceline evaluate RUN [DATA]`

use super::predict::{open, say_bad, say_model, shortened};
use crate::flags::predict::Evaluate;
use crate::screen::{self, say};
use paceline::base::layout::{self, Column, Style};
use paceline::predict::{ClassScores, Confusion, Evaluation, Means, PartName, Predictor};
use paceline::{Error, Result, text};
use serde_json::json;

/// Characters of a class name that a table shows.
const NAME: usize = 20;
/// With more classes than that only the worst are shown.
const CLASSES: usize = 40;
/// Classes and confusions that are shown of many.
const SHOWN: usize = 20;
/// Confusions that are shown.
const CONFUSIONS: usize = 10;

/// Runs the command.
pub(crate) fn run(flags: &Evaluate) -> Result<()> {
    let mut predictor = open(&flags.run, &flags.model)?;
    let inputs = predictor.labelled(flags.data.as_deref())?;
    let part = flags.part.unwrap_or_else(|| inputs.part_to_evaluate());
    let several = inputs.parts().len() > 1;
    let inputs = inputs.only(part)?;
    let data = match &flags.data {
        Some(path) => path.display().to_string(),
        None => predictor.config().data.name.clone(),
    };
    let evaluation = predictor.evaluate(&inputs)?;
    if flags.json {
        let text = serde_json::to_string_pretty(&figures(&predictor, &evaluation, &data, part));
        screen::print(&text.map_err(|e| Error::internal(e.to_string()))?);
    } else {
        say_model(&predictor);
        let notes = inputs.notes.iter().chain(&evaluation.notes);
        notes.for_each(|note| screen::complain(&format!("  note: {note}")));
        show(&predictor, &evaluation, &data, part, several && flags.part.is_none());
    }
    let all = evaluation.samples + evaluation.bad;
    say_bad(&evaluation.first_bad, evaluation.bad, all, flags.model.skip_bad)
}

fn part_name(part: PartName) -> &'static str {
    match part {
        PartName::All => "all",
        PartName::Only(role) => role.name(),
    }
}

fn figures(predictor: &Predictor, evaluation: &Evaluation, data: &str, part: PartName) -> serde_json::Value {
    let progress = &predictor.checkpoint().manifest.progress;
    let bad = evaluation.first_bad.iter().map(|(input, reason)| json!({"input": input, "reason": reason}));
    let mut figures = json!({
        "format": 1,
        "run": predictor.dir(),
        "checkpoint": predictor.checkpoint().path,
        "epoch": progress.epoch,
        "step": progress.step,
        "data": data,
        "part": part_name(part),
        "samples": evaluation.samples,
        "loss": evaluation.loss,
        "bad": evaluation.bad,
        "bad_inputs": bad.collect::<Vec<_>>(),
    });
    if let Some(error) = evaluation.absolute_error {
        figures["absolute_error"] = error.into();
    }
    if let (Some(confusion), Some(all)) = (&evaluation.confusion, figures.as_object_mut()) {
        all.extend(class_figures(confusion, predictor.classes()));
    }
    figures
}

/// What is only known where targets are classes.
fn class_figures(confusion: &Confusion, names: &[String]) -> serde_json::Map<String, serde_json::Value> {
    let class = |c: ClassScores| {
        json!({
            "name": names[c.class], "precision": c.precision, "recall": c.recall, "f1": c.f1,
            "support": c.support, "predicted": c.predicted,
        })
    };
    let pair = |(label, predicted, count): (usize, usize, u64)| json!({"label": names[label], "predicted": names[predicted], "count": count});
    let figures = [
        ("accuracy", json!(confusion.accuracy())),
        ("classes", confusion.by_class().into_iter().map(class).collect()),
        ("macro", json!(confusion.macro_mean())),
        ("weighted", json!(confusion.weighted_mean())),
        ("confusion", json!(confusion.matrix())),
        ("confusions", confusion.confusions().into_iter().map(pair).collect()),
    ];
    figures.map(|(name, value)| (name.to_string(), value)).into_iter().collect()
}

fn show(predictor: &Predictor, evaluation: &Evaluation, data: &str, part: PartName, chosen: bool) {
    let which = match part {
        PartName::All => String::new(),
        PartName::Only(role) => format!(", {role} part{}", if chosen { " (another: --part)" } else { "" }),
    };
    say!("{} of {data}{which}", text::counted(evaluation.samples as usize, "sample"));
    say!("{}", result(evaluation));
    if let Some(confusion) = &evaluation.confusion {
        let names: Vec<String> = predictor.classes().iter().map(|name| shortened(&text::visible(name), NAME)).collect();
        show_classes(confusion, &names);
    }
}

/// "loss 0.4051  accuracy 85.12 %"
fn result(evaluation: &Evaluation) -> String {
    let mut words = format!("loss {:.4}", evaluation.loss);
    words.extend(evaluation.accuracy().map(|accuracy| format!("  accuracy {:.2} %", 100.0 * accuracy)));
    words.extend(evaluation.absolute_error.map(|error| format!("  absolute error {error:.4}")));
    words
}

fn show_classes(confusion: &Confusion, names: &[String]) {
    say!("\n");
    screen::print(&class_table(confusion, names));
    say!("");
    match matrix(confusion, names, screen::style().width) {
        Some(table) => say!("rows: the class that it is; columns: the class that was predicted\n\n{table}"),
        None => screen::print(&confusions(confusion, names)),
    }
}

fn class_table(confusion: &Confusion, names: &[String]) -> String {
    let percent = |x: f64| format!("{:.1} %", 100.0 * x);
    let mut classes = confusion.by_class();
    let all = classes.len();
    let mut note = String::new();
    if all > CLASSES {
        classes.retain(|c| c.support + c.predicted > 0);
        classes.sort_by(|a, b| a.f1.total_cmp(&b.f1).then(b.support.cmp(&a.support)));
        classes.truncate(SHOWN);
        note = format!("the {} classes of {all} with the lowest F1; --json has all\n", classes.len());
    }
    let mut rows = vec![["class", "precision", "recall", "F1", "support"].map(String::from).to_vec()];
    for c in &classes {
        rows.push(vec![
            names[c.class].clone(),
            percent(c.precision),
            percent(c.recall),
            percent(c.f1),
            c.support.to_string(),
        ]);
    }
    let means = [("mean of classes", confusion.macro_mean()), ("weighted mean", confusion.weighted_mean())];
    for (name, Means { precision, recall, f1 }) in means {
        let total = confusion.total().to_string();
        rows.push(vec![name.into(), percent(precision), percent(recall), percent(f1), total]);
    }
    columns(&rows, 1, screen::style()) + &note
}

/// A table of a head and rows; the first `left` columns begin at the left.
fn columns(rows: &[Vec<String>], left: usize, style: Style) -> String {
    let Some((head, rows)) = rows.split_first() else { return String::new() };
    let column = |(place, title): (usize, &String)| {
        let cells = rows.iter().map(|row| row[place].clone());
        if place < left { Column::left(title, cells).shrinking(8) } else { Column::right(title, cells) }
    };
    layout::table(&head.iter().enumerate().map(column).collect::<Vec<_>>(), style)
}

/// The whole matrix, if it fits into `width` columns; predicted classes are named by their number.
fn matrix(confusion: &Confusion, names: &[String], width: usize) -> Option<String> {
    let numbered = |(number, name): (usize, &String)| format!("{number} {name}");
    if names.len() > CLASSES {
        return None;
    }
    let mut head = vec!["class".to_string()];
    head.extend((0..names.len()).map(|number| number.to_string()));
    let mut rows = vec![head];
    for (label, name) in names.iter().enumerate().map(|(i, name)| (i, numbered((i, name)))) {
        let cell = |guess| match confusion.count(label, guess) {
            0 => "·".to_string(),
            count => count.to_string(),
        };
        rows.push(std::iter::once(name).chain((0..names.len()).map(cell)).collect());
    }
    let table = columns(&rows, 1, Style { bold: false, width: usize::MAX });
    table.lines().all(|line| line.chars().count() <= width).then_some(table)
}

fn confusions(confusion: &Confusion, names: &[String]) -> String {
    let list = confusion.confusions();
    if list.is_empty() {
        return "no class was taken for another".into();
    }
    let mut rows = vec![["class", "taken for", "samples"].map(String::from).to_vec()];
    for (label, guess, count) in list.iter().take(CONFUSIONS) {
        rows.push(vec![names[*label].clone(), names[*guess].clone(), count.to_string()]);
    }
    let more = match list.len().saturating_sub(CONFUSIONS) {
        0 => String::new(),
        more => format!("and {more} more pairs; --json has all\n"),
    };
    format!("the largest confusions\n\n{}{more}", columns(&rows, 2, screen::style()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_is_shown_where_it_fits() {
        let names = ["cat", "dog"].map(String::from);
        let mut confusion = Confusion::new(2);
        (0..12).for_each(|_| confusion.add(0, 0));
        confusion.add(1, 0);
        assert_eq!(matrix(&confusion, &names, 60).unwrap(), "class   0  1\n─────  ──  ─\n0 cat  12  ·\n1 dog   1  ·\n");
        assert_eq!(matrix(&confusion, &names, 11), None);
        assert_eq!(confusions(&confusion, &names).lines().last(), Some("dog    cat              1"));
    }
}
