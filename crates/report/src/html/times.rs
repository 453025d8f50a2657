//! Where the time went: one stacked bar per run and rank.

use maud::{Markup, html};
use paceline_base::text;
use paceline_base::{Activity, TimeSplit};
use paceline_record::Summary;

use super::key;
use crate::format::share;

/// Ranks that are drawn one by one.
const RANKS: usize = 16;
/// A segment narrower than this has no room for its number.
const ROOM: f64 = 0.055;

/// A stacked bar of fractions, with percentages inside if `labels`.
pub(crate) fn bar(fractions: &TimeSplit, labels: bool) -> Markup {
    if fractions.total() <= 0.0 {
        return html! { span.muted { "not recorded" } };
    }
    let words: Vec<String> = Activity::ALL
        .iter()
        .filter(|&&activity| fractions.get(activity) > 0.0)
        .map(|&activity| format!("{} {} %", activity.name(), share(fractions.get(activity))))
        .collect();
    let words = words.join(", ");
    html! {
        div.bar role="img" title=(words) aria-label=(words) {
            @for activity in Activity::ALL {
                @let value = fractions.get(activity);
                @if value > 0.0 && value.is_finite() {
                    (segment(activity.name(), value, if labels && value >= ROOM { share(value) } else { String::new() }))
                }
            }
        }
    }
}

/// One colour of a bar: `value` is its share of the whole.
pub(crate) fn segment(name: &str, value: f64, label: String) -> Markup {
    html! { i.{ "p-" (name) } style=(format!("width:{:.2}%", value * 100.0)) { (label) } }
}

/// The name of a run above its bars.
pub(crate) fn of_run(run: usize, name: &str) -> Markup {
    html! { div.of-run { (key(run)) (name) } }
}

/// The bars of all runs, under one legend.
pub(crate) fn section(summaries: &[Summary]) -> Markup {
    html! {
        div.card {
            ul.legend.parts {
                @for activity in Activity::ALL { li { span.key.{ "p-" (activity.name()) } {} (activity.name()) } }
            }
            div.bars {
                @for (run, summary) in summaries.iter().enumerate() {
                    (of_run(run, &summary.name))
                    (lines(summary))
                }
            }
            p.muted { "Percent of each rank's time. Waiting for other ranks is not computing, and is counted apart." }
        }
    }
}

fn lines(summary: &Summary) -> Markup {
    let split = &summary.split;
    html! {
        @match &split[..] {
            [] => (line("", &summary.split_fractions, None)),
            [only] => (line("", &only.fractions(), Some(only.total()))),
            _ => {
                @for (rank, split) in split.iter().take(RANKS).enumerate() {
                    (line(&format!("rank {rank}"), &split.fractions(), Some(split.total())))
                }
                @if split.len() > RANKS {
                    @let all: TimeSplit = split.iter().copied().sum();
                    (line(&format!("all {}", split.len()), &all.fractions(), Some(all.total() / split.len() as f64)))
                }
            }
        }
    }
}

fn line(name: &str, fractions: &TimeSplit, seconds: Option<f64>) -> Markup {
    let seconds = seconds.filter(|s| *s > 0.0).map_or(String::new(), text::duration);
    html! {
        div.rank { (name) }
        (bar(fractions, true))
        div.seconds { (seconds) }
    }
}
