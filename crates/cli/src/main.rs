//! The `paceline` program: flags in, exit code out. 0 done, 1 failed, 2 wrong input, 130 ended at once by a signal.

mod commands;
mod flags;
mod screen;
mod tethered;

use clap::{CommandFactory, FromArgMatches};
use flags::{Cli, Command};
use paceline::Kind;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = parse().unwrap_or_else(|e| tethered::refuse_flags(&e)); // with exit code 2
    start_log(&cli.log);
    tethered::name_panics();
    let result = match cli.command {
        Command::Demo(flags) => commands::demo::run(&flags),
        Command::Train(flags) => commands::train::run(&flags),
        Command::Launch(flags) => commands::launch::run(&flags, &cli.log),
        Command::Data(flags) => commands::data::run(&flags),
        Command::Prepare(flags) => commands::prepare::run(&flags),
        Command::PrepareShards(flags) => commands::prepare::shards(&flags),
        Command::Speedtest(flags) => commands::speedtest::run(&flags),
        Command::SpeedtestCells(flags) => commands::speedtest::cells(&flags),
        Command::Bench(flags) => commands::bench::run(&flags),
        Command::Matmul(flags) => tethered::tethered(|tether| commands::matmul::run(&flags, tether)),
        Command::Doctor(flags) => tethered::tethered(|_| commands::doctor::run(&flags, &cli.log)),
        Command::Runs(flags) => commands::runs::run(&flags),
        Command::Report(flags) => commands::report::run(&flags),
        Command::Config(flags) => commands::config::run(&flags),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            match paceline::launch::last_words(&e) {
                Some(words) => eprint!("{words}"),
                None => screen::complain(&format!("paceline: {e}")),
            }
            ExitCode::from(if e.kind() == Kind::User { 2 } else { 1 })
        }
    }
}

/// The flags; help is laid out for the terminal, but not wider than lines are read well.
fn parse() -> Result<Cli, clap::Error> {
    const WIDEST: usize = 100;
    let mut command = flags::help::fitted(Cli::command(), screen::style().width.min(WIDEST));
    let matches = command.clone().try_get_matches()?;
    Cli::from_arg_matches(&matches).map_err(|e| e.format(&mut command))
}

fn start_log(level: &str) {
    let filter = tracing_subscriber::EnvFilter::try_new(level).unwrap_or_else(|_| "warn".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| tethered::Log).with_target(false).init();
}
