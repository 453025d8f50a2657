//! Trained models in use: predictions for any data, and how good they are.
//!
//! A [`Predictor`] is opened from a run directory, which holds all it needs: the parameters (a checkpoint), the class names and
//! what is done to an image before the model sees it (`model.json`), and the kernels. Data is opened by
//! [`Predictor::inputs`], decoded by threads beside the computing, and given to the model in the batches in which the run
//! evaluated: the same code with the same numbers as training's own evaluation, so that the outputs are equal in bits.
//!
//! ```
//! use paceline_predict::{Options, Predictor};
//! use paceline_config::Config;
//! use paceline_run::{Place, Silent, train};
//!
//! # let folder = std::env::temp_dir().join(format!("paceline-predict-doc-{}", std::process::id()));
//! let config = Config::from_parts(None, &["data.name=fake:4x4:3:200", "model.hidden=[8]", "train.epochs=1"])?;
//! let run = train(&config, &Place::New(folder.join("run")), &Silent, &false.into())?;
//!
//! let mut predictor = Predictor::open(&run.dir, &Options::default())?;
//! let inputs = predictor.inputs(&["fake:4x4:3:200".into()])?;
//! let mut right = 0;
//! let counts = predictor.predict(&inputs, 1, &mut |prediction| {
//!     right += u32::from(prediction.is_right() == Some(true));
//!     Ok(())
//! })?;
//! assert_eq!((counts.inputs, counts.bad), (233, 0)); // 200 training samples and 33 of the test part
//! assert!(right > 0);
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok::<(), paceline_base::Error>(())
//! ```
//!
//! Rooms: `open` (which run, which checkpoint), `predictor` (the model, batch by batch), `kept` (bad inputs in their place),
//! [`matching`] (classes of the data to those of the model, by name), `predict` and `evaluate` (whole data sets),
//! [`scores`] (precision, recall, confusion: pure), [`lines`] (predictions as csv and JSON).
//!
//! What is absent: nothing here trains, writes into a run directory, takes its lock, or draws.

mod evaluate;
mod kept;
pub mod lines;
pub mod matching;
mod open;
mod predict;
mod predictor;
pub mod scores;

pub use evaluate::Evaluation;
pub use open::Which;
pub use paceline_run::ModelInfo;
pub use predict::{Counts, Number, Prediction, Score};
pub use predictor::{Inputs, Options, PartName, Predictor};
pub use scores::{ClassScores, Confusion, Means};
