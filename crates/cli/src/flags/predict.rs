//! The flags of `paceline predict` and `paceline evaluate`.

use clap::{Args, ValueEnum};
use paceline::predict::{PartName, Which};
use std::path::PathBuf;

const PREDICT_EXAMPLES: &str = "\
Examples:
  paceline predict runs/mlp-fashion-sample-1 fashion-sample --part test
  paceline predict runs/flowers-1 rose.jpg new-photos/ --top 3
  paceline predict runs/flowers-1 shards/ --format csv --output predictions.csv
  paceline predict runs/flowers-1 list.csv --format jsonl > out.jsonl
  paceline predict runs/flowers-1/checkpoints/step-900 photos/ --threads 2

One record for each input, in the order of the inputs. Where an input has a label, it is shown beside the prediction. An
input that cannot be read keeps its place with the reason; all others are predicted, and the exit code is then 1
(unless --skip-bad allows that many). A run that is still in training can be used.";

#[derive(Args)]
#[command(after_help = PREDICT_EXAMPLES)]
pub(crate) struct Predict {
    /// A run directory, its run.toml, or one of its checkpoints
    pub run: PathBuf,
    /// Photos, folders of them, a csv or tsv of paths, a csv of values, record shards, IDX files, or sets by name
    #[arg(required = true, value_name = "DATA")]
    pub data: Vec<PathBuf>,
    /// How many of the most probable classes to give
    #[arg(long, default_value_t = 1, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    pub top: u32,
    /// How records are written
    #[arg(long, default_value = "table", value_name = "FORMAT")]
    pub format: Format,
    /// Write the records to this file, which is there whole or not at all
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Only this part of the data: train, validation, test or all
    #[arg(long, default_value = "all", value_name = "PART")]
    pub part: PartName,
    #[command(flatten)]
    pub model: ModelFlags,
    /// No notes and no closing line
    #[arg(long, short)]
    pub quiet: bool,
}

/// How predictions are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// With a head: input,label,class,probability,error (of numbers: input, each target and what is known of it, error)
    Csv,
    /// A JSON object on each line
    Jsonl,
}

const EVALUATE_EXAMPLES: &str = "\
Examples:
  paceline evaluate runs/mlp-fashion-sample-1                    the run's own data, its test part
  paceline evaluate runs/mlp-fashion-sample-1 fashion-sample --part validation
  paceline evaluate runs/flowers-1 held-out/ --json
  paceline evaluate runs/flowers-1 shards/ --checkpoint last

Classes are matched by name: folders, names in the shards' index, labels of a csv. A class that the model does not know
is an error; data that has only numbers is matched by number. Without --part it is the test part, else the validation
part, else everything. With the run's own data the parts are those that the run had, so that what it was trained on is
not taken for something new.";

#[derive(Args)]
#[command(after_help = EVALUATE_EXAMPLES)]
pub(crate) struct Evaluate {
    /// A run directory, its run.toml, or one of its checkpoints
    pub run: PathBuf,
    /// Labelled data: class folders, a csv or tsv of path,label, a csv of values, record shards, IDX files, or a set by name [default: the
    /// data of the run]
    #[arg(value_name = "DATA")]
    pub data: Option<PathBuf>,
    /// The part of the data: train, validation, test or all
    #[arg(long, value_name = "PART")]
    pub part: Option<PartName>,
    #[command(flatten)]
    pub model: ModelFlags,
    /// Print all figures as JSON
    #[arg(long)]
    pub json: bool,
}

/// Which parameters, and with what they are computed.
#[derive(Args)]
pub(crate) struct ModelFlags {
    /// Which checkpoint: best, last, step-N or a folder
    #[arg(long, default_value = "best", value_name = "WHICH")]
    pub checkpoint: Which,
    /// Threads that decode, and threads that compute (default: one for each core)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Up to N bad inputs are no failure: the exit code is then 0
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub skip_bad: u64,
}
