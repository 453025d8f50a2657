//! The library in ten lines: train an MLP on the embedded sample of Fashion-MNIST, and say what came out.
//!
//!     cargo run --release --example train_mlp
//!
//! Settings are the keys of `paceline config explain`. The run is written to a new folder in `runs`, like one of
//! `paceline train`, so that `paceline report` and `paceline train --resume` take it from there.

use paceline::{Config, Place, Silent};

fn main() -> paceline::Result<()> {
    let sets = ["model.hidden=[64]", "train.epochs=3", "train.batch=64", "strategy.name=mirrored"];
    let config = Config::from_parts(None, &sets)?;
    // `Silent` shows nothing while it goes; set the last argument to true, from anywhere, to stop after the current step.
    let run = paceline::train(&config, &Place::Auto, &Silent, &false.into())?;
    println!("{}", paceline::report::closing_table(&run.summary, None, paceline::report::Style::default()));
    println!("run: {}", run.dir.display());
    Ok(())
}
