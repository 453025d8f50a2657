//! `conv with activation; max-pool` → one kernel that never stores the image between them, and backward the same:
//! the gradients of the convolution read the pool's gradient through its codes, so that nobody spreads it in memory.

use super::{call, users};
use crate::schedule::{Task, TaskKind};
use paceline_base::kernel::{BufferId, Call, Fusion, Kernel};
use paceline_base::op::Activation;
use paceline_base::window::PoolDims;

/// What is joined, by task number.
struct Chain {
    conv: usize,
    pool: usize,
    dims: PoolDims,
    /// In training.
    backward: Option<Backward>,
}

struct Backward {
    unpool: usize,
    derivative: usize,
    /// The kernels that read the convolution's gradient.
    readers: Vec<usize>,
}

/// Joins convolutions with the maximum that follows.
pub(super) fn with_pool(tasks: &mut Vec<Task>, fusions: &[Fusion]) {
    let mut first = 0;
    while first < tasks.len() {
        match find(tasks, first, fusions) {
            Some(chain) => join(tasks, chain),
            None => first += 1,
        }
    }
}

/// The chain that begins with the convolution `conv`, if all of it can be joined.
fn find(tasks: &[Task], conv: usize, fusions: &[Fusion]) -> Option<Chain> {
    let rank = tasks[conv].rank;
    let made = call(&tasks[conv])?;
    let Kernel::ConvForward { activation: Some(f), pool: None, .. } = made.kernel else { return None };
    if !fusions.contains(&Fusion::ConvPool(f)) {
        return None;
    }
    let readers = users(tasks, rank, made.args[2]);
    let (pool, derivative) = match readers[..] {
        [_, pool] => (pool, None),
        [_, pool, derivative] => (pool, Some(derivative)),
        _ => return None,
    };
    let pooled = call(&tasks[pool])?;
    let Kernel::MaxPool { dims, codes } = pooled.kernel else { return None };
    if pooled.args[0] != made.args[2] || !dims.is_disjoint() || dims.pad != [0, 0] {
        return None;
    }
    let backward = match (derivative, codes) {
        (None, false) => None,
        (Some(derivative), true) => Some(backward(tasks, rank, derivative, f, made.args[2], pooled.args[2])?),
        _ => return None,
    };
    Some(Chain { conv, pool, dims, backward })
}

/// The backward side: `max-pool-backward; activate-backward; gradients of the convolution`.
fn backward(
    tasks: &[Task],
    rank: usize,
    derivative: usize,
    f: Activation,
    output: BufferId,
    codes: BufferId,
) -> Option<Backward> {
    let slope = call(&tasks[derivative])?;
    let Kernel::ActivateBackward { function, .. } = slope.kernel else { return None };
    if function != f || slope.args[1] != output {
        return None;
    }
    let [unpool, _] = users(tasks, rank, slope.args[0])[..] else { return None };
    let spread = call(&tasks[unpool])?;
    if !matches!(spread.kernel, Kernel::MaxPoolBackward { .. })
        || spread.args[2] != slope.args[0]
        || users(tasks, rank, codes).last() != Some(&unpool)
    {
        return None;
    }
    let readers: Vec<usize> =
        users(tasks, rank, slope.args[2]).into_iter().filter(|&task| task != derivative).collect();
    let takes = |&task: &usize| {
        call(&tasks[task]).is_some_and(|c| {
            c.args[0] == slope.args[2]
                && matches!(
                    c.kernel,
                    Kernel::ConvBackwardData { pooled: None, .. } | Kernel::ConvBackwardWeights { pooled: None, .. }
                )
        })
    };
    readers.iter().all(takes).then_some(Backward { unpool, derivative, readers })
}

fn join(tasks: &mut Vec<Task>, chain: Chain) {
    let Some(pooled) = call(&tasks[chain.pool]).cloned() else { return };
    edit(&mut tasks[chain.conv], |kernel, args| {
        if let Kernel::ConvForward { pool, codes, .. } = kernel {
            *pool = Some(chain.dims);
            *codes = chain.backward.is_some();
        }
        args[2] = pooled.args[1];
        args.extend(pooled.args.get(2));
    });
    let mut gone = vec![chain.pool];
    if let Some(backward) = chain.backward {
        let gradient = call(&tasks[backward.unpool]).map(|c| c.args[0]);
        for reader in backward.readers {
            edit(&mut tasks[reader], |kernel, args| {
                let at = match kernel {
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
                args.insert(at, pooled.args[2]);
                args[0] = gradient.unwrap_or(args[0]);
            });
        }
        gone.extend([backward.unpool, backward.derivative]);
    }
    gone.sort_unstable();
    for task in gone.into_iter().rev() {
        tasks.remove(task);
    }
}

fn edit(task: &mut Task, change: impl FnOnce(&mut Kernel, &mut Vec<BufferId>)) {
    if let TaskKind::Compute(Call { kernel, args }) = &mut task.kind {
        change(kernel, args);
    }
}
