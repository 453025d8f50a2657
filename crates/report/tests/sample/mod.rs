//! Run directories that look like real ones, for tests and for looking at the page.
#![allow(dead_code)]

use std::path::Path;

use paceline_base::{Monitor, TimeSplit};
use paceline_record::{EpochRecord, Exactness, RunData, RunDir, Status, StepRecord, Summary, read_run};
use paceline_system::Machine;

/// What a sample run should look like.
#[derive(Clone)]
pub(crate) struct Sample {
    pub name: String,
    pub strategy: &'static str,
    pub replicas: usize,
    pub batch: u64,
    pub epochs: u64,
    /// How fast the loss falls.
    pub pace: f64,
    /// How much validation gets worse again.
    pub over_fit: f64,
    /// Share of the time that ranks other than 0 wait.
    pub wait: f64,
    pub validation: bool,
    /// Targets are numbers: no accuracy is counted, but absolute errors.
    pub numbers: bool,
}

impl Default for Sample {
    fn default() -> Self {
        Self {
            name: "single-32".into(),
            strategy: "single",
            replicas: 1,
            batch: 32,
            epochs: 12,
            pace: 0.35,
            over_fit: 0.0,
            wait: 0.02,
            validation: true,
            numbers: false,
        }
    }
}

/// A noise that is the same in every run of the tests.
fn noise(i: u64) -> f64 {
    let mixed = (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ (mixed >> 31)) % 1000) as f64 / 1000.0 - 0.5
}

impl Sample {
    fn split(&self, rank: usize, seconds: f64) -> TimeSplit {
        let wait = if rank == 0 { self.wait / 4.0 } else { self.wait };
        let transfer = if self.replicas > 1 { 0.06 } else { 0.0 };
        let (input, update, checkpoint) = (0.04, 0.05, 0.01);
        let compute = 1.0 - wait - transfer - input - update - checkpoint;
        TimeSplit {
            input: input * seconds,
            compute: compute * seconds,
            wait: wait * seconds,
            transfer: transfer * seconds,
            update: update * seconds,
            checkpoint: checkpoint * seconds,
        }
    }

    /// Writes the run and reads it back.
    pub(crate) fn write(&self, folder: &Path) -> RunData {
        let path = folder.join(self.name.replace(['/', '<', '>'], "_"));
        let dir = RunDir::create(&path).unwrap();
        dir.write_run_toml(&toml::toml! {
            seed = 7
            [model]
            name = "cnn"
            [train]
            epochs = 12
            rate = 0.05
            note = "see https://example.org/<here>"
        })
        .unwrap();
        let writer = dir.begin_steps().unwrap();
        let per_epoch = 3000 / self.batch.max(1) + 1;
        let speed = 5200.0 * (self.replicas as f64).powf(0.8) * (1.0 - self.wait);
        let seconds = 50_000.0 / speed;
        let mut epochs = Vec::new();
        for epoch in 1..=self.epochs {
            let x = epoch as f64;
            let loss_at = |x: f64| 0.12 + 2.1 * (-self.pace * x).exp();
            for i in 0..per_epoch {
                let step = (epoch - 1) * per_epoch + i;
                let loss = loss_at(x - 1.0 + i as f64 / per_epoch as f64) * (1.0 + 0.25 * noise(step));
                for rank in 0..self.replicas {
                    writer.push(StepRecord {
                        epoch,
                        step,
                        rank: rank as u32,
                        samples: self.batch,
                        share: Some(self.batch / self.replicas as u64),
                        batch: self.batch,
                        loss,
                        accuracy: (!self.numbers).then_some((-loss / 2.0).exp()),
                        absolute_error: self.numbers.then_some(loss / 3.0),
                        rate: 0.05,
                        examples_per_s: speed,
                        split: self.split(rank, seconds / per_epoch as f64),
                        ..StepRecord::default()
                    });
                }
            }
            let val_loss = loss_at(x) * 1.1 + 0.05 + self.over_fit * (x - 4.0).max(0.0) + 0.01 * noise(epoch * 77);
            let record = EpochRecord {
                attempt: 1,
                epoch,
                step: epoch * per_epoch,
                rate: 0.05,
                train_loss: loss_at(x),
                train_accuracy: (!self.numbers).then_some((1.0 - loss_at(x) / 2.8).clamp(0.1, 0.999)),
                train_absolute_error: self.numbers.then_some(loss_at(x) / 3.0),
                val_loss: self.validation.then_some(val_loss),
                val_accuracy: (self.validation && !self.numbers).then_some((1.0 - val_loss / 2.8).clamp(0.1, 0.99)),
                val_absolute_error: (self.validation && self.numbers).then_some(val_loss / 3.0),
                seconds,
                eval_seconds: seconds / 12.0,
                examples_per_s: speed,
            };
            epochs.push(record);
            writer.push_epoch(record);
        }
        writer.finish().unwrap();
        let mut summary = Summary {
            name: self.name.clone(),
            model: "cnn".into(),
            data: "fashion-mnist".into(),
            strategy: self.strategy.into(),
            replicas: self.replicas,
            threads: 2,
            batch: self.batch,
            epochs_planned: self.epochs,
            status: Status::Done,
            seconds_total: seconds * self.epochs as f64 * 1.1,
            examples_per_s: speed,
            parameters: 421_642,
            monitor: if self.numbers { Monitor::ValLoss } else { Monitor::ValAccuracy },
            metrics: self
                .numbers
                .then(|| ["loss", "absolute error", "samples"].map(String::from))
                .into_iter()
                .flatten()
                .collect(),
            classes: (!self.numbers).then_some(10),
            peak_rss_bytes: 312 << 20,
            arena_bytes: 48 << 20,
            split: (0..self.replicas).map(|rank| self.split(rank, seconds * self.epochs as f64)).collect(),
            epochs,
            reasons: vec![
                format!("{} replicas: the batch of {} is shared by them evenly", self.replicas, self.batch),
                "every step is recorded: at 8.100 ms a step that is 123.5 records/s and 0.03 % of the time".into(),
            ],
            exactness: if self.strategy.contains("async") { Exactness::Statistical } else { Exactness::Exact },
            seed: 7,
            started: 1_773_500_940,
            machine: Machine {
                cpu: "AMD EPYC 7B13".into(),
                cores: 8,
                os: "Debian GNU/Linux 13, linux 6.12".into(),
                memory_bytes: 32 << 30,
            },
            ..Summary::default()
        };
        summary.derive_figures();
        summary.test_accuracy = summary.best_val_accuracy.map(|a| a - 0.004);
        summary.test_absolute_error = summary.best_val_absolute_error.map(|e| e + 0.01);
        summary.test_loss = summary.best_val_loss.map(|l| l + 0.01);
        dir.write_summary(&summary).unwrap();
        read_run(&path).unwrap()
    }
}

/// Four runs as somebody would compare them.
pub(crate) fn four(folder: &Path) -> Vec<RunData> {
    let sample = Sample::default;
    [
        sample(),
        Sample { name: "single-128".into(), batch: 128, pace: 0.2, ..sample() },
        Sample {
            name: "mirrored-x4".into(),
            strategy: "mirrored",
            replicas: 4,
            batch: 128,
            pace: 0.3,
            wait: 0.12,
            ..sample()
        },
        Sample {
            name: "async-x4".into(),
            strategy: "ps-async",
            replicas: 4,
            batch: 128,
            pace: 0.5,
            wait: 0.38,
            over_fit: 0.04,
            ..sample()
        },
    ]
    .iter()
    .map(|sample| sample.write(folder))
    .collect()
}

/// Ten runs, which is as many as have a colour of their own.
pub(crate) fn ten(folder: &Path) -> Vec<RunData> {
    (0..10)
        .map(|i| {
            let replicas = 1 << (i % 4);
            Sample {
                name: format!("sweep-{i:02}-batch-{}-replicas-{replicas}", 32 << (i / 4)),
                strategy: if replicas == 1 { "single" } else { "mirrored" },
                replicas,
                batch: 32 << (i / 4),
                pace: 0.15 + 0.05 * i as f64,
                wait: 0.03 * i as f64,
                over_fit: if i % 3 == 2 { 0.03 } else { 0.0 },
                ..Sample::default()
            }
            .write(folder)
        })
        .collect()
}
