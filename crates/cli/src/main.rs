//! The `paceline` program: flags in, exit code out. 0 done, 1 failed, 2 wrong input, 130 ended at once by a signal.

mod commands;
mod flags;
mod screen;
mod tethered;

use clap::Parser;
use flags::{Cli, Command};
use paceline::Kind;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|e| tethered::refuse_flags(&e)); // with exit code 2
    start_log(&cli.log);
    tethered::name_panics();
    let result = match cli.command {
        Command::Demo(flags) => commands::demo::run(&flags),
        Command::Train(flags) => commands::train::run(&flags),
        Command::Predict(flags) => commands::predict::run(&flags),
        Command::Evaluate(flags) => commands::evaluate::run(&flags),
        Command::Launch(flags) => commands::launch::run(&flags, &cli.log),
        Command::Data(flags) => commands::data::run(&flags),
        Command::Prepare(flags) => commands::prepare::run(&flags),
        Command::PrepareShards(flags) => commands::prepare::shards(&flags),
        Command::Speedtest(flags) => commands::speedtest::run(&flags),
        Command::SpeedtestCells(flags) => commands::speedtest::cells(&flags),
        Command::Bench(flags) => commands::bench::run(&flags),
        Command::Matmul(flags) => tethered::tethered(|tether| commands::matmul::run(&flags, tether)),
        Command::Doctor(flags) => tethered::tethered(|_| commands::doctor::run(&flags, &cli.log)),
        Command::Report(flags) => commands::report::run(&flags),
        Command::Config(flags) => commands::config::run(&flags),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            match paceline::launch::last_words(&e) {
                Some(words) => eprint!("{words}"),
                None => screen::warn(&format!("paceline: {e}")),
            }
            ExitCode::from(if e.kind() == Kind::User { 2 } else { 1 })
        }
    }
}

fn start_log(level: &str) {
    let filter = tracing_subscriber::EnvFilter::try_new(level).unwrap_or_else(|_| "warn".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| tethered::Log).with_target(false).init();
}
