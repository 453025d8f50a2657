//! `paceline launch`

use crate::flags::{Cli, Command, Launch as Flags, Train};
use crate::screen;
use crate::signals::{End, requests};
use clap::{CommandFactory, Parser};
use indicatif::ProgressBar;
use paceline::base::setting::SettingNames;
use paceline::launch::{
    Hosts, Launch, LaunchEnd, LaunchSetting, LaunchView, Limits, Notice, Progress, Stream, detect, launch,
};
use paceline::{Error, Kind, Result};
use std::cell::RefCell;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Runs the command.
pub(crate) fn run(flags: &Flags, log: &str) -> Result<End> {
    let train = parse_command(&flags.command)?;
    let (hosts, scheduler) = match (&flags.hosts, flags.np, &flags.hostfile) {
        (Some(list), ..) => {
            let named = |e: Error| e.clone().with_message(format!("--hosts {}", e.message()));
            (Hosts::parse(list).map_err(named)?, None)
        }
        (_, Some(n), _) => (Hosts::here(n as usize), None),
        (.., Some(file)) => {
            let text = paceline_run::read_text("read the host file", file)?;
            (Hosts::parse_file(&text, &file.display().to_string())?, None)
        }
        _ => match detect(|name| std::env::var(name).ok(), |path| std::fs::read_to_string(path), SettingNames(flag))? {
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
        log_dir: flags.log_dir.clone(),
        limits: Limits { silence: flags.heartbeat_timeout, step: flags.step_timeout, start: flags.start_timeout },
        names: SettingNames(flag),
    };
    let again = |dir: &Path| match &train {
        Some(train) => ["--log".to_string(), log.to_string()].into_iter().chain(resumed(train, dir)).collect(),
        None => job.arguments.clone(),
    };
    let (json, quiet, restarts) = (flags.json, flags.quiet, flags.max_restarts > 0);
    let view = View {
        json,
        quiet,
        restarts,
        bar: RefCell::default(),
        failure: RefCell::default(),
        run_dir: RefCell::default(),
    };
    let end = launch(&job, &again, &view, requests());
    let go_on = train.as_ref().zip(view.run_dir.borrow().as_ref()).map(|(train, dir)| {
        let typed: Vec<String> = std::env::args().skip(1).take_while(|word| word != "--").collect();
        go_on_line(&typed, &resumed(train, dir))
    });
    match (end, go_on) {
        (Ok(LaunchEnd::Done), _) => Ok(End::Done),
        (Ok(LaunchEnd::Stopped(_)), Some(line)) if !quiet && !json => {
            view.say(&format!("stopped on request; go on with: {line}"));
            Ok(End::Stopped)
        }
        (Ok(LaunchEnd::Stopped(_) | LaunchEnd::Interrupted(_)), _) => Ok(End::Stopped),
        (Err(e), Some(line)) if e.kind() != Kind::User => {
            let logs = flags.log_dir.as_ref().map(|dir| format!("\nwhat each process wrote: {}", dir.display()));
            let words = format!("{}{}\ngo on with: {line}", e.message(), logs.unwrap_or_default());
            Err(e.with_message(words))
        }
        (Err(e), _) => Err(e),
    }
}

/// The flag of a setting.
fn flag(setting: LaunchSetting) -> &'static str {
    match setting {
        LaunchSetting::Hosts => "--hosts",
        LaunchSetting::Processes => "--np",
        LaunchSetting::MaxRestarts => "--max-restarts",
        LaunchSetting::MinRanks => "--min-ranks",
        LaunchSetting::Mpirun => "--mpirun",
        LaunchSetting::Agent => "--agent",
        LaunchSetting::Address => "--address",
        LaunchSetting::Listen => "--listen",
        LaunchSetting::Port => "--port",
        LaunchSetting::Ports => "--ports",
        LaunchSetting::Interface => "--interface",
        LaunchSetting::StepLimit => "--step-timeout",
        LaunchSetting::StartLimit => "--start-timeout",
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
    let alone = || line_of(["paceline".to_string()].iter().chain(words));
    if words.is_empty() {
        return Err(Error::user(format!("there is nothing to run after `--`; {WRITE}")));
    }
    let parsed = Cli::try_parse_from(std::iter::once("paceline").chain(words.iter().map(String::as_str)));
    match parsed.map(|cli| cli.command) {
        Ok(Command::Train(flags)) if flags.summary || flags.explain => {
            Err(Error::user(format!("--summary and --explain do not train; leave launch away: {}", alone())))
        }
        Ok(Command::Train(flags)) => {
            super::train::configuration(&flags, true)?; // each process looks again, knowing how many they are
            Ok(Some(flags))
        }
        Ok(command) if command.runs_on_ranks() => Ok(None),
        Ok(Command::Launch(_)) => {
            Err(Error::user(format!("launch starts train, matmul or doctor, not itself; {WRITE}")))
        }
        Ok(_) => Err(Error::user(format!(
            "`{}` does not run on several processes; leave launch away: {}",
            words[0],
            alone()
        ))),
        Err(e) => {
            let text = e.to_string();
            let first = text.lines().next().unwrap_or("").trim_start_matches("error: ");
            Err(Error::user(format!("after `--`: {first}; {WRITE}")))
        }
    }
}

/// If `launch` was typed (`words`: all after the program's name) without the `--` before the command that it is to start: what to
/// type.
pub(crate) fn without_separator(words: &[String]) -> Option<String> {
    let at = words.iter().position(|word| word == "launch")?;
    if words.iter().any(|word| word == "--") {
        return None;
    }
    let named = |word: &String| Cli::command().get_subcommands().any(|c| c.get_name() == word.as_str());
    let first = at + 1 + words[at + 1..].iter().position(named)?;
    let with = |before: &[String], after: &[String]| {
        let program = ["paceline".to_string()];
        let separator = ["--".to_string()];
        line_of(program.iter().chain(before).chain(&separator).chain(after))
    };
    // Flags of launch may have been typed behind the command: the words are parted where both sides can be read.
    let reads = |before: &[String], after: &[String]| {
        let words = ["paceline".to_string()].into_iter().chain(before.to_vec()).chain(["--".to_string()]);
        Cli::try_parse_from(words.chain(after.to_vec())).is_ok()
            && Cli::try_parse_from(["paceline".to_string()].into_iter().chain(after.to_vec())).is_ok()
    };
    let here = (words[..first].to_vec(), words[first..].to_vec());
    let moved = (first + 1..words.len()).map(|cut| {
        let before = [&words[..first], &words[cut..]].concat();
        (before, words[first..cut].to_vec())
    });
    let fits = std::iter::once(here.clone()).chain(moved).find(|(before, after)| reads(before, after));
    let (before, after) = fits.unwrap_or(here);
    Some(format!("`--` is missing before the command that launch is to start; write {}", with(&before, &after)))
}

/// Words as a line that can be pasted into a shell.
fn line_of<'a>(words: impl Iterator<Item = &'a String>) -> String {
    words.map(|word| screen::shell_word(word)).collect::<Vec<_>>().join(" ")
}

/// The agent as an absolute path: other programs run it, in folders of their own.
fn found_agent(path: &Path) -> Result<std::path::PathBuf> {
    if path.components().count() == 1 && !path.exists() {
        return Ok(path.into()); // a name to be found on the PATH
    }
    path.canonicalize().map_err(|e| Error::io("run the agent", path, &e))
}

/// `train` that goes on with a run, whose configuration it has; only how it speaks is taken from the flags.
fn resumed(flags: &Train, dir: &Path) -> Vec<String> {
    let mut words: Vec<String> = ["train", "--resume"].map(String::from).to_vec();
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

/// The command that goes on with a run: `launch` as it was typed, up to `--`, and what follows it now.
fn go_on_line(typed: &[String], then: &[String]) -> String {
    let (program, separator) = (["paceline".to_string()], ["--".to_string()]);
    line_of(program.iter().chain(typed).chain(&separator).chain(then))
}

struct View {
    json: bool,
    quiet: bool,
    /// Whether restarts were asked for.
    restarts: bool,
    bar: RefCell<Option<ProgressBar>>,
    failure: RefCell<String>,
    /// The run that can be resumed, once there is one.
    run_dir: RefCell<Option<PathBuf>>,
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
        if let Notice::Decided { run_dir, .. } | Notice::Finished { run_dir, .. } = notice {
            *self.run_dir.borrow_mut() = run_dir.clone();
        }
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
            Notice::Decided { restart: true, reason, .. } => {
                self.say(&self.failure.borrow());
                self.say(reason);
            }
            Notice::Decided { restart: false, reason, .. } if self.restarts => {
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
        resumed(&train, Path::new("runs/x")).join(" ")
    }

    #[test]
    fn a_restart_keeps_how_the_run_speaks() {
        assert_eq!(again("train --set train.epochs=3 --threads 1"), "train --resume runs/x");
        assert_eq!(again("train --json --quiet --run-dir y"), "train --resume runs/x --json --quiet");
    }

    #[test]
    fn a_missing_separator_is_put_where_it_belongs() {
        let check = |line: &str, expected: Option<&str>| {
            let said = without_separator(&words(line));
            assert_eq!(
                said.as_deref().and_then(|s| s.split_once("write ")).map(|(_, line)| line),
                expected,
                "{said:?}"
            );
        };
        check("launch --np 2 train cfg.toml", Some("paceline launch --np 2 -- train cfg.toml"));
        check("launch train", Some("paceline launch -- train"));
        check("launch train cfg.toml --np 2", Some("paceline launch --np 2 -- train cfg.toml"));
        check(
            "--log info launch --hosts a:2 matmul --n 8",
            Some("paceline --log info launch --hosts a:2 -- matmul --n 8"),
        );
        check(
            "launch --np 2 train --set model.hidden=[8]",
            Some("paceline launch --np 2 -- train --set 'model.hidden=[8]'"),
        );
        // Wrong flags are not made right, but they are where they belong.
        check("launch --np 2 train --frobnicate", Some("paceline launch --np 2 -- train --frobnicate"));
        check("launch --np 2 tarin", None);
        check("launch --np 2 -- train", None);
        check("train --frobnicate", None);
    }

    #[test]
    fn how_to_go_on_can_be_pasted() {
        let line = go_on_line(&words("launch --np 2 --max-restarts 3"), &words("train --resume /share/runs/x"));
        assert_eq!(line, "paceline launch --np 2 --max-restarts 3 -- train --resume /share/runs/x");
    }

    #[test]
    fn only_what_runs_on_processes_is_started() {
        for (line, word) in [
            ("", "nothing to run"),
            ("tarin", "tarin"),
            ("report x", "does not run on several processes"),
            ("report x", "leave launch away: paceline report x"),
            ("launch --np 2 -- train", "not itself"),
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
