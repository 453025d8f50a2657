//! `activate-backward; batch-gradient-sums; batch-backward` → the two passes of the normalisation take the derivative themselves, and what lies
//! between is never stored.
//!
//! Where a convolution makes the activation's gradient, the derivative has gone into that convolution before: it then reads the activation once,
//! not twice.

use super::super::work::{At, Work};
use crate::key::BufferKey;
use paceline_base::kernel::{Fusion, Kernel};
use paceline_base::op::Activation;

/// Joins a derivative with the batch normalisation before its activation.
pub(super) fn through_activation(work: &mut Work, derivative: At, fusions: &[Fusion]) -> Vec<At> {
    let Some((f, readers)) = find(work, derivative, fusions) else { return Vec::new() };
    join(work, derivative, f, &readers);
    readers
}

/// The activation and the passes that read its derivative, if they all can take it themselves.
fn find(work: &Work, derivative: At, fusions: &[Fusion]) -> Option<(Activation, Vec<At>)> {
    let rank = work.task(derivative).rank;
    let slope = work.call(derivative)?;
    let Kernel::ActivateBackward { function, .. } = slope.kernel else { return None };
    let [gradient, saved, made] = slope.args[..] else { return None };
    if !function.derivative_from_output() || !fusions.contains(&Fusion::BatchActivation(function)) {
        return None;
    }
    let users = work.users(rank, made);
    let (&first, readers) = users.split_first()?;
    let takes = |&reader: &At| {
        work.call(reader).is_some_and(|c| {
            c.args[0] == made
                && !c.args[1..].contains(&made)
                && matches!(
                    c.kernel,
                    Kernel::BatchGradientSums { through: None, .. } | Kernel::BatchBackward { through: None, .. }
                )
        })
    };
    // The gradient and the activation's output are now read later: they must still be there, so that nobody may write them in between.
    let last = *readers.last()?;
    let between = derivative..=last;
    let kept = |buffer: BufferKey| {
        let users = work.users(rank, buffer);
        !users.iter().any(|&at| at != derivative && between.contains(&at) && work.task(at).writes_buffer(rank, buffer))
    };
    let all = first == derivative && readers.iter().all(takes) && kept(gradient) && kept(saved);
    all.then(|| (function, readers.to_vec()))
}

fn join(work: &mut Work, derivative: At, f: Activation, readers: &[At]) {
    let Some([gradient, saved]) = work.call(derivative).map(|slope| [slope.args[0], slope.args[1]]) else { return };
    for &reader in readers {
        work.edit(reader, |call| {
            if let Kernel::BatchGradientSums { through, .. } | Kernel::BatchBackward { through, .. } = &mut call.kernel
            {
                *through = Some(f);
                call.args[0] = gradient;
                call.args.push(saved);
            }
        });
    }
    work.remove(derivative);
}
