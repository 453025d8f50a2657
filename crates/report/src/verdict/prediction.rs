//! How far a step was from what it was predicted to take, and which kind of task was off.

use super::{Level, Topic, Verdict};
use paceline_base::{TimeSplit, text};
use paceline_record::StepTimes;

/// The difference, relative to the prediction, beyond which it is said.
const FAR: f64 = 0.25;

/// What of a time split belongs to a kind of task.
type Seconds = fn(&TimeSplit) -> f64;

/// Kinds of tasks, as a prediction tells them apart. What is moved and what is waited for is one: how long ranks wait for each other follows from both.
const CLASSES: [(&str, Seconds); 4] = [
    ("compute", |split| split.compute),
    ("communication", |split| split.wait + split.transfer),
    ("update", |split| split.update),
    ("input", |split| split.input),
];

/// The verdict on a prediction that was far off; none if it was near, or nothing was measured.
pub(crate) fn far_off(times: &StepTimes) -> Option<Verdict> {
    let measured = times.measured_s.filter(|seconds| seconds.is_finite() && *seconds > 0.0)?;
    let predicted = times.predicted_s;
    if !(predicted.is_finite() && predicted > 0.0) || (measured / predicted - 1.0).abs() <= FAR {
        return None;
    }
    let mean = |splits: &[TimeSplit], of: Seconds| splits.iter().map(of).sum::<f64>() / splits.len().max(1) as f64;
    let slower = measured > predicted;
    let difference = |of| mean(&times.measured_split, of) - mean(&times.predicted_split, of);
    let known = !times.measured_split.is_empty() && !times.predicted_split.is_empty();
    // The one whose difference goes the same way, and furthest.
    let off = CLASSES.iter().max_by(|a, b| {
        let way = |of| if slower { difference(of) } else { -difference(of) };
        way(a.1).total_cmp(&way(b.1))
    });
    let which = match off.filter(|_| known) {
        Some((name, of)) => format!(
            "; {name} is off: {} instead of {} on average over the ranks",
            text::duration(mean(&times.measured_split, *of)),
            text::duration(mean(&times.predicted_split, *of))
        ),
        None => String::new(),
    };
    let reason = format!(
        "a step took {}, {:.0} % {} than the {} that were predicted from {}{which}",
        text::duration(measured),
        100.0 * (measured / predicted - 1.0).abs(),
        if slower { "more" } else { "less" },
        text::duration(predicted),
        times.cluster_file
    );
    let advice = if slower {
        "look whether something else ran meanwhile, or measure the machines again with paceline doctor"
    } else {
        "measure the machines again with paceline doctor: they were busy when it was done"
    };
    Some(Verdict::new(Topic::Predicted, Level::Note, "prediction far off", reason, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(compute: f64, wait: f64, update: f64) -> TimeSplit {
        TimeSplit { compute, wait, update, ..TimeSplit::default() }
    }

    fn times(predicted: TimeSplit, measured: TimeSplit) -> StepTimes {
        StepTimes {
            cluster_file: "cluster.toml".into(),
            predicted_s: predicted.total(),
            predicted_split: vec![predicted; 2],
            measured_s: Some(measured.total()),
            steps: 9,
            measured_split: vec![measured; 2],
        }
    }

    #[test]
    fn the_class_that_is_off_is_named() {
        let slow_link = times(split(0.010, 0.002, 0.001), split(0.011, 0.008, 0.001));
        let words = far_off(&slow_link).unwrap().to_string();
        assert!(words.contains("a step took 20 ms, 54 % more than the 13 ms"), "{words}");
        assert!(words.contains("communication is off: 8 ms instead of 2 ms"), "{words}");
        let fast_core = times(split(0.010, 0.002, 0.001), split(0.004, 0.003, 0.001));
        let words = far_off(&fast_core).unwrap().to_string();
        assert!(words.contains("38 % less") && words.contains("compute is off"), "{words}");
    }

    #[test]
    fn what_is_near_or_not_measured_is_no_verdict() {
        assert_eq!(far_off(&times(split(0.010, 0.0, 0.0), split(0.0124, 0.0, 0.0))), None);
        let unmeasured = StepTimes { measured_s: None, ..times(split(1.0, 0.0, 0.0), split(9.0, 0.0, 0.0)) };
        assert_eq!(far_off(&unmeasured), None);
    }
}
