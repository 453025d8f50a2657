//! The fuse pass: the last step of lowering joins the kernel chains that the device says it takes as one.

mod batch_norm;
mod pool;

use crate::schedule::{Bucket, Life, Phase, Schedule, Task, TaskKind};
use paceline_base::kernel::{BufferId, Call, Fusion, Kernel};
use paceline_base::op::Activation;

/// Joins what can be joined, in every phase.
pub(crate) fn fuse(schedule: &mut Schedule, fusions: &[Fusion]) {
    for phase in 0..schedule.phases.len() {
        let tasks = &mut schedule.phases[phase].tasks;
        with_activation(tasks, fusions);
        pool::with_pool(tasks, fusions);
        through_activation(tasks, fusions);
        batch_norm::through_activation(tasks, fusions);
        if fusions.contains(&Fusion::DenseUpdate) {
            dense_update(schedule, phase);
        }
    }
}

fn call(task: &Task) -> Option<&Call> {
    match &task.kind {
        TaskKind::Compute(call) => Some(call),
        _ => None,
    }
}

/// Tasks that touch this very buffer.
fn users(tasks: &[Task], rank: usize, buffer: BufferId) -> Vec<usize> {
    (0..tasks.len()).filter(|&i| tasks[i].touches().iter().any(|t| (t.0, t.1) == (rank, buffer))).collect()
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
fn with_activation(tasks: &mut Vec<Task>, fusions: &[Fusion]) {
    let mut second = 0;
    while second < tasks.len() {
        let joined = call(&tasks[second]).and_then(|next| {
            let Kernel::Activate { function, .. } = next.kernel else { return None };
            let [first, last] = users(tasks, tasks[second].rank, next.args[0])[..] else { return None };
            let Call { mut kernel, mut args } = call(&tasks[first])?.clone();
            let (activation, fusion, output) = before_activation(&mut kernel, function)?;
            if last != second || activation.is_some() || args[output] != next.args[0] || !fusions.contains(&fusion) {
                return None;
            }
            *activation = Some(function);
            args[output] = next.args[1];
            Some((first, Call { kernel, args }))
        });
        match joined {
            Some((first, call)) => {
                tasks[first].kind = TaskKind::Compute(call);
                tasks.remove(second);
            }
            None => second += 1,
        }
    }
}

/// `backward-data; activate-backward` → one kernel, if the derivative is a function of the output.
fn through_activation(tasks: &mut Vec<Task>, fusions: &[Fusion]) {
    let mut first = 0;
    while first < tasks.len() {
        let joined = call(&tasks[first]).and_then(|product| {
            if !matches!(
                product.kernel,
                Kernel::DenseBackwardData { through: None, .. } | Kernel::ConvBackwardData { through: None, .. }
            ) {
                return None;
            }
            let users = users(tasks, tasks[first].rank, product.args[2]);
            let [_, second] = users[..] else { return None };
            let next = call(&tasks[second])?;
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
        if let Some((second, call)) = joined {
            tasks[first].kind = TaskKind::Compute(call);
            tasks.remove(second);
        }
        first += 1;
    }
}

/// `backward-weights; update` → one kernel that never stores the gradient, where one rank alone holds the parameters.
fn dense_update(schedule: &mut Schedule, phase: usize) {
    for number in 0..schedule.buckets.len() {
        if schedule.buckets[number].group.len() > 1 || !schedule.buckets[number].trained {
            continue;
        }
        let rank = schedule.buckets[number].group[0];
        for entry in 0..schedule.buckets[number].entries.len() {
            join_update(schedule, phase, number, rank, entry);
        }
    }
}

/// Element range of a buffer within `root`, if it lies there.
fn range_in(schedule: &Schedule, rank: usize, buffer: BufferId, root: BufferId) -> Option<std::ops::Range<usize>> {
    let b = &schedule.buffers[rank][buffer.0 as usize];
    match b.life {
        _ if buffer == root => Some(0..b.len),
        Life::Within(outer, offset) if outer == root => Some(offset..offset + b.len),
        _ => None,
    }
}

fn join_update(schedule: &mut Schedule, phase: usize, number: usize, rank: usize, entry: usize) {
    let bucket = &schedule.buckets[number];
    let tasks = &schedule.phases[phase].tasks;
    let offset = bucket.entries[entry].offset;
    // The task that computes this entry's gradient, as its weight gradient.
    let touches_at = |task: &Task, root: BufferId, at: usize| {
        let hit = |b: BufferId| range_in(schedule, rank, b, root).is_some_and(|r| r.contains(&at));
        task.rank == rank && task.touches().iter().any(|t| t.0 == rank && hit(t.1))
    };
    let grads: Vec<usize> = (0..tasks.len()).filter(|&i| touches_at(&tasks[i], bucket.grads[0], offset)).collect();
    let [gradient, update] = grads[..] else { return };
    let Some(Call { kernel: Kernel::DenseBackwardWeights { dims, bias }, args }) = call(&tasks[gradient]) else {
        return;
    };
    let TaskKind::Update(Call { kernel: Kernel::Update { rule, .. }, .. }) = &tasks[update].kind else { return };
    let start = |arg: BufferId| range_in(schedule, rank, arg, bucket.grads[0]).map(|r| r.start);
    if start(args[2]) != Some(offset) {
        return; // this entry is the bias: it goes with its weights
    }
    let (dims, bias, rule, l2) = (*dims, *bias, *rule, bucket.entries[entry].l2);
    let bias_at = if bias { start(args[3]) } else { None };
    if let Some(at) = bias_at {
        let users: Vec<usize> = (0..tasks.len()).filter(|&i| touches_at(&tasks[i], bucket.grads[0], at)).collect();
        if users != [gradient, update] {
            return;
        }
    } else if bias {
        return; // weights and bias lie in different buckets
    }
    // The update must come after everybody who still reads the old values.
    let last_reader = (0..tasks.len())
        .filter(|&i| i != update && (touches_at(&tasks[i], bucket.params[0], offset)))
        .max()
        .unwrap_or(gradient)
        .max(gradient);
    let mut new_args = vec![args[0], args[1]];
    let template = tasks[gradient].clone();
    let bucket = bucket.clone();
    for at in std::iter::once(offset).chain(bias_at) {
        let e = bucket.entries.iter().find(|e| e.offset == at).expect("a gradient begins where an entry does");
        new_args.push(view(schedule, &bucket, rank, bucket.params[0], e));
        for state in &bucket.states[0] {
            new_args.push(view(schedule, &bucket, rank, *state, e));
        }
    }
    let Phase { tasks, .. } = &mut schedule.phases[phase];
    if let TaskKind::Update(Call { kernel: Kernel::Update { segments, .. }, .. }) = &mut tasks[update].kind {
        segments.retain(|s| s.start != offset && Some(s.start) != bias_at);
        if segments.is_empty() {
            tasks.remove(update);
        }
    }
    let kernel = Kernel::DenseBackwardUpdate { dims, bias, rule, l2 };
    tasks.insert(last_reader + 1, Task { kind: TaskKind::Compute(Call { kernel, args: new_args }), ..template });
    tasks.remove(gradient);
}

/// The buffer that covers one entry of a bucket-sized buffer; made if it is not there.
fn view(
    schedule: &mut Schedule,
    bucket: &Bucket,
    rank: usize,
    outer: BufferId,
    e: &crate::schedule::BucketEntry,
) -> BufferId {
    let life = Life::Within(outer, e.offset);
    debug_assert!(!bucket.sharded);
    let len = e.region.len();
    let buffers = &mut schedule.buffers[rank];
    if let Some(found) = buffers.iter().position(|b| b.life == life && b.len == len) {
        return BufferId(found as u32);
    }
    let name = format!("{}{} in {}", e.param, e.region, buffers[outer.0 as usize].name);
    buffers.push(crate::schedule::Buffer { name, len, life });
    BufferId(buffers.len() as u32 - 1)
}
