//! Where samples come from: data sets, their formats, and the order in which samples are visited.
//!
//! A run asks the [`Catalogue`] for a set by name or path and gets a [`DataSet`]: training and test parts with their
//! classes, origin and licence. A [`DataPart`] is [`Samples`] in memory, or a [`Source`] that is decoded as it is read. A [`Split`] sets some aside for validation. An [`Order`] then says
//! which sample stands at which position of which epoch. It is a pure function of (seed, epoch, position), so that any
//! number of workers visits the same samples in the same order, and a resumed run goes on in the middle of an epoch.
//!
//! ```
//! use paceline_data::{Catalogue, Options, Order, Split};
//!
//! // The sample of Fashion-MNIST that is part of the program; `fashion-mnist` would be the full set.
//! let set = Catalogue::from_env().open("fashion-sample", &Options::default())?;
//! let parts = Split::Fraction(0.1).apply(&set, 42)?;
//! assert_eq!((parts.train.len(), parts.validation.len()), (7_200, 800));
//!
//! // The first batch of epoch 0, as floats: one row for each sample.
//! let order = Order::new(parts.train.len(), 42);
//! let size: usize = parts.train.shape().iter().product();
//! let mut batch = vec![0.0; 32 * size];
//! let mut labels = Vec::new();
//! let samples = parts.train.memory().expect("the sample is small and lies in memory");
//! for (position, row) in batch.chunks_exact_mut(size).enumerate() {
//!     let sample = order.at(0, position);
//!     samples.features(sample).copy_to(row);
//!     labels.push(parts.train.label(sample));
//! }
//! assert!(batch.iter().all(|value| (0.0..=1.0).contains(value)));
//! assert!(labels.iter().all(|&label| (label as usize) < parts.train.classes()));
//! # Ok::<(), paceline_data::DataError>(())
//! ```
//!
//! Rooms: `idx`, [`csv`](mod@csv), [`tfrecord`] and [`example`] read and write formats without believing them; [`photos`] lists image files
//! and [`shards`] opens record files as one set; `samples` says what samples are, and holds them; `order`, `visits` and
//! `split` are pure functions; `catalogue` knows names, places and digests; [`info`](mod@info) looks at what is there, and
//! `inputs` opens it to be predicted, labelled or not.
//!
//! What is absent: this crate knows nothing of models or ranks, and never puts one set in another's place.

mod catalogue;
mod cifar;
pub mod csv;
mod error;
pub mod example;
#[cfg(test)]
mod fuzz;
mod idx;
pub mod info;
mod inputs;
#[cfg(test)]
#[path = "../../../tests/not_run.rs"]
mod not_run;
mod order;
pub mod photos;
mod regular;
mod role;
mod samples;
pub mod shards;
mod skip;
mod split;
pub mod tfrecord;
mod visits;

pub use catalogue::{Catalogue, DataSet, Entry, GetProgress, Got, Options, ValidationSet};
pub use error::{CsvError, DataError, ExampleError, MixedCell, PhotoError, RecordError, Result, ShardError};
pub use info::Info;
pub use inputs::{Group, InputOptions};
pub use order::Order;
pub use paceline_base::sample::{FeatureKind, SampleKind, TargetKind};
pub use regular::{LARGEST_IMAGE, open_regular};
pub use role::Role;
pub use samples::{
    DataPart, EncodedImages, Features, ImagesInMemory, Labelled, Lists, Preview, Samples, Scratch, Source, StageTimes,
    Supply, Table, Target, Targets, fingerprint_of, fingerprint_version,
};
pub(crate) use samples::{Fake, FakeSpec, FileImages, ImageSet, RecordImages, Subset, UNLABELLED};
pub(crate) use skip::Skipped;
pub use split::{Indices, Parts, Split, stratified_by};
pub use visits::Visits;
