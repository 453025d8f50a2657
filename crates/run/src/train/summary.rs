//! What a summary says before training begins, and what of a run is not yet whole.

use crate::local_data::Local;
use crate::resolve::Resolved;
use paceline_base::sample::TargetKind;
use paceline_base::{Result, metric};
use paceline_engine::TrainState;
use paceline_plan::Compression;
use paceline_record::{Exactness, PartialEpoch, RunDir, StepWriter, Summary, read_run};
use paceline_system::machine;
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) fn first_summary(
    r: &Resolved,
    dir: &RunDir,
    writer: &StepWriter,
    resumed: bool,
    progress: TrainState,
) -> Result<Summary> {
    let (mut epochs, mut started, mut seconds) = (Vec::new(), now(), 0.0);
    if resumed {
        let earlier = read_run(dir.path())?;
        epochs = earlier.epochs.into_iter().filter(|e| e.epoch <= progress.epoch).collect();
        if let Some(s) = earlier.summary {
            (started, seconds) = (s.started, s.seconds_total);
        }
    }
    let counted = &r.schedule.metrics;
    let classification = counted.iter().any(|metric| metric.name == metric::ACCURACY);
    Ok(Summary {
        name: dir.name(),
        model: r.graph.name.clone(),
        data: r.config.data.name.clone(),
        strategy: if r.config.strategy.plan.is_some() { "plan".into() } else { r.config.strategy.name.to_string() },
        replicas: r.layout.plan.ranks,
        threads: r.layout.threads,
        plan: r.config.strategy.plan.as_ref().map(|p| p.display().to_string()),
        batch: r.layout.batch.samples() as u64,
        epochs_planned: r.config.train.epochs,
        attempt: writer.attempt(),
        monitor: r.options.monitor,
        metrics: if classification { Vec::new() } else { counted.iter().map(|metric| metric.name.clone()).collect() },
        seconds_total: seconds,
        parameters: r.graph.parameter_count() as u64,
        classes: match r.graph.targets {
            TargetKind::Classes { classes, .. } => Some(classes as u64),
            TargetKind::Numbers { .. } => None,
        },
        validation_samples: r.data.validation_pool().pass as u64,
        test_samples: r.data.test_pool().map_or(0, |pool| pool.pass as u64),
        input: r.data.facts(&r.config),
        arena_bytes: r.schedule.largest_memory() as u64,
        epochs,
        partial: partial(r, &progress),
        reasons: r.reasons.clone(),
        exactness: exactness(r),
        seed: r.config.train.seed,
        started,
        machine: machine::describe(),
        ..Summary::default()
    })
}

/// The epoch that training stands in the middle of.
pub(super) fn partial(r: &Resolved, progress: &TrainState) -> Option<PartialEpoch> {
    let scores = progress.scores;
    (progress.position > 0).then(|| PartialEpoch {
        epoch: progress.epoch + 1,
        steps: progress.position.div_ceil(r.layout.batch.samples() as u64),
        of_steps: r.layout.batch.steps_per_epoch(r.data.samples()) as u64,
        samples: scores.count as u64,
        train_loss: scores.loss(),
        train_accuracy: scores.accuracy(),
        train_absolute_error: scores.absolute_error(),
    })
}

/// Whether the run gives what one worker gives.
fn exactness(r: &Resolved) -> Exactness {
    let spread = r.data.local.as_ref().is_some_and(Local::is_statistical);
    let lossy = r.config.strategy.compression() != Compression::None;
    if spread || lossy { Exactness::Statistical } else { Exactness::Exact }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
