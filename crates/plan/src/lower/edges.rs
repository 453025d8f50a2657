//! Edges from what tasks touch: a reader after its writer, a writer after readers and writers, and lag 1 to the step before.

use crate::schedule::{Edge, Life, Schedule};
use paceline_base::kernel::BufferId;
use std::collections::HashMap;
use std::ops::Range;

struct Access {
    range: Range<usize>,
    task: usize,
    writes: bool,
}

/// For each task of a phase, what must be done before it.
pub(super) fn derive(schedule: &Schedule, phase: usize) -> Vec<Vec<Edge>> {
    let tasks = &schedule.phases[phase].tasks;
    let mut seen: HashMap<(usize, BufferId), Vec<Access>> = HashMap::new();
    let mut early: Vec<(usize, usize, BufferId, Range<usize>)> = Vec::new();
    let mut after: Vec<Vec<Edge>> = vec![Vec::new(); tasks.len()];
    for (id, task) in tasks.iter().enumerate() {
        for (rank, buffer, writes) in task.touches() {
            let (root, range) = place(schedule, rank, buffer);
            let accesses = seen.entry((rank, root)).or_default();
            let overlaps = |a: &Access| a.range.start < range.end && range.start < a.range.end && a.task != id;
            let mut covered = false;
            for access in accesses.iter().filter(|a| overlaps(a) && (writes || a.writes)) {
                covered |= access.writes;
                after[id].push(Edge { task: access.task, lag: 0 });
            }
            if !covered {
                early.push((id, rank, root, range.clone()));
            }
            if writes {
                // What this write hides is reached through it.
                accesses.retain(|a| !(range.start <= a.range.start && a.range.end <= range.end));
            }
            accesses.push(Access { range, task: id, writes });
        }
    }
    for (id, rank, root, range) in early {
        if schedule.buffers[rank][root.0 as usize].life != Life::Run {
            continue;
        }
        for access in &seen[&(rank, root)] {
            if access.writes && access.task > id && access.range.start < range.end && range.start < access.range.end {
                after[id].push(Edge { task: access.task, lag: 1 });
            }
        }
    }
    for edges in &mut after {
        edges.sort_unstable();
        edges.dedup();
    }
    after
}

/// The root buffer of a buffer, and its elements in there.
fn place(schedule: &Schedule, rank: usize, buffer: BufferId) -> (BufferId, Range<usize>) {
    let (mut at, mut start) = (buffer, 0);
    let len = schedule.buffers[rank][buffer.0 as usize].len;
    while let Life::Within(outer, offset) = schedule.buffers[rank][at.0 as usize].life {
        start += offset;
        at = outer;
    }
    (at, start..start + len)
}
