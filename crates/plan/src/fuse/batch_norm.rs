//! `activate-backward; batch-gradient-sums; batch-backward` → the two passes of the normalisation take the derivative themselves, and what lies
//! between is never stored.
//!
//! Where a convolution makes the activation's gradient, the derivative has gone into that convolution before: it then reads the activation once,
//! not twice.

use super::{call, users};
use crate::schedule::{Task, TaskKind};
use paceline_base::kernel::{BufferId, Call, Fusion, Kernel};
use paceline_base::op::Activation;

/// Joins derivatives with the batch normalisation before their activation.
pub(super) fn through_activation(tasks: &mut Vec<Task>, fusions: &[Fusion]) {
    let mut derivative = 0;
    while derivative < tasks.len() {
        match find(tasks, derivative, fusions) {
            Some((f, readers)) => join(tasks, derivative, f, &readers),
            None => derivative += 1,
        }
    }
}

/// The activation and the passes that read its derivative, if they all can take it themselves.
fn find(tasks: &[Task], derivative: usize, fusions: &[Fusion]) -> Option<(Activation, Vec<usize>)> {
    let rank = tasks[derivative].rank;
    let slope = call(&tasks[derivative])?;
    let Kernel::ActivateBackward { function, .. } = slope.kernel else { return None };
    let [gradient, saved, between] = slope.args[..] else { return None };
    if !function.derivative_from_output() || !fusions.contains(&Fusion::BatchActivation(function)) {
        return None;
    }
    let users = users(tasks, rank, between);
    let (&first, readers) = users.split_first()?;
    let takes = |&reader: &usize| {
        call(&tasks[reader]).is_some_and(|c| {
            c.args[0] == between
                && !c.args[1..].contains(&between)
                && matches!(
                    c.kernel,
                    Kernel::BatchGradientSums { through: None, .. } | Kernel::BatchBackward { through: None, .. }
                )
        })
    };
    // The gradient and the activation's output are now read later: they must still be there.
    let last = *readers.last()?;
    let kept = |buffer: BufferId| {
        tasks[derivative + 1..=last].iter().all(|task| !task.touches().contains(&(rank, buffer, true)))
    };
    let all = first == derivative && readers.iter().all(takes) && kept(gradient) && kept(saved);
    all.then(|| (function, readers.to_vec()))
}

fn join(tasks: &mut Vec<Task>, derivative: usize, f: Activation, readers: &[usize]) {
    let Some([gradient, saved]) = call(&tasks[derivative]).map(|slope| [slope.args[0], slope.args[1]]) else { return };
    for &reader in readers {
        let TaskKind::Compute(Call { kernel, args }) = &mut tasks[reader].kind else { continue };
        if let Kernel::BatchGradientSums { through, .. } | Kernel::BatchBackward { through, .. } = kernel {
            *through = Some(f);
            args[0] = gradient;
            args.push(saved);
        }
    }
    tasks.remove(derivative);
}
