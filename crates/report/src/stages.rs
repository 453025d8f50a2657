//! Pipelines in words: which stage is the slow one, and what would help.

use crate::grid::{Column, render};
use crate::terminal::Style;
use paceline_base::stage::Stage;
use paceline_base::text;

/// Stages that go through one pool of threads, image by image.
const POOL: [&str; 3] = ["decode", "resize", "encode"];
/// From this share of the time on, threads count as fully used.
const FULL: f64 = 0.8;

/// How much of its threads' time a stage used, from 0 to 1. Stages of a pool share their threads.
pub fn utilisation(stage: &Stage, seconds: f64) -> f64 {
    if seconds > 0.0 && stage.threads > 0 { stage.busy / (seconds * stage.threads as f64) } else { 0.0 }
}

/// The stage that held the others up: the busiest group of threads, and in a pool the stage that takes most of it.
pub fn slowest(stages: &[Stage], seconds: f64) -> Option<(&Stage, f64)> {
    let pooled = |s: &Stage| POOL.contains(&s.name.as_str());
    let pool: f64 = stages.iter().filter(|s| pooled(s)).map(|s| utilisation(s, seconds)).sum();
    stages
        .iter()
        .filter(|s| s.busy > 0.0)
        .map(|s| (s, if pooled(s) { pool } else { utilisation(s, seconds) }))
        .max_by(|(a, x), (b, y)| x.total_cmp(y).then(a.busy.total_cmp(&b.busy)))
}

/// What the stages of a preparation come to: one sentence with the slowest stage, its share and what would help.
pub fn preparation_verdict(stages: &[Stage], seconds: f64, cores: usize, raw: bool) -> Option<String> {
    let (stage, used) = slowest(stages, seconds)?;
    let threads = stage.threads;
    let share = format!("{:.0} %", used.min(1.0) * 100.0);
    let pool: f64 = stages.iter().filter(|s| POOL.contains(&s.name.as_str())).map(|s| s.busy).sum();
    let of_pool = format!("{:.0} % of the work on an image", 100.0 * stage.busy / pool.max(f64::MIN_POSITIVE));
    let words = match stage.name.as_str() {
        "read" => format!(
            "reading is the slowest stage: its {threads} thread(s) were busy {share} of the time; the storage is slow: more --readers would ask it for more at once"
        ),
        "write" => format!(
            "writing is the slowest stage: it was busy {share} of the time; the destination is slow: choose another disk, or a lower --quality for fewer bytes"
        ),
        name if used < FULL => format!(
            "no stage was full: the {threads} thread(s) that decode were busy {share} of the time ({name} the most); starting, finishing and a busy machine took the rest"
        ),
        name => {
            let more = if threads < cores {
                format!("--threads {cores} would use all cores of this machine")
            } else {
                format!(
                    "all {cores} core(s) were at work: only more cores, or more machines with --engine spark, go faster"
                )
            };
            let cheaper = match name {
                "encode" if !raw => "; a lower --quality or --raw makes encoding cheaper",
                "resize" => "; --full-decode makes resizing dearer, leaving it out cheaper",
                _ => "",
            };
            format!(
                "{name} is the slowest stage ({of_pool}; its {threads} thread(s) were busy {share} of the time): {more}{cheaper}"
            )
        }
    };
    Some(words)
}

/// The stages as a table: per item, busy, waiting.
pub fn stage_table(stages: &[Stage], seconds: f64, style: Style) -> String {
    let slow = slowest(stages, seconds).map(|(s, _)| s.name.clone());
    let marks: Vec<bool> = stages.iter().map(|s| Some(&s.name) == slow.as_ref()).collect();
    let percent = |part: f64, s: &Stage| {
        let all = seconds * s.threads as f64;
        if all > 0.0 { format!("{:.0} %", 100.0 * part / all) } else { "–".into() }
    };
    let each = |s: &Stage| if s.items > 0 { text::duration(s.busy / s.items as f64) } else { "–".into() };
    let rate = |s: &Stage| {
        if s.busy > 0.0 { format!("{}/s", text::bytes((s.bytes as f64 / s.busy) as u64)) } else { "–".into() }
    };
    let wait = |part: f64, s: &Stage| if part > 0.0 { percent(part, s) } else { "".into() };
    let columns = [
        Column::left("stage", stages.iter().map(|s| s.name.clone())).marking(&marks),
        Column::right("threads", stages.iter().map(|s| s.threads.to_string())),
        Column::right("an image", stages.iter().map(each)),
        Column::right("a thread makes", stages.iter().map(rate)),
        Column::right("busy", stages.iter().map(|s| percent(s.busy, s))).marking(&marks),
        Column::right("waits for input", stages.iter().map(|s| wait(s.starved, s))),
        Column::right("waits for room", stages.iter().map(|s| wait(s.blocked, s))),
        Column::left("", marks.iter().map(|&m| if m { "◄ slowest".into() } else { String::new() })),
    ];
    render(&columns, style.width.saturating_sub(2), style.bold)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(name: &str, threads: usize, busy: f64) -> Stage {
        Stage { name: name.into(), threads, items: 100, bytes: 1 << 20, busy, ..Stage::default() }
    }

    #[test]
    fn a_pool_counts_as_one_and_names_its_heaviest() {
        let stages =
            [stage("read", 2, 3.0), stage("decode", 2, 12.0), stage("resize", 2, 2.0), stage("encode", 2, 5.0)];
        let (slow, used) = slowest(&stages, 10.0).unwrap();
        assert_eq!(slow.name, "decode");
        assert!((used - 0.95).abs() < 1e-9);
        let words = preparation_verdict(&stages, 10.0, 2, false).unwrap();
        assert!(
            words.contains("decode is the slowest") && words.contains("63 %") && words.contains("more machines"),
            "{words}"
        );
        let words = preparation_verdict(&stages, 10.0, 8, false).unwrap();
        assert!(words.contains("--threads 8"), "{words}");
    }

    #[test]
    fn slow_storage_is_named() {
        let stages = [stage("read", 2, 19.0), stage("decode", 2, 4.0), stage("write", 1, 1.0)];
        assert!(preparation_verdict(&stages, 10.0, 2, false).unwrap().contains("--readers"));
        let stages = [stage("read", 2, 1.0), stage("decode", 2, 4.0), stage("write", 1, 9.5)];
        assert!(preparation_verdict(&stages, 10.0, 2, false).unwrap().contains("destination is slow"));
    }

    #[test]
    fn an_idle_pipeline_is_not_blamed() {
        let stages = [stage("read", 2, 0.1), stage("decode", 2, 1.0)];
        assert!(preparation_verdict(&stages, 10.0, 2, false).unwrap().contains("no stage was full"));
        assert_eq!(preparation_verdict(&[], 10.0, 2, false), None);
    }
}
