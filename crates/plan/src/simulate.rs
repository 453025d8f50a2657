//! The simulator: walks a schedule and costs it. Bytes per link and memory are exact; times are a model.

use crate::schedule::{Schedule, Size, Task, TaskKind};
use paceline_base::collective::{Collective, elements_moved};
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
    /// Seconds for one step.
    pub seconds: f64,
    /// `bytes[from][to]` per step.
    pub bytes: Vec<Vec<u64>>,
    /// Bytes of device memory by rank.
    pub memory: Vec<u64>,
    /// Seconds of computing by rank.
    pub compute: Vec<f64>,
}

fn elements(size: Size) -> usize {
    match size {
        Size::Exact(n) => n,
        Size::UpTo { expected, .. } => expected,
    }
}

/// Walks one phase of a schedule: every task begins when its rank is free and what it comes after is done.
pub fn simulate(schedule: &Schedule, phase: usize, cluster: &Cluster) -> Prediction {
    let tasks = &schedule.phases[phase].tasks;
    let ranks = schedule.ranks;
    let mut free = vec![0.0f64; ranks];
    let mut done = vec![0.0f64; tasks.len()];
    let mut compute = vec![0.0; ranks];
    let mut bytes = vec![vec![0u64; ranks]; ranks];
    for (id, task) in tasks.iter().enumerate() {
        let ready = task.after.iter().filter(|e| e.lag == 0).map(|e| done[e.task]).fold(0.0, f64::max);
        done[id] = match &task.kind {
            TaskKind::Transfer { to, .. } => {
                let n = (elements(task.size) * cluster.element) as u64;
                bytes[task.rank][*to] += n;
                ready.max(free[task.rank]) + cluster.latency + n as f64 / cluster.link
            }
            TaskKind::Collective { what, group, .. } => {
                let (len, members) = (elements(task.size), group.len());
                let mut slowest: f64 = 0.0;
                for to in 0..members {
                    let mut received = 0;
                    for from in 0..members {
                        let mut n = (elements_moved(*what, len, members, from, to) * cluster.element) as u64;
                        if *what == Collective::AllReduceBf16 && cluster.element == 4 {
                            n /= 2;
                        }
                        bytes[group[from]][group[to]] += n;
                        received += n;
                    }
                    slowest = slowest.max(received as f64 / cluster.link);
                }
                ready + 2.0 * cluster.latency + slowest
            }
            _ => {
                let seconds = cost(task, cluster);
                compute[task.rank] += seconds;
                free[task.rank] = ready.max(free[task.rank]) + seconds;
                free[task.rank]
            }
        };
    }
    Prediction {
        seconds: done.iter().copied().fold(0.0, f64::max),
        bytes,
        memory: schedule.arenas.iter().map(|a| (a.len * cluster.element) as u64).collect(),
        compute,
    }
}

fn cost(task: &Task, cluster: &Cluster) -> f64 {
    let (flops, traffic) = match &task.kind {
        TaskKind::Compute(call) | TaskKind::Update(call) => (call.kernel.flops(), call.kernel.traffic()),
        _ => (0.0, elements(task.size) as f64),
    };
    cluster.launch + (flops / cluster.flops).max(traffic * cluster.element as f64 / cluster.memory)
}
