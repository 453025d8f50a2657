//! The flags of `paceline speedtest`, and of what a task of Spark runs of it.

use super::EngineFlags;
use clap::Args;
use std::path::PathBuf;

const SPEEDTEST_EXAMPLES: &str = "\
Examples:
  paceline speedtest photos/ shards/                            files against records, one to two minutes
  paceline speedtest photos/ shards/ --quick                    a first impression
  paceline speedtest shards/ --batch 8,16,32 --batches 4,8 --repetitions 5
  paceline speedtest photos/ shards/ --decode no                reading alone
  paceline report runs/speedtest-1 runs/speedtest-2             two studies in one page

The data-set size is batch size × number of batches. Where a source has fewer images, they are read again from the
first; cold and caching cells of that size are left out. Cold means that the page cache of exactly these files is
dropped before (posix_fadvise), that none of it was left (mincore), and that the system counted it as read from a disk;
where that does not work, it is said and not counted. Variants that cache are measured warm only. With caching, images
that were read and decoded stay in memory for later measurements; with partitioning, the batches are dealt to
partitions that all threads work on. The first of --variants and of --cache-state is measured over the whole grid, the
others in its middle. The order of all measurements is random.";

#[derive(Args)]
#[command(after_help = SPEEDTEST_EXAMPLES)]
pub(crate) struct Speedtest {
    /// Folders of photos or of shards; a csv or tsv of paths and labels; a file of records
    #[arg(required = true, value_name = "DATA")]
    pub sources: Vec<PathBuf>,
    /// Batch sizes [default: 2,4,6,8,12,16,24,32; quick: 4,16,32]
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    pub batch: Vec<usize>,
    /// Numbers of batches [default: 2,4,8,12,16,24; quick: 2,8]
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    pub batches: Vec<usize>,
    /// How often each cell is measured [default: 3; quick: 2]
    #[arg(long, value_name = "N")]
    pub repetitions: Option<usize>,
    /// State of the page cache before each measurement: warm, cold
    #[arg(long, value_delimiter = ',', default_value = "warm,cold", value_name = "STATE,…")]
    pub cache_state: Vec<String>,
    /// Ways of reading: neither, caching, partitioning, both
    #[arg(long, value_delimiter = ',', default_value = "partitioning,neither,caching,both", value_name = "NAME,…")]
    pub variants: Vec<String>,
    /// Measure every variant and cache state over the whole grid
    #[arg(long)]
    pub full: bool,
    /// Fewer values and repetitions: some seconds
    #[arg(long)]
    pub quick: bool,
    #[command(flatten)]
    pub engine: EngineFlags,
    /// Partitions of the partitioning variants: a number, or auto (3 for each core)
    #[arg(long, default_value = "auto", value_name = "N")]
    pub partitions: String,
    /// Threads that work on the partitions (default: one for each core)
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Width and height of the images that come out
    #[arg(long, default_value_t = 192, value_name = "N")]
    pub size: usize,
    /// yes: decode and resize every image; no: read its bytes only
    #[arg(long, default_value = "yes", value_name = "YES|NO")]
    pub decode: String,
    /// Do not check the checksums of records
    #[arg(long)]
    pub no_verify: bool,
    /// Leave out up to N bad images of each source instead of ending at the first
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub skip_bad: usize,
    /// Decides the order of the measurements and which images are taken
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// End after so many seconds with what was measured, or none
    #[arg(long, default_value = "120", value_name = "SECONDS")]
    pub time_limit: String,
    /// Where the run is written; it must not exist yet (default: runs/speedtest-N)
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
    /// Where the page with the plots goes (default: speedtest.html in the run directory)
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print the figures as JSON at the end
    #[arg(long)]
    pub json: bool,
    /// No progress and no tables
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Args)]
pub(crate) struct SpeedtestCells {
    /// Cells, one JSON object a line (default: standard input)
    #[arg(long, value_name = "FILE")]
    pub cells: Option<PathBuf>,
    /// The engine that the measurements are recorded under
    #[arg(long, default_value = "local")]
    pub engine: String,
}
