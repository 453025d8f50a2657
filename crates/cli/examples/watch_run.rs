//! Follow a run while it goes, and end it when it is good enough.
//!
//!     cargo run --release --example watch_run
//!
//! A [`Watcher`] is told when a run starts, some ten times a second where it stands, and after every epoch. The program's
//! progress bar is one. To end a run, set the flag that it was given: it finishes the step, writes a checkpoint, and can
//! be resumed.

use paceline::record::{EpochRecord, Status};
use paceline::{Config, Place, Started, Watcher};
use std::sync::atomic::AtomicBool;

struct GoodEnough {
    accuracy: f64,
    stop: AtomicBool,
}

impl Watcher for GoodEnough {
    fn started(&self, started: &Started) {
        println!("{}", started.title);
        for reason in &started.reasons {
            println!("why: {reason}");
        }
    }

    fn epoch(&self, epoch: &EpochRecord) {
        let accuracy = epoch.val_accuracy.unwrap_or_default();
        println!("epoch {}: validation accuracy {:.1} %", epoch.epoch, accuracy * 100.0);
        if accuracy >= self.accuracy {
            paceline::request_stop(&self.stop);
        }
    }
}

fn main() -> paceline::Result<()> {
    let watcher = GoodEnough { accuracy: 0.82, stop: AtomicBool::new(false) };
    let config = Config::from_parts(None, &["model.hidden=[64]", "train.epochs=30", "train.batch=64"])?;
    let run = paceline::train(&config, &Place::Auto, &watcher, &watcher.stop)?;
    if run.summary.status == Status::Stopped {
        println!("good enough; to go on: paceline train --resume {}", run.dir.display());
    }
    Ok(())
}
