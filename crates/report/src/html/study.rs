//! The page of speed studies: headline figures, words, one plot per parameter, conditions, fits.

use std::path::Path;

use maud::{Markup, html};
use paceline_base::{Result, text};
use paceline_record::{PageCache, Status, Study};
use paceline_system::atomic;

use super::chart::COLOURS;
use super::words::{end_of_card, facts_list, finding, list, tile_of};
use super::{PageIdentity, key, legend_line, legend_switch, page, section, study_charts};
use crate::format;
use crate::study::{Effect, Parameter, Series, against_neither, figure, peak, series, words};
use crate::verdict::Verdict;

/// The page for these studies.
pub fn study_html(studies: &[Study]) -> String {
    let series = series(studies);
    let title = match studies {
        [only] => only.name.clone(),
        many => format!("{} speed studies compared", many.len()),
    };
    let plots = || {
        html! {
            (legend(&series))
            div.charts { @for chart in study_charts::charts(&series) { (chart) } }
        }
    };
    let details = html! { @for study in studies { (about(study, studies.len() == 1)) } };
    let content = html! {
        @if series.is_empty() {
            p.card.empty { "nothing was measured" }
        } @else {
            (tiles(studies, &series))
            (section("In words", findings(&words(studies, &series))))
            (section("Throughput by parameter", plots()))
            @if series.iter().any(|s| s.conditions.len() > 1) {
                (section("Cold and warm, caching and partitioning", conditions(&series)))
            }
            (section("Fits", fits(&series)))
            (section("Means", means(&series)))
        }
        (section(if studies.len() == 1 { "The study" } else { "The studies" }, details))
    };
    page(&title, &subtitle(studies), &study_identity(studies), content)
}

/// By what the page for these studies is known.
pub fn study_identity(studies: &[Study]) -> PageIdentity {
    PageIdentity::runs(
        studies.iter().map(|study| (study.name.as_str(), study.summary.as_ref().map_or(0, |s| s.started))),
    )
}

/// Writes the page for these studies to `path`, at once or not at all.
pub fn write_study_html(path: &Path, studies: &[Study]) -> Result<()> {
    atomic::write(path, study_html(studies).as_bytes())
}

fn subtitle(studies: &[Study]) -> String {
    let mut parts = vec!["read throughput".to_string()];
    let summaries: Vec<_> = studies.iter().filter_map(|study| study.summary.as_ref()).collect();
    if let [only] = &summaries[..] {
        parts.extend([only.data.clone(), only.strategy.clone()]);
    }
    super::when_and_where(parts, &summaries)
}

fn tiles(studies: &[Study], series: &[Series]) -> Markup {
    let noise = series.iter().filter_map(|s| s.noise).fold(f64::NAN, f64::max);
    let count: usize = studies.iter().map(|study| study.measurements.len()).sum();
    let seconds: f64 = studies.iter().filter_map(|study| Some(study.summary.as_ref()?.seconds_total)).sum();
    let note = if seconds > 0.0 { format!("in {}, in random order", text::duration(seconds)) } else { String::new() };
    html! {
        div.tiles {
            @for s in series.iter().take(6) {
                (tile_of(
                    &format!("{}, images per second", s.name),
                    &format::rate(s.images_per_s),
                    &format!("{} MB/s, {}", format::rate(s.mb_per_s), s.grid.name()),
                ))
            }
            (tile_of("noise between repetitions", &format::percent(noise), "the largest of the sources"))
            (tile_of("measurements", &format::count(count as u64), &note))
        }
    }
}

fn findings(verdicts: &[Verdict]) -> Markup {
    html! {
        div.findings { @for verdict in verdicts { div.card.finding { (finding(verdict)) } } }
    }
}

fn legend(series: &[Series]) -> Markup {
    let conditions: Vec<String> = series.iter().map(|s| s.grid.name()).collect();
    html! {
        ul.legend {
            @for (number, s) in series.iter().enumerate() {
                (legend_switch(number, format!("{} ({})", s.name, s.form.name())))
            }
            (legend_line(None, "mean"))
            (legend_line(Some("5 4"), "line"))
            (legend_line(Some("1 4"), "parabola"))
            @if conditions.iter().all(|name| *name == conditions[0]) { li.how { "all " (conditions[0]) } }
        }
    }
}

/// A card per series with a bar for each condition.
fn conditions(series: &[Series]) -> Markup {
    html! {
        div.charts {
            @for (number, s) in series.iter().enumerate().filter(|(_, s)| s.conditions.len() > 1) {
                div.card.{ "r" (number % COLOURS) } {
                    h3 { span.key {} (s.name) }
                    div.conditions { (condition_bars(s)) }
                    p.note {
                        "images per second, and times as fast as “neither” with the same page cache, cell by cell (geometric mean); "
                        (s.conditions.iter().map(|c| c.count).min().unwrap_or(0)) " measurements each, of the same cells"
                    }
                }
            }
        }
    }
}

fn condition_bars(s: &Series) -> Markup {
    let rates = || s.conditions.iter().map(|c| c.images_per_s).filter(|r| r.is_finite());
    let most = rates().fold(f64::MIN_POSITIVE, f64::max);
    let share = |rate: f64| if rate.is_finite() { rate / most * 100.0 } else { 0.0 };
    html! {
        @for c in &s.conditions {
            span { (c.condition.name()) }
            div.meter.cold[c.condition.page_cache == PageCache::Cold] {
                i style=(format!("width:{:.1}%", share(c.images_per_s))) {}
            }
            span.v { (format::rate(c.images_per_s)) }
            span.x { (against_neither(c)) }
        }
    }
}

/// Titles of the figures of a fit.
const FIT: [&str; 8] =
    ["slope", "95 % from", "to", "R²", "R² of the parabola", "its peak", "correlation", "rank correlation"];

fn fits(series: &[Series]) -> Markup {
    html! {
        div.card.scroll {
            table.sortable {
                thead {
                    tr {
                        th { button { "source" } }
                        th { button { "parameter" } }
                        @for title in FIT { th.n { button { (title) } } }
                    }
                }
                tbody {
                    @for (number, s) in series.iter().enumerate() {
                        @for effect in s.effects.iter().filter(|effect| effect.levels.len() > 1) {
                            tr {
                                th scope="row" data-v=(s.name) { (key(number)) (s.name) }
                                td data-v=(effect.parameter.name()) { (effect.parameter.name()) }
                                (fit(effect))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The figures of [`FIT`].
fn fit(effect: &Effect) -> Markup {
    let line = effect.linear;
    let two = |v: f64| format!("{v:.2}");
    let figures = [
        (line.map(|l| l.slope), figure as fn(f64) -> String),
        (line.map(|l| l.low), figure),
        (line.map(|l| l.high), figure),
        (line.map(|l| l.r2), two),
        (effect.quadratic.map(|q| q.r2), two),
        (peak(effect), |v| format!("{v:.0}")),
        (line.map(|l| l.pearson), two),
        (effect.spearman, two),
    ];
    html! {
        @for (value, text) in figures {
            @let value = value.filter(|v| v.is_finite());
            td.n data-v=(value.map_or(String::new(), |v| v.to_string())) { (value.map_or(format::NONE.into(), text)) }
        }
    }
}

fn means(series: &[Series]) -> Markup {
    html! {
        div.charts { @for parameter in Parameter::ALL { (means_by(parameter, series)) } }
    }
}

fn means_by(parameter: Parameter, series: &[Series]) -> Markup {
    let mut values: Vec<usize> =
        series.iter().filter_map(|s| s.effect(parameter)).flat_map(|e| e.levels.iter().map(|l| l.value)).collect();
    values.sort_unstable();
    values.dedup();
    if values.len() < 2 || values.len() > 60 {
        return html! {};
    }
    html! {
        details.card.run {
            summary { "by " (parameter.name()) }
            div.scroll {
                table {
                    thead {
                        tr {
                            th { (parameter.name()) }
                            @for (number, s) in series.iter().enumerate() { th.n { (key(number)) (s.name) } }
                        }
                    }
                    tbody {
                        @for value in values {
                            tr {
                                th scope="row" { (value) }
                                @for s in series { (mean_at(parameter, value, s)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn mean_at(parameter: Parameter, value: usize, s: &Series) -> Markup {
    let level = s.effect(parameter).and_then(|e| e.levels.iter().find(|level| level.value == value));
    let spread = level.and_then(|l| l.variation).map_or(String::new(), |v| format!(" ± {:.0} %", v * 100.0));
    html! {
        td.n { (level.map_or(format::NONE.into(), |l| format::rate(l.mean))) span.muted { (spread) } }
    }
}

fn about(study: &Study, open: bool) -> Markup {
    let summary = study.summary.clone().unwrap_or_default();
    let machine = &summary.machine;
    let known = |value: u64, text: String| if value > 0 { text } else { String::new() };
    let machine = [
        machine.cpu.clone(),
        known(machine.cores as u64, text::counted(machine.cores, "core")),
        known(machine.memory_bytes, text::bytes(machine.memory_bytes)),
        machine.os.clone(),
    ];
    let planned = study.config.get("planned").and_then(toml::Value::as_integer);
    let count = study.measurements.len();
    let mut hosts: Vec<&str> = study.measurements.iter().map(|m| m.host.as_str()).filter(|h| !h.is_empty()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let facts = [
        ("sources", summary.data.clone()),
        ("engine", summary.strategy.clone()),
        ("measurements", planned.map_or(count.to_string(), |planned| format!("{count} of {planned}"))),
        ("total time", known(u64::from(summary.seconds_total > 0.0), text::duration(summary.seconds_total))),
        ("seed", summary.seed.to_string()),
        ("started", known(summary.started, paceline_base::text::date(summary.started))),
        ("hosts", hosts.join(", ")),
        ("machine", machine.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")),
        ("folder", study.path.display().to_string()),
    ];
    html! {
        details.card.run open[open] {
            summary { (study.name) " " span.muted { (summary.status.name()) } }
            (facts_list(facts))
            @if let Status::Failed { why } = &summary.status { (list("Failed", std::slice::from_ref(why))) }
            (end_of_card(&summary, &study.notes, &study.config))
        }
    }
}
