//! The flags, as typed. What they mean is decided by the commands.

pub(crate) mod doctor;
pub(crate) mod help;
mod launch;
pub(crate) mod matrix;
pub(crate) mod predict;

use clap::{Args, Parser, Subcommand};
pub(crate) use launch::Launch;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  paceline demo
  paceline prepare photos/ shards/ --size 192
  paceline speedtest photos/ shards/
  paceline train --set train.epochs=3 --strategy mirrored
  paceline predict runs/mlp-fashion-sample-1 photo.jpg
  paceline launch --hosts a:2,b:2 --max-restarts 3 -- train cfg.toml
  paceline report runs/demo/*
  paceline config explain train

Exit codes: 0 done, 1 failed, 2 wrong input; stopped before the end by Ctrl-C 130, SIGTERM 143, SIGHUP 129, SIGUSR1 85,
after what is to be kept was saved.";

/// Prepare data, train neural networks in parallel, and see why it is as fast as it is.
#[derive(Parser)]
#[command(name = "paceline", version, about, after_help = EXAMPLES, propagate_version = true)]
pub(crate) struct Cli {
    /// What to say while working: error, warn, info, debug or trace (or a filter such as paceline_run=debug)
    #[arg(long, global = true, default_value = "warn", value_name = "LEVEL", value_parser = log_level)]
    pub log: String,
    #[command(subcommand)]
    pub command: Command,
}

fn log_level(text: &str) -> Result<String, String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    if LEVELS.contains(&text) || text.contains('=') {
        return Ok(text.into());
    }
    Err(format!("give one of {}", LEVELS.join(", ")))
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// A guided first run: train under several strategies, write a report
    Demo(Demo),
    /// Train one network, or resume a run
    Train(Box<Train>),
    /// Use a trained model: the most probable class of every input
    Predict(Box<predict::Predict>),
    /// Loss, accuracy, precision, recall and confusions of a trained model on labelled data
    Evaluate(Box<predict::Evaluate>),
    /// Train over processes and hosts, with restarts
    Launch(Box<Launch>),
    /// List, fetch and look into data sets
    Data(Data),
    /// Turn images into TFRecord shards
    Prepare(Box<Prepare>),
    /// Make some shards of a preparation: what Spark's tasks run
    #[command(hide = true, name = paceline::prepare::job::ShardTask::COMMAND)]
    PrepareShards(PrepareShards),
    /// Study how fast images are read: from files and records, cold and warm, with regressions and plots
    Speedtest(Box<Speedtest>),
    /// Measure cells of a study: what other engines' tasks run
    #[command(hide = true)]
    SpeedtestCells(SpeedtestCells),
    /// Measure what this machine's kernels reach
    Bench(Bench),
    /// Multiply large matrices over ranks
    Matmul(Box<matrix::Matmul>),
    /// Measure this machine, or every host of a job, and warn of what will hurt
    Doctor(doctor::Doctor),
    /// List the runs in a folder: how each stands, what it reached, how fast
    Runs(Runs),
    /// Compare runs in a table and one HTML file
    Report(Report),
    /// Explain the configuration's keys, or check a file
    Config(Config),
    /// Print what a shell needs to complete commands and flags
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: clap_complete::Shell,
    },
    /// Write standard input to a log and to standard output: what processes of `launch --log-dir` run
    #[command(hide = true, name = paceline::launch::COPY_COMMAND)]
    CopyOutput(CopyOutput),
}

#[derive(Args)]
pub(crate) struct CopyOutput {
    /// The log
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

const COMPLETIONS: &str = "\
Examples:
  source <(paceline completions bash)                        in ~/.bashrc
  paceline completions zsh > ~/.zfunc/_paceline              with fpath+=~/.zfunc
  paceline completions fish > ~/.config/fish/completions/paceline.fish";

impl Command {
    /// Whether processes on several hosts do it together.
    pub(crate) fn runs_on_ranks(&self) -> bool {
        matches!(self, Self::Train(_) | Self::Matmul(_) | Self::Doctor(_))
    }
}

#[derive(Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub command: BenchCommand,
}

#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    /// Each kernel of a training step: time, GFLOP/s and share of the peak
    #[command(after_help = "\
Examples:
  paceline bench kernels
  paceline bench kernels --model alexnet --batch 128 --threads 2
  paceline bench kernels --model my-model.toml --input 64x64x3 --classes 10
  paceline bench kernels --forget                   what was measured while the machine was busy

Floating-point operations are counted by the definition of a layer. Winograd's transforms need fewer, so that a
convolution may show more than the peak.")]
    Kernels(BenchKernels),
}

#[derive(Args)]
pub(crate) struct BenchKernels {
    /// A preset, or a model file
    #[arg(long, default_value = "flowers-cnn", value_name = "NAME|FILE")]
    pub model: String,
    /// Shape of a sample; what the preset is known for, if not given
    #[arg(long, value_name = "HxWxC", value_parser = shape)]
    pub input: Option<Shape>,
    /// Number of classes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub classes: Option<u32>,
    /// Samples of a step
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: u32,
    /// Threads of the kernels
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: u32,
    /// Steps that are timed; medians are shown
    #[arg(long, default_value_t = 7, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeats: u32,
    /// Remove the kept choices of convolution kernels and measure nothing: those of this kind of processor, or of all
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "this")]
    pub forget: Option<Forget>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Whose kernel choices are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Forget {
    /// Those of this kind of processor
    This,
    /// All of them
    All,
}

/// A sample's shape, as typed.
#[derive(Clone, Debug)]
pub(crate) struct Shape(pub Vec<usize>);

fn shape(text: &str) -> Result<Shape, String> {
    let axes: Option<Vec<usize>> = text.split('x').map(|n| n.parse().ok().filter(|&n| n > 0)).collect();
    axes.map(Shape).ok_or_else(|| "give positive numbers with x between them, such as 192x192x3".into())
}

#[derive(Args)]
#[command(after_help = "Example:\n  paceline demo --dir /tmp/first-look")]
pub(crate) struct Demo {
    /// Where the demo's folder goes
    #[arg(long, default_value = "runs", value_name = "DIR")]
    pub dir: PathBuf,
}

const TRAIN_EXAMPLES: &str = "\
Examples:
  paceline train                                    an MLP on the embedded Fashion-MNIST sample
  paceline train my.toml --set train.epochs=10      a configuration file, one key changed
  paceline train --set data.name=mnist --strategy mirrored --replicas 2
  paceline train --plan hybrid.toml --explain       the schedule of one step, in words
  paceline train --summary --set model.hidden=[512,512]
  paceline train --set data.name=shards/ --set augment.flip=true --cache memory
  paceline train --resume runs/mlp-fashion-sample-1 --replicas 4
  paceline train runs/mlp-fashion-sample-1/run.toml  the same run again: its layout, kernels and bits

Every key: paceline config explain";

#[derive(Args)]
#[command(after_help = TRAIN_EXAMPLES)]
pub(crate) struct Train {
    /// A configuration file (TOML, with `format = 1`), or RUN/run.toml to repeat a run with its choices
    #[arg(value_name = "CONFIG")]
    pub config: Option<PathBuf>,
    /// Set a key of the configuration; may be given again
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
    /// single, one-device or mirrored (strategy.name)
    #[arg(long, value_name = "NAME")]
    pub strategy: Option<String>,
    /// Replicas of the mirrored strategy: a number or auto
    #[arg(long, value_name = "N")]
    pub replicas: Option<String>,
    /// Threads of each replica: a number or auto
    #[arg(long, value_name = "N")]
    pub threads: Option<String>,
    /// The core of the one-device strategy, such as cpu:0
    #[arg(long, value_name = "CPU:N")]
    pub device: Option<String>,
    /// A plan file: how each operator is split and where its parts run
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Keep decoded images after the first epoch: none, memory or disk (data.cache)
    #[arg(long, value_name = "WHERE")]
    pub cache: Option<String>,
    /// Where the run is written; it must not exist yet
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub run_dir: Option<PathBuf>,
    /// Continue the run in this directory from its newest checkpoint, with its configuration
    #[arg(long, value_name = "DIR")]
    pub resume: Option<PathBuf>,
    /// Print layers, shapes, parameters, FLOPs and memory, and do not train
    #[arg(long)]
    pub summary: bool,
    /// Print the schedule of one step in words, and do not train
    #[arg(long)]
    pub explain: bool,
    /// Print the summary as JSON: of the run at its end, or with --summary that of the model
    #[arg(long)]
    pub json: bool,
    /// No progress and no closing table
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Args)]
pub(crate) struct Data {
    #[command(subcommand)]
    pub command: DataCommand,
}

#[derive(Subcommand)]
pub(crate) enum DataCommand {
    /// The data sets known by name
    #[command(after_help = "Example:\n  paceline data list --json")]
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Fetch a data set into the cache, digests checked
    #[command(
        after_help = "Examples:\n  paceline data get mnist\n  paceline data get fashion-mnist --from ~/downloads"
    )]
    Get {
        /// mnist, fashion-mnist or cifar10
        name: String,
        /// Take the files from this folder
        #[arg(long, value_name = "DIR")]
        from: Option<PathBuf>,
        /// Download from this address instead of the well-known ones
        #[arg(long, value_name = "URL", conflicts_with = "from")]
        url: Option<String>,
    },
    /// What is in a data set, a folder of record shards or photos, or one file of records, images or IDX
    #[command(
        after_help = "Examples:\n  paceline data info fashion-sample\n  paceline data info shards/ --first 5 --png pictures/\n  paceline data info photos.csv --json\n  paceline data info train-00000-of-00016.tfrec --no-verify"
    )]
    Info {
        /// A name or a path
        what: String,
        /// How many of the first records or photos to show
        #[arg(long, value_name = "N", default_value_t = 3)]
        first: usize,
        /// Also write the first images as PNG files into this folder
        #[arg(long, value_name = "DIR")]
        png: Option<PathBuf>,
        /// Do not check the checksums of records
        #[arg(long)]
        no_verify: bool,
        /// Leave out up to N bad records, and list them
        #[arg(long, value_name = "N", default_value_t = 0)]
        skip_bad: usize,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the decoded samples that --cache disk keeps, or clear them
    #[command(after_help = CACHE_EXAMPLES)]
    Cache(DataCache),
}

const CACHE_EXAMPLES: &str = "\
Examples:
  paceline data cache
  paceline data cache --clear --older-than 30d
  paceline data cache --clear 2-5f0c          one, by the beginning of its name
  paceline data cache --json

What a running process reads or writes is never removed. Where that cannot be seen (another host's file under way, a
file system without locks), a file that was used lately is only removed with --force.";

#[derive(Args)]
pub(crate) struct DataCache {
    /// Only these: names as shown, or how they begin
    #[arg(value_name = "NAME", requires = "clear")]
    pub names: Vec<String>,
    /// Remove those that nobody uses
    #[arg(long)]
    pub clear: bool,
    /// Only those that were not used for so long: 12h, 30d, 8w
    #[arg(long, value_name = "AGE", requires = "clear", value_parser = age)]
    pub older_than: Option<std::time::Duration>,
    /// Also those of which it cannot be seen whether they are in use
    #[arg(long, requires = "clear")]
    pub force: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `12h`, `30d`: a number and a unit.
fn age(text: &str) -> Result<std::time::Duration, String> {
    let wrong = || format!("{text:?} is no age: give a number and a unit, such as 90min, 12h, 30d or 8w");
    let at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(at);
    let seconds = match unit {
        "s" => 1,
        "min" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        "w" => 7 * 24 * 3600,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).map(std::time::Duration::from_secs).ok_or_else(wrong)
}

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

#[derive(Args)]
#[command(after_help = "Examples:\n  paceline report runs/demo\n  paceline report runs/a runs/b --html compare.html")]
pub(crate) struct Report {
    /// Run directories, or folders of runs, of which all are taken
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Where the HTML page goes [default: report.html; report-2.html and so on if that is there and no report of these runs]
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Replace the page, whatever is there
    #[arg(long)]
    pub force: bool,
    /// The summaries as JSON, and no page
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  paceline runs\n  paceline runs /share/runs --json\n\nThe oldest run comes first. Folders of runs within the folder, such as runs/demo, are listed below it."
)]
pub(crate) struct Runs {
    /// A folder of runs
    #[arg(default_value = "runs", value_name = "DIR")]
    pub folder: PathBuf,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    pub command: ConfigCommand,
}

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Every key with its type, default and meaning
    #[command(
        after_help = "Examples:\n  paceline config explain\n  paceline config explain optimizer\n  paceline config explain train.batch\n  paceline config explain --json"
    )]
    Explain {
        /// A key or a section
        key: Option<String>,
        /// As JSON: a list of keys
        #[arg(long)]
        json: bool,
    },
    /// Whether a configuration file can be trained: its keys, the files that it names, the data and the model
    #[command(
        after_help = "Examples:\n  paceline config check my.toml\n  paceline config check my.toml --set train.batch=64\n\nNothing is trained or written. The exit code is 0 if it fits, 2 if not."
    )]
    Check {
        /// A configuration file
        file: PathBuf,
        /// Set a key of the configuration; may be given again
        #[arg(long = "set", value_name = "KEY=VALUE")]
        sets: Vec<String>,
    },
}
