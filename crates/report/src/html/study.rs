//! The page of speed studies: headline figures, words, one plot per parameter, conditions, fits.

use std::fmt::Write;
use std::path::Path;

use paceline_base::{Result, text};
use paceline_record::{PageCache, Status, Study};
use paceline_system::atomic;

use super::chart::COLOURS;
use super::escape::Esc;
use super::words::{end_card, push_list, push_tile, push_verdict};
use super::{PageIdentity, SCRIPT, head, section, study_charts};
use crate::format;
use crate::study::{Parameter, Series, against_neither, figure, peak, series, words};
use crate::verdict::Verdict;

/// The page for these studies.
pub fn study_html(studies: &[Study]) -> String {
    let series = series(studies);
    let title = match studies {
        [only] => only.name.clone(),
        many => format!("{} speed studies compared", many.len()),
    };
    let mut out = head(&title, &subtitle(studies), &study_identity(studies));
    if series.is_empty() {
        out.push_str("<p class=\"card empty\">nothing was measured</p>");
    } else {
        out.push_str(&tiles(studies, &series));
        section(&mut out, "In words", &findings(&words(studies, &series)));
        let mut plots = legend(&series);
        plots.push_str("<div class=\"charts\">");
        study_charts::charts(&series).iter().for_each(|chart| plots.push_str(&chart.svg()));
        plots.push_str("</div>");
        section(&mut out, "Throughput by parameter", &plots);
        if series.iter().any(|s| s.conditions.len() > 1) {
            section(&mut out, "Cold and warm, caching and partitioning", &conditions(&series));
        }
        section(&mut out, "Fits", &fits(&series));
        section(&mut out, "Means", &means(&series));
    }
    let details: String = studies.iter().map(|study| about(study, studies.len() == 1)).collect();
    section(&mut out, if studies.len() == 1 { "The study" } else { "The studies" }, &details);
    write!(out, "</main><script>{SCRIPT}</script></body></html>").unwrap();
    out
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

fn tiles(studies: &[Study], series: &[Series]) -> String {
    let mut out = String::from("<div class=\"tiles\">");
    let mut tile = |label: &str, value: String, note: String| push_tile(&mut out, label, &value, &note);
    for s in series.iter().take(6) {
        tile(
            &format!("{}, images per second", s.name),
            format::rate(s.images_per_s),
            format!("{} MB/s, {}", format::rate(s.mb_per_s), s.grid.name()),
        );
    }
    let noise = series.iter().filter_map(|s| s.noise).fold(f64::NAN, f64::max);
    tile("noise between repetitions", format::percent(noise), "the largest of the sources".into());
    let count: usize = studies.iter().map(|study| study.measurements.len()).sum();
    let seconds: f64 = studies.iter().filter_map(|study| Some(study.summary.as_ref()?.seconds_total)).sum();
    let note = if seconds > 0.0 { format!("in {}, in random order", text::duration(seconds)) } else { String::new() };
    tile("measurements", format::count(count as u64), note);
    out.push_str("</div>");
    out
}

fn findings(verdicts: &[Verdict]) -> String {
    let mut out = String::from("<div class=\"findings\">");
    for verdict in verdicts {
        out.push_str("<div class=\"card finding\">");
        push_verdict(&mut out, verdict);
        out.push_str("</div>");
    }
    out.push_str("</div>");
    out
}

fn legend(series: &[Series]) -> String {
    let mut out = String::from("<ul class=\"legend\">");
    for (number, s) in series.iter().enumerate() {
        write!(
            out,
            "<li><button data-run=\"{number}\" aria-pressed=\"true\" title=\"show or hide\"><span class=\"key r{}\"></span>{} ({})</button></li>",
            number % COLOURS,
            Esc(&s.name),
            s.form.name()
        )
        .unwrap();
    }
    for (line, what) in [("", "mean"), (" stroke-dasharray=\"5 4\"", "line"), (" stroke-dasharray=\"1 4\"", "parabola")]
    {
        write!(out, "<li class=\"how\"><svg viewBox=\"0 0 28 8\"><path d=\"M0 4h28\"{line}/></svg>{what}</li>")
            .unwrap();
    }
    let conditions: Vec<String> = series.iter().map(|s| s.grid.name()).collect();
    if conditions.iter().all(|name| *name == conditions[0]) {
        write!(out, "<li class=\"how\">all {}</li>", Esc(&conditions[0])).unwrap();
    }
    out.push_str("</ul>");
    out
}

/// A card per series with a bar for each condition.
fn conditions(series: &[Series]) -> String {
    let mut out = String::from("<div class=\"charts\">");
    for (number, s) in series.iter().enumerate().filter(|(_, s)| s.conditions.len() > 1) {
        let most =
            s.conditions.iter().map(|c| c.images_per_s).filter(|r| r.is_finite()).fold(f64::MIN_POSITIVE, f64::max);
        write!(
            out,
            "<div class=\"card r{}\"><h3><span class=\"key\"></span>{}</h3><div class=\"conditions\">",
            number % COLOURS,
            Esc(&s.name)
        )
        .unwrap();
        for c in &s.conditions {
            let cold = if c.condition.page_cache == PageCache::Cold { " cold" } else { "" };
            let share = if c.images_per_s.is_finite() { c.images_per_s / most * 100.0 } else { 0.0 };
            write!(
                out,
                "<span>{}</span><div class=\"meter{cold}\"><i style=\"width:{share:.1}%\"></i></div><span class=\"v\">{}</span><span class=\"x\">{}</span>",
                Esc(c.condition.name()),
                format::rate(c.images_per_s),
                against_neither(c)
            )
            .unwrap();
        }
        let cells = s.conditions.iter().map(|c| c.count).min().unwrap_or(0);
        write!(
            out,
            "</div><p class=\"note\">images per second, and times as fast as “neither” with the same page cache, cell by cell (geometric mean); {cells} measurements each, of the same cells</p></div>"
        )
        .unwrap();
    }
    out.push_str("</div>");
    out
}

fn fits(series: &[Series]) -> String {
    let mut out = String::from(
        "<div class=\"card scroll\"><table class=\"sortable\"><thead><tr><th><button>source</button></th><th><button>parameter</button></th>",
    );
    for title in ["slope", "95 % from", "to", "R²", "R² of the parabola", "its peak", "correlation", "rank correlation"]
    {
        write!(out, "<th class=\"n\"><button>{title}</button></th>").unwrap();
    }
    out.push_str("</tr></thead><tbody>");
    for (number, s) in series.iter().enumerate() {
        for effect in s.effects.iter().filter(|effect| effect.levels.len() > 1) {
            write!(
                out,
                "<tr><th scope=\"row\" data-v=\"{0}\"><span class=\"key r{1}\"></span>{0}</th><td data-v=\"{2}\">{2}</td>",
                Esc(&s.name),
                number % COLOURS,
                effect.parameter.name()
            )
            .unwrap();
            let line = effect.linear;
            let two = |v: f64| format!("{v:.2}");
            for (value, text) in [
                (line.map(|l| l.slope), figure as fn(f64) -> String),
                (line.map(|l| l.low), figure),
                (line.map(|l| l.high), figure),
                (line.map(|l| l.r2), two),
                (effect.quadratic.map(|q| q.r2), two),
                (peak(effect), |v| format!("{v:.0}")),
                (line.map(|l| l.pearson), two),
                (effect.spearman, two),
            ] {
                let value = value.filter(|v| v.is_finite());
                write!(
                    out,
                    "<td class=\"n\" data-v=\"{}\">{}</td>",
                    value.map_or(String::new(), |v| v.to_string()),
                    value.map_or(format::NONE.into(), text)
                )
                .unwrap();
            }
            out.push_str("</tr>");
        }
    }
    out.push_str("</tbody></table></div>");
    out
}

fn means(series: &[Series]) -> String {
    let mut out = String::from("<div class=\"charts\">");
    for parameter in Parameter::ALL {
        let mut values: Vec<usize> =
            series.iter().filter_map(|s| s.effect(parameter)).flat_map(|e| e.levels.iter().map(|l| l.value)).collect();
        values.sort_unstable();
        values.dedup();
        if values.len() < 2 || values.len() > 60 {
            continue;
        }
        write!(
            out,
            "<details class=\"card run\"><summary>by {}</summary><div class=\"scroll\"><table><thead><tr><th>{0}</th>",
            parameter.name()
        )
        .unwrap();
        for (number, s) in series.iter().enumerate() {
            write!(out, "<th class=\"n\"><span class=\"key r{}\"></span>{}</th>", number % COLOURS, Esc(&s.name))
                .unwrap();
        }
        out.push_str("</tr></thead><tbody>");
        for value in values {
            write!(out, "<tr><th scope=\"row\">{value}</th>").unwrap();
            for s in series {
                let level = s.effect(parameter).and_then(|e| e.levels.iter().find(|level| level.value == value));
                let spread =
                    level.and_then(|l| l.variation).map_or(String::new(), |v| format!(" ± {:.0} %", v * 100.0));
                let text = level.map_or(format::NONE.into(), |l| format::rate(l.mean));
                write!(out, "<td class=\"n\">{text}<span class=\"muted\">{spread}</span></td>").unwrap();
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div></details>");
    }
    out.push_str("</div>");
    out
}

fn about(study: &Study, open: bool) -> String {
    let summary = study.summary.clone().unwrap_or_default();
    let mut out = format!(
        "<details class=\"card run\"{}><summary>{} <span class=\"muted\">{}</span></summary><dl>",
        if open { " open" } else { "" },
        Esc(&study.name),
        Esc(summary.status.name())
    );
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
    for (label, value) in [
        ("sources", summary.data.clone()),
        ("engine", summary.strategy.clone()),
        ("measurements", planned.map_or(count.to_string(), |planned| format!("{count} of {planned}"))),
        ("total time", known(u64::from(summary.seconds_total > 0.0), text::duration(summary.seconds_total))),
        ("seed", summary.seed.to_string()),
        ("started", known(summary.started, paceline_base::text::date(summary.started))),
        ("hosts", hosts.join(", ")),
        ("machine", machine.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")),
        ("folder", study.path.display().to_string()),
    ] {
        if !value.is_empty() {
            write!(out, "<dt>{}</dt><dd>{}</dd>", Esc(label), Esc(value)).unwrap();
        }
    }
    out.push_str("</dl>");
    if let Status::Failed { why } = &summary.status {
        push_list(&mut out, "Failed", std::slice::from_ref(why));
    }
    end_card(&mut out, &summary, &study.notes, &study.config);
    out
}
