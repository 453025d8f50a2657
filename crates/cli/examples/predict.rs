//! Names the most probable classes of photos.
//!
//!     cargo run --release --example predict -- runs/flowers-1 rose.jpg tulip.jpg

use paceline::predict::{Options, Predictor};
use paceline::{Error, Result};
use std::path::PathBuf;

fn main() -> Result<()> {
    let mut paths = std::env::args_os().skip(1).map(PathBuf::from);
    let run = paths.next().ok_or_else(|| Error::user("give a run directory and photos"))?;
    let mut predictor = Predictor::open(&run, &Options::default())?;
    let inputs = predictor.inputs(&paths.collect::<Vec<_>>())?;
    predictor.predict(&inputs, 3, &mut |prediction| {
        match &prediction.error {
            Some(error) => println!("{error}"),
            None => println!("{}", prediction.input),
        }
        for score in &prediction.top {
            println!("    {:5.1} %  {}", 100.0 * score.probability, score.name);
        }
        Ok(())
    })?;
    Ok(())
}
