//! The guided first run: softmax regression, an MLP and a small CNN, alone, mirrored and under a hybrid plan; then a report.

use crate::train::{Finished, Place, train};
use crate::watch::Watcher;
use paceline_base::{Error, Result};
use paceline_config::Config;
use paceline_data::{Catalogue, Options};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The hybrid plan of the demo: the big layer is split over its outputs, the small one over its inputs.
const PLAN: &str = "\
# Model parallel: each rank holds half of the hidden layer's outputs, and half of the last layer's inputs.
# The last layer's partial sums are added in part order.
format = 1
ranks = 2

[operators.hidden1]
split = { out = 2 }

[operators.logits]
split = { in = 2 }
";

/// An error if the demo was asked to end: a part of it tells nothing.
fn unless_stopped(stop: &AtomicBool) -> Result<()> {
    match stop.load(Ordering::Relaxed) {
        true => Err(Error::stopped("the demo was interrupted; run it again, it takes under a minute")),
        false => Ok(()),
    }
}

/// What the demo is about to do.
pub struct DemoStep<'a> {
    /// Number of this run, from 1.
    pub number: usize,
    /// Runs in all.
    pub of: usize,
    /// What it shows.
    pub what: &'a str,
}

/// Runs the demo in a new folder below `base` and returns the runs and the report's path.
pub fn demo(
    base: &Path,
    announce: &mut dyn FnMut(DemoStep<'_>),
    watcher: &dyn Watcher,
    stop: &AtomicBool,
) -> Result<(Vec<Finished>, PathBuf, String)> {
    let (set, why) = Catalogue::from_env().fashion_best(&Options { seed: 1, ..Options::default() })?;
    let full = set.train.len() > 20_000;
    let folder = std::iter::once(base.join("demo"))
        .chain((2..).map(|n| base.join(format!("demo-{n}"))))
        .find(|p| !p.exists())
        .unwrap_or_default();
    std::fs::create_dir_all(&folder).map_err(|e| Error::io("create", &folder, &e))?;
    let plan = folder.join("hybrid-plan.toml");
    std::fs::write(&plan, PLAN).map_err(|e| Error::io("write", &plan, &e))?;
    let plan_setting = format!("strategy.plan={}", plan.display());
    let epochs = format!("train.epochs={}", if full { 4 } else { 8 });
    let fewer = format!("train.epochs={}", if full { 2 } else { 4 });
    let data = format!("data.name={}", set.name);
    let softmax = ["model.preset=softmax", "optimizer.name=sgd", "optimizer.rate=0.1", "train.batch=100"];
    let mlp = ["model.preset=mlp", "model.hidden=[128]", "train.batch=128", "optimizer.rate=0.002"];
    let cnn = ["model.preset=lenet", "train.batch=128", "strategy.threads=1", &fewer];
    let (single, mirrored): (&[&str], &[&str]) = (&["strategy.name=single"], &["strategy.name=mirrored"]);
    let runs: [(&str, &str, &[&str], &[&str]); 7] = [
        ("softmax-single", "softmax regression, one replica", &softmax, single),
        ("softmax-mirrored", "softmax regression, mirrored over the cores", &softmax, mirrored),
        ("mlp-single", "an MLP with 128 hidden units, one replica", &mlp, single),
        ("mlp-mirrored", "the same MLP, mirrored over the cores", &mlp, mirrored),
        ("mlp-hybrid", "the same MLP under a hybrid plan: layers split over two ranks", &mlp, &[&plan_setting]),
        ("cnn-single", "a small convolutional network (LeNet) on one core", &cnn, single),
        (
            "cnn-mirrored",
            "the same CNN, a replica on each of two cores",
            &cnn,
            &["strategy.name=mirrored", "strategy.replicas=2"],
        ),
    ];
    let mut finished = Vec::new();
    for (i, (name, what, settings, strategy)) in runs.iter().enumerate() {
        unless_stopped(stop)?;
        announce(DemoStep { number: i + 1, of: runs.len(), what });
        let mut sets = vec![data.as_str(), epochs.as_str(), "schedule.name=cosine"];
        sets.extend(*strategy);
        sets.extend(settings.iter());
        let config = Config::from_parts(None, &sets)?;
        finished.push(train(&config, &Place::New(folder.join(name)), watcher, stop)?);
    }
    unless_stopped(stop)?;
    let data: Vec<_> = finished.iter().map(|f| paceline_record::read_run(&f.dir)).collect::<Result<_>>()?;
    let report = folder.join("report.html");
    paceline_report::write_html(&report, &data)?;
    Ok((finished, report, why))
}
