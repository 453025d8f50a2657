//! The flags of `paceline data`.

use clap::{Args, Subcommand};
use paceline::data::csv::TargetsAre;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Data {
    #[command(subcommand)]
    pub command: DataCommand,
}

#[derive(Subcommand)]
pub(crate) enum DataCommand {
    /// The data sets known by name
    #[command(
        after_help = "Beside these names, data.name takes paths: a folder of record shards, of class folders with images, of IDX files, of\nCIFAR-10 batches, or of train.csv, validation.csv and test.csv; a file of records; a csv of values (numbers or lists of\nindices, with targets); a csv or tsv of path,label. `paceline data info PATH` says what is in one.\n\nExample:\n  paceline data list --json"
    )]
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
    /// What is in a data set, a folder of record shards or photos, or one file of records, values (csv), images or IDX
    #[command(
        after_help = "Examples:\n  paceline data info fashion-sample\n  paceline data info shards/ --first 5 --png pictures/\n  paceline data info photos.csv --json\n  paceline data info houses.csv --target price\n  paceline data info train-00000-of-00016.tfrec --no-verify"
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
        /// Columns of a csv of values that are targets, as data.target [default: the last]
        #[arg(long, value_name = "NAMES", value_delimiter = ',')]
        target: Vec<String>,
        /// What these are, as data.targets: auto, classes or numbers
        #[arg(long, value_name = "KIND", default_value = "auto")]
        targets: TargetsAre,
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
