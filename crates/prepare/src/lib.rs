//! Data on its way: images to record shards, batches for training, throughput studies; on threads or on Spark.
//!
//! Everything here is a pipeline of stages with bounded queues between them, and every stage counts how long it worked
//! and how long it waited: so memory stays bounded whatever the number of files, and the slow stage has a name.
//!
//! Rooms: [`feed`] makes batches ready for training; [`job`] turns images into shards; [`spark`] runs parts of a job on a
//! cluster; [`speedtest`] measures how fast images are read; [`stage`] counts.
//!
//! What is absent: nothing here trains, prints, or knows flags.

pub mod feed;
pub mod job;
mod panic;
mod queue;
pub mod spark;
pub mod speedtest;
pub mod stage;
