//! What cannot work, refused before anything is lowered or started: more threads than a machine can run, more replicas than
//! a batch has samples for, more parameters than there is memory.
//!
//! These are functions of a few numbers, so that a request for a million costs nothing. What a run needs to the byte is
//! known once it is lowered: see [`memory`](crate::memory).

use crate::trial::cores;
use paceline_base::text::{bytes, counted};
use paceline_base::units::GlobalBatch;
use paceline_base::{Error, Result};
use paceline_system::machine;

/// Threads for each core that a process may start: far beyond what is of use, and far below what a system can bear.
const PER_CORE: usize = 64;
/// So many it may start on any machine.
const ANYWHERE: usize = 1024;

/// How many threads one process may be asked for, and why no more.
fn most_threads(cores: usize, allowed: Option<u64>) -> (usize, String) {
    let most = ANYWHERE.max(PER_CORE * cores);
    match allowed.map(|n| usize::try_from(n).unwrap_or(usize::MAX)) {
        Some(n) if n < most => (n, format!("this system lets it start {n}")),
        _ => (most, format!("at most {most} are started on {}", counted(cores, "core"))),
    }
}

/// An error if one process cannot start so many threads; `keys` says where they were asked for.
pub fn check_threads(keys: &str, ranks: usize, threads: usize) -> Result<()> {
    threads_fit(keys, ranks, threads, cores(), machine::thread_limit())
}

fn threads_fit(keys: &str, ranks: usize, threads: usize, cores: usize, allowed: Option<u64>) -> Result<()> {
    let (most, why) = most_threads(cores, allowed);
    let wanted = ranks.saturating_mul(threads);
    if wanted <= most {
        return Ok(());
    }
    let product = if ranks > 1 { format!("{ranks} ranks × {} = ", counted(threads, "thread")) } else { String::new() };
    Err(Error::user(format!(
        "{product}{wanted} threads are asked for in one process, but {why}; give a smaller {keys}"
    )))
}

/// An error if some replicas would never have a sample.
pub fn check_replicas(replicas: usize, batch: GlobalBatch) -> Result<()> {
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
pub fn check_parameters(replicas: usize, parameters: usize, free: u64) -> Result<()> {
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
    fn more_threads_than_can_run_are_refused_with_the_figures() {
        let of = |ranks, threads, cores, allowed| threads_fit("strategy.threads", ranks, threads, cores, allowed);
        check(of(1, 100_000, 2, None), "100000 threads are asked for in one process, but at most 1024");
        check(of(1_000_000, 1, 2, None), "1000000 ranks × 1 thread = 1000000 threads");
        check(of(usize::MAX, 2, 2, None), "give a smaller strategy.threads");
        check(of(512, 2, 2, None), "fits");
        check(of(64, 64, 64, None), "fits");
        check(of(65, 64, 64, None), "at most 4096 are started on 64 cores");
        check(of(1, 200, 2, Some(100)), "this system lets it start 100");
        check(of(1, 200, 2, Some(1 << 22)), "fits");
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
