//! Latency, bandwidth and clocks between pairs of hosts, through the same `Comm` that training uses.
//!
//! One pair at a time, all others wait. After that the two add up numbers together (`exchange`). The first of a pair leads: it sends a small message and the second answers with
//! its clock, many times; then the first sends a large one and gets a small answer, and asks for a large one. Slow links get smaller messages, so
//! that a hundred megabits do not take minutes.

use crate::exchange::{self, Exchange};
use paceline_base::Result;
use paceline_comm::{Collective, Comm, GroupId, host};
use paceline_kernels::cpu::zeros;
use std::time::{Instant, SystemTime};

/// Small messages of a pair.
const PINGS: usize = 300;
/// Large messages in each direction; the first warms up.
const LARGE: usize = 4;
/// Elements of the largest and of the smallest large message: 16 MB and 256 kB.
const ELEMENTS: (f64, f64) = (4e6, 64e3);
/// How long a large message may take.
const SECONDS: f64 = 0.25;

/// What was measured of a pair.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figures {
    /// Seconds of a small message, one way.
    pub latency: f64,
    /// Bytes per second, in the slower direction.
    pub bandwidth: f64,
    /// How much the clock of the second is ahead.
    pub skew: f64,
    /// All-reduces of the two.
    pub exchange: Exchange,
}

/// Returns when all ranks have come; those that wait sleep.
pub(crate) fn meet(comm: &mut dyn Comm) -> Result<()> {
    let everybody: Vec<usize> = (0..comm.size()).collect();
    let all = comm.group(&everybody)?;
    Line { comm, peer: 0, seq: 0 }.meet(all)
}

/// Numbers of a pair's messages: far more than it has.
const PAIR: u64 = 1 << 24;

/// Measures some pairs of ranks, the lower first. All ranks of `comm` must call it, and all get the answer. It follows [`meet`].
pub(crate) fn measure(comm: &mut dyn Comm, pairs: &[[usize; 2]]) -> Result<Vec<([usize; 2], Figures)>> {
    let everybody: Vec<usize> = (0..comm.size()).collect();
    let all = comm.group(&everybody)?;
    let mut found = Vec::with_capacity(pairs.len());
    let mut line = Line { comm, peer: 0, seq: PAIR };
    for (i, pair) in pairs.iter().enumerate() {
        line.meet(all)?;
        let mut mine = Vec::new();
        if let Some(end) = pair.iter().position(|&rank| rank == line.comm.rank()) {
            line.peer = pair[1 - end];
            let figures = match end {
                0 => Some(line.lead()?),
                _ => line.follow().map(|()| None)?,
            };
            let group = line.comm.group(pair)?;
            let mut exchanging = exchange::Pair { comm: line.comm, group, seq: line.seq + PAIR };
            let exchange = exchanging.measure()?;
            if let Some((latency, bandwidth, skew)) = figures {
                mine = vec![latency, bandwidth, skew, exchange.slows];
                mine.extend(exchange.points.into_iter().flatten());
            }
        }
        // The same numbers everywhere, however many messages a pair exchanged.
        line.seq = PAIR * (4 * i as u64 + 4);
        mine.resize(FIGURES, 0.0);
        let sums = line.sum(all, &mine)?;
        let points = sums[4..].as_chunks::<2>().0.iter().copied().filter(|p| p[1] > 0.0).collect();
        let figures = Figures {
            latency: sums[0],
            bandwidth: sums[1],
            skew: sums[2],
            exchange: Exchange { points, slows: sums[3] },
        };
        found.push((*pair, figures));
    }
    Ok(found)
}

/// How many figures a pair has: four, and the points of its exchanges.
const FIGURES: usize = 4 + 2 * exchange::POINTS;

/// One end of a pair.
struct Line<'a> {
    comm: &'a mut dyn Comm,
    peer: usize,
    seq: u64,
}

impl Line<'_> {
    fn sum(&mut self, group: GroupId, values: &[f64]) -> Result<Vec<f64>> {
        let ticket = self.comm.start(Collective::AllReduce.into(), group, self.seq, host::stage(values))?;
        self.seq += 1;
        Ok(host::values::<f64>(&self.comm.wait(ticket)?).to_vec())
    }

    fn meet(&mut self, group: GroupId) -> Result<()> {
        self.sum(group, &[0.0]).map(drop)
    }

    fn tell(&mut self, value: f64) -> Result<()> {
        let ticket = self.comm.send(self.peer, self.seq, host::stage(&[value]))?;
        self.seq += 1;
        self.comm.wait(ticket).map(drop)
    }

    fn hear(&mut self) -> Result<f64> {
        let ticket = self.comm.receive(self.peer, self.seq, host::stage(&[0f64]))?;
        self.seq += 1;
        Ok(host::values::<f64>(&self.comm.wait(ticket)?)[0])
    }

    fn send(&mut self, elements: usize) -> Result<()> {
        let ticket = self.comm.send(self.peer, self.seq, zeros(elements)?)?;
        self.seq += 1;
        self.comm.wait(ticket).map(drop)
    }

    fn receive(&mut self, elements: usize) -> Result<()> {
        let ticket = self.comm.receive(self.peer, self.seq, zeros(elements)?)?;
        self.seq += 1;
        self.comm.wait(ticket).map(drop)
    }

    /// Latency, bandwidth, and how much the other's clock is ahead.
    fn lead(&mut self) -> Result<(f64, f64, f64)> {
        let mut pings = Vec::with_capacity(PINGS);
        let (mut skew, mut quickest) = (0.0, f64::INFINITY);
        for _ in 0..PINGS {
            let (clock, begin) = (now(), Instant::now());
            self.tell(0.0)?;
            let theirs = self.hear()?;
            let round = begin.elapsed().as_secs_f64();
            pings.push(round);
            if round < quickest {
                (quickest, skew) = (round, theirs - (clock + round / 2.0));
            }
        }
        let round = median(pings);
        // A first message tells how large the others may be.
        let (_, small) = self.trip(ELEMENTS.1 as usize)?;
        let elements = (ELEMENTS.1 * SECONDS / small).clamp(ELEMENTS.1, ELEMENTS.0) as usize;
        self.tell(elements as f64)?;
        let (mut there, mut back) = (Vec::new(), Vec::new());
        for i in 0..LARGE {
            let (to, from) = self.trip(elements)?;
            if i > 0 {
                there.push(to);
                back.push(from);
            }
        }
        let bytes = 4.0 * elements as f64;
        // Each trip has a small message the other way. The quickest: whatever else runs only makes it slower.
        let quickest = |times: Vec<f64>| times.into_iter().fold(f64::INFINITY, f64::min);
        let slower = quickest(there).max(quickest(back));
        Ok((round / 2.0, bytes / (slower - round / 2.0).max(slower / 2.0), skew))
    }

    /// A large message there and a small one back, then the other way round: seconds of each.
    fn trip(&mut self, elements: usize) -> Result<(f64, f64)> {
        let begin = Instant::now();
        self.send(elements)?;
        self.hear()?;
        let there = begin.elapsed().as_secs_f64();
        let begin = Instant::now();
        self.tell(0.0)?;
        self.receive(elements)?;
        Ok((there, begin.elapsed().as_secs_f64()))
    }

    fn follow(&mut self) -> Result<()> {
        for _ in 0..PINGS {
            self.hear()?;
            self.tell(now())?;
        }
        self.answer(ELEMENTS.1 as usize)?;
        let elements = self.hear()? as usize;
        (0..LARGE).try_for_each(|_| self.answer(elements))
    }

    fn answer(&mut self, elements: usize) -> Result<()> {
        self.receive(elements)?;
        self.tell(0.0)?;
        self.hear()?;
        self.send(elements)
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_comm::threads;

    #[test]
    fn all_pairs_are_measured_and_all_ranks_know() {
        // Ranks 0, 2 and 3 lead their hosts; rank 1 only waits.
        let found: Vec<_> = std::thread::scope(|scope| {
            let ranks = threads(4)
                .into_iter()
                .map(|mut comm| scope.spawn(move || measure(&mut comm, &[[0, 2], [0, 3], [2, 3]]).unwrap()));
            ranks.collect::<Vec<_>>().into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        assert!(found.iter().all(|f| *f == found[0]));
        assert_eq!(found[0].iter().map(|f| f.0).collect::<Vec<_>>(), [[0, 2], [0, 3], [2, 3]]);
        for (pair, figures) in &found[0] {
            assert!(figures.latency > 0.0 && figures.bandwidth > 0.0, "{pair:?}: {figures:?}");
            assert!(figures.skew.abs() < 10.0, "one clock: {figures:?}");
        }
    }
}
