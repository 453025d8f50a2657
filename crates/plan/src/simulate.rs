//! The simulator: walks a schedule and costs it. Bytes per link and memory are exact; times are a model.

use crate::memory::peaks;
use crate::program::{Item, Program, programs};
use crate::schedule::{Schedule, Task, TaskKind};
use paceline_base::collective::{Encoding, elements_moved};
use serde::{Deserialize, Serialize};

/// What the ranks run on, as far as the cost model goes. All ranks alike, for now.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Floating-point operations per second of one rank.
    pub flops: f64,
    /// Bytes per second between a rank and its memory.
    pub memory: f64,
    /// Bytes per second between two ranks.
    pub link: f64,
    /// Seconds until a message arrives.
    pub latency: f64,
    /// Seconds to start a kernel.
    pub launch: f64,
    /// Bytes per element.
    pub element: usize,
}

impl Cluster {
    /// Threads of one process on a present-day machine. Orders of magnitude: only comparisons are made with it.
    pub fn threads() -> Self {
        Self { flops: 60e9, memory: 30e9, link: 8e9, latency: 1e-6, launch: 5e-8, element: 4 }
    }
}

/// What the simulator says of one phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Seconds for one step in the middle of many.
    pub seconds: f64,
    /// `bytes[from][to]` per step.
    pub bytes: Vec<Vec<u64>>,
    /// Bytes of device memory by rank.
    pub memory: Vec<u64>,
    /// Seconds of computing by rank.
    pub compute: Vec<f64>,
}

/// Walks one phase of a schedule: a step in the middle of many of its kind. Every rank does its program in order; a message begins when
/// all whose numbers it carries have come to it, and a rank that waits for it goes on when it is there.
pub fn simulate(schedule: &Schedule, phase: usize, cluster: &Cluster) -> Prediction {
    let ranks = schedule.ranks;
    let mut walk = Walk {
        cluster,
        free: vec![0.0; ranks],
        compute: vec![0.0; ranks],
        bytes: vec![vec![0; ranks]; ranks],
        done: Vec::new(),
        before: Vec::new(),
    };
    let programs = programs(schedule, phase);
    let mut end = 0.0;
    let mut seconds = 0.0;
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
        let now = walk.free.iter().copied().fold(0.0, f64::max);
        (seconds, end) = (now - end, now);
    }
    let memory = match &schedule.memory[..] {
        [] => peaks(schedule),
        laid_out => laid_out.iter().map(|memory| memory.arena.len).collect(),
    };
    Prediction {
        seconds,
        bytes: walk.bytes,
        memory: memory.into_iter().map(|elements| (elements * cluster.element) as u64).collect(),
        compute: walk.compute,
    }
}

/// Steps until what one leaves to the next is the same in each.
const STEPS: usize = 3;

struct Walk<'a> {
    cluster: &'a Cluster,
    /// When each rank is free.
    free: Vec<f64>,
    /// Of one step.
    compute: Vec<f64>,
    bytes: Vec<Vec<u64>>,
    /// When each message of the step is there.
    done: Vec<f64>,
    /// The same of the step before.
    before: Vec<f64>,
}

impl Walk<'_> {
    fn begin(&mut self) {
        std::mem::swap(&mut self.before, &mut self.done);
        self.done.clear();
        self.compute.fill(0.0);
        self.bytes.iter_mut().for_each(|row| row.fill(0));
    }

    fn on_rank(&mut self, rank: usize, item: &Item<'_>, program: &Program<'_>) {
        match item {
            Item::Wait(number) => self.free[rank] = self.free[rank].max(self.done[*number as usize]),
            Item::Finish(bucket) => {
                let left = program.left_over.iter().filter(|(b, _)| b == bucket);
                for item in left.flat_map(|(_, items)| items) {
                    match item {
                        Item::Wait(number) => {
                            let there = self.before.get(*number as usize).copied().unwrap_or(0.0);
                            self.free[rank] = self.free[rank].max(there);
                        }
                        Item::Do(placed) => self.task(placed.task, placed.number),
                        Item::Finish(_) => {}
                    }
                }
            }
            Item::Do(placed) => self.task(placed.task, placed.number),
        }
    }

    fn task(&mut self, task: &Task, number: Option<u64>) {
        let cluster = self.cluster;
        let there = match &task.kind {
            TaskKind::Transfer { to, .. } => {
                let n = (task.size * cluster.element) as u64;
                self.bytes[task.rank][*to] += n;
                self.free[task.rank] + cluster.latency + n as f64 / cluster.link
            }
            TaskKind::Collective { what, group, .. } => {
                let members = group.len();
                let begin = group.iter().map(|&rank| self.free[rank]).fold(0.0, f64::max);
                let mut slowest: f64 = 0.0;
                for to in 0..members {
                    let mut received = 0;
                    for from in 0..members {
                        let mut n = (elements_moved(what.what, task.size, members, from, to) * cluster.element) as u64;
                        if what.encoding == Encoding::Bf16 && cluster.element == 4 {
                            n /= 2;
                        }
                        self.bytes[group[from]][group[to]] += n;
                        received += n;
                    }
                    slowest = slowest.max(received as f64 / cluster.link);
                }
                begin + 2.0 * cluster.latency + slowest
            }
            _ => {
                let seconds = cost(task, cluster);
                self.compute[task.rank] += seconds;
                self.free[task.rank] += seconds;
                return;
            }
        };
        debug_assert_eq!(number, Some(self.done.len() as u64), "messages come in the order of their numbers");
        self.done.push(there);
    }
}

fn cost(task: &Task, cluster: &Cluster) -> f64 {
    let (flops, traffic) = match &task.kind {
        TaskKind::Compute(call) | TaskKind::Update(call) => (call.kernel.flops(), call.kernel.traffic()),
        _ => (0.0, task.size as f64),
    };
    cluster.launch + (flops / cluster.flops).max(traffic * cluster.element as f64 / cluster.memory)
}
