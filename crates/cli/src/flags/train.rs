//! The flags of `paceline train`.

use clap::Args;
use std::path::PathBuf;

const TRAIN_EXAMPLES: &str = "\
Examples:
  paceline train                                    an MLP on the embedded Fashion-MNIST sample
  paceline train my.toml --set train.epochs=10      a configuration file, one key changed
  paceline train --set data.name=mnist --strategy mirrored --replicas 2
  paceline train --plan hybrid.toml --explain       the schedule of one step, in words
  paceline train --explain --cluster cluster.toml   … and how long it will take, from what paceline doctor measured
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
    /// What the hosts were measured to do, by paceline doctor: steps are predicted from it (default: this machine's last doctor)
    #[arg(long, value_name = "FILE")]
    pub cluster: Option<PathBuf>,
    /// Print the summary as JSON: of the run at its end, or with --summary that of the model
    #[arg(long)]
    pub json: bool,
    /// No progress and no closing table
    #[arg(long, short)]
    pub quiet: bool,
}
