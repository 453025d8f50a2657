//! The flags, as typed. What they mean is decided by the commands.

mod bench;
mod config;
mod data;
pub(crate) mod doctor;
pub(crate) mod help;
mod launch;
pub(crate) mod matrix;
pub(crate) mod predict;
mod prepare;
mod report;
mod speedtest;
mod train;

pub(crate) use bench::{Bench, BenchCommand, BenchKernels, Forget};
use clap::{Args, Parser, Subcommand};
pub(crate) use config::{Config, ConfigCommand};
pub(crate) use data::{Data, DataCache, DataCommand};
pub(crate) use launch::Launch;
pub(crate) use prepare::{EngineFlags, Prepare, PrepareShards};
pub(crate) use report::{Report, Runs};
pub(crate) use speedtest::{Speedtest, SpeedtestCells};
use std::path::PathBuf;
pub(crate) use train::Train;

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
#[command(after_help = "Example:\n  paceline demo --dir /tmp/first-look")]
pub(crate) struct Demo {
    /// Where the demo's folder goes
    #[arg(long, default_value = "runs", value_name = "DIR")]
    pub dir: PathBuf,
}
