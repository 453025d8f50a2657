//! What a collective costs by what the transports do.
//!
//! Within one process every member works on its chunk of everybody's buffer, on its own thread: an all-reduce reads and writes all bytes, a
//! reduce-scatter reads all and writes a chunk, an all-gather copies what others have. Among P processes the ranks of each are summed first; then each process
//! sends and receives `(P − 1) / P` of the bytes to sum and as many sums, all at once, while the ranks compute.

use super::Cluster;
use paceline_base::collective::{Collective, Encoding, Exchange};

/// The cost of one collective.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CollectiveCost {
    /// Seconds of each member's own thread, when all have come.
    pub own: f64,
    /// What happens beside the members, if they are in several processes.
    pub beside: Option<Beside>,
}

/// An exchange between processes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Beside {
    /// From the last member's coming to the end, on links that are free.
    pub seconds: f64,
    /// Of that, how long the links are taken: the next may begin when they are free.
    pub taken: f64,
    /// Seconds of computing that the ranks of its processes lose, if they compute meanwhile.
    pub lost: f64,
}

impl Cluster {
    /// Of `elements` among the ranks of `group`.
    pub(crate) fn collective(&self, what: Exchange, elements: usize, group: &[usize]) -> CollectiveCost {
        let half = what.encoding == Encoding::Bf16 && self.element == 4;
        let bytes = (elements * self.element) as f64 / if half { 2.0 } else { 1.0 };
        let processes = self.processes(group);
        let n = group.len() as f64;
        if n < 2.0 {
            return CollectiveCost { own: 0.0, beside: None };
        }
        if processes.len() == 1 {
            let touched = match what.what {
                Collective::AllReduce => 1.0,
                Collective::ReduceScatter => (1.0 + 1.0 / n) / 2.0,
                Collective::AllGather => (n - 1.0) / n,
            };
            return CollectiveCost { own: self.host(group[0]).threads.seconds(touched * bytes), beside: None };
        }
        // Sums within each process, and what they hand to its other ranks.
        let local = |&(first, members): &(usize, usize)| match members {
            0 | 1 => 0.0,
            more => (more - 1) as f64 * self.host(first).threads.seconds(bytes),
        };
        let within = processes.iter().map(local).fold(0.0, f64::max);
        let p = processes.len() as f64;
        let rounds = if what.what == Collective::AllReduce { 2.0 } else { 1.0 };
        let to_each = rounds * bytes / p;
        let (mut seconds, mut taken, mut slows) = (0f64, 0f64, 0f64);
        for &(first, _) in &processes {
            // All that goes through this host's port, for all its processes.
            let host = self.places[first].host;
            let here = processes.iter().filter(|(rank, _)| self.places[*rank].host == host).count() as f64;
            for &(other, _) in processes.iter().filter(|(rank, _)| *rank != first) {
                let near = self.places[other].host == host;
                let link = self.link(first, other);
                let through = if near { to_each * (p - 1.0).min(here - 1.0) } else { to_each * here * (p - here) };
                let waiting = (p - 2.0) * link.latency;
                let one = link.exchange.seconds(through);
                seconds = seconds.max(waiting + one);
                // The next exchange begins to travel while the last pieces of this one are summed and come back.
                taken = taken.max((through / link.bandwidth).min(one - link.exchange.least()));
                slows = slows.max(link.slows);
            }
        }
        let seconds = within + seconds;
        CollectiveCost { own: 0.0, beside: Some(Beside { seconds, taken, lost: slows * seconds }) }
    }

    /// The processes of some ranks: the first rank of each, and how many of the ranks it has.
    pub(crate) fn processes(&self, group: &[usize]) -> Vec<(usize, usize)> {
        let mut found: Vec<(usize, usize)> = Vec::new();
        for &rank in group {
            match found.iter_mut().find(|(first, _)| self.places[*first].process == self.places[rank].process) {
                Some((_, members)) => *members += 1,
                None => found.push((rank, 1)),
            }
        }
        found
    }
}
