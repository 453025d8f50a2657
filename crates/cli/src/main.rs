//! The `paceline` program: flags in, exit code out. 0 done, 1 failed, 2 wrong input; stopped before the end by Ctrl-C 130, by
//! SIGTERM 143, by SIGHUP 129, by SIGUSR1 85, in each case after what is to be kept was saved.

mod commands;
mod flags;
mod launched;
mod screen;
mod signals;

use clap::{CommandFactory, FromArgMatches};
use flags::{Cli, Command};
use paceline::Error;
use signals::End;
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Err(e) = paceline::launch::keep_output() {
        return failed(&e);
    }
    let cli = parse().unwrap_or_else(|e| launched::refuse_flags(&e)); // with exit code 2
    start_log(&cli.log);
    launched::name_panics();
    let result = match cli.command {
        Command::Demo(flags) => done(commands::demo::run(&flags)),
        Command::Train(flags) => commands::train::run(&flags),
        Command::Predict(flags) => done(commands::predict::run(&flags)),
        Command::Evaluate(flags) => done(commands::evaluate::run(&flags)),
        Command::Launch(flags) => commands::launch::run(&flags, &cli.log),
        Command::Data(flags) => done(commands::data::run(&flags)),
        Command::Prepare(flags) => done(commands::prepare::run(&flags)),
        Command::PrepareShards(flags) => done(commands::prepare::shards(&flags)),
        Command::Speedtest(flags) => commands::speedtest::run(&flags),
        Command::SpeedtestCells(flags) => done(commands::speedtest::cells(&flags)),
        Command::Bench(flags) => done(commands::bench::run(&flags)),
        Command::Matmul(flags) => done(launched::work_under_launch(|client| commands::matmul::run(&flags, client))),
        Command::Doctor(flags) => launched::work_under_launch(|_| commands::doctor::run(&flags, &cli.log)),
        Command::Runs(flags) => done(commands::runs::run(&flags)),
        Command::Report(flags) => done(commands::report::run(&flags)),
        Command::Config(flags) => done(commands::config::run(&flags)),
        Command::CopyOutput(flags) => {
            done(signals::outlive().and_then(|()| paceline::launch::copy_output(&flags.file)))
        }
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "paceline", &mut std::io::stdout());
            Ok(End::Done)
        }
    };
    match result {
        Ok(End::Done) => ExitCode::SUCCESS,
        Ok(End::Stopped) => ExitCode::from(signals::stopped_code()),
        Err(e) => failed(&e),
    }
}

fn failed(error: &Error) -> ExitCode {
    match paceline::launch::exit_report(error) {
        Some(words) => eprint!("{words}"),
        None => screen::complain(&format!("paceline: {error}")),
    }
    ExitCode::from(signals::error_code(error))
}

/// Of a command that cannot end early without an error.
fn done(result: paceline::Result<()>) -> paceline::Result<End> {
    result.map(End::from)
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
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| launched::Log).with_target(false).init();
}
