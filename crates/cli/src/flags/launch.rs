//! The flags of `paceline launch`.

use clap::Args;
use paceline::launch::Ports;
use std::net::IpAddr;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  paceline launch --np 2 -- train cfg.toml                      two processes on this machine
  paceline launch --hosts a:2,b:2 --max-restarts 3 -- train cfg.toml
  paceline launch --hostfile hosts.txt --elastic -- train cfg.toml
  paceline launch -- train cfg.toml                             in a job of Slurm or PBS: on its hosts
  paceline launch --hosts a,b,c -- doctor

Before anything is trained, the processes compare program, configuration and data, and whether all see the folder of
checkpoints. When a process dies, hangs, or its host is cut off, the others end within seconds, it is said which one and
why, and the job goes on from its last checkpoint. Ctrl-C writes a checkpoint and ends; again, after a second: at once.
Exit codes: 0 done, 1 failed, 2 wrong input; stopped before the end by Ctrl-C 130, SIGTERM 143, SIGHUP 129, SIGUSR1 85.
More: docs/cluster.md";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Launch {
    /// Hosts, and how many processes each takes
    #[arg(long, value_name = "NAME:N,…", conflicts_with_all = ["np", "hostfile"])]
    pub hosts: Option<String>,
    /// So many processes on this machine
    #[arg(long, value_name = "N", conflicts_with = "hostfile", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub np: Option<u32>,
    /// A file of hosts, with lines `name slots=2` (Open MPI) or `name:2` (MPICH)
    #[arg(long, value_name = "FILE")]
    pub hostfile: Option<PathBuf>,
    /// How often a failed job is started again, from its last checkpoint
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub max_restarts: u32,
    /// Go on with fewer processes, without a host that is gone or a process that fails again
    #[arg(long, requires = "max_restarts")]
    pub elastic: bool,
    /// How many processes there must be at least
    #[arg(long, value_name = "N", default_value_t = 1, requires = "elastic", value_parser = clap::value_parser!(u32).range(1..))]
    pub min_ranks: u32,
    /// mpirun, or srun [default: that of the MPI library which this program was built with]
    #[arg(long, value_name = "PATH")]
    pub mpirun: Option<PathBuf>,
    /// A further argument of mpirun; may be given again
    #[arg(long = "mpirun-arg", value_name = "ARG", allow_hyphen_values = true)]
    pub mpirun_args: Vec<String>,
    /// A program that stands in for ssh: it is called with a host and a command
    #[arg(long, value_name = "PATH")]
    pub agent: Option<PathBuf>,
    /// Where processes reach this program [default: the address from which the first host is reached]
    #[arg(long, value_name = "IP", value_parser = ip)]
    pub address: Option<IpAddr>,
    /// Where this program listens, if others reach it under another address (a forwarded port) [default: the --address]
    #[arg(long, value_name = "IP", value_parser = ip)]
    pub listen: Option<IpAddr>,
    /// Ports that this program and the processes may listen at [default: any that are free]
    #[arg(long, value_name = "FIRST-LAST", value_parser = Ports::parse)]
    pub ports: Option<Ports>,
    /// The port of this program [default: the first free one of --ports, or any]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub port: u16,
    /// The network that processes use among themselves, such as 10.0.0.0/24
    #[arg(long, value_name = "CIDR")]
    pub interface: Option<String>,
    /// A variable for the processes; may be given again
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    pub environment: Vec<String>,
    /// Keep all that each process writes in a file of its own in this folder, named by process, host and attempt
    #[arg(long, value_name = "DIR")]
    pub log_dir: Option<PathBuf>,
    /// A process is lost after so long without a sign of life
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds)]
    pub heartbeat_timeout: f64,
    /// A job hangs after so long without a step; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0, value_parser = seconds_or_none)]
    pub step_timeout: f64,
    /// Processes must come up in so long
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    pub start_timeout: f64,
    /// What launch itself says, as JSON lines on standard error
    #[arg(long)]
    pub json: bool,
    /// Say only what went wrong
    #[arg(long, short)]
    pub quiet: bool,
    /// What to run on every process: train, matmul or doctor, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// An address; one of IPv6 may stand in brackets, as in `--hosts`.
fn ip(text: &str) -> Result<IpAddr, String> {
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    bare.parse().map_err(|_| "give an address such as 10.0.0.1 or fd00::1".into())
}

fn seconds(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|s| (2.0..=86400.0).contains(s)).ok_or_else(|| "give seconds, 2 to 86400".into())
}

fn seconds_or_none(text: &str) -> Result<f64, String> {
    if text == "0" { Ok(0.0) } else { seconds(text) }
}
