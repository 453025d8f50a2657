//! The simulator: walks a schedule and costs it. Bytes per link and memory are exact; times are what a [`Cluster`] says that kernels and
//! messages cost.

mod path;
#[cfg(test)]
mod tests;
mod walk;

pub use path::{Stretch, What};

use crate::cost::Cluster;
use crate::memory::peaks;
use crate::program::{Item, programs};
use crate::schedule::Schedule;
use paceline_base::TimeSplit;
use walk::Walk;

/// What the simulator says of one phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Seconds for one step in the middle of many.
    pub seconds: f64,
    /// `bytes[from][to]` per step.
    pub bytes: Vec<Vec<u64>>,
    /// Bytes of device memory by rank.
    pub memory: Vec<u64>,
    /// Where the time of each rank goes: what of it is not here it is not known for (the loop between steps, decoding, checkpoints).
    pub split: Vec<TimeSplit>,
    /// What the step's length is made of, longest first: each began when the one before it in time had ended.
    pub critical: Vec<Stretch>,
}

/// Walks one phase of a schedule: a step in the middle of many of its kind. Every rank does its program in order; a message begins when
/// all whose numbers it carries have come to it and its links are free, and a rank that waits for it goes on when it is there.
///
/// # Panics
/// If the cluster has not a place for each rank.
pub fn simulate(schedule: &Schedule, phase: usize, cluster: &Cluster) -> Prediction {
    assert_eq!(schedule.ranks, cluster.ranks(), "a place for each rank");
    let ranks = schedule.ranks;
    let mut walk = Walk::new(cluster, &schedule.dtypes);
    let programs = programs(schedule, phase);
    let (mut end, mut seconds) = (0.0, 0.0);
    for _ in 0..STEPS {
        walk.begin();
        let mut places = vec![0; ranks];
        for (_, task) in schedule.phases[phase].tasks().filter(|(_, task)| task.stage == 0) {
            // What the ranks that take part do before it.
            for rank in task.ranks() {
                let items = &programs[rank].items;
                while !matches!(items[places[rank]], Item::Do(_)) {
                    walk.on_rank(rank, &items[places[rank]], &programs[rank]);
                    places[rank] += 1;
                }
            }
            let number = task.ranks().next().and_then(|rank| match &programs[rank].items[places[rank]] {
                Item::Do(placed) => placed.number,
                _ => None,
            });
            walk.task(task, number);
            task.ranks().for_each(|rank| places[rank] += 1);
        }
        for (rank, program) in programs.iter().enumerate() {
            program.items[places[rank]..].iter().for_each(|item| walk.on_rank(rank, item, program));
        }
        let now = walk.now();
        (seconds, end) = (now - end, now);
    }
    let memory = match &schedule.memory[..] {
        [] => peaks(schedule),
        laid_out => laid_out.iter().map(|memory| memory.arena.bytes).collect(),
    };
    Prediction {
        seconds,
        critical: walk.critical(end - seconds),
        bytes: walk.bytes,
        memory: memory.into_iter().map(|bytes| bytes as u64).collect(),
        split: walk.split,
    }
}

/// Steps until what one leaves to the next is the same in each.
const STEPS: usize = 4;
