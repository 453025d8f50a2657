//! `backward-weights; update` → one kernel that never stores the gradient, where one rank alone holds the parameters.

use super::super::work::Work;
use crate::key::{BufferRole, SegmentKey};
use crate::schedule::{Bucket, BucketEntry, Buffer, Task, TaskKind, param_buffer};
use paceline_base::kernel::{Call, Kernel};

/// Joins the gradients of a bucket that one rank holds with their updates.
pub(super) fn join(work: &mut Work, bucket: &Bucket) {
    for entry in &bucket.entries {
        join_entry(work, bucket, entry);
    }
}

fn join_entry(work: &mut Work, bucket: &Bucket, entry: &BucketEntry) {
    let (rank, node) = (bucket.group[0], entry.of.0);
    let (update, backward) = (SegmentKey::Update(bucket.key), SegmentKey::Backward { node: node as u32, micro: 0 });
    // The task that computes this entry's gradient, as its weight gradient.
    let Some(segment) = work.segment(&backward) else { return };
    let [found] = work.users(rank, entry.gradient(0))[..] else { return };
    let gradient = Work::place(found);
    if work.key(found) != backward {
        return;
    }
    let task = &segment.tasks[gradient];
    let TaskKind::Compute(Call { kernel: Kernel::DenseBackwardWeights { dims, bias }, args }) = &task.kind else {
        return;
    };
    if args[2] != entry.gradient(0) {
        return; // this entry is the bias: it goes with its weights
    }
    let with_bias = if *bias {
        let Some(with) = bucket.entries.iter().find(|e| e.gradient(0) == args[3]) else { return };
        if work.users(rank, with.gradient(0))[..] != [found] {
            return;
        }
        Some(with)
    } else {
        None
    };
    let Some(updated) = work.segment(&update).and_then(|s| s.tasks.first()) else { return };
    let TaskKind::Update(Call { kernel: Kernel::Update { rule, .. }, .. }) = &updated.kind else { return };
    let (dims, bias, rule) = (*dims, *bias, *rule);
    // The update must come after everybody who still reads the old values; they are all of this operator.
    let reads = |task: &Task| task.touches_buffer(rank, entry.values(0));
    let last_reader = segment.tasks.iter().rposition(reads).unwrap_or(gradient).max(gradient);
    let mut new_args = vec![args[0], args[1]];
    let template = task.clone();
    let mut views = Vec::new();
    for e in std::iter::once(entry).chain(with_bias) {
        new_args.push(e.values(0));
        for state in 0..rule.states().len() {
            // By parameter and state: an operator has few of either.
            let role = BufferRole::ParamState((e.of.1 * rule.states().len() + state) as u16);
            let key = param_buffer(node, role, e.parts[0]);
            views.push(Buffer::floats(key, rank, e.region.len(), Some((bucket.state(0, state), e.offset))));
            new_args.push(key);
        }
    }
    work.edit_segment(&backward, |segment| {
        let kernel = Kernel::DenseBackwardUpdate { dims, bias, rule, l2: entry.l2 };
        let kind = TaskKind::Compute(Call { kernel, args: new_args });
        segment.tasks.insert(last_reader + 1, Task { kind, ..template });
        segment.tasks.remove(gradient);
        segment.buffers.extend(views);
    });
    work.edit_segment(&update, |segment| {
        let TaskKind::Update(Call { kernel: Kernel::Update { segments, .. }, .. }) = &mut segment.tasks[0].kind else {
            return;
        };
        let bias_at = with_bias.map(|e| e.offset);
        segments.retain(|s| s.start != entry.offset && Some(s.start) != bias_at);
        if segments.is_empty() {
            segment.tasks.clear();
        }
    });
}
