//! The waits pass: until when each message is under way, and which updates are left to the next step.

use super::work::{At, Work};
use crate::hash::HashMap;
use crate::key::{BucketKey, BufferKey, BufferRole, SegmentKey, TaskKey};
use crate::schedule::{Await, Bucket, Segment, TaskKind};
use std::sync::Arc;

/// Says of each message of a segment before which task each rank waits for it: its first one after it that touches the same
/// memory; or at the end of the step, if there is none.
pub(super) fn awaits(work: &mut Work, key: &SegmentKey) {
    if work.segment(key).is_none_or(|segment| segment.messages == 0) {
        return;
    }
    let mut awaited = Vec::new();
    for at in work.places(key) {
        if work.task(at).is_message() {
            awaited.clear();
            work.task(at).touches(|rank, buffer| awaited.push(of_rank(work, at, rank, buffer)));
            work.set_awaited(at, &awaited);
        }
    }
}

fn of_rank(work: &Work, message: At, rank: usize, buffer: BufferKey) -> Await {
    let names = same_memory(buffer);
    let next = names.iter().flatten().filter_map(|&name| work.next_user(message, rank, name)).min();
    next.map_or(Await::StepEnd, |at| Await::Before(task_key(work, at)))
}

fn task_key(work: &Work, at: At) -> TaskKey {
    TaskKey { segment: work.key(at), index: work.task(at).index }
}

/// The names under which tasks that come after a message touch its memory. (Gradients of single parameters are not among them: they are all
/// written before their bucket leaves.)
fn same_memory(buffer: BufferKey) -> [Option<BufferKey>; 2] {
    let share = match buffer.role {
        BufferRole::BucketGrads => Some(BufferRole::ShareOfGrads),
        BufferRole::BucketParams => Some(BufferRole::ShareOfParams),
        _ => None,
    };
    [Some(buffer), share.map(|role| BufferKey { role, ..buffer })]
}

/// Whether a rank may wait for the gradients of a bucket: only then anything of it is left to the next step. Shared updates are gathered at once.
pub(super) fn may_wait(bucket: &Bucket) -> bool {
    bucket.trained && !bucket.sharded && bucket.group.len() > 1
}

/// Leaves to the next step what nobody needs in this one: waiting for the sum of some gradients, and moving parameters by it. While the
/// first layers of the next step compute, gradients of the last ones are still on their way.
///
/// What a step's first kernel needs is better waited for together, at the end of the step before, than by each rank when it comes to it.
pub(super) fn defer(
    work: &mut Work,
    order: &[SegmentKey],
    done: &HashMap<SegmentKey, Arc<Segment>>,
    buckets: &[Arc<Bucket>],
    first_uses: &HashMap<BucketKey, Vec<Option<TaskKey>>>,
    ranks: usize,
) {
    let first_kernels = first_kernels(work, order, done, ranks);
    for bucket in buckets.iter().filter(|b| may_wait(b)) {
        let Some(uses) = first_uses.get(&bucket.key) else { continue };
        work.edit_segment(&SegmentKey::Update(bucket.key), |segment| {
            for task in segment.tasks.iter_mut().filter(|task| matches!(task.kind, TaskKind::Update(_))) {
                task.stage = u8::from(uses[task.part] != first_kernels[task.rank]);
            }
        });
    }
}

/// The first kernel of each rank.
fn first_kernels(
    work: &Work,
    order: &[SegmentKey],
    done: &HashMap<SegmentKey, Arc<Segment>>,
    ranks: usize,
) -> Vec<Option<TaskKey>> {
    let mut first: Vec<Option<TaskKey>> = vec![None; ranks];
    let mut left = ranks;
    for segment in order.iter().filter_map(|key| work.segment(key).or(done.get(key))) {
        for task in segment.tasks.iter().filter(|task| matches!(task.kind, TaskKind::Compute(_))) {
            if first[task.rank].is_none() {
                first[task.rank] = Some(TaskKey { segment: segment.key, index: task.index });
                left -= 1;
            }
        }
        if left == 0 {
            break;
        }
    }
    first
}

/// By member: the first task of a step that uses what is in a bucket.
pub(super) fn first_uses(work: &Work, bucket: &Bucket) -> Vec<Option<TaskKey>> {
    (0..bucket.group.len())
        .map(|member| {
            // Where a rank has no samples, it uses nothing but the gradients.
            let of_entries = bucket.entries.iter().flat_map(|e| [e.values(member), e.gradient(member)]);
            let users = of_entries.chain([bucket.grads(member)]).flat_map(|b| work.users(bucket.group[member], b));
            users.min().map(|first| task_key(work, first))
        })
        .collect()
}
