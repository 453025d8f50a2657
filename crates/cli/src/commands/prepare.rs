//! `paceline prepare SOURCE DESTINATION`

use crate::flags::{EngineFlags, Prepare, PrepareShards};
use crate::screen::{self, say};
use indicatif::ProgressBar;
use paceline::base::setting::SettingNames;
use paceline::prepare::job::{ImageFormat, JobProgress, JobSpec, Setting, Settings, ShardTask, settings};
use paceline::prepare::spark::Cluster;
use paceline::{Error, Result, report, text};
use paceline_run::{DataEngine, PrepareOptions, PrepareWatcher};
use std::io::{BufRead, IsTerminal};
use std::sync::Mutex;

/// Runs the command.
pub(crate) fn run(flags: &Prepare) -> Result<()> {
    let options = options(flags)?;
    let stop = crate::signals::stop_on_signal("stopping; finished shards are kept");
    let screen = PrepareScreen::new(flags.quiet || flags.json, stop.begun());
    let finished = paceline_run::prepare(&options, &screen, &stop)?;
    if flags.json {
        let text = serde_json::to_string_pretty(&finished.summary).map_err(|e| Error::internal(e.to_string()))?;
        screen::print(&text);
        return Ok(());
    }
    if flags.quiet {
        return Ok(());
    }
    let Some(dir) = finished.dir else {
        say!(
            "nothing to do: {} is prepared already ({}, {}), and it is whole",
            flags.destination.display(),
            text::counted(finished.prepared.index.shards.len(), "shard"),
            text::counted(finished.prepared.records() as usize, "record")
        );
        return Ok(());
    };
    say!("");
    screen::print_table(&report::preparation_table(&finished.summary, screen::style()));
    say!("run: {}", dir.display());
    Ok(())
}

/// Runs the hidden command of Spark's tasks: shard numbers on standard input, figures on standard output.
pub(crate) fn shards(flags: &PrepareShards) -> Result<()> {
    let mut shards = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| Error::failure(format!("cannot read standard input: {e}")))?;
        let number = line.trim().parse().map_err(|_| Error::user(format!("`{line}` is no number of a shard")))?;
        shards.push(number);
    }
    let made = ShardTask::parse(&flags.task)?.make(&shards, SettingNames(flag))?;
    screen::print(&serde_json::to_string(&made).map_err(|e| Error::internal(e.to_string()))?);
    Ok(())
}

/// The flag of a setting.
fn flag(setting: Setting) -> &'static str {
    match setting {
        Setting::Size => "--size",
        Setting::Quality => "--quality",
        Setting::Shards => "--shards",
        Setting::Validation => "--validation",
        Setting::OneClass => "--one-class",
        Setting::SkipBad => "--skip-bad",
        Setting::Threads => "--threads",
        Setting::Readers => "--readers",
    }
}

fn options(flags: &Prepare) -> Result<PrepareOptions> {
    let (width, height) = size(&flags.size)?;
    let named = |flag: &str, e: Error| e.context(flag);
    let at_least_one = |flag: &str, n: Option<usize>| match n {
        Some(0) => Err(Error::user(format!("{flag} 0: give at least 1"))),
        n => Ok(n),
    };
    Ok(PrepareOptions {
        spec: JobSpec {
            source: flags.source.clone(),
            destination: flags.destination.clone(),
            settings: Settings {
                width,
                height,
                fit: settings::fit::parse(&flags.fit).map_err(|e| named("--fit", e))?,
                colour: settings::colour::parse(&flags.colour).map_err(|e| named("--colour", e))?,
                encoding: if flags.raw { ImageFormat::Raw } else { ImageFormat::Jpeg },
                quality: flags.quality,
                chroma: settings::chroma::parse(&flags.chroma).map_err(|e| named("--chroma", e))?,
                full_decode: flags.full_decode,
                shards: flags.shards,
                validation: flags.validation,
                seed: flags.seed,
                packing: settings::packing::parse(&flags.packing).map_err(|e| named("--packing", e))?,
            },
            skip_bad: flags.skip_bad,
            one_class: flags.one_class,
            names: SettingNames(flag),
        },
        threads: at_least_one("--threads", flags.threads)?,
        readers: at_least_one("--readers", flags.readers)?,
        engine: prepare_engine(flags)?,
        run_dir: flags.run_dir.clone(),
        runs: "runs".into(),
    })
}

fn prepare_engine(flags: &Prepare) -> Result<DataEngine> {
    let engine = engine(&flags.engine, flags.partitions.as_deref())?;
    if engine == DataEngine::Local && flags.partitions.is_some() {
        return Err(Error::user("--partitions is for --engine spark; add that, or leave --partitions out"));
    }
    Ok(engine)
}

/// What the engine's flags mean.
pub(crate) fn engine(flags: &EngineFlags, partitions: Option<&str>) -> Result<DataEngine> {
    match flags.engine.as_str() {
        "local" => match [("--master", flags.master.is_some()), ("--conf", !flags.conf.is_empty())] {
            [(flag, true), _] | [_, (flag, true)] => {
                Err(Error::user(format!("{flag} is for --engine spark; add that, or leave {flag} out")))
            }
            _ => Ok(DataEngine::Local),
        },
        "spark" => {
            let master = flags.master.clone().ok_or_else(|| {
                Error::user("--engine spark needs --master, such as spark://head:7077, yarn or local[2]")
            })?;
            let partitions = match partitions {
                None | Some("auto") => None,
                Some(text) => Some(text.parse().ok().filter(|&n| n > 0).ok_or_else(|| {
                    Error::user(format!("--partitions {text}: give a number of at least 1, or auto"))
                })?),
            };
            if let Some(wrong) = flags.conf.iter().find(|c| !c.contains('=')) {
                return Err(Error::user(format!(
                    "--conf {wrong}: there is no `=`; write --conf spark.executor.memory=2g"
                )));
            }
            Ok(DataEngine::Spark(Cluster { master, partitions, conf: flags.conf.clone() }))
        }
        other => Err(Error::user(format!(
            "--engine {other}: there is no such engine; give local or spark{}",
            text::did_you_mean(other, ["local", "spark"])
        ))),
    }
}

/// `192` or `192x128`.
fn size(given: &str) -> Result<(usize, usize)> {
    let number = |t: &str| t.trim().parse::<usize>().ok().filter(|&n| n > 0);
    let parsed = match given.split_once(['x', '×']) {
        Some((w, h)) => number(w).zip(number(h)),
        None => number(given).map(|n| (n, n)),
    };
    parsed.ok_or_else(|| {
        Error::user(format!("--size {given}: give a number such as 192, or WIDTHxHEIGHT such as 320x240"))
    })
}

/// A bar with images/s, MB/s and time left on a terminal, plain lines otherwise.
struct PrepareScreen {
    /// Set before the first image.
    begun: crate::signals::Begun,
    quiet: bool,
    terminal: bool,
    view: Mutex<(ProgressBar, f64)>,
}

/// Seconds between two lines where there is no terminal.
const LINE_EVERY: f64 = 10.0;

impl PrepareScreen {
    fn new(quiet: bool, begun: crate::signals::Begun) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { begun, quiet, terminal, view: Mutex::new((ProgressBar::hidden(), 0.0)) }
    }

    fn view(&self) -> std::sync::MutexGuard<'_, (ProgressBar, f64)> {
        self.view.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl PrepareWatcher for PrepareScreen {
    fn started(&self, title: &str, total: u64, notes: &[String]) {
        self.begun.set();
        if self.quiet {
            return;
        }
        screen::tell(title);
        notes.iter().for_each(|note| say!("  note: {note}"));
        if self.terminal {
            self.view().0 = screen::bar::new(total, screen::bar::COUNT);
        }
    }

    fn live(&self, live: &JobProgress) {
        if self.quiet {
            return;
        }
        let mut view = self.view();
        let per_s = |n: u64| n as f64 / live.seconds.max(1e-3);
        let images = format!("{} images/s", text::si(per_s(live.images).round()));
        let read = match live.bytes_read {
            0 => String::new(),
            read => format!("{:.1} MB/s", per_s(read) / 1e6),
        };
        view.0.set_position(live.images);
        view.0.set_message(screen::bar::message(&[(0, &images), (1, &read)]));
        if !self.terminal && live.seconds - view.1 >= LINE_EVERY && live.images < live.total {
            view.1 = live.seconds;
            let gap = if read.is_empty() { "" } else { "  " };
            let left = text::time_left((live.total - live.images) as f64 / per_s(live.images));
            let left = left.map_or(String::new(), |left| format!(", {left} left"));
            say!("{} of {}, {images}{gap}{read}{left}", live.images, text::counted(live.total as usize, "image"));
        }
    }

    fn note(&self, note: &str) {
        if !self.quiet {
            self.view().0.suspend(|| say!("  {note}"));
        }
    }

    fn ended(&self) {
        self.view().0.finish_and_clear();
    }
}
