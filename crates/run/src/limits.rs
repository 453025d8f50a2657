//! What cannot work, refused before anything is lowered or started: more replicas than a batch has samples for, more
//! parameters than there is memory.
//!
//! These are functions of a few numbers, so that a request for a million costs nothing. What a run needs to the byte is
//! known once it is lowered: see [`memory`](crate::tune::memory).

use paceline_base::text::{bytes, counted};
use paceline_base::units::GlobalBatch;
use paceline_base::{Error, Result};

/// An error if some replicas would never have a sample.
pub(crate) fn check_replicas(replicas: usize, batch: GlobalBatch) -> Result<()> {
    if replicas <= batch.samples() {
        return Ok(());
    }
    Err(Error::user(format!(
        "there are {replicas} replicas, but train.batch is {batch}: some would have nothing to do; give strategy.replicas of \
         at most {batch}, or a larger batch (such as train.batch = \"32*workers\")"
    )))
}

/// An error if not even the parameters of several `replicas` on this host fit into what is `free`; 0 where the system does
/// not say. One replica is lowered quickly, and then refused with all that it needs.
pub(crate) fn check_parameters(replicas: usize, parameters: usize, free: u64) -> Result<()> {
    let least = (replicas as u64).saturating_mul(parameters as u64).saturating_mul(4);
    if replicas == 1 || free == 0 || least <= free {
        return Ok(());
    }
    let fits = free / (parameters.max(1) as u64).saturating_mul(4);
    let advice = match fits {
        0 => "take a smaller model, or a machine with more memory".into(),
        n => format!("give strategy.replicas of less than {}, or take a smaller model", n + 1),
    };
    Err(Error::user(format!(
        "the {parameters} parameters of {} alone take {}, but {} are free; {advice}",
        counted(replicas, "replica"),
        bytes(least),
        bytes(free)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(result: Result<()>, expected: &str) {
        let got = result.map_or_else(|e| e.message().to_string(), |()| "fits".into());
        assert!(got.contains(expected), "wanted {expected:?}, got {got:?}");
    }

    #[test]
    fn replicas_without_samples_and_without_memory_are_refused() {
        let batch = GlobalBatch::new(64).unwrap();
        check(check_replicas(64, batch), "fits");
        check(check_replicas(65, batch), "there are 65 replicas, but train.batch is 64");
        check(check_parameters(4, 1 << 28, 4 << 30), "fits");
        check(
            check_parameters(5, 1 << 28, 4 << 30),
            "5 replicas alone take 5.0 GiB, but 4.0 GiB are free; give strategy.replicas of less than 5",
        );
        check(check_parameters(1, 1 << 31, 4 << 30), "fits");
        check(check_parameters(2, 1 << 31, 4 << 30), "take a smaller model");
        check(check_parameters(usize::MAX, usize::MAX, 1 << 30), "alone take");
        check(check_parameters(5, 1 << 28, 0), "fits");
    }
}
