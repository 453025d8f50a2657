//! Writes a run's logits for its validation samples, from its newest checkpoint, as JSON: `{"logits": [[…], …]}`.
//!
//!     cargo run --release --example logits -- runs/lenet-mnist-1 > logits.json
//!
//! It shows how a library user evaluates a checkpoint and reads a layer's values; `tests/interop/cnn_pytorch.sh` compares
//! them with PyTorch's.

use paceline::base::kernel::StepArgs;
use paceline::comm::threads;
use paceline::engine::checkpoint::{latest, restore};
use paceline::engine::{Batch, Rank};
use paceline::kernels::{Device, DeviceOptions};
use paceline::plan::{Batches, PhaseKind, Plan, Settings, TaskKind, lower};
use paceline::{Error, Result};
use std::path::PathBuf;
use std::sync::Arc;

fn main() -> Result<()> {
    let usage = || Error::user("give a run directory");
    let dir = PathBuf::from(std::env::args_os().nth(1).ok_or_else(usage)?);
    let (config, tuning) = paceline::saved(&dir)?;
    let run = paceline::resolve(&config, Some(tuning.clone()))?;
    let no_checkpoint = || Error::user(format!("{} has no checkpoint", dir.display()));
    let (checkpoint, _) = latest(&dir.join("checkpoints"))?.ok_or_else(no_checkpoint)?;
    let in_memory = || Error::user("the samples must be in memory: give IDX files or a set by name");
    let samples = run.data.validation.memory().ok_or_else(in_memory)?;

    let count = samples.len();
    let device = DeviceOptions { tuning: Some(tuning), ..DeviceOptions::default() };
    let batches = Batches { train: Vec::new(), evaluate: vec![count] };
    let settings = Settings::new(run.schedule.rule, device.kind());
    let schedule = Arc::new(lower(&run.graph, &Plan::data_parallel(1), &batches, &settings)?);
    let mut rank = Rank::new(device.make()?, threads(1).swap_remove(0), schedule.clone())?;
    restore(&mut rank, &checkpoint, false)?;
    let phase = schedule.phase(PhaseKind::Evaluate, count).ok_or_else(|| Error::internal("no such step"))?;
    let args = StepArgs { seed: 0, step: 0, rate: 0.0, scale: 1.0 / count as f64 };
    rank.step_now(phase, &Batch::new(&**samples, &|row| row), &args)?;

    // The loss is the last layer, and reads the logits first.
    let last = run.graph.nodes.len() - 1;
    let logits = schedule.phases[phase].tasks().rev().find_map(|(segment, task)| match &task.kind {
        TaskKind::Compute(call) if segment.key.node() == Some(last) => schedule.memory[0].id(phase, call.args[0]),
        _ => None,
    });
    let mut values = vec![0.0; count * run.graph.targets.outputs()];
    rank.device.read(logits.ok_or_else(|| Error::internal("no loss in the schedule"))?, &mut values)?;
    let rows: Vec<&[f64]> = values.chunks(run.graph.targets.outputs()).collect();
    println!("{}", serde_json::json!({ "logits": rows }));
    Ok(())
}
