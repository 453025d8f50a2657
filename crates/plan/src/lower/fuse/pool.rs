//! `conv with activation; max-pool` → one kernel that never stores the image between them, and backward the same:
//! the gradients of the convolution read the pool's gradient through its codes, so that nobody spreads it in memory.

use super::super::work::{At, Work};
use crate::key::BufferKey;
use paceline_base::kernel::{Fusion, Kernel};
use paceline_base::op::Activation;
use paceline_base::window::PoolDims;

/// What is joined.
struct Chain {
    conv: At,
    pool: At,
    dims: PoolDims,
    /// In training.
    backward: Option<Backward>,
}

struct Backward {
    unpool: At,
    derivative: At,
    /// The kernels that read the convolution's gradient.
    readers: Vec<At>,
}

/// Joins a convolution with the maximum that follows.
pub(super) fn with_pool(work: &mut Work, conv: At, fusions: &[Fusion]) -> Vec<At> {
    let Some(chain) = find(work, conv, fusions) else { return Vec::new() };
    let backward = chain.backward.iter().flat_map(|b| b.readers.iter().chain([&b.unpool, &b.derivative]));
    let others = std::iter::once(&chain.pool).chain(backward).copied().collect();
    join(work, chain);
    others
}

/// The chain that begins with the convolution `conv`, if all of it can be joined.
fn find(work: &Work, conv: At, fusions: &[Fusion]) -> Option<Chain> {
    let rank = work.task(conv).rank;
    let made = work.call(conv)?;
    let Kernel::ConvForward { activation: Some(f), pool: None, .. } = made.kernel else { return None };
    if !fusions.contains(&Fusion::ConvPool(f)) {
        return None;
    }
    let readers = work.users(rank, made.args[2]);
    let (pool, derivative) = match readers[..] {
        [_, pool] => (pool, None),
        [_, pool, derivative] => (pool, Some(derivative)),
        _ => return None,
    };
    let pooled = work.call(pool)?;
    let Kernel::MaxPool { dims, codes } = pooled.kernel else { return None };
    if pooled.args[0] != made.args[2] || !dims.is_disjoint() || dims.pad != [0, 0] {
        return None;
    }
    let backward = match (derivative, codes) {
        (None, false) => None,
        (Some(derivative), true) => Some(backward(work, rank, derivative, f, made.args[2], pooled.args[2])?),
        _ => return None,
    };
    Some(Chain { conv, pool, dims, backward })
}

/// The backward side: `max-pool-backward; activate-backward; gradients of the convolution`.
fn backward(
    work: &Work,
    rank: usize,
    derivative: At,
    f: Activation,
    output: BufferKey,
    codes: BufferKey,
) -> Option<Backward> {
    let slope = work.call(derivative)?;
    let Kernel::ActivateBackward { function, .. } = slope.kernel else { return None };
    if function != f || slope.args[1] != output {
        return None;
    }
    let [unpool, _] = work.users(rank, slope.args[0])[..] else { return None };
    let spread = work.call(unpool)?;
    if !matches!(spread.kernel, Kernel::MaxPoolBackward { .. })
        || spread.args[2] != slope.args[0]
        || work.users(rank, codes).last() != Some(&unpool)
    {
        return None;
    }
    let readers: Vec<At> = work.users(rank, slope.args[2]).into_iter().filter(|&task| task != derivative).collect();
    let takes = |&task: &At| {
        work.call(task).is_some_and(|c| {
            c.args[0] == slope.args[2]
                && matches!(
                    c.kernel,
                    Kernel::ConvBackwardData { pooled: None, .. } | Kernel::ConvBackwardWeights { pooled: None, .. }
                )
        })
    };
    readers.iter().all(takes).then_some(Backward { unpool, derivative, readers })
}

fn join(work: &mut Work, chain: Chain) {
    let Some(pooled) = work.call(chain.pool).cloned() else { return };
    work.edit(chain.conv, |call| {
        if let Kernel::ConvForward { pool, codes, .. } = &mut call.kernel {
            *pool = Some(chain.dims);
            *codes = chain.backward.is_some();
        }
        call.args[2] = pooled.args[1];
        call.args.extend(pooled.args.get(2));
    });
    work.remove(chain.pool);
    if let Some(backward) = chain.backward {
        let gradient = work.call(backward.unpool).map(|c| c.args[0]);
        for reader in backward.readers {
            work.edit(reader, |call| {
                let at = match &mut call.kernel {
                    Kernel::ConvBackwardData { pooled, .. } => {
                        *pooled = Some(chain.dims);
                        3
                    }
                    Kernel::ConvBackwardWeights { pooled, bias, .. } => {
                        *pooled = Some(chain.dims);
                        3 + usize::from(*bias)
                    }
                    _ => return,
                };
                call.args.insert(at, pooled.args[2]);
                call.args[0] = gradient.unwrap_or(call.args[0]);
            });
        }
        work.remove(backward.unpool);
        work.remove(backward.derivative);
    }
}
