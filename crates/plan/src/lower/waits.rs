//! The waits pass: until when each message is under way, and which updates are left to the next step.

use super::near::{At, Work};
use crate::key::{BufferKey, BufferRole, SegmentKey, TaskKey};
use crate::schedule::{Await, Bucket, Phase, PhaseKind, Task, TaskKind};
use std::sync::Arc;

/// Says of each message of a segment before which task each rank waits for it: its first one after it that touches the same
/// memory; or at the end of the step, if there is none.
pub(super) fn awaits(work: &mut Work<'_>, key: &SegmentKey) {
    let Some(segment) = work.segment(key).filter(|segment| segment.messages > 0) else { return };
    let found: Vec<(usize, Vec<Await>)> = segment
        .tasks
        .iter()
        .enumerate()
        .filter(|(_, task)| task.is_message())
        .map(|(at, task)| (at, of_message(work, At { segment: *key, at }, task)))
        .collect();
    work.edit_segment(key, |segment| {
        for (at, awaited) in found {
            segment.tasks[at].awaited = awaited;
        }
    });
}

fn of_message(work: &Work<'_>, message: At, task: &Task) -> Vec<Await> {
    let here = work.place(message);
    let of_rank = |rank: usize, buffer: BufferKey| {
        let names = same_memory(buffer);
        let users = names.iter().flat_map(|name| work.users(rank, *name));
        let next = users.filter(|&at| work.place(at) > here).min_by_key(|&at| work.place(at));
        next.map_or(Await::StepEnd, |at| Await::Before(TaskKey { segment: at.segment, index: work.task(at).index }))
    };
    let mut awaited = Vec::new();
    task.touches(|rank, buffer, _| awaited.push(of_rank(rank, buffer)));
    awaited
}

/// The names under which tasks that come after a message touch its memory. (Gradients of single parameters are not among them: they are all
/// written before their bucket leaves.)
fn same_memory(buffer: BufferKey) -> Vec<BufferKey> {
    let named = |role| BufferKey { role, ..buffer };
    match buffer.role {
        BufferRole::BucketGrads => vec![buffer, named(BufferRole::ShareOfGrads)],
        BufferRole::BucketParams => vec![buffer, named(BufferRole::ShareOfParams)],
        _ => vec![buffer],
    }
}

/// Leaves to the next step what nobody needs in this one: waiting for the sum of some gradients, and moving parameters by it. While the
/// first layers of the next step compute, gradients of the last ones are still on their way.
///
/// Shared updates are gathered at once; and what a step's first kernel needs is better waited for together, at the end of the step before,
/// than by each rank when it comes to it.
pub(super) fn defer(work: &mut Work<'_>, order: &[SegmentKey], buckets: &[Arc<Bucket>]) {
    let mut first_kernels: Vec<Option<TaskKey>> = Vec::new();
    for bucket in buckets.iter().filter(|b| b.trained && !b.sharded && b.group.len() > 1) {
        if first_kernels.is_empty() {
            first_kernels = kernels(work, order);
        }
        let uses = first_uses(work, bucket);
        let key = SegmentKey::Update(bucket.key);
        work.edit_segment(&key, |segment| {
            for task in segment.tasks.iter_mut().filter(|task| matches!(task.kind, TaskKind::Update(_))) {
                if uses[task.part] != first_kernels.get(task.rank).copied().flatten() {
                    task.stage = 1;
                }
            }
        });
    }
}

/// The first kernel of each rank.
fn kernels(work: &Work<'_>, order: &[SegmentKey]) -> Vec<Option<TaskKey>> {
    let mut first: Vec<Option<TaskKey>> = Vec::new();
    for segment in order.iter().filter_map(|key| work.segment(key)) {
        for task in segment.tasks.iter().filter(|task| matches!(task.kind, TaskKind::Compute(_))) {
            if first.len() <= task.rank {
                first.resize(task.rank + 1, None);
            }
            first[task.rank].get_or_insert(TaskKey { segment: segment.key, index: task.index });
        }
        if matches!(segment.key, SegmentKey::Metrics) {
            break;
        }
    }
    first
}

/// By member: the first task of a step that uses what is in a bucket.
pub(super) fn first_uses(work: &Work<'_>, bucket: &Bucket) -> Vec<Option<TaskKey>> {
    (0..bucket.group.len())
        .map(|member| {
            // Where a rank has no samples, it uses nothing but the gradients.
            let of_entries = bucket.entries.iter().flat_map(|e| [e.values(member), e.gradient(member)]);
            let users = of_entries.chain([bucket.grads(member)]).flat_map(|b| work.users(bucket.group[member], b));
            let first = users.min_by_key(|&at| work.place(at))?;
            Some(TaskKey { segment: first.segment, index: work.task(first).index })
        })
        .collect()
}

/// The buckets of which a phase leaves something to the next step.
pub(super) fn left_over(phase: &Phase, buckets: &[Arc<Bucket>]) -> Vec<bool> {
    let mut left = vec![false; buckets.len()];
    if phase.kind == PhaseKind::Train {
        for (number, bucket) in buckets.iter().enumerate() {
            let segment = phase.segments.iter().rev().find(|s| s.key == SegmentKey::Update(bucket.key));
            left[number] = segment.is_some_and(|s| s.tasks.iter().any(|task| task.stage > 0));
        }
    }
    left
}
