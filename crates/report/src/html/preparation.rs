//! Preparations in the page: figures, throughput over time, and what every stage did.

use std::fmt::Write;

use paceline_base::stage::StageFigures;
use paceline_base::text;
use paceline_record::{ProgressRecord, RunData, Summary};

use super::axis::Scale;
use super::chart::{COLOURS, Chart, Curve, Stroke};
use super::escape::Esc;
use crate::preparation::preparation_words;
use crate::verdict::time;

/// All about these preparations.
pub(crate) fn section(runs: &[&RunData]) -> String {
    let pairs: Vec<(&RunData, &Summary)> = runs.iter().filter_map(|r| Some((*r, r.summary.as_ref()?))).collect();
    let mut out = table(&pairs);
    out.push_str("<div class=\"findings\">");
    for (number, (_, summary)) in pairs.iter().enumerate() {
        let shortage = time::shortage(&[], &summary.cpu).into_iter().map(|verdict| verdict.to_string());
        let words = summary.reasons.iter().cloned().chain(preparation_words(summary)).chain(shortage);
        for word in words {
            write!(
                out,
                "<div class=\"card finding\"><span class=\"key r{}\"></span><b>{}</b><p>{}</p></div>",
                number % COLOURS,
                Esc(&summary.name),
                Esc(super::words::capital(&word))
            )
            .unwrap();
        }
    }
    out.push_str("</div><div class=\"charts\">");
    out.push_str(&throughput(&pairs).svg());
    out.push_str(&stages(&pairs));
    out.push_str("</div>");
    out
}

fn table(pairs: &[(&RunData, &Summary)]) -> String {
    let mut out = String::from(
        "<div class=\"card scroll prepared\"><table><thead><tr><th>run</th><th>source</th><th>engine</th><th class=\"n\">images</th>\
         <th class=\"n\">left out</th><th class=\"n\">time</th><th class=\"n\">images/s</th><th class=\"n\">MB/s read</th>\
         <th class=\"n\">peak memory</th><th>status</th></tr></thead><tbody>",
    );
    for (number, (_, s)) in pairs.iter().enumerate() {
        let made = s.prepared.clone().unwrap_or_default();
        let seconds = if s.seconds_train > 0.0 { s.seconds_train } else { 1.0 };
        write!(
            out,
            "<tr><td><span class=\"key r{}\"></span>{}</td><td>{}</td><td>{} ×{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{:.1}</td><td class=\"n\">{}</td><td>{}</td></tr>",
            number % COLOURS,
            Esc(&s.name),
            Esc(&s.data),
            Esc(&s.strategy),
            s.threads,
            made.images,
            made.skipped,
            Esc(known(s.seconds_train, text::duration(s.seconds_train))),
            Esc(known(s.examples_per_s, text::si(s.examples_per_s.round()))),
            made.bytes_read as f64 / 1e6 / seconds,
            Esc(text::bytes(s.peak_rss_bytes)),
            Esc(s.status.name())
        )
        .unwrap();
    }
    out.push_str("</tbody></table></div>");
    out
}

/// A figure of a run that got far enough to have it.
fn known(value: f64, words: String) -> String {
    if value.is_finite() && value > 0.0 { words } else { "–".into() }
}

/// Images per second between two records.
fn rates(progress: &[ProgressRecord]) -> Vec<(f64, f64)> {
    let begin = ProgressRecord::default();
    let before = std::iter::once(&begin).chain(progress);
    before
        .zip(progress)
        .filter(|(a, b)| b.seconds - a.seconds > 0.2)
        .map(|(a, b)| ((a.seconds + b.seconds) / 2.0, (b.images - a.images) as f64 / (b.seconds - a.seconds)))
        .collect()
}

fn throughput(pairs: &[(&RunData, &Summary)]) -> Chart {
    let curves = pairs
        .iter()
        .enumerate()
        .map(|(run, (data, summary))| Curve {
            run,
            name: summary.name.clone(),
            what: "images/s",
            stroke: Stroke::Solid,
            silent: false,
            points: rates(&data.progress),
        })
        .collect();
    Chart {
        title: "Images per second",
        x_title: "seconds".into(),
        x_scale: Scale::Tight,
        y_scale: Scale::Linear,
        percent: false,
        room: 0.0,
        x_name: text::duration,
        y_name: |y| text::si(y.round()),
        curves,
    }
}

/// A bar for every stage: busy, waiting for input, waiting for room.
fn stages(pairs: &[(&RunData, &Summary)]) -> String {
    let mut out = String::from(
        "<div class=\"card\"><h4>What the stages did</h4><ul class=\"legend parts\"><li><span class=\"key p-compute\"></span>busy</li>\
         <li><span class=\"key p-input\"></span>waits for input</li><li><span class=\"key p-wait\"></span>waits for room</li></ul><div class=\"bars\">",
    );
    let mut any = false;
    for (number, (_, summary)) in pairs.iter().enumerate() {
        // Under Spark the tasks' times are summed, and have no share of the job's time.
        if summary.stages.is_empty() || summary.strategy == "spark" {
            continue;
        }
        any = true;
        write!(
            out,
            "<div class=\"of-run\"><span class=\"key r{}\"></span>{}</div>",
            number % COLOURS,
            Esc(&summary.name)
        )
        .unwrap();
        for stage in &summary.stages {
            push_stage(&mut out, stage, summary.seconds_train);
        }
    }
    out.push_str(
        "</div><p class=\"muted\">Percent of the time of the stage's threads. Decode, resize and encode share one pool: an \
         image goes through all three on one thread, so that their busy shares add up.</p></div>",
    );
    if any { out } else { String::new() }
}

fn push_stage(out: &mut String, stage: &StageFigures, seconds: f64) {
    let all = (seconds * stage.threads as f64).max(f64::MIN_POSITIVE);
    let each = if stage.items > 0 { text::duration(stage.busy / stage.items as f64) } else { String::new() };
    write!(out, "<div class=\"rank\">{} ×{}</div><div class=\"bar\">", Esc(&stage.name), stage.threads).unwrap();
    for (class, part) in [("compute", stage.busy), ("input", stage.starved), ("wait", stage.blocked)] {
        let share = (part / all).clamp(0.0, 1.0);
        if share > 0.0 {
            let label = if share > 0.055 { format!("{:.0}", share * 100.0) } else { String::new() };
            write!(out, "<i class=\"p-{class}\" style=\"width:{:.2}%\">{label}</i>", share * 100.0).unwrap();
        }
    }
    write!(out, "</div><div class=\"seconds\">{} an image</div>", Esc(each)).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_intervals() {
        let at = |seconds, images| ProgressRecord { seconds, images, ..ProgressRecord::default() };
        assert_eq!(rates(&[at(1.0, 100), at(2.0, 300), at(2.05, 310)]), [(0.5, 100.0), (1.5, 200.0)]);
    }
}
