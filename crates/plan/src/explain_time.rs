//! A prediction in words, for `paceline train --explain`.

use crate::simulate::{Prediction, Stretch, What};
use paceline_base::text::duration;

/// Kernels of one rank that are named one by one.
const KERNELS: usize = 3;
/// Parts of the path that are told; the rest is put together.
const PARTS: usize = 5;

/// The critical path, with shares of the step: "rank 0 computes 62 % (conv-forward 30 %, …), then …".
pub fn critical_path(prediction: &Prediction) -> String {
    let share = |seconds: f64| format!("{:.0} %", 100.0 * seconds / prediction.seconds.max(f64::MIN_POSITIVE));
    let mut parts: Vec<(f64, String)> = Vec::new();
    for rank in 0..prediction.split.len() {
        let kernels: Vec<&Stretch> =
            prediction.critical.iter().filter(|s| s.rank == rank && matches!(s.what, What::Compute(_))).collect();
        let seconds: f64 = kernels.iter().map(|s| s.seconds).sum();
        if seconds > 0.0 {
            let mut names: Vec<String> =
                kernels.iter().take(KERNELS).map(|s| format!("{} {}", s.what, share(s.seconds))).collect();
            names.extend((kernels.len() > KERNELS).then(|| "others".into()));
            parts.push((seconds, format!("kernels of rank {rank} {} ({})", share(seconds), names.join(", "))));
        }
    }
    for stretch in prediction.critical.iter().filter(|s| !matches!(s.what, What::Compute(_))) {
        let Stretch { rank, what, seconds } = stretch;
        let words = match what {
            What::Communicate(_) => format!("{what} {} (rank {rank} comes last to it)", share(*seconds)),
            _ => format!("{what} of rank {rank} {}", share(*seconds)),
        };
        parts.push((*seconds, words));
    }
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    let rest: f64 = parts.iter().skip(PARTS).map(|p| p.0).sum();
    let mut words: Vec<String> = parts.into_iter().take(PARTS).map(|p| p.1).collect();
    if rest > 0.005 * prediction.seconds {
        words.push(format!("the rest {}", share(rest)));
    }
    format!("critical path of {}: {}", duration(prediction.seconds), words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_base::TimeSplit;

    #[test]
    fn shares_are_told_longest_first() {
        let stretch = |rank, what, seconds| Stretch { rank, what, seconds };
        let prediction = Prediction {
            seconds: 1.0,
            bytes: Vec::new(),
            memory: Vec::new(),
            split: vec![TimeSplit::default(); 2],
            critical: vec![
                stretch(1, What::Communicate("all-reduce"), 0.5),
                stretch(0, What::Compute("dense-forward"), 0.3),
                stretch(0, What::Compute("loss"), 0.1),
                stretch(1, What::Update, 0.1),
            ],
        };
        assert_eq!(
            critical_path(&prediction),
            "critical path of 1.0 s: all-reduce 50 % (rank 1 comes last to it), kernels of rank 0 40 % (dense-forward 30 %, loss \
             10 %), updates of rank 1 10 %"
        );
    }
}
