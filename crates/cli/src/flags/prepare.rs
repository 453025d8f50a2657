//! The flags of `paceline prepare`, and of what a task of Spark runs of it.

use clap::Args;
use std::path::PathBuf;

const PREPARE_EXAMPLES: &str = "\
Examples:
  paceline prepare photos/ shards/                              192×192, JPEG quality 90, 16 shards
  paceline prepare photos/ shards/ --size 224 --shards 64 --validation 0.2
  paceline prepare labels.csv shards/ --raw --skip-bad 10       path,label lines; decoded bytes instead of JPEG
  paceline prepare photos/ shards/ --engine spark --master spark://head:7077

photos/ has a folder of images (JPEG, PNG, WebP, BMP, GIF) for each class, or train, val and test folders of these, whose
parts are then kept. Interrupted or killed: run the same command again, and it continues. What comes out depends on the images, the settings and the seed alone.";

#[derive(Args)]
#[command(after_help = PREPARE_EXAMPLES)]
pub(crate) struct Prepare {
    /// A folder with a folder of images for each class, or a csv or tsv of path and label
    pub source: PathBuf,
    /// Where the shards and index.json go
    pub destination: PathBuf,
    /// Size of every image: a number, or WIDTHxHEIGHT
    #[arg(long, default_value = "192", value_name = "SIZE")]
    pub size: String,
    /// How an image of another shape gets there: crop, pad or stretch
    #[arg(long, default_value = "crop", value_name = "HOW")]
    pub fit: String,
    /// rgb or grey
    #[arg(long, default_value = "rgb", value_name = "WHICH")]
    pub colour: String,
    /// JPEG quality, 1 to 100
    #[arg(long, default_value_t = 90, value_name = "Q", conflicts_with = "raw")]
    pub quality: u8,
    /// Colour resolution of the JPEGs: 420 (half) or 444 (full)
    #[arg(long, default_value = "420", value_name = "WHICH", conflicts_with = "raw")]
    pub chroma: String,
    /// Store decoded bytes instead of JPEG: larger, and nothing to decode in training
    #[arg(long)]
    pub raw: bool,
    /// Decode every image at full scale before resizing (slower; by default a JPEG is decoded straight to a smaller one)
    #[arg(long)]
    pub full_decode: bool,
    /// How many shards, all parts together
    #[arg(long, default_value_t = 16, value_name = "N")]
    pub shards: usize,
    /// Share of every class that goes into validation shards; not for photos that have a validation part of their own (a val
    /// folder, a csv with a split column), which then becomes these shards
    #[arg(long, default_value_t = 0.0, value_name = "FRACTION")]
    pub validation: f64,
    /// Decides the order of the records and the validation part
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// How shards are packed: none, gzip or zlib
    #[arg(long, default_value = "none", value_name = "HOW")]
    pub packing: String,
    /// Leave out up to N bad images (listed in index.json) instead of ending at the first
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub skip_bad: usize,
    /// Images of a single class are meant
    #[arg(long)]
    pub one_class: bool,
    /// Threads that decode, resize and encode (default: one for each core; under Spark one for each task)
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Threads that read files (default: 2)
    #[arg(long, value_name = "N")]
    pub readers: Option<usize>,
    #[command(flatten)]
    pub engine: EngineFlags,
    /// Partitions of the Spark job: a number, or auto (3 for each core)
    #[arg(long, value_name = "N")]
    pub partitions: Option<String>,
    /// Where the run is recorded; it must not exist yet (default: runs/prepare-N)
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
    /// Print the summary as JSON at the end
    #[arg(long)]
    pub json: bool,
    /// No progress and no closing table
    #[arg(long, short)]
    pub quiet: bool,
}

/// Which engine works on data, and where.
#[derive(Args)]
pub(crate) struct EngineFlags {
    /// local (threads of this process) or spark
    #[arg(long, default_value = "local", value_name = "NAME")]
    pub engine: String,
    /// Spark's master: spark://HOST:PORT, yarn, k8s://…, local[N]
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,
    /// A setting of Spark; may be given again
    #[arg(long = "conf", value_name = "KEY=VALUE")]
    pub conf: Vec<String>,
}

#[derive(Args)]
pub(crate) struct PrepareShards {
    /// The task, as the job that submitted it wrote it
    pub task: String,
}
