//! Where a resumed run goes on from, and what it must say about that.

use crate::resolve::{Resolved, rates};
use paceline_base::{Error, Monitor, Result, text};
use paceline_config::{Auto, Config, ScheduleName};
use paceline_data::fingerprint_version;
use paceline_engine::checkpoint::{self, Checkpoint, Identity};
use paceline_record::RunDir;

/// The newest whole checkpoint that belongs to this run; none if the run was killed before its first.
pub(super) fn find_checkpoint(
    dir: &RunDir,
    identity: &Identity,
    monitor: Monitor,
    notes: &mut Vec<String>,
    warnings: &mut Vec<String>,
) -> Result<Option<Checkpoint>> {
    let Some((found, damaged)) = checkpoint::latest(&dir.checkpoints())? else {
        notes.push("there is no checkpoint yet: training begins at the first step".into());
        return Ok(None);
    };
    warnings.extend(damaged);
    let theirs = &found.manifest.identity;
    let before = &found.manifest.progress;
    let differs = if theirs.model != identity.model {
        let shape =
            |m: &[(String, Vec<usize>)]| m.iter().map(|(n, s)| format!("{n} {s:?}")).collect::<Vec<_>>().join(", ");
        format!("the model: the checkpoint has {}, this run {}", shape(&theirs.model), shape(&identity.model))
    } else if theirs.seed != identity.seed {
        // Before the samples: the seed also decides which of them are held out.
        format!("train.seed: the checkpoint has {}, this run {}", theirs.seed, identity.seed)
    } else if theirs.data != identity.data && fingerprint_version(&theirs.data) != fingerprint_version(&identity.data) {
        let other = if fingerprint_version(&theirs.data) < fingerprint_version(&identity.data) {
            "an older"
        } else {
            "a newer"
        };
        return Err(Error::user(format!(
            "cannot resume {}: {other} version of paceline wrote its checkpoints and identified the training samples in \
             another way, so that it cannot be told whether they are the same; finish the run with that version, or begin a \
             new run",
            dir.path().display()
        )));
    } else if theirs.data != identity.data {
        "the training samples (data.name, data.validation or the files themselves)".into()
    } else if theirs.rule != identity.rule {
        format!("the optimizer: the checkpoint has {:?}, this run {:?}", theirs.rule, identity.rule)
    } else if theirs.batch != identity.batch {
        format!("train.batch: the checkpoint has {}, this run {}", theirs.batch, identity.batch)
    } else if before.best.is_some() && before.monitor != monitor {
        // The best checkpoint by the other value is no longer there.
        let (theirs, ours) = (before.monitor.words(), monitor.words());
        format!("train.monitor: the best checkpoint so far is that by {theirs}, not by {ours}")
    } else {
        checkpoint::set_aside_newer(&dir.checkpoints(), found.manifest.progress.step)?;
        notes.push(format!("going on from {}", found.path.display()));
        return Ok(Some(found));
    };
    Err(Error::user(format!(
        "cannot resume {}: it differs in {differs}; drop the settings that changed it, or begin a new run",
        dir.path().display()
    )))
}

/// What becomes of what top-k compression held back on so many ranks, if the run goes on otherwise than it would have unbroken.
pub(super) fn held_back_note(held: usize, sparse: bool, ranks: usize) -> Option<String> {
    const WHAT: &str = "what strategy.compress = \"top-k\" held back of gradients";
    const DIFFERS: &str = "and differs from an unbroken one";
    match (held, sparse) {
        (0, false) => None,
        (0, true) => Some(format!("{WHAT} is not in this checkpoint: this run goes on without it, {DIFFERS}")),
        (_, false) => Some(format!("{WHAT} is in this checkpoint, but this run has no use for it: it is dropped")),
        (held, true) if held == ranks => None,
        (held, true) => Some(format!(
            "{WHAT} was on {}, and this run has {ranks}: that of rank r goes to rank r modulo {ranks}, so that all of it \
             is kept; this run rounds otherwise, {DIFFERS}",
            text::counted(held, "rank")
        )),
    }
}

/// What a resume with other settings does to the learning rate, if it does anything.
pub(super) fn rate_note(before: &Config, resolved: &Resolved, from: &Checkpoint) -> Option<String> {
    let (now, step) = (&resolved.config, from.manifest.progress.step);
    let per_epoch = resolved.layout.batch.steps_per_epoch(resolved.data.samples()) as u64;
    let (old, new) = (rates(before, per_epoch), &resolved.options.rate);
    let end = (per_epoch * now.train.epochs).max(step + 1);
    // At a handful of steps on the way: schedules that agree there agree.
    if (0..=64).map(|i| step + (end - 1 - step) * i / 64).all(|at| old(at) == new(at)) {
        return None;
    }
    let at = |rate: f64, step: u64| format!("{} at step {step}", number(rate));
    let mut words = format!(
        "the learning rate changes with this resume: {} before, {} now",
        at(old(step.saturating_sub(1)), step.saturating_sub(1)),
        at(new(step), step)
    );
    let epochs = (before.train.epochs, now.train.epochs);
    if now.schedule.name == ScheduleName::Cosine && now.schedule.length == Auto::Auto && epochs.0 != epochs.1 {
        words += &format!(
            ", because cosine comes down over {1} epochs instead of {0}. The result is not that of {1} epochs from the start; \
             schedule.length = {0} keeps the old curve ({2})",
            epochs.0,
            epochs.1,
            at(old(step), step)
        );
    }
    Some(words)
}

/// A rate in few digits: 0.001, 7.5e-4, 2.7e-8.
fn number(rate: f64) -> String {
    if rate == 0.0 || (1e-3..1e4).contains(&rate) {
        format!("{:.4}", rate).trim_end_matches('0').trim_end_matches('.').into()
    } else {
        format!("{rate:.2e}")
    }
}
