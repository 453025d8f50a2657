//! How many threads one process may start, asked before it starts them: a request for a million costs nothing.

use crate::machine;
use paceline_base::text::counted;
use paceline_base::{Error, Result};

/// Cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

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
}
