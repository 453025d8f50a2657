//! Preparations in the page: figures, throughput over time, and what every stage did.

use maud::{Markup, html};
use paceline_base::stage::StageFigures;
use paceline_base::text;
use paceline_record::{ProgressRecord, RunData, Summary};

use super::axis::Scale;
use super::chart::{Chart, Curve, Stroke};
use super::key;
use super::times::{of_run, segment};
use crate::preparation::preparation_words;
use crate::verdict::time;

/// All about these preparations.
pub(crate) fn section(runs: &[&RunData]) -> Markup {
    let pairs: Vec<(&RunData, &Summary)> = runs.iter().filter_map(|r| Some((*r, r.summary.as_ref()?))).collect();
    let findings = |summary: &Summary| -> Vec<String> {
        let shortage = time::shortage(&[], &summary.cpu).into_iter().map(|verdict| verdict.to_string());
        summary.reasons.iter().cloned().chain(preparation_words(summary)).chain(shortage).collect()
    };
    html! {
        (table(&pairs))
        div.findings {
            @for (number, (_, summary)) in pairs.iter().enumerate() {
                @for finding in findings(summary) {
                    div.card.finding { (key(number)) b { (summary.name) } p { (super::words::capital(&finding)) } }
                }
            }
        }
        div.charts {
            (throughput(&pairs))
            (stages(&pairs))
        }
    }
}

fn table(pairs: &[(&RunData, &Summary)]) -> Markup {
    html! {
        div.card.scroll.prepared {
            table {
                thead {
                    tr {
                        th { "run" }
                        th { "source" }
                        th { "engine" }
                        @for title in ["images", "left out", "time", "images/s", "MB/s read", "peak memory"] {
                            th.n { (title) }
                        }
                        th { "status" }
                    }
                }
                tbody {
                    @for (number, (_, summary)) in pairs.iter().enumerate() { (row(number, summary)) }
                }
            }
        }
    }
}

fn row(number: usize, s: &Summary) -> Markup {
    let made = s.prepared.clone().unwrap_or_default();
    let seconds = if s.seconds_train > 0.0 { s.seconds_train } else { 1.0 };
    html! {
        tr {
            td { (key(number)) (s.name) }
            td { (s.data) }
            td { (s.strategy) " ×" (s.threads) }
            td.n { (made.images) }
            td.n { (made.skipped) }
            td.n { (known(s.seconds_train, text::duration(s.seconds_train))) }
            td.n { (known(s.examples_per_s, text::si(s.examples_per_s.round()))) }
            td.n { (format!("{:.1}", made.bytes_read as f64 / 1e6 / seconds)) }
            td.n { (text::bytes(s.peak_rss_bytes)) }
            td { (s.status.name()) }
        }
    }
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
fn stages(pairs: &[(&RunData, &Summary)]) -> Markup {
    // Under Spark the tasks' times are summed, and have no share of the job's time.
    let timed =
        |(_, (_, summary)): &(usize, &(&RunData, &Summary))| !summary.stages.is_empty() && summary.strategy != "spark";
    let timed: Vec<_> = pairs.iter().enumerate().filter(timed).collect();
    if timed.is_empty() {
        return html! {};
    }
    html! {
        div.card {
            h4 { "What the stages did" }
            ul.legend.parts {
                li { span.key.p-compute {} "busy" }
                li { span.key.p-input {} "waits for input" }
                li { span.key.p-wait {} "waits for room" }
            }
            div.bars {
                @for (number, (_, summary)) in timed {
                    (of_run(number, &summary.name))
                    @for stage in &summary.stages { (stage_bar(stage, summary.seconds_train)) }
                }
            }
            p.muted {
                "Percent of the time of the stage's threads. Decode, resize and encode share one pool: an \
                 image goes through all three on one thread, so that their busy shares add up."
            }
        }
    }
}

fn stage_bar(stage: &StageFigures, seconds: f64) -> Markup {
    let all = (seconds * stage.threads as f64).max(f64::MIN_POSITIVE);
    let each = if stage.items > 0 { text::duration(stage.busy / stage.items as f64) } else { String::new() };
    let label = |share: f64| if share > 0.055 { format!("{:.0}", share * 100.0) } else { String::new() };
    html! {
        div.rank { (stage.name) " ×" (stage.threads) }
        div.bar {
            @for (class, part) in [("compute", stage.busy), ("input", stage.starved), ("wait", stage.blocked)] {
                @let share = (part / all).clamp(0.0, 1.0);
                @if share > 0.0 { (segment(class, share, label(share))) }
            }
        }
        div.seconds { (each) " an image" }
    }
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
