//! What a preparation prints at its end, and how several are compared.

use crate::closing::cores_used;
use crate::format::plain;
use crate::stages::{preparation_verdict, stage_table};
use crate::verdict::time;
use paceline_base::layout::{Column, Style, indent, labelled, paragraphs, table};
use paceline_base::stage::Stage;
use paceline_base::text;
use paceline_record::{RunData, Status, Summary, Work};

/// Whether a run prepared data.
pub fn is_preparation(run: &RunData) -> bool {
    run.summary.as_ref().is_some_and(|s| s.work == Work::Prepare)
}

/// The sentence on the slowest stage, if the run has stages.
pub fn preparation_words(summary: &Summary) -> Option<String> {
    // Under Spark the stages are summed over tasks that ran one after another: their share of the time says nothing.
    if summary.strategy == "spark" {
        return None;
    }
    let raw = summary.stages.iter().all(|s| !s.is(Stage::Encode) || s.busy == 0.0);
    preparation_verdict(&summary.stages, summary.seconds_train, summary.machine.cores, raw, summary.cpu.first())
}

/// The last words of a preparation.
pub fn preparation_table(summary: &Summary, style: Style) -> String {
    let mut out = String::new();
    let Some(made) = &summary.prepared else { return out };
    let rate = |n: u64| n as f64 / summary.seconds_train.max(f64::MIN_POSITIVE);
    let mut lines = vec![
        ("shards", format!("{} in {}", made.shards, plain(&made.destination))),
        ("records", format!("{}", made.records)),
    ];
    if made.kept > 0 {
        lines.push(("kept", format!("{} of an earlier run", text::counted(made.kept, "shard"))));
    }
    if made.skipped > 0 {
        lines
            .push(("left out", format!("{}, listed in index.json", text::counted(made.skipped as usize, "bad image"))));
    }
    lines.push(("read, written", format!("{}, {}", text::bytes(made.bytes_read), text::bytes(made.bytes_written))));
    lines.push((
        "time",
        format!("{} ({} with listing)", text::duration(summary.seconds_train), text::duration(summary.seconds_total)),
    ));
    lines.push((
        "throughput",
        format!("{} images/s, {:.1} MB/s read", text::si(rate(made.images)), rate(made.bytes_read) / 1e6),
    ));
    if let Some(words) = cores_used(summary) {
        lines.push(("cores used", words));
    }
    if summary.peak_rss_bytes > 0 {
        lines.push(("peak memory", text::bytes(summary.peak_rss_bytes)));
    }
    out.push_str(&labelled(lines, style.width));
    if !summary.stages.is_empty() && summary.strategy != "spark" {
        out.push('\n');
        out.push_str(&indent(&stage_table(&summary.stages, summary.seconds_train, style)));
    }
    let shortage = time::shortage(&[], &summary.cpu).into_iter().map(|verdict| verdict.to_string());
    let words = summary.reasons.iter().map(|r| plain(r)).chain(preparation_words(summary)).chain(shortage);
    let words: Vec<String> = words.chain(summary.warnings.iter().map(|w| format!("note: {}", plain(w)))).collect();
    if !words.is_empty() {
        out.push('\n');
    }
    for word in words {
        out.push_str(&paragraphs(&format!("  {word}"), style.width));
    }
    out
}

/// Preparations side by side.
pub fn preparations_table(summaries: &[&Summary], style: Style) -> String {
    let made = |s: &Summary| s.prepared.clone().unwrap_or_default();
    let cell = |f: &dyn Fn(&Summary) -> String| summaries.iter().map(|s| f(s)).collect::<Vec<_>>();
    let first = summaries.first().map_or(f64::NAN, |s| s.examples_per_s);
    let known = |value: f64, words: String| if value.is_finite() && value > 0.0 { words } else { "–".into() };
    let status = |s: &Summary| match &s.status {
        Status::Failed { .. } => "failed".into(),
        other => other.name().to_string(),
    };
    let slow = |s: &Summary| {
        crate::stages::slowest(&s.stages, s.seconds_train).map_or("–".into(), |(stage, _)| stage.name.clone())
    };
    let columns = [
        Column::left("run", cell(&|s| s.name.clone())).shrinking(12),
        Column::left("source", cell(&|s| s.data.clone())).shrinking(12).minor(5),
        Column::left("engine", cell(&|s| format!("{} ×{}", s.strategy, s.threads))).minor(2),
        Column::right("images", cell(&|s| made(s).images.to_string())),
        Column::right("left out", cell(&|s| made(s).skipped.to_string())).minor(6),
        Column::right("time", cell(&|s| known(s.seconds_train, text::duration(s.seconds_train)))),
        Column::right("images/s", cell(&|s| known(s.examples_per_s, text::si(s.examples_per_s.round())))),
        Column::right(
            "MB/s",
            cell(&|s| known(s.seconds_train, format!("{:.1}", made(s).bytes_read as f64 / 1e6 / s.seconds_train))),
        )
        .minor(4),
        Column::right("×", cell(&|s| known(s.examples_per_s / first, format!("{:.2}", s.examples_per_s / first)))),
        Column::left("slowest", cell(&slow)).minor(3),
        Column::right("memory", cell(&|s| text::bytes(s.peak_rss_bytes))).minor(7),
        Column::left("status", cell(&status)),
    ];
    table(&columns, style)
}
