//! `paceline launch`

use crate::flags::{Cli, Command, Launch as Flags, Train};
use crate::screen;
use clap::Parser;
use indicatif::ProgressBar;
use paceline::launch::{Hosts, Launch, LaunchEnd, LaunchView, Limits, Notice, Progress, Stream, detect, launch};
use paceline::{Error, Result};
use std::cell::RefCell;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Runs the command.
pub fn run(flags: &Flags, log: &str) -> Result<()> {
    let train = parse_command(&flags.command)?;
    let (hosts, scheduler) = match (&flags.hosts, flags.np, &flags.hostfile) {
        (Some(list), ..) => (Hosts::parse(list)?, None),
        (_, Some(n), _) => (Hosts::here(n as usize), None),
        (.., Some(file)) => {
            let text = paceline_run::read_text("read the host file", file)?;
            (Hosts::parse_file(&text, &file.display().to_string())?, None)
        }
        _ => match detect(|name| std::env::var(name).ok(), |path| std::fs::read_to_string(path))? {
            Some((scheduler, hosts)) => (hosts, Some(scheduler)),
            None => {
                return Err(Error::user(
                    "where to? give --np N for this machine, --hosts a:2,b:2, or --hostfile FILE \
                     (a job of Slurm or PBS needs none)",
                ));
            }
        },
    };
    let min_ranks = flags.min_ranks as usize;
    if min_ranks > hosts.processes() {
        return Err(Error::user(format!(
            "--min-ranks {min_ranks} is more than the {} processes there are",
            hosts.processes()
        )));
    }
    if let Some(wrong) = flags.environment.iter().find(|v| v.is_empty() || v.starts_with('=')) {
        return Err(Error::user(format!("--env {wrong}: there is no name; write NAME or NAME=VALUE")));
    }
    let mut arguments = vec!["--log".to_string(), log.to_string()];
    arguments.extend(flags.command.iter().cloned());
    let job = Launch {
        hosts,
        scheduler,
        arguments,
        checkpoints: train.is_some(),
        max_restarts: flags.max_restarts,
        elastic: flags.elastic,
        min_ranks,
        mpirun: flags.mpirun.clone(),
        mpirun_arguments: flags.mpirun_args.clone(),
        agent: flags.agent.as_deref().map(found_agent).transpose()?,
        address: flags.address,
        listen: flags.listen,
        port: flags.port,
        ports: flags.ports,
        interface: flags.interface.clone(),
        environment: environment(&flags.environment),
        limits: Limits { silence: flags.heartbeat_timeout, step: flags.step_timeout, start: flags.start_timeout },
    };
    let again = |dir: &Path| match &train {
        Some(train) => resumed(train, dir, log),
        None => job.arguments.clone(),
    };
    let (json, quiet, restarts) = (flags.json, flags.quiet, flags.max_restarts > 0);
    let view = View { json, quiet, restarts, bar: RefCell::default(), failure: RefCell::default() };
    match launch(&job, &again, &view, &count_signals())? {
        LaunchEnd::Done => Ok(()),
        LaunchEnd::Interrupted => std::process::exit(130),
    }
}

/// The variables asked for, and how wide the terminal is, which the processes do not see: what they print is shown here.
fn environment(given: &[String]) -> Vec<String> {
    let columns = screen::known_width().map(|width| format!("COLUMNS={width}"));
    columns.into_iter().chain(given.iter().cloned()).collect()
}

/// What follows `--`, parsed here so that a wrong flag is said once and before anything starts. The flags of `train`, if it
/// is that.
fn parse_command(words: &[String]) -> Result<Option<Box<Train>>> {
    const WRITE: &str = "write paceline launch --np 2 -- train cfg.toml";
    if words.is_empty() {
        return Err(Error::user(format!("there is nothing to run after `--`; {WRITE}")));
    }
    let parsed = Cli::try_parse_from(std::iter::once("paceline").chain(words.iter().map(String::as_str)));
    match parsed.map(|cli| cli.command) {
        Ok(Command::Train(flags)) if flags.summary || flags.explain => {
            Err(Error::user("--summary and --explain do not train; leave launch away"))
        }
        Ok(Command::Train(flags)) => {
            super::train::configuration(&flags, true)?; // each process looks again, knowing how many they are
            Ok(Some(flags))
        }
        Ok(command) if command.runs_on_ranks() => Ok(None),
        Ok(_) => Err(Error::user(format!("`{}` does not run on several processes; {WRITE}", words[0]))),
        Err(e) => {
            let text = e.to_string();
            let first = text.lines().next().unwrap_or("").trim_start_matches("error: ");
            Err(Error::user(format!("after `--`: {first}; {WRITE}")))
        }
    }
}

/// The agent as an absolute path: other programs run it, in folders of their own.
fn found_agent(path: &Path) -> Result<std::path::PathBuf> {
    if path.components().count() == 1 && !path.exists() {
        return Ok(path.into()); // a name to be found on the PATH
    }
    path.canonicalize().map_err(|e| Error::io("run the agent", path, &e))
}

/// `train` that goes on with a run, whose configuration it has; only how it speaks is taken from the flags.
fn resumed(flags: &Train, dir: &Path, log: &str) -> Vec<String> {
    let mut words: Vec<String> = ["--log", log, "train", "--resume"].map(String::from).to_vec();
    words.push(dir.display().to_string());
    if flags.resume.is_some() {
        // Changes to a run that was resumed are not in its file before it is written again.
        words.extend(flags.sets.iter().flat_map(|s| ["--set".to_string(), s.clone()]));
    }
    for (given, flag) in [(flags.json, "--json"), (flags.quiet, "--quiet")] {
        words.extend(given.then(|| flag.to_string()));
    }
    words
}

/// Counts Ctrl-C and termination signals. What comes within a moment is one: a terminal and a script may both send it.
fn count_signals() -> Arc<AtomicUsize> {
    const MOMENT: Duration = Duration::from_millis(300);
    let count = Arc::new(AtomicUsize::new(0));
    let seen = count.clone();
    let mut last: Option<Instant> = None;
    let result = ctrlc::set_handler(move || {
        if last.is_some_and(|at| at.elapsed() < MOMENT) {
            return;
        }
        last = Some(Instant::now());
        // The loop that watches acts on it; should it not, the third ends this program.
        if seen.fetch_add(1, Ordering::Relaxed) > 1 {
            std::process::exit(130);
        }
    });
    if let Err(e) = result {
        tracing::warn!("Ctrl-C will end the program at once: {e}");
    }
    count
}

struct View {
    json: bool,
    quiet: bool,
    /// Whether restarts were asked for.
    restarts: bool,
    bar: RefCell<Option<ProgressBar>>,
    failure: RefCell<String>,
}

impl View {
    fn beside_bar(&self, show: impl FnOnce()) {
        match &*self.bar.borrow() {
            Some(bar) => bar.suspend(show),
            None => show(),
        }
    }

    fn say(&self, words: &str) {
        self.beside_bar(|| screen::complain(&format!("launch: {words}")));
    }
}

impl LaunchView for View {
    fn line(&self, stream: Stream, text: &str) {
        self.beside_bar(|| match stream {
            Stream::Out => screen::print(&format!("{text}\n")),
            Stream::Err => screen::warn(text),
        });
    }

    fn notice(&self, notice: &Notice) {
        if self.json {
            let text = serde_json::to_string(notice).unwrap_or_default();
            self.beside_bar(|| screen::warn(&text));
            return;
        }
        match notice {
            Notice::Starting { attempt, hosts, command } => {
                tracing::info!("attempt {attempt}: {command}");
                if !self.quiet && *attempt > 1 {
                    self.say(&format!("attempt {attempt} on {hosts}"));
                }
            }
            Notice::Began { .. } | Notice::Finished { .. } => tracing::info!("{notice:?}"),
            Notice::Warning { words } => self.say(&format!("warning: {words}")),
            // The last failure is the error that this program ends with.
            Notice::Failed { words, .. } => *self.failure.borrow_mut() = words.clone(),
            Notice::Decided { restart: true, reason } => {
                self.say(&self.failure.borrow());
                self.say(reason);
            }
            Notice::Decided { restart: false, reason } if self.restarts => {
                self.say(&format!("not started again: {reason}"));
            }
            Notice::Decided { .. } => {}
            Notice::Stopping => self.say("stopping after this step, with a checkpoint (again: at once)"),
        }
    }

    fn progress(&self, progress: &Progress) {
        let mut bar = self.bar.borrow_mut();
        if self.quiet || self.json || !std::io::stderr().is_terminal() {
            return;
        }
        if progress.total == 0 {
            bar.take().inspect(ProgressBar::finish_and_clear);
            return;
        }
        let bar = bar.get_or_insert_with(|| {
            let bar = screen::bar::new(progress.total, screen::bar::PERCENT);
            bar.set_position(progress.done);
            bar.reset_eta();
            bar
        });
        bar.set_position(progress.done);
        bar.set_message(paceline::text::visible(&progress.words).into_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(String::from).collect()
    }

    fn again(line: &str) -> String {
        let train = parse_command(&words(line)).unwrap().unwrap();
        resumed(&train, Path::new("runs/x"), "warn").join(" ")
    }

    #[test]
    fn a_restart_keeps_how_the_run_speaks() {
        assert_eq!(again("train --set train.epochs=3 --threads 1"), "--log warn train --resume runs/x");
        assert_eq!(again("train --json --quiet --run-dir y"), "--log warn train --resume runs/x --json --quiet");
    }

    #[test]
    fn only_what_runs_on_processes_is_started() {
        for (line, word) in [
            ("", "nothing to run"),
            ("tarin", "tarin"),
            ("report x", "does not run on several processes"),
            ("launch --np 2 -- train", "does not run on several processes"),
            ("train --summary", "do not train"),
            ("train --set train.epoch=3", "train.epochs"),
            ("train --frobnicate", "--frobnicate"),
        ] {
            let e = parse_command(&words(line)).map(|_| ()).unwrap_err();
            assert!(e.message().contains(word), "{word} in: {e}");
            assert_eq!(e.kind(), paceline::Kind::User);
        }
    }
}
