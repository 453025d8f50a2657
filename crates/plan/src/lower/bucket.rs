//! A bucket of parameters: its gradients are added up, its parameters moved, and handed out if each rank moves a share.

use super::segment::Builder;
use crate::key::{BufferKey, BufferRole, SegmentKey};
use crate::plan::Compression;
use crate::schedule::{Bucket, Segment, TaskKind};
use paceline_base::collective::{Collective, Encoding, Exchange};
use paceline_base::kernel::{Call, Kernel};
use paceline_base::optim::{Rule, Segment as Elements};
use std::sync::Arc;

/// What is done when the last of its gradients is there.
pub(super) fn exchange(bucket: &Bucket) -> Option<Arc<Segment>> {
    let mut builder = Builder::new(SegmentKey::Exchange(bucket.key));
    let (what, encoding) = match bucket.compression {
        Compression::None if bucket.sharded => (Collective::ReduceScatter, Encoding::Plain),
        Compression::None => (Collective::AllReduce, Encoding::Plain),
        Compression::Bf16 => (Collective::AllReduce, Encoding::Bf16),
        Compression::TopK { per_million } => {
            let keep = (bucket.len as u128 * u128::from(per_million)).div_ceil(1_000_000);
            let kernel = Kernel::Sparsify { len: bucket.len, keep: (keep as usize).clamp(1, bucket.len) };
            for (member, &rank) in bucket.group.iter().enumerate() {
                let args = [bucket.grads(member)].into_iter().chain(bucket.held_back(member)).collect();
                builder.kernel(rank, 0, kernel.clone(), args, bucket.len);
            }
            (Collective::AllReduce, Encoding::Sparse)
        }
    };
    let grads = (0..bucket.group.len()).map(|member| bucket.grads(member)).collect();
    builder.collective(Exchange { what, encoding }, &bucket.group, grads, bucket.len);
    builder.finish()
}

/// What is done at the end of the step.
pub(super) fn update(bucket: &Bucket, rule: Rule) -> Option<Arc<Segment>> {
    let key = SegmentKey::Update(bucket.key);
    let mut builder = Builder::new(key);
    for (member, &rank) in bucket.group.iter().enumerate() {
        let range = bucket.state_range(member);
        let segments: Vec<Elements> = bucket
            .entries
            .iter()
            .filter_map(|e| {
                let (a, b) = (e.offset.max(range.start), (e.offset + e.region.len()).min(range.end));
                (a < b).then(|| Elements { start: a - range.start, len: b - a, l2: e.l2 })
            })
            .collect();
        if segments.is_empty() {
            continue;
        }
        let mut share = |outer: BufferKey, role| {
            if range.len() == bucket.len {
                return outer;
            }
            builder.view(rank, BufferKey::new(key, role, member), range.len(), (outer, range.start))
        };
        let mut args = vec![
            share(bucket.params(member), BufferRole::ShareOfParams),
            share(bucket.grads(member), BufferRole::ShareOfGrads),
        ];
        args.extend((0..rule.states().len()).map(|state| bucket.state(member, state)));
        let call = Call { kernel: Kernel::Update { rule, segments }, args };
        builder.task(rank, member, TaskKind::Update(call), range.len());
    }
    if bucket.sharded {
        let params = (0..bucket.group.len()).map(|member| bucket.params(member)).collect();
        builder.collective(Collective::AllGather.into(), &bucket.group, params, bucket.len);
    }
    builder.finish()
}
