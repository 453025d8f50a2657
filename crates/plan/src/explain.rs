//! A schedule in words, for `paceline train --explain`.

use crate::hash::HashMap;
use crate::key::{SegmentKey, TaskKey};
use crate::plan::Plan;
use crate::schedule::{Await, Bucket, PhaseKind, Schedule, Segment, Task, TaskKind};
use paceline_base::Result;
use paceline_base::placement::{Holding, Piece, Placement};
use paceline_base::text::{bytes, counted};
use paceline_graph::Graph;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

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
    let waits = Waits::of(schedule, phase);
    for (id, (segment, task)) in p.tasks().enumerate() {
        let key = TaskKey { segment: segment.key, index: task.index };
        let _ = writeln!(
            out,
            "{id:>4}  {}  {}{}",
            who(task),
            words(schedule, graph, segment, task),
            waits.words(key, task)
        );
    }
    for (rank, memory) in schedule.memory.iter().enumerate() {
        let _ = writeln!(
            out,
            "rank {rank} holds {} of {} memory",
            bytes(memory.arena.bytes as u64),
            format!("{:?}", schedule.dtypes[rank]).to_lowercase()
        );
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

/// What is waited for before each task.
struct Waits {
    /// Messages, by their number in the list.
    messages: HashMap<TaskKey, BTreeSet<usize>>,
    /// Buckets of which the step before may have left something.
    buckets: HashMap<TaskKey, BTreeSet<usize>>,
}

impl Waits {
    fn of(schedule: &Schedule, phase: usize) -> Self {
        let mut waits = Self { messages: HashMap::default(), buckets: HashMap::default() };
        for (id, (_, task)) in schedule.phases[phase].tasks().enumerate() {
            for awaited in &task.awaited {
                if let Await::Before(key) = awaited {
                    waits.messages.entry(*key).or_default().insert(id);
                }
            }
        }
        for (bucket, uses) in schedule.phases[phase].first_uses.iter().enumerate() {
            for key in uses.iter().flatten() {
                waits.buckets.entry(*key).or_default().insert(bucket);
            }
        }
        waits
    }

    fn words(&self, key: TaskKey, task: &Task) -> String {
        let list = |numbers: &BTreeSet<usize>| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let mut words: Vec<String> = Vec::new();
        words.extend(self.messages.get(&key).map(|m| format!("waits for {}", list(m))));
        words.extend(self.buckets.get(&key).map(|b| format!("after the last step's update of bucket {}", list(b))));
        if task.stage > 0 {
            words.push("left to the next step".into());
        }
        if words.is_empty() { String::new() } else { format!("  [{}]", words.join("; ")) }
    }
}

fn words(schedule: &Schedule, graph: &Graph, segment: &Segment, task: &Task) -> String {
    let node = segment.key.node().map(|n| graph.nodes[n].name.clone()).unwrap_or_default();
    let size = bytes((task.size * schedule.dtypes[task.rank].size()) as u64);
    let bucket = || {
        let of = |b: &Arc<Bucket>| [SegmentKey::Update(b.key), SegmentKey::Exchange(b.key)].contains(&segment.key);
        schedule.buckets.iter().position(of).map_or(String::new(), |number| format!("bucket {number}"))
    };
    match &task.kind {
        TaskKind::ClearMetrics => "clear the metrics".into(),
        TaskKind::Load { rows, region, .. } => {
            format!("load samples {}..{} {region} of the data ({size})", rows.start, rows.end)
        }
        TaskKind::LoadLists { rows, entries, .. } => {
            format!("load lists of samples {}..{}, at most {entries} indices", rows.start, rows.end)
        }
        TaskKind::LoadTargets { rows, .. } => format!("load targets {}..{}", rows.start, rows.end),
        TaskKind::Transfer { region, .. } => {
            let gradient = if matches!(segment.key, SegmentKey::Gradient { .. }) { " gradient" } else { "" };
            format!("send {node} {region}{gradient} ({size})")
        }
        TaskKind::Collective { what, .. } => {
            let of = match segment.key {
                SegmentKey::Metrics => "the metrics".into(),
                SegmentKey::Exchange(_) => format!("gradients of {}", bucket()),
                SegmentKey::Update(_) => format!("parameters of {}", bucket()),
                _ => format!("sums of {node}"),
            };
            format!("{what} {of} ({size})")
        }
        TaskKind::Update(_) => {
            let shared = schedule.buckets.iter().find(|b| b.sharded && segment.key == SegmentKey::Update(b.key));
            let share = shared.map(|b| b.state_range(task.part));
            let share = share.map_or(String::new(), |share| format!("{}..{} ", share.start, share.end));
            format!("update parameters {share}of {} ({size})", bucket())
        }
        TaskKind::Compute(call) => format!("{node} part {}: {}", task.part, call.kernel),
    }
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
