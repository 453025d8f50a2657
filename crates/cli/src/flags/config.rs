//! The flags of `paceline config`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

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
