//! Data on its way: images to record shards, batches for training, throughput studies; on threads or on Spark.
//!
//! Everything here is a pipeline of stages with bounded queues between them, and every stage counts how long it worked
//! and how long it waited: so memory stays bounded whatever the number of files, and the slow stage has a name.
//!
//! A preparation is a job: [`job::begin`] takes the output directory, lists the images and finds out which shards an earlier run
//! has finished; [`job::Job::run`] makes the others on threads of this process, or tasks of other processes make them
//! ([`job::ShardTask`]) and [`job::Job::collect`] gathers what they made. The images, the settings and the seed decide every byte.
//!
//! ```
//! use paceline_image::{Pixels, encode_png};
//! use paceline_prepare::job::{self, Begun, JobSpec, SettingNames, Settings, Threads};
//!
//! # let folder = std::env::temp_dir().join(format!("paceline-prepare-doc-{}", std::process::id()));
//! // Six photos of two classes.
//! for (number, class) in ["elk", "owl"].into_iter().cycle().take(6).enumerate() {
//!     let photo = encode_png(&Pixels { width: 12, height: 8, channels: 1, data: vec![40 * number as u8; 96] }).unwrap();
//!     std::fs::create_dir_all(folder.join("photos").join(class)).unwrap();
//!     std::fs::write(folder.join("photos").join(class).join(format!("{number}.png")), photo).unwrap();
//! }
//! let spec = JobSpec {
//!     source: folder.join("photos"),
//!     destination: folder.join("shards"),
//!     settings: Settings { width: 8, height: 8, shards: 2, ..Settings::default() },
//!     skip_bad: 0,
//!     one_class: false,
//!     names: SettingNames::default(),
//! };
//! let Begun::Job(job) = job::begin(&spec)? else { panic!("the folder is new") };
//! let threads = Threads { readers: 1, workers: 2 };
//! let (prepared, progress) = job.run(threads, &mut |_| (), &false.into())?;
//! assert_eq!((prepared.records(), prepared.index.shards.len(), progress.images), (6, 2, 6));
//!
//! // The same again: all of it is there.
//! assert!(matches!(job::begin(&spec)?, Begun::Complete(_)));
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok::<(), paceline_base::Error>(())
//! ```
//!
//! Rooms: [`feed`] makes batches ready for training; [`job`] turns images into shards; [`spark`] runs parts of a job on a
//! cluster; [`speedtest`] measures how fast images are read.
//!
//! What is absent: nothing here trains or prints.

pub mod feed;
pub mod job;
mod panic;
mod queue;
pub mod spark;
pub mod speedtest;
mod stage;
