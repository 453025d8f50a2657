//! How large buckets of gradients should be on this connection: measured.
//!
//! Small buckets begin to travel earlier and so hide better behind the backward pass; but each costs some messages. The
//! smallest that is nearly as fast as the fastest is taken.

use paceline_base::{Result, text};
use paceline_comm::{Collective, Comm, host};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Elements that are tried.
const SIZES: [usize; 5] = [1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24];
/// Times that each is tried, of which the best counts.
const TRIES: usize = 3;
/// Seconds after which nothing larger is tried.
const ENOUGH: f64 = 0.5;
/// The share of the fastest that is near enough.
const NEAR: f64 = 0.85;

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Chosen {
    /// Elements of a bucket.
    pub elements: usize,
    /// Why.
    pub reason: String,
}

/// Measures all-reduces of several sizes, none larger than the model. All ranks must call it.
pub(crate) fn measure(mut comm: Box<dyn Comm>, parameters: usize) -> Result<Chosen> {
    let all: Vec<usize> = (0..comm.size()).collect();
    let group = comm.group(&all)?;
    let (mut rates, mut seq) = (Vec::new(), 0);
    let begin = Instant::now();
    for elements in SIZES {
        if !rates.is_empty() && elements / 2 > parameters {
            break;
        }
        let mut data = host::stage(&vec![0f32; elements]);
        let mut best = f64::INFINITY;
        for _ in 0..=TRIES {
            let start = Instant::now();
            let ticket = comm.start(Collective::AllReduce.into(), group, seq, data)?;
            data = comm.wait(ticket)?;
            best = best.min(start.elapsed().as_secs_f64());
            seq += 1;
        }
        rates.push((elements, elements as f64 * 4.0 / best));
        // All stop at the same size: rank 0's clock decides, through a sum.
        let done = comm.rank() == 0 && begin.elapsed().as_secs_f64() > ENOUGH;
        let ticket = comm.start(Collective::AllReduce.into(), group, seq, host::stage(&[f64::from(u8::from(done))]))?;
        seq += 1;
        if host::values::<f64>(&comm.wait(ticket)?)[0] > 0.0 {
            break;
        }
    }
    Ok(choose(&rates))
}

/// The smallest size that is nearly as fast as the fastest.
fn choose(rates: &[(usize, f64)]) -> Chosen {
    let best = rates.iter().map(|r| r.1).fold(0.0, f64::max);
    let elements = rates.iter().find(|r| r.1 >= NEAR * best).map_or(SIZES[1], |r| r.0);
    let size = |n: usize| text::bytes(n as u64 * 4);
    let list: Vec<String> =
        rates.iter().map(|&(n, rate)| format!("{} {}/s", size(n), text::bytes(rate as u64))).collect();
    let reason = format!("buckets of {}: all-reduce over this connection: {}", size(elements), list.join(", "));
    Chosen { elements, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_size_that_is_nearly_as_fast_is_taken() {
        let of = |rates: &[(usize, f64)]| choose(rates).elements;
        assert_eq!(of(&[(1 << 16, 1e8), (1 << 18, 1e9), (1 << 20, 1.1e9)]), 1 << 18);
        assert_eq!(of(&[(1 << 16, 1e8), (1 << 18, 2e8), (1 << 20, 4e8)]), 1 << 20);
        assert_eq!(of(&[(1 << 16, 1e8)]), 1 << 16);
    }

    #[test]
    fn all_ranks_come_to_an_end() {
        let ranks: Vec<_> = paceline_comm::threads(3)
            .into_iter()
            .map(|comm| std::thread::spawn(move || measure(Box::new(comm), 100_000)))
            .collect();
        for rank in ranks {
            let chosen = rank.join().unwrap().unwrap();
            assert!(SIZES[..3].contains(&chosen.elements), "{chosen:?}");
        }
    }
}
