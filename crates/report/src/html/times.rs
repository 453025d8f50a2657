//! Where the time went: one stacked bar per run and rank.

use std::fmt::Write;

use paceline_base::text;
use paceline_base::{Activity, TimeSplit};
use paceline_record::Summary;

use super::chart::COLOURS;
use super::escape::Esc;
use crate::format::share;

/// Ranks that are drawn one by one.
const RANKS: usize = 16;
/// A segment narrower than this has no room for its number.
const ROOM: f64 = 0.055;

/// A stacked bar of fractions, with percentages inside if `labels`.
pub(crate) fn bar(fractions: &TimeSplit, labels: bool) -> String {
    if fractions.total() <= 0.0 {
        return "<span class=\"muted\">not recorded</span>".into();
    }
    let words: Vec<String> = Activity::ALL
        .iter()
        .filter(|&&activity| fractions.get(activity) > 0.0)
        .map(|&activity| format!("{} {} %", activity.name(), share(fractions.get(activity))))
        .collect();
    let mut out = format!("<div class=\"bar\" role=\"img\" title=\"{0}\" aria-label=\"{0}\">", Esc(words.join(", ")));
    for activity in Activity::ALL {
        let value = fractions.get(activity);
        if value <= 0.0 || !value.is_finite() {
            continue;
        }
        let label = if labels && value >= ROOM { share(value) } else { String::new() };
        write!(out, "<i class=\"p-{}\" style=\"width:{:.2}%\">{label}</i>", activity.name(), value * 100.0).unwrap();
    }
    out.push_str("</div>");
    out
}

/// The bars of all runs, under one legend.
pub(crate) fn section(summaries: &[Summary]) -> String {
    let mut out = String::from("<div class=\"card\"><ul class=\"legend parts\">");
    for activity in Activity::ALL {
        write!(out, "<li><span class=\"key p-{0}\"></span>{0}</li>", activity.name()).unwrap();
    }
    out.push_str("</ul><div class=\"bars\">");
    for (run, summary) in summaries.iter().enumerate() {
        write!(out, "<div class=\"of-run\"><span class=\"key r{}\"></span>{}</div>", run % COLOURS, Esc(&summary.name))
            .unwrap();
        if summary.split.is_empty() {
            push_line(&mut out, "", &summary.split_fractions, None);
            continue;
        }
        if summary.split.len() == 1 {
            push_line(&mut out, "", &summary.split[0].fractions(), Some(summary.split[0].total()));
            continue;
        }
        for (rank, split) in summary.split.iter().take(RANKS).enumerate() {
            push_line(&mut out, &format!("rank {rank}"), &split.fractions(), Some(split.total()));
        }
        if summary.split.len() > RANKS {
            let all: TimeSplit = summary.split.iter().copied().sum();
            let mean = all.total() / summary.split.len() as f64;
            push_line(&mut out, &format!("all {}", summary.split.len()), &all.fractions(), Some(mean));
        }
    }
    out.push_str("</div><p class=\"muted\">Percent of each rank's time. Waiting for other ranks is not computing, and is counted apart.</p></div>");
    out
}

fn push_line(out: &mut String, name: &str, fractions: &TimeSplit, seconds: Option<f64>) {
    let seconds = seconds.filter(|s| *s > 0.0).map_or(String::new(), text::duration);
    write!(
        out,
        "<div class=\"rank\">{}</div>{}<div class=\"seconds\">{}</div>",
        Esc(name),
        bar(fractions, true),
        Esc(seconds)
    )
    .unwrap();
}
