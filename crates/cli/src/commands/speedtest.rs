//! `paceline speedtest DATA…`

use crate::flags::{Speedtest, SpeedtestCells};
use crate::screen::{self, say};
use crate::signals::{End, stop_on_signal};
use indicatif::ProgressBar;
use paceline::base::setting::SettingNames;
use paceline::prepare::speedtest::{Design, StudySetting, measure_cells};
use paceline::record::{Cell, Measurement, PageCache, Study, Variant, read_study};
use paceline::report::study;
use paceline::{Error, Result, report, text};
use paceline_run::DataEngine;
use paceline_run::speedtest::{Local, OnSpark, Speedtest as Order, StudyStarted, StudyWatcher, speedtest};
use std::io::{BufRead, BufReader, IsTerminal};
use std::sync::Mutex;
use std::time::Instant;

/// Runs the command.
pub(crate) fn run(flags: &Speedtest) -> Result<End> {
    let order = order(flags)?;
    let stop = stop_on_signal("stopping after this measurement; what was measured is kept").heard_from_the_start();
    let screen = StudyScreen::new(flags.quiet || flags.json);
    let finished = match super::prepare::engine(&flags.engine, Some(&flags.partitions))? {
        DataEngine::Local => speedtest(&order, &mut Local(order.names), &screen, &stop)?,
        DataEngine::Spark(cluster) => {
            paceline::prepare::spark::spark_submit()?; // before anything is made
            let note = |text: &str| screen.note(text);
            let folder = paceline::prepare::spark::folder()?;
            let log = folder.path().join("spark.log");
            let mut engine = OnSpark { cluster, log: log.clone(), note: &note };
            match speedtest(&order, &mut engine, &screen, &stop) {
                Ok(finished) => {
                    if log.exists() {
                        let kept = finished.dir.join("spark.log");
                        std::fs::copy(&log, &kept).map_err(|e| Error::io("write", &kept, &e))?;
                    }
                    finished
                }
                Err(error) => {
                    if log.exists() {
                        let _ = folder.keep(); // the error says where the log is
                    }
                    return Err(error);
                }
            }
        }
    };
    let studies = [read_study(&finished.dir)?];
    let page = flags.html.clone().unwrap_or_else(|| finished.dir.join("speedtest.html"));
    report::write_study_html(&page, &studies)?;
    if flags.json {
        json(&studies)?;
    } else if !flags.quiet {
        say!("");
        show(&studies);
        say!("\nrun: {}", finished.dir.display());
        say!("plots: {}", page.display());
    }
    Ok(finished.ended.into())
}

/// Tables and words.
pub(crate) fn show(studies: &[Study]) {
    let series = study::series(studies);
    screen::print_table(&study::tables(&series, screen::style()));
    say!("\nin words\n");
    for verdict in study::words(studies, &series) {
        say!("- {verdict}");
    }
}

/// Figures and words as JSON.
pub(crate) fn json(studies: &[Study]) -> Result<()> {
    let series = study::series(studies);
    let words: Vec<String> = study::words(studies, &series).iter().map(ToString::to_string).collect();
    let summaries: Vec<_> = studies.iter().map(|study| &study.summary).collect();
    let value = serde_json::json!({ "summaries": summaries, "series": series, "words": words });
    screen::print(&serde_json::to_string_pretty(&value).map_err(|e| Error::internal(e.to_string()))?);
    Ok(())
}

/// Runs the hidden command of other engines' tasks: cells in, measurements out, one JSON object a line each.
pub(crate) fn cells(flags: &SpeedtestCells) -> Result<()> {
    let input: Box<dyn BufRead> = match &flags.cells {
        Some(path) => Box::new(BufReader::new(std::fs::File::open(path).map_err(|e| Error::io("read", path, &e))?)),
        None => Box::new(std::io::stdin().lock()),
    };
    let mut cells: Vec<Cell> = Vec::new();
    for (number, line) in input.lines().enumerate() {
        let line = line.map_err(|e| Error::failure(format!("cannot read the cells: {e}")))?;
        if !line.trim().is_empty() {
            let cell = serde_json::from_str(&line);
            cells.push(cell.map_err(|e| Error::user(format!("line {}: this is no cell: {e}", number + 1)))?);
        }
    }
    measure_cells(cells, &flags.engine, SettingNames(flag), &|| false, &mut |measurement| {
        screen::print(&serde_json::to_string(&measurement).map_err(|e| Error::internal(e.to_string()))?);
        Ok(())
    })
}

/// The flag of a setting.
fn flag(setting: StudySetting) -> &'static str {
    match setting {
        StudySetting::SkipBad => "--skip-bad",
        StudySetting::PageCache => "--cache-state",
        StudySetting::Full => "--full",
        StudySetting::Threads => "--threads",
        StudySetting::TimeLimit => "--time-limit",
    }
}

fn order(flags: &Speedtest) -> Result<Order> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let numbers = |flag: &str, given: &[usize], default: &[usize]| -> Result<Vec<usize>> {
        let mut values = if given.is_empty() { default.to_vec() } else { given.to_vec() };
        values.sort_unstable();
        values.dedup();
        if values[0] == 0 || values[values.len() - 1] > 1_000_000 {
            return Err(Error::user(format!("{flag}: give numbers from 1 to 1,000,000, such as {flag} 8,16,32")));
        }
        Ok(values)
    };
    let (batch, batches, repetitions): (&[usize], &[usize], usize) = if flags.quick {
        (&[4, 16, 32], &[2, 8], 2)
    } else {
        (&[2, 4, 6, 8, 12, 16, 24, 32], &[2, 4, 8, 12, 16, 24], 3)
    };
    let at_least_one = |flag: &str, n: usize| match n {
        0 => Err(Error::user(format!("{flag} 0: give at least 1"))),
        n => Ok(n),
    };
    let variants = named("--variants", &flags.variants, &Variant::ALL.map(|v| (v.name(), v)))?;
    let partitions = match flags.partitions.as_str() {
        "auto" => 3 * cores,
        given => given.parse().ok().filter(|&n| n >= 1).ok_or_else(|| {
            Error::user(format!("--partitions {given}: give a number of at least 2, or auto (3 for each core)"))
        })?,
    };
    if partitions < 2 && variants.iter().any(|v| v.partitioning()) {
        return Err(Error::user(
            "--partitions 1 is what the variants neither and caching measure; give at least 2, or --variants neither,caching",
        ));
    }
    let decode = named("--decode", std::slice::from_ref(&flags.decode), &[("yes", true), ("no", false)])?[0];
    let time_limit = match flags.time_limit.as_str() {
        "none" => None,
        given => Some(
            given
                .parse()
                .ok()
                .filter(|&s: &f64| s > 0.0)
                .ok_or_else(|| Error::user(format!("--time-limit {given}: give seconds, such as 300, or none")))?,
        ),
    };
    let states = [PageCache::Warm, PageCache::Cold].map(|state| (state.name(), state));
    Ok(Order {
        sources: flags.sources.clone(),
        design: Design {
            batch: numbers("--batch", &flags.batch, batch)?,
            batches: numbers("--batches", &flags.batches, batches)?,
            repetitions: at_least_one("--repetitions", flags.repetitions.unwrap_or(repetitions))?,
            page_cache: named("--cache-state", &flags.cache_state, &states)?,
            variants,
            full: flags.full,
            partitions,
            threads: at_least_one("--threads", flags.threads.unwrap_or(cores))?,
            decode,
            size: at_least_one("--size", flags.size)?,
            verify: !flags.no_verify,
            seed: flags.seed,
            skip_bad: flags.skip_bad,
        },
        time_limit,
        run_dir: flags.run_dir.clone(),
        names: SettingNames(flag),
    })
}

/// What names stand for, each once, in the order given.
fn named<T: Copy + PartialEq>(flag: &str, given: &[String], known: &[(&str, T)]) -> Result<Vec<T>> {
    let mut found = Vec::new();
    for word in given {
        let Some((_, value)) = known.iter().find(|(name, _)| name == word) else {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            return Err(Error::user(format!(
                "{flag} {word}: give {}{}",
                names.join(", "),
                text::did_you_mean(word, names.iter().copied())
            )));
        };
        if !found.contains(value) {
            found.push(*value);
        }
    }
    if found.is_empty() {
        return Err(Error::user(format!("{flag}: give at least one of them")));
    }
    Ok(found)
}

/// A bar with rate and time left on a terminal, plain lines otherwise.
struct StudyScreen {
    quiet: bool,
    terminal: bool,
    view: Mutex<View>,
}

struct View {
    bar: ProgressBar,
    planned: usize,
    images: u64,
    total: u64,
    begin: Instant,
    last_line: f64,
}

/// Seconds between two lines where there is no terminal.
const LINE_EVERY: f64 = 10.0;

impl StudyScreen {
    fn new(quiet: bool) -> Self {
        let view =
            View { bar: ProgressBar::hidden(), planned: 0, images: 0, total: 0, begin: Instant::now(), last_line: 0.0 };
        Self { quiet, terminal: std::io::stderr().is_terminal(), view: Mutex::new(view) }
    }

    fn note(&self, note: &str) {
        if !self.quiet {
            self.view().bar.suspend(|| say!("  {note}"));
        }
    }

    fn view(&self) -> std::sync::MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl StudyWatcher for StudyScreen {
    fn started(&self, started: &StudyStarted) {
        if self.quiet {
            return;
        }
        screen::tell(&started.title);
        started.reasons.iter().for_each(|reason| say!("  why: {reason}"));
        started.warnings.iter().for_each(|warning| say!("  note: {warning}"));
        let mut view = self.view();
        (view.planned, view.total, view.begin) = (started.planned, started.images, Instant::now());
        if self.terminal {
            view.bar = screen::bar::new(started.images, screen::bar::PERCENT);
        }
    }

    fn measured(&self, m: &Measurement, done: usize) {
        if self.quiet {
            return;
        }
        let mut view = self.view();
        view.images += m.images;
        let cell = format!("{} {}, {} × {}", m.cell.source, m.cell.page_cache.name(), m.cell.batch, m.cell.batches);
        let images = format!("{} images/s", text::si(m.images_per_s().round()));
        let bytes = format!("{:.1} MB/s", m.mb_per_s());
        view.bar.set_position(view.images);
        let done_of = format!("{done}/{}", view.planned);
        view.bar.set_message(screen::bar::message(&[(0, &done_of), (2, &cell), (1, &images), (3, &bytes)]));
        let seconds = view.begin.elapsed().as_secs_f64();
        if !self.terminal && seconds - view.last_line >= LINE_EVERY && done < view.planned {
            view.last_line = seconds;
            let left = view.total.saturating_sub(view.images) as f64 * seconds / view.images as f64;
            let left = text::time_left(left).map_or(String::new(), |left| format!(", about {left} left"));
            say!("{done} of {} measurements{left}; {cell}: {images}  {bytes}", view.planned);
        }
    }

    fn ended(&self) {
        self.view().bar.finish_and_clear();
    }
}
