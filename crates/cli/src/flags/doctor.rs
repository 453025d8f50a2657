//! The flags of `paceline doctor`.

use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  paceline doctor                                    this machine, in some seconds → cluster.toml
  paceline doctor --dir /data/runs --json
  paceline doctor --hosts a,b,c                      every host, and every link between two
  paceline launch --hosts a,b --agent ./ssh -- doctor   the same, with the options of launch

Warns in words of what will hurt: a slow host or link, swap, clocks that disagree, more processes than cores, a busy
machine, little memory, a slow disk. A cluster.toml that is there already is kept as cluster.toml.bak.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Doctor {
    /// Measure these hosts, and every link between two; as paceline launch --hosts … -- doctor
    #[arg(long, value_name = "NAME,…")]
    pub hosts: Option<String>,
    /// Where the figures go, for planning
    #[arg(long, default_value = "cluster.toml", value_name = "FILE")]
    pub out: PathBuf,
    /// The folder of runs, whose disk is measured (run.dir)
    #[arg(long, default_value = "runs", value_name = "DIR")]
    pub dir: PathBuf,
    /// Print the figures and warnings as JSON
    #[arg(long)]
    pub json: bool,
    /// Do not say what is being measured
    #[arg(long, short)]
    pub quiet: bool,
}
