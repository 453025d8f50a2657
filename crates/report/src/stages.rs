//! Pipelines in words: which stage is the slow one, and what would help.

use crate::verdict::time;
use paceline_base::layout::{Column, Style, table};
use paceline_base::stage::{Stage, StageFigures};
use paceline_base::text;
use paceline_record::CpuUse;

/// Stages that go through one pool of threads, image by image.
const POOL: [Stage; 3] = [Stage::Decode, Stage::Resize, Stage::Encode];
/// From this share of the time on, threads count as fully used.
const FULL: f64 = 0.8;

fn is_pooled(stage: &StageFigures) -> bool {
    POOL.iter().any(|&pooled| stage.is(pooled))
}

/// How much of its threads' time a stage used, from 0 to 1. Stages of a pool share their threads.
pub(crate) fn utilisation(stage: &StageFigures, seconds: f64) -> f64 {
    if seconds > 0.0 && stage.threads > 0 { stage.busy / (seconds * stage.threads as f64) } else { 0.0 }
}

/// The stage that held the others up: the busiest group of threads, and in a pool the stage that takes most of it.
pub(crate) fn slowest(stages: &[StageFigures], seconds: f64) -> Option<(&StageFigures, f64)> {
    let pool: f64 = stages.iter().filter(|s| is_pooled(s)).map(|s| utilisation(s, seconds)).sum();
    stages
        .iter()
        .filter(|s| s.busy > 0.0)
        .map(|s| (s, if is_pooled(s) { pool } else { utilisation(s, seconds) }))
        .max_by(|(a, x), (b, y)| x.total_cmp(y).then(a.busy.total_cmp(&b.busy)))
}

/// What the stages of a preparation come to: one sentence with the slowest stage, its share and what would help. `cpu` is what
/// the process had of the cores, if that is known: a thread that another program pushed aside is busy only by the clock.
pub(crate) fn preparation_verdict(
    stages: &[StageFigures],
    seconds: f64,
    cores: usize,
    raw: bool,
    cpu: Option<&CpuUse>,
) -> Option<String> {
    let (stage, used) = slowest(stages, seconds)?;
    let one = stage.threads == 1;
    let (threads, were) = (text::counted(stage.threads, "thread"), if one { "was" } else { "were" });
    let decode = if one { "decodes was" } else { "decode were" };
    let all_cores = match cores {
        1 => "the one core was".to_string(),
        n => format!("all {n} cores were"),
    };
    let share = format!("{:.0} %", used.min(1.0) * 100.0);
    let pool: f64 = stages.iter().filter(|s| is_pooled(s)).map(|s| s.busy).sum();
    let of_pool = format!("{:.0} % of the work on an image", 100.0 * stage.busy / pool.max(f64::MIN_POSITIVE));
    let had = cpu.filter(|cpu| cpu.wall > 0.0).map(|cpu| cpu.cpu / cpu.wall);
    let name = &stage.name;
    let words = match stage.stage() {
        Some(Stage::Read) => format!(
            "reading is the slowest stage: its {threads} {were} busy {share} of the time; the storage is slow: more readers would ask it for more at once"
        ),
        Some(Stage::Write) => format!(
            "writing is the slowest stage: it was busy {share} of the time; the destination is slow: choose another disk, or a lower quality for fewer bytes"
        ),
        _ if used < FULL => format!(
            "no stage was full: the {threads} that {decode} busy {share} of the time ({name} the most); starting, finishing and a busy machine took the rest"
        ),
        which => {
            let more = if stage.threads < cores {
                format!("{cores} threads would use all cores of this machine")
            } else if let Some(had) = had.filter(|had| *had < FULL * cores as f64) {
                let why = match time::taken(cpu.map_or(&[], std::slice::from_ref)) {
                    Some(share) if share * wanted(cpu) >= (1.0 - FULL) * cores as f64 => "other programs had the rest",
                    _ => "the rest is waiting within the stages, as for a disk, or what others had",
                };
                format!("it had {had:.1} of {cores} cores: {why}")
            } else {
                format!("{all_cores} at work: only more cores, or more machines with Spark, go faster")
            };
            let cheaper = match which {
                Some(Stage::Encode) if !raw => "; a lower quality or raw records make encoding cheaper",
                Some(Stage::Resize) => "; decoding at full scale makes resizing dearer, leaving it out cheaper",
                _ => "",
            };
            format!(
                "{name} is the slowest stage ({of_pool}; its {threads} {were} busy {share} of the time): {more}{cheaper}"
            )
        }
    };
    Some(words)
}

/// Cores that would have been used, had nobody else wanted them.
fn wanted(cpu: Option<&CpuUse>) -> f64 {
    cpu.map_or(0.0, |cpu| cpu.wanted() / cpu.wall)
}

/// The stages as a table: per item, busy, waiting.
pub(crate) fn stage_table(stages: &[StageFigures], seconds: f64, style: Style) -> String {
    let slow = slowest(stages, seconds).map(|(s, _)| s.name.clone());
    let marks: Vec<bool> = stages.iter().map(|s| Some(&s.name) == slow.as_ref()).collect();
    let percent = |part: f64, s: &StageFigures| {
        let all = seconds * s.threads as f64;
        if all > 0.0 { format!("{:.0} %", 100.0 * part / all) } else { "–".into() }
    };
    let each = |s: &StageFigures| if s.items > 0 { text::duration(s.busy / s.items as f64) } else { "–".into() };
    let rate = |s: &StageFigures| {
        if s.busy > 0.0 { format!("{}/s", text::bytes((s.bytes as f64 / s.busy) as u64)) } else { "–".into() }
    };
    let wait = |part: f64, s: &StageFigures| if part > 0.0 { percent(part, s) } else { "".into() };
    let columns = [
        Column::left("stage", stages.iter().map(|s| s.name.clone())).marking(&marks),
        Column::right("threads", stages.iter().map(|s| s.threads.to_string())).minor(3),
        Column::right("an image", stages.iter().map(each)),
        Column::right("a thread makes", stages.iter().map(rate)).minor(4),
        Column::right("busy", stages.iter().map(|s| percent(s.busy, s))).marking(&marks),
        Column::right("waits for input", stages.iter().map(|s| wait(s.starved, s))).minor(1),
        Column::right("waits for room", stages.iter().map(|s| wait(s.blocked, s))).minor(2),
        Column::left("", marks.iter().map(|&m| if m { "◄ slowest".into() } else { String::new() })),
    ];
    table(&columns, style.narrower(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(name: &str, threads: usize, busy: f64) -> StageFigures {
        StageFigures { name: name.into(), threads, items: 100, bytes: 1 << 20, busy, ..StageFigures::default() }
    }

    #[test]
    fn a_pool_counts_as_one_and_names_its_heaviest() {
        let stages =
            [stage("read", 2, 3.0), stage("decode", 2, 12.0), stage("resize", 2, 2.0), stage("encode", 2, 5.0)];
        let (slow, used) = slowest(&stages, 10.0).unwrap();
        assert_eq!(slow.name, "decode");
        assert!((used - 0.95).abs() < 1e-9);
        let words = preparation_verdict(&stages, 10.0, 2, false, None).unwrap();
        assert!(
            words.contains("decode is the slowest") && words.contains("63 %") && words.contains("more machines"),
            "{words}"
        );
        let words = preparation_verdict(&stages, 10.0, 8, false, None).unwrap();
        assert!(words.contains("8 threads would use all cores"), "{words}");
    }

    #[test]
    fn cores_that_others_had_were_not_at_work() {
        let stages = [stage("read", 2, 3.0), stage("decode", 2, 14.0), stage("encode", 2, 5.0)];
        let words = |cpu: f64, delayed: f64, others: f64| {
            let cpu =
                CpuUse { wall: 10.0, cpu, delayed: Some(delayed), others: Some(others), cores: 2, ..CpuUse::default() };
            preparation_verdict(&stages, 10.0, 2, false, Some(&cpu)).unwrap()
        };
        assert!(words(19.5, 0.5, 0.5).contains("all 2 cores were at work"));
        let robbed = words(8.1, 11.0, 11.5);
        assert!(robbed.contains("it had 0.8 of 2 cores: other programs had the rest"), "{robbed}");
        assert!(!robbed.contains("at work"), "{robbed}");
        assert!(words(8.1, 0.1, 0.1).contains("waiting within the stages"));
    }

    #[test]
    fn slow_storage_is_named() {
        let stages = [stage("read", 2, 19.0), stage("decode", 2, 4.0), stage("write", 1, 1.0)];
        assert!(preparation_verdict(&stages, 10.0, 2, false, None).unwrap().contains("more readers"));
        let stages = [stage("read", 2, 1.0), stage("decode", 2, 4.0), stage("write", 1, 9.5)];
        assert!(preparation_verdict(&stages, 10.0, 2, false, None).unwrap().contains("destination is slow"));
    }

    #[test]
    fn an_idle_pipeline_is_not_blamed() {
        let stages = [stage("read", 2, 0.1), stage("decode", 2, 1.0)];
        assert!(preparation_verdict(&stages, 10.0, 2, false, None).unwrap().contains("no stage was full"));
        assert_eq!(preparation_verdict(&[], 10.0, 2, false, None), None);
    }
}
