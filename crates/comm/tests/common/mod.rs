//! What the tests of this crate share: running one function on every rank, and the obvious twin of every collective.
#![allow(dead_code, reason = "each test file uses its own part")]

use paceline_comm::host::Element;
use paceline_comm::{Collective, Threads, chunk, threads};
use std::thread::JoinHandle;

/// Runs `body` on each of `size` ranks and returns what they return, in rank order.
pub(crate) fn on_ranks<R: Send + 'static>(size: usize, body: impl Fn(Threads) -> R + Clone + Send + 'static) -> Vec<R> {
    spawn(size, body).into_iter().map(|t| t.join().expect("no rank panics")).collect()
}

/// The same, for tests in which a rank may panic.
pub(crate) fn spawn<R: Send + 'static>(
    size: usize,
    body: impl Fn(Threads) -> R + Clone + Send + 'static,
) -> Vec<JoinHandle<R>> {
    let run = |comm| {
        let body = body.clone();
        std::thread::spawn(move || body(comm))
    };
    threads(size).into_iter().map(run).collect()
}

/// A number type of the tests.
pub(crate) trait Number: Element + PartialEq + std::fmt::Debug {
    /// A number whose sums depend on the order of addition, from counters alone.
    fn any(seed: u64, rank: usize, at: usize) -> Self;
    /// Its bits.
    fn bits(self) -> u64;
}

fn mix(seed: u64, rank: usize, at: usize) -> u64 {
    let mut x = seed ^ (rank as u64) << 40 ^ (at as u64) << 8;
    for _ in 0..3 {
        x = (x ^ (x >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    x ^ (x >> 29)
}

fn spread(x: u64) -> f64 {
    match x % 23 {
        0 => -0.0,
        1 => 0.0,
        _ => ((x >> 12) as f64 / (1u64 << 51) as f64 - 1.0) * ((x % 17) as f64 - 8.0).exp2(),
    }
}

impl Number for f32 {
    fn any(seed: u64, rank: usize, at: usize) -> Self {
        spread(mix(seed, rank, at)) as f32
    }
    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }
}

impl Number for f64 {
    fn any(seed: u64, rank: usize, at: usize) -> Self {
        spread(mix(seed, rank, at))
    }
    fn bits(self) -> u64 {
        self.to_bits()
    }
}

/// What `rank` brings along.
pub(crate) fn input<T: Number>(seed: u64, rank: usize, len: usize) -> Vec<T> {
    (0..len).map(|at| T::any(seed, rank, at)).collect()
}

/// What a collective must leave at `rank`; `None` where that is undefined.
pub(crate) fn expected<T: Number>(
    what: Collective,
    seed: u64,
    ranks: &[usize],
    rank: usize,
    len: usize,
) -> Vec<Option<T>> {
    let sum = |at| ranks.iter().map(|&r| T::any(seed, r, at)).reduce(|a, b| a + b).expect("some rank");
    let owner = |at: usize| (0..ranks.len()).find(|&m| chunk(len, ranks.len(), m).contains(&at)).expect("one owner");
    let of = |at| match what {
        Collective::AllReduce => Some(sum(at)),
        Collective::ReduceScatter => (ranks[owner(at)] == rank).then(|| sum(at)),
        Collective::AllGather => Some(T::any(seed, ranks[owner(at)], at)),
    };
    (0..len).map(of).collect()
}

/// Compares bit for bit where something is expected.
pub(crate) fn check<T: Number>(found: &[T], expected: &[Option<T>], told: &str) {
    assert_eq!(found.len(), expected.len(), "{told}");
    for (at, (f, e)) in found.iter().zip(expected).enumerate() {
        if let Some(e) = e {
            assert_eq!(f.bits(), e.bits(), "{told}: element {at} is {f:?}, not {e:?}");
        }
    }
}
