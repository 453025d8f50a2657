//! A schedule in words, for `paceline train --explain`.

use crate::plan::Plan;
use crate::schedule::{PhaseKind, Schedule, Size, Task, TaskKind};
use paceline_base::Result;
use paceline_base::kernel::{BufferId, Call, Kernel};
use paceline_base::placement::{Holding, Piece, Placement};
use paceline_base::text::{bytes, counted};
use paceline_graph::Graph;
use std::fmt::Write;

/// The steps of one phase, a line each.
pub fn explain(schedule: &Schedule, graph: &Graph, phase: usize) -> String {
    let p = &schedule.phases[phase];
    let what = match p.kind {
        PhaseKind::Train => "training step",
        PhaseKind::Evaluate => "evaluation step",
    };
    let mut out = format!(
        "one {what} of {} on {}, in issue order\n",
        counted(p.samples, "sample"),
        counted(schedule.ranks, "rank")
    );
    for (id, task) in p.tasks.iter().enumerate() {
        let _ = writeln!(out, "{id:>4}  {}  {}{}", who(task), words(schedule, graph, task), waits(task));
    }
    for (rank, arena) in schedule.arenas.iter().enumerate() {
        let _ = writeln!(out, "rank {rank} holds {} of f32 memory", bytes(arena.len as u64 * 4));
    }
    out
}

fn who(task: &Task) -> String {
    match &task.kind {
        TaskKind::Transfer { to, .. } => format!("rank {} → {to}", task.rank),
        TaskKind::Collective { group, .. } => {
            format!("ranks {}", group.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
        }
        _ => format!("rank {}    ", task.rank),
    }
}

fn waits(task: &Task) -> String {
    let list = |lag: usize| -> Vec<String> {
        task.after.iter().filter(|e| e.lag == lag).map(|e| e.task.to_string()).collect()
    };
    let (now, before) = (list(0), list(1));
    let mut out = String::new();
    if !now.is_empty() {
        let _ = write!(out, "  [after {}", now.join(", "));
    }
    if !before.is_empty() {
        let _ =
            write!(out, "{}after {} of the step before", if out.is_empty() { "  [" } else { "; " }, before.join(", "));
    }
    if !out.is_empty() {
        out.push(']');
    }
    out
}

fn words(schedule: &Schedule, graph: &Graph, task: &Task) -> String {
    let node = task.node.map(|n| graph.nodes[n].name.clone()).unwrap_or_default();
    let name = |rank: usize, b: BufferId| schedule.buffers[rank][b.0 as usize].name.clone();
    let (Size::Exact(len) | Size::UpTo { expected: len, .. }) = task.size;
    let size = bytes(len as u64 * 4);
    match &task.kind {
        TaskKind::Begin { .. } => "begin: clear loss and counts".into(),
        TaskKind::Load { rows, region, .. } => {
            format!("load samples {}..{} {region} of the data ({size})", rows.start, rows.end)
        }
        TaskKind::LoadLabels { rows, .. } => format!("load labels {}..{}", rows.start, rows.end),
        TaskKind::Transfer { source, .. } => format!("send {} ({size})", name(task.rank, *source)),
        TaskKind::Collective { what, buffers, .. } => format!("{what} {} ({size})", name(task.rank, buffers[0])),
        TaskKind::Update(call) => format!("update {} ({size})", name(task.rank, call.args[0])),
        TaskKind::Compute(call) => kernel_words(&node, task.part, call),
    }
}

fn kernel_words(node: &str, part: usize, call: &Call) -> String {
    let dense = |d: &paceline_base::kernel::DenseDims| format!("{} samples, {}→{}", d.rows, d.inputs, d.outputs);
    let conv = |d: &paceline_base::window::ConvDims| {
        format!("{} samples, {}→{} channels, {}×{}", d.samples, d.channels, d.out_channels, d.out_height, d.out_width)
    };
    let text = match &call.kernel {
        Kernel::DenseForward { dims, activation, .. } => {
            let then = activation.map(|a| format!(" with {a}")).unwrap_or_default();
            format!("forward{then} ({})", dense(dims))
        }
        Kernel::DenseBackwardData { dims, through } => {
            let then = through.map(|a| format!(" through {a}")).unwrap_or_default();
            format!("gradient of its input{then} ({})", dense(dims))
        }
        Kernel::DenseBackwardWeights { dims, .. } => format!("gradient of its weights ({})", dense(dims)),
        Kernel::DenseBackwardUpdate { dims, .. } => {
            format!("gradient of its weights and their update in one ({})", dense(dims))
        }
        Kernel::ConvForward { dims, activation, pool, .. } => {
            let then = activation.map(|a| format!(" with {a}")).unwrap_or_default();
            let pool = if pool.is_some() { " and the maximum of its windows" } else { "" };
            format!("forward{then}{pool} ({})", conv(dims))
        }
        Kernel::ConvBackwardData { dims, through, .. } => {
            let then = through.map(|a| format!(" through {a}")).unwrap_or_default();
            format!("gradient of its input{then} ({})", conv(dims))
        }
        Kernel::ConvBackwardWeights { dims, .. } => format!("gradient of its weights ({})", conv(dims)),
        Kernel::BatchSums { rows, channels } => format!("sums of {rows} rows by channel ({channels})"),
        Kernel::BatchGradientSums { rows, channels, .. } => {
            format!("sums of the gradient of {rows} rows by channel ({channels})")
        }
        Kernel::MaxPool { dims, .. } | Kernel::AveragePool { dims, .. } => {
            format!("forward ({}×{}×{} of {} samples)", dims.out_height, dims.out_width, dims.channels, dims.samples)
        }
        Kernel::BatchNormalize { rows, channels, .. }
        | Kernel::BatchInfer { rows, channels, .. }
        | Kernel::LayerNorm { rows, channels, .. } => format!("forward ({rows} rows of {channels})"),
        Kernel::LocalResponse(l) => format!("forward ({} rows of {})", l.rows, l.out_channels),
        Kernel::Sum { inputs, len, .. } => format!("sum of {inputs} ({len} elements)"),
        Kernel::MaxPoolBackward { .. }
        | Kernel::AveragePoolBackward { .. }
        | Kernel::BatchBackward { .. }
        | Kernel::LocalResponseBackward(_)
        | Kernel::LayerNormBackwardData { .. } => "gradient of its input".into(),
        Kernel::LayerNormBackwardWeights { .. } => "gradient of its weights".into(),
        Kernel::Activate { len, .. } => format!("forward ({len} elements)"),
        Kernel::ActivateBackward { len, .. } => format!("backward ({len} elements)"),
        Kernel::Dropout { region, .. } => format!("dropout on {region}"),
        Kernel::Loss { rows, gradient, .. } => {
            format!("loss{} of {rows} samples", if *gradient { " and its gradient" } else { "" })
        }
        Kernel::Copy(walk) => format!("copy {} elements", walk.len()),
        Kernel::Add(walk) => format!("add {} elements", walk.len()),
        Kernel::Zero { len } => format!("clear {len} elements"),
        Kernel::Sparsify { len, keep } => format!("keep the {keep} largest of {len} elements"),
        Kernel::Update { .. } => "update".into(),
    };
    format!("{node} part {part}: {text}")
}

/// Where each operator's output lies: split how, on which ranks, and whether each piece is owned, copied or a summand.
pub fn placements(graph: &Graph, plan: &Plan, samples: usize) -> Result<String> {
    let parts = plan.parts(graph, samples)?;
    let mut out = String::from("where each operator runs, and what its pieces are\n");
    for (node, parts) in graph.nodes.iter().zip(&parts.of).filter(|(_, p)| !p.is_empty()) {
        let placement = Placement {
            pieces: parts.iter().map(|p| Piece { rank: p.rank, region: p.needs.output.clone() }).collect(),
            partial: parts.iter().any(|p| p.needs.partial),
        };
        let pieces: Vec<String> = (0..parts.len())
            .map(|i| {
                let holding = match placement.holding(i) {
                    Holding::Owned => "owned",
                    Holding::Copied => "copied",
                    Holding::Partial => "partial",
                };
                format!("rank {} {holding} {}", placement.pieces[i].rank, placement.pieces[i].region)
            })
            .collect();
        let _ = writeln!(out, "  {:<12} {}", node.name, pieces.join(", "));
    }
    Ok(out)
}
