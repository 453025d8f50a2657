//! A study on a terminal: means per parameter value, fits, conditions.

use std::fmt::Write;

use super::analysis::{Parameter, Series};
use super::words::times;
use crate::format;
use paceline_base::layout::{Column, Style, table};

/// The tables of these series.
pub fn tables(series: &[Series], style: Style) -> String {
    let mut out = String::new();
    if series.is_empty() {
        return "nothing was measured\n".into();
    }
    section(&mut out, "images/s by source", &overview(series), style);
    for parameter in Parameter::ALL {
        if series.iter().any(|s| s.effect(parameter).is_some_and(|e| e.levels.len() > 1)) {
            section(&mut out, &format!("mean images/s by {}", parameter.name()), &means(series, parameter), style);
        }
    }
    section(&mut out, "fits of images/s to each parameter", &fits(series), style);
    if series.iter().any(|s| s.conditions.len() > 1) {
        section(&mut out, "conditions, on the cells that all of them have", &conditions(series), style);
    }
    out
}

fn section(out: &mut String, title: &str, columns: &[Column], style: Style) {
    let gap = if out.is_empty() { "" } else { "\n" };
    let _ = write!(out, "{gap}{title}\n\n{}", table(columns, style));
}

fn noise(value: Option<f64>) -> String {
    value.filter(|v| v.is_finite()).map_or(format::NONE.into(), |v| format!("{:.1}", v * 100.0))
}

fn overview(series: &[Series]) -> Vec<Column> {
    let texts = |text: fn(&Series) -> String| series.iter().map(text).collect::<Vec<_>>();
    vec![
        Column::left("source", texts(|s| s.name.clone())).shrinking(12),
        Column::left("form", texts(|s| s.form.name().into())).minor(4),
        Column::left("condition", texts(|s| s.grid.name())),
        Column::right("images/s", texts(|s| format::rate(s.images_per_s))),
        Column::right("MB/s", texts(|s| format::rate(s.mb_per_s))),
        Column::right("an image", texts(|s| bytes(s.bytes_per_image))).minor(3),
        Column::right("noise %", texts(|s| noise(s.noise))).minor(1),
        Column::right("measured", texts(|s| s.measurements.len().to_string())).minor(2),
    ]
}

fn bytes(value: f64) -> String {
    if value.is_finite() { paceline_base::text::bytes(value as u64) } else { format::NONE.into() }
}

fn means(series: &[Series], parameter: Parameter) -> Vec<Column> {
    let effects: Vec<_> = series.iter().filter_map(|s| Some((s, s.effect(parameter)?))).collect();
    let mut values: Vec<usize> = effects.iter().flat_map(|(_, e)| e.levels.iter().map(|l| l.value)).collect();
    values.sort_unstable();
    values.dedup();
    let mut columns = vec![Column::right(parameter.name(), values.iter().map(ToString::to_string))];
    for (s, effect) in effects {
        let at = |value: &usize| effect.levels.iter().find(|level| level.value == *value);
        let best = effect.levels.iter().map(|level| level.mean).fold(f64::NAN, f64::max);
        let text = |value| at(value).map_or(format::NONE.into(), |level| format::rate(level.mean));
        let marks: Vec<bool> = values.iter().map(|v| at(v).is_some_and(|level| level.mean == best)).collect();
        columns.push(Column::right(&s.name, values.iter().map(text)).marking(&marks));
        columns.push(Column::right("±%", values.iter().map(|v| noise(at(v).and_then(|level| level.variation)))));
    }
    columns
}

fn fits(series: &[Series]) -> Vec<Column> {
    let rows: Vec<_> =
        series.iter().flat_map(|s| s.effects.iter().filter(|e| e.levels.len() > 1).map(move |e| (s, e))).collect();
    let texts = |text: &dyn Fn(&(&Series, &super::Effect)) -> Option<String>| {
        rows.iter().map(|row| text(row).unwrap_or_else(|| format::NONE.into())).collect::<Vec<_>>()
    };
    let two = |v: f64| format!("{v:.2}");
    vec![
        Column::left("source", texts(&|(s, _)| Some(s.name.clone()))).shrinking(8),
        Column::left("parameter", texts(&|(_, e)| Some(e.parameter.name().into()))),
        Column::right("slope", texts(&|(_, e)| e.linear.map(|l| figure(l.slope)))),
        Column::right("95 % from", texts(&|(_, e)| e.linear.filter(|l| l.low.is_finite()).map(|l| figure(l.low)))),
        Column::right("to", texts(&|(_, e)| e.linear.filter(|l| l.high.is_finite()).map(|l| figure(l.high)))),
        Column::right("R²", texts(&|(_, e)| e.linear.map(|l| two(l.r2)))),
        Column::right("R² quadratic", texts(&|(_, e)| e.quadratic.map(|q| two(q.r2)))).minor(3),
        Column::right("peak", texts(&|(_, e)| peak(e).map(|p| format!("{p:.0}")))).minor(2),
        Column::right("r", texts(&|(_, e)| e.linear.map(|l| two(l.pearson)))).minor(5),
        Column::right("rank r", texts(&|(_, e)| e.spearman.map(two))).minor(4),
    ]
}

/// The highest point of the parabola, where it lies within what was measured.
pub(crate) fn peak(effect: &super::Effect) -> Option<f64> {
    let (first, last) = (effect.levels.first()?.value as f64, effect.levels.last()?.value as f64);
    effect.quadratic?.peak().filter(|peak| (first..=last).contains(peak))
}

/// Three figures, signed as it is.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        v if v >= 0.0005 || v == 0.0 => format!("{value:.3}"),
        _ => format!("{value:.1e}"),
    }
}

fn conditions(series: &[Series]) -> Vec<Column> {
    let rows: Vec<_> = series.iter().flat_map(|s| s.conditions.iter().map(move |c| (s, c))).collect();
    let texts = |text: &dyn Fn(&(&Series, &super::UnderCondition)) -> String| rows.iter().map(text).collect::<Vec<_>>();
    vec![
        Column::left("source", texts(&|(s, _)| s.name.clone())).shrinking(8),
        Column::left("page cache", texts(&|(_, c)| c.condition.page_cache.name().into())),
        Column::left("variant", texts(&|(_, c)| c.condition.variant.name().into())),
        Column::right("images/s", texts(&|(_, c)| format::rate(c.images_per_s))),
        Column::right("MB/s", texts(&|(_, c)| format::rate(c.mb_per_s))).minor(2),
        Column::right("against neither", texts(&|(_, c)| against_neither(c))),
        Column::right("from memory %", texts(&|(_, c)| format::share(c.from_cache))).minor(4),
        Column::right("noise %", texts(&|(_, c)| noise(c.noise))).minor(3),
    ]
}

/// How many times as fast as `neither` under the same page cache, cell by cell.
pub(crate) fn against_neither(under: &super::UnderCondition) -> String {
    under.against_neither.map_or(format::NONE.into(), times)
}
