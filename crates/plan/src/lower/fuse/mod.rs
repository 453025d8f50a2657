//! The fuse pass joins the kernel chains that a rank's device says it takes as one.

mod batch_norm;
mod dense_update;
mod pool;

use super::Devices;
use super::work::{At, Work};
use crate::hash::HashSet;
use crate::key::SegmentKey;
use crate::schedule::Bucket;
use paceline_base::kernel::{Call, Fusion, Kernel};
use paceline_base::op::Activation;
use paceline_graph::NodeId;
use std::sync::Arc;

/// Joins a kernel with others if the device takes them as one, and says with which.
type Rule = fn(&mut Work, At, &[Fusion]) -> Vec<At>;

/// Joins what can be joined within these segments, in issue order.
///
/// `alone` are the buckets that one rank holds; `joined` gets the nodes whose tasks now do the work of one another.
pub(super) fn fuse<'b>(
    work: &mut Work,
    segments: &[SegmentKey],
    alone: impl Iterator<Item = &'b Arc<Bucket>>,
    devices: &Devices,
    joined: &mut HashSet<[NodeId; 2]>,
) {
    let rules: [Rule; 4] = [with_activation, pool::with_pool, through_activation, batch_norm::through_activation];
    for rule in rules {
        for key in segments {
            for at in work.places(key) {
                let fusions = &devices.of(work.task(at).rank).fusions;
                if !fusions.is_empty() && work.call(at).is_some() {
                    let others = rule(work, at, fusions);
                    let pair = |other: At| Some([work.key(at).node()?, work.key(other).node()?]);
                    joined.extend(others.into_iter().filter_map(pair));
                }
            }
        }
    }
    work.settle();
    for bucket in alone {
        if devices.of(bucket.group[0]).fusions.contains(&Fusion::DenseUpdate) {
            dense_update::join(work, bucket);
        }
    }
}

/// Where a kernel takes the activation that follows it, which fusion that is, and which argument its output is.
fn before_activation(kernel: &mut Kernel, f: Activation) -> Option<(&mut Option<Activation>, Fusion, usize)> {
    match kernel {
        Kernel::DenseForward { activation, .. } => Some((activation, Fusion::DenseActivation(f), 2)),
        Kernel::ConvForward { activation, pool: None, .. } => Some((activation, Fusion::ConvActivation(f), 2)),
        Kernel::BatchNormalize { activation, .. } => Some((activation, Fusion::BatchActivation(f), 7)),
        Kernel::BatchInfer { activation, .. } => Some((activation, Fusion::BatchActivation(f), 5)),
        Kernel::Sum { inputs, activation, .. } => Some((activation, Fusion::SumActivation(f), *inputs)),
        _ => None,
    }
}

/// `dense; activate`, or another kernel that takes an activation → one kernel, if nothing else reads what lies between.
fn with_activation(work: &mut Work, second: At, fusions: &[Fusion]) -> Vec<At> {
    let joined = work.call(second).and_then(|next| {
        let Kernel::Activate { function, .. } = next.kernel else { return None };
        let [first, last] = work.users(work.task(second).rank, next.args[0])[..] else { return None };
        let Call { mut kernel, mut args } = work.call(first)?.clone();
        let (activation, fusion, output) = before_activation(&mut kernel, function)?;
        if last != second || activation.is_some() || args[output] != next.args[0] || !fusions.contains(&fusion) {
            return None;
        }
        *activation = Some(function);
        args[output] = next.args[1];
        Some((first, Call { kernel, args }))
    });
    let Some((first, joined)) = joined else { return Vec::new() };
    work.edit(first, |call| *call = joined);
    work.remove(second);
    vec![first]
}

/// `backward-data; activate-backward` → one kernel, if the derivative is a function of the output.
fn through_activation(work: &mut Work, first: At, fusions: &[Fusion]) -> Vec<At> {
    let joined = work.call(first).and_then(|product| {
        if !matches!(
            product.kernel,
            Kernel::DenseBackwardData { through: None, .. } | Kernel::ConvBackwardData { through: None, .. }
        ) {
            return None;
        }
        let [_, second] = work.users(work.task(first).rank, product.args[2])[..] else { return None };
        let next = work.call(second)?;
        let Kernel::ActivateBackward { function, .. } = next.kernel else { return None };
        if next.args[0] != product.args[2] {
            return None;
        }
        let mut kernel = product.kernel.clone();
        match &mut kernel {
            Kernel::DenseBackwardData { through, .. } if fusions.contains(&Fusion::DenseThrough(function)) => {
                *through = Some(function);
            }
            Kernel::ConvBackwardData { through, .. } if fusions.contains(&Fusion::ConvThrough(function)) => {
                *through = Some(function);
            }
            _ => return None,
        }
        let mut args = product.args.clone();
        args[2] = next.args[2];
        args.push(next.args[1]);
        Some((second, Call { kernel, args }))
    });
    let Some((second, joined)) = joined else { return Vec::new() };
    work.edit(first, |call| *call = joined);
    work.remove(second);
    vec![second]
}
