//! Arena layout: where each buffer of a rank lies. Buffers of a step share room when their lives do not overlap.

use crate::schedule::{Edge, Life, Phase, Schedule, Task};
use paceline_base::kernel::{ALIGN, Arena};

struct Span {
    buffer: usize,
    len: usize,
    first: usize,
    last: usize,
}

/// Lays out all buffers of a rank. What no task touches gets no room (a gradient that a fused update never stores).
pub(crate) fn layout(schedule: &Schedule, rank: usize) -> Arena {
    let buffers = &schedule.buffers[rank];
    let kept = kept_buffers(schedule, rank);
    let mut used = vec![false; buffers.len()];
    for &buffer in &kept {
        used[buffer] = true;
    }
    let mut lives: Vec<Vec<Span>> = Vec::new();
    for phase in &schedule.phases {
        let mut in_phase: Vec<Option<(usize, usize)>> = vec![None; buffers.len()];
        for (at, task) in phase.tasks.iter().enumerate() {
            for (r, buffer, _) in task.touches() {
                if r != rank {
                    continue;
                }
                let root = schedule.root(rank, buffer).0 as usize;
                used[root] = true;
                let end = if task.seq.is_some() { awaited(phase, at, rank) } else { at };
                let life = in_phase[root].get_or_insert((at, end));
                life.1 = life.1.max(end);
            }
        }
        lives.push(
            in_phase
                .iter()
                .enumerate()
                .filter(|(b, l)| l.is_some() && matches!(buffers[*b].life, Life::Step(_)))
                .map(|(buffer, l)| {
                    let (first, last) = l.unwrap_or_default();
                    Span { buffer, len: buffers[buffer].len.next_multiple_of(ALIGN), first, last }
                })
                .collect(),
        );
    }
    let mut slots = vec![(0, 0); buffers.len()];
    let mut run = 0;
    for (b, buffer) in buffers.iter().enumerate() {
        if buffer.life == Life::Run && used[b] {
            slots[b] = (run, buffer.len);
            run += buffer.len.next_multiple_of(ALIGN);
        }
    }
    let mut len = run;
    for phase in &mut lives {
        len = len.max(pack(phase, buffers, run, &mut slots));
    }
    for b in 0..buffers.len() {
        if let Life::Within(mut outer, mut offset) = buffers[b].life {
            while let Life::Within(further, more) = buffers[outer.0 as usize].life {
                (outer, offset) = (further, offset + more);
            }
            if used[outer.0 as usize] {
                slots[b] = (slots[outer.0 as usize].0 + offset, buffers[b].len);
            }
        }
    }
    Arena { len, slots }
}

/// Where a rank waits for the message or collective `at`: before its first task that depends on it, or else when the step ends. Until then the
/// buffer is on loan.
fn awaited(phase: &Phase, at: usize, rank: usize) -> usize {
    let depends = |task: &Task| task.involves(rank) && task.after.contains(&Edge { task: at, lag: 0 });
    let next = phase.tasks[at + 1..].iter().position(depends);
    next.map_or(phase.tasks.len(), |next| at + 1 + next)
}

/// Largest first, each at the lowest place that is free during its life. Returns the end.
fn pack(lives: &mut [Span], buffers: &[crate::schedule::Buffer], base: usize, slots: &mut [(usize, usize)]) -> usize {
    lives.sort_by_key(|l| (std::cmp::Reverse(l.len), l.first, l.buffer));
    let mut placed: Vec<(usize, usize, usize, usize)> = Vec::new(); // offset, len, first, last
    let mut end = base;
    for life in lives.iter() {
        let mut rivals: Vec<(usize, usize)> =
            placed.iter().filter(|p| p.2 <= life.last && life.first <= p.3).map(|p| (p.0, p.1)).collect();
        rivals.sort_unstable();
        let mut offset = base;
        for (start, len) in rivals {
            if offset + life.len <= start {
                break;
            }
            offset = offset.max(start + len);
        }
        placed.push((offset, life.len, life.first, life.last));
        slots[life.buffer] = (offset, buffers[life.buffer].len);
        end = end.max(offset + life.len);
    }
    end
}

/// Buffers that outlive tasks: parameters and optimiser state, which checkpoints read.
fn kept_buffers(schedule: &Schedule, rank: usize) -> Vec<usize> {
    let mut kept = Vec::new();
    for bucket in &schedule.buckets {
        for (member, &r) in bucket.group.iter().enumerate() {
            if r == rank {
                kept.push(bucket.params[member].0 as usize);
                kept.extend(bucket.states[member].iter().map(|s| s.0 as usize));
            }
        }
    }
    kept
}
