//! What the stages of the training input say: which one is slow, and which knob helps.

use paceline_base::stage::{Stage, StageFigures};
use paceline_base::text;
use paceline_base::{Activity, TimeSplit};
use paceline_record::InputFacts;

use super::time::BOUND;
use super::{Level, Topic, Verdict};
use crate::format::share;

/// Below this share of the input time, waiting for rows is not what takes it.
const WAITING: f64 = 0.5;

/// Training waits for samples that are decoded while it runs.
pub(crate) fn input_bound(split: &[TimeSplit], facts: &InputFacts, stages: &[StageFigures]) -> Option<Verdict> {
    let all = split.iter().copied().sum::<TimeSplit>();
    let input = all.fractions().get(Activity::Input);
    if input <= BOUND {
        return None;
    }
    let verdict = |reason: String, advice: String| {
        Some(Verdict::new(Topic::InputBound, Level::Warning, "input bound", reason, advice))
    };
    let delivery = stages.iter().find(|stage| stage.is(Stage::Deliver));
    let waited = delivery.map_or(0.0, |stage| stage.starved) / all.input;
    let work: f64 = working(stages).map(|stage| stage.busy).sum();
    let slowest = working(stages).max_by(|a, b| a.busy.total_cmp(&b.busy));
    let Some(slowest) = slowest.filter(|_| waited >= WAITING && work > 0.0) else {
        return verdict(
            format!("input takes {} % of the step, most of it copying samples that were ready", share(input)),
            "a faster model would not help; more replicas share the copying".into(),
        );
    };
    verdict(
        format!(
            "input takes {} % of the step; {} is the slowest stage, with {} % of the work of {}",
            share(input),
            slowest.name,
            share(slowest.busy / work),
            text::counted(facts.threads, "input thread")
        ),
        knobs(slowest.stage(), facts).join(", or "),
    )
}

fn working(stages: &[StageFigures]) -> impl Iterator<Item = &StageFigures> {
    stages.iter().filter(|stage| !stage.is(Stage::Deliver))
}

/// What helps against a slow stage, the most helpful first.
fn knobs(stage: Option<Stage>, facts: &InputFacts) -> Vec<String> {
    use Stage::{Augment, Cache, Decode, Read, Resize};
    let mut knobs = Vec::new();
    let size = text::bytes(facts.decoded_bytes);
    match (stage, &facts.cache[..]) {
        (Some(Read | Decode | Resize), "none") if facts.stored != "memory" => {
            knobs.push(format!("data.cache=memory would keep the decoded images ({size})"));
        }
        (Some(Read | Decode | Resize), _) if facts.stored != "memory" => {
            knobs.push("more epochs would gain from the cache, which the first one fills".into());
        }
        (Some(Cache), "disk") => knobs.push(format!("data.cache=memory reads no file ({size})")),
        (Some(Augment), _) => knobs.push("fewer [augment] keys".into()),
        _ => {}
    }
    if facts.threads < facts.cores {
        knobs.push(format!("data.threads={}", facts.cores));
    }
    let side = facts.shape.first().map_or(0, |side| side / 2).max(1);
    match (stage, &facts.stored[..]) {
        (Some(Decode | Resize), "records") => knobs.push(format!("prepare raw records, or a size of {side}")),
        (Some(Decode | Resize | Read), "files") => {
            knobs.push("`paceline prepare` them once as record shards of the size that is trained on".into());
        }
        _ => {}
    }
    if knobs.is_empty() {
        knobs.push("smaller images or more cores".into());
    }
    knobs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(name: &str, busy: f64, starved: f64) -> StageFigures {
        StageFigures { name: name.into(), busy, starved, items: 1, ..StageFigures::default() }
    }

    fn facts() -> InputFacts {
        InputFacts {
            stored: "records".into(),
            cache: "none".into(),
            threads: 1,
            cores: 2,
            decoded_bytes: 405_872_640,
            shape: vec![192, 192, 3],
        }
    }

    fn split(input: f64, compute: f64) -> [TimeSplit; 1] {
        [TimeSplit { input, compute, ..TimeSplit::default() }]
    }

    #[test]
    fn the_slow_stage_and_the_knobs_are_named() {
        let stages = [stage("read", 0.5, 0.0), stage("decode", 9.0, 0.0), stage("deliver", 0.0, 6.0)];
        let verdict = input_bound(&split(6.2, 3.8), &facts(), &stages).unwrap();
        assert_eq!(
            verdict.to_string(),
            "input bound: input takes 62 % of the step; decode is the slowest stage, with 95 % of the work of 1 input \
             thread; data.cache=memory would keep the decoded images (387 MiB), or data.threads=2, or prepare raw \
             records, or a size of 96"
        );
        assert_eq!(input_bound(&split(2.0, 8.0), &facts(), &stages), None);
    }

    #[test]
    fn every_stage_has_a_knob_that_is_not_in_use() {
        let check = |slow: &str, facts: &InputFacts, expected: &str| {
            let stages = [stage(slow, 9.0, 0.0), stage("deliver", 0.0, 9.0)];
            let advice = input_bound(&split(9.0, 1.0), facts, &stages).unwrap().advice;
            assert!(advice.contains(expected), "{slow}: {advice}");
            advice
        };
        let all = InputFacts { threads: 2, ..facts() };
        assert!(!check("decode", &all, "data.cache=memory").contains("data.threads"));
        check("read", &InputFacts { stored: "files".into(), ..all.clone() }, "paceline prepare");
        check("augment", &all, "fewer [augment] keys");
        check("cache", &InputFacts { cache: "disk".into(), ..all.clone() }, "data.cache=memory reads no file");
        check("cache", &InputFacts { cache: "memory".into(), ..all.clone() }, "more cores");
        assert!(!check("decode", &InputFacts { cache: "memory".into(), ..all }, "first one").contains("data.cache"));
    }

    #[test]
    fn copying_is_not_waiting() {
        let stages = [stage("read", 0.1, 0.0), stage("deliver", 0.0, 0.2)];
        assert!(input_bound(&split(5.0, 5.0), &facts(), &stages).unwrap().reason.contains("copying"));
    }
}
