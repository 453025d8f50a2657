//! A throughput study, from paths to a run directory: recognise the sources, design, measure, record.
//!
//! What measures is an [`Engine`]: it gets the list of cells and hands back measurements. [`Local`] does it in this
//! process; others may send parts of the list to processes elsewhere, which do the same by
//! [`measure_cells`].

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use paceline_base::{Error, Result, text};
use paceline_engine::Ended;
use paceline_prepare::spark::{self, Cluster, Event, Request};
use paceline_prepare::speedtest::{
    Design, Designed, ListedSource, StudiedSource, StudySetting, StudySettingNames, can_drop, measure_cells, recognise,
};
use paceline_record::{Cell, CpuWatch, Measurement, MeasurementWriter, PageCache, RunDir, Status, Summary, Work};
use paceline_report::study::csv;
use paceline_system::{Machine, atomic, machine};
use serde::Serialize;

use crate::Finished;

/// What to study.
#[derive(Clone, Debug)]
pub struct Speedtest {
    /// Folders of photos or shards, tables, files of records.
    pub sources: Vec<PathBuf>,
    /// What is measured on them.
    pub design: Design,
    /// Measuring ends after so many seconds, with what it has.
    pub time_limit: Option<f64>,
    /// The run directory; `runs/speedtest-N` if none.
    pub run_dir: Option<PathBuf>,
    /// What the user calls the settings, for errors and reasons.
    pub names: StudySettingNames,
}

/// Something that measures cells.
pub trait Engine {
    /// Its name in records and plots.
    fn name(&self) -> &str;

    /// Measures the cells, in their order as far as it can, and hands each measurement over as soon as it is there.
    /// Ends early, without an error, when `enough` says so.
    ///
    /// # Errors
    /// What cannot be measured, or an error of `take`.
    fn measure(
        &mut self,
        cells: &[Cell],
        enough: &dyn Fn() -> bool,
        take: &mut dyn FnMut(Measurement) -> Result<()>,
    ) -> Result<()>;
}

/// Measures in this process; the user calls settings by these names.
#[derive(Clone, Copy, Debug, Default)]
pub struct Local(pub StudySettingNames);

impl Local {
    const NAME: &str = "local";
}

impl Engine for Local {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn measure(
        &mut self,
        cells: &[Cell],
        enough: &dyn Fn() -> bool,
        take: &mut dyn FnMut(Measurement) -> Result<()>,
    ) -> Result<()> {
        measure_cells(cells.iter().cloned(), self.name(), self.0, enough, take)
    }
}

/// Measures in the tasks of a Spark job, one thread each. What the variants call partitioning is here the number of the
/// job's partitions; what they cache is kept by the process of a partition.
pub struct OnSpark<'a> {
    /// Where.
    pub cluster: Cluster,
    /// Where what Spark says is kept.
    pub log: PathBuf,
    /// Is told what happens.
    pub note: &'a dyn Fn(&str),
}

impl Engine for OnSpark<'_> {
    fn name(&self) -> &str {
        "spark"
    }

    fn measure(
        &mut self,
        cells: &[Cell],
        enough: &dyn Fn() -> bool,
        take: &mut dyn FnMut(Measurement) -> Result<()>,
    ) -> Result<()> {
        let program = std::env::current_exe().map_err(|e| Error::failure(format!("cannot find this program: {e}")))?;
        let (many, one): (Vec<&Cell>, Vec<&Cell>) = cells.iter().partition(|cell| cell.variant().partitioning());
        for (cells, partitions) in [(many, self.cluster.partitions), (one, Some(1))] {
            if cells.is_empty() || enough() {
                continue;
            }
            let line = |cell: &&Cell| serde_json::to_string(&Cell { threads: 1, ..(*cell).clone() });
            let tasks: std::result::Result<Vec<String>, _> = cells.iter().map(line).collect();
            let request = Request {
                name: "paceline speedtest".into(),
                program: program.clone(),
                arguments: ["speedtest-cells", "--engine", "spark"].map(String::from).into(),
                tasks: tasks.map_err(|e| Error::user(format!("{e}; rename the data so that its path is UTF-8")))?,
            };
            let mut watch = |event: Option<&Event>| match event {
                Some(Event::Connected { master, version }) => (self.note)(&format!("Spark {version} at {master}")),
                Some(Event::Started { cores, partitions, tasks, .. }) => {
                    (self.note)(&format!(
                        "{} for {} and {}",
                        text::counted(*partitions, "partition"),
                        text::counted(*cores, "core"),
                        text::counted(*tasks, "measurement")
                    ));
                }
                _ => {}
            };
            let cluster = Cluster { partitions, ..self.cluster.clone() };
            let answers = match spark::submit(&cluster, &request, &self.log, &mut watch, enough) {
                Err(_) if enough() => return Ok(()), // a job that is stopped has measured nothing
                answers => answers?,
            };
            for text in answers.iter().flat_map(|answer| &answer.lines) {
                take(serde_json::from_str(text).map_err(|e| Error::internal(format!("a measurement: {e}")))?)?;
            }
        }
        Ok(())
    }
}

/// What a study is about to do.
#[derive(Clone, Debug)]
pub struct StudyStarted {
    /// One line: sources and number of measurements.
    pub title: String,
    /// Measurements that are planned.
    pub planned: usize,
    /// Images that these will read, which is what time goes by.
    pub images: u64,
    /// Decisions in words.
    pub reasons: Vec<String>,
    /// What was asked for and is not measured.
    pub warnings: Vec<String>,
}

/// Is shown a study while it goes.
pub trait StudyWatcher {
    /// Before the first measurement.
    fn started(&self, _: &StudyStarted) {}
    /// After every measurement; `done` of them are done.
    fn measured(&self, _: &Measurement, _done: usize) {}
    /// After the last.
    fn ended(&self) {}
}

impl StudyWatcher for crate::Silent {}

/// `run.toml`, besides `format = 1`.
#[derive(Serialize)]
struct RunToml<'a> {
    version: &'a str,
    work: Work,
    engine: &'a str,
    sources: Vec<String>,
    planned: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_limit: Option<f64>,
    machine: Machine,
    design: &'a Design,
}

/// Does the study. Ends after the current measurement when `stop` becomes true; what was measured is kept.
///
/// # Errors
/// Sources that cannot be read, before anything is written; what fails later leaves a directory with what was measured.
pub fn speedtest(
    order: &Speedtest,
    engine: &mut dyn Engine,
    watcher: &dyn StudyWatcher,
    stop: &AtomicBool,
) -> Result<Finished> {
    paceline_system::threads::check_threads(order.names.of(StudySetting::Threads), 1, order.design.threads)?;
    let begin = Instant::now();
    let sources = sources(order)?;
    let designed = order.design.cells(&sources, order.names);
    if designed.cells.is_empty() {
        let why = designed.warnings.join("; ");
        return Err(Error::user(format!("there is nothing to measure: {why}")));
    }
    let dir = match &order.run_dir {
        Some(path) => RunDir::create(path)?,
        None => RunDir::create_next(Path::new("runs"), "speedtest")?,
    };
    let names: Vec<String> = sources.iter().map(|source| source.name.clone()).collect();
    dir.write_run_toml(&RunToml {
        version: env!("CARGO_PKG_VERSION"),
        work: Work::Speedtest,
        engine: engine.name(),
        sources: names.clone(),
        planned: designed.cells.len(),
        time_limit: order.time_limit,
        machine: machine::describe(),
        design: &order.design,
    })?;
    let mut summary = Summary {
        work: Work::Speedtest,
        name: dir.name(),
        data: names.join(", "),
        strategy: engine.name().into(),
        threads: order.design.threads,
        reasons: designed.reasons.clone(),
        warnings: designed.warnings.clone(),
        seed: order.design.seed,
        started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        machine: machine::describe(),
        ..Summary::default()
    };
    dir.write_summary(&summary)?;
    let mut taken = Taken { writer: dir.begin_measurements()?, all: Vec::new() };
    watcher.started(&StudyStarted {
        title: format!(
            "{}: {}, engine {}",
            names.join(", "),
            text::counted(designed.cells.len(), "measurement"),
            engine.name()
        ),
        planned: designed.cells.len(),
        images: designed.cells.iter().map(|cell| cell.images() as u64).sum(),
        reasons: designed.reasons.clone(),
        warnings: designed.warnings.clone(),
    });
    // Listing the sources is not measuring: a short limit must not be used up by it.
    let measuring = Instant::now();
    let late = || order.time_limit.is_some_and(|limit| measuring.elapsed().as_secs_f64() > limit);
    let enough = || stop.load(Ordering::Relaxed) || late();
    let cores = CpuWatch::start();
    let result = engine.measure(&designed.cells, &enough, &mut |measurement| {
        taken.push(measurement)?;
        if let Some(last) = taken.all.last() {
            watcher.measured(last, taken.all.len());
        }
        Ok(())
    });
    watcher.ended();
    if engine.name() == Local::NAME {
        summary.cpu = vec![cores.so_far()]; // elsewhere others do the work
    }
    drop(cores);
    summary.seconds_total = begin.elapsed().as_secs_f64();
    finish(&mut summary, &designed, &taken.all, order, late());
    if let Err(error) = &result {
        summary.status = Status::Failed { why: error.message().into() };
    }
    atomic::write(&dir.speedtest_csv(), csv(&taken.all).as_bytes())?;
    dir.write_summary(&summary)?;
    result?;
    let ended = match summary.status {
        Status::Stopped if stop.load(Ordering::Relaxed) => Ended::Stopped,
        Status::Stopped => Ended::Early,
        _ => Ended::Done,
    };
    Ok(Finished { dir: dir.path().to_path_buf(), summary, checkpoints: None, ended })
}

struct Taken {
    writer: MeasurementWriter,
    all: Vec<Measurement>,
}

impl Taken {
    fn push(&mut self, measurement: Measurement) -> Result<()> {
        self.writer.push(&measurement)?;
        self.all.push(measurement);
        Ok(())
    }
}

/// Recognises the sources, counts their images, and finds out whether their page cache can be dropped.
fn sources(order: &Speedtest) -> Result<Vec<StudiedSource>> {
    let design = &order.design;
    let mut found: Vec<StudiedSource> = Vec::new();
    for path in &order.sources {
        let form = recognise(path)?;
        let whole = std::fs::canonicalize(path).map_err(|e| Error::io("read", path, &e))?;
        if found.iter().any(|other| other.path == whole) {
            return Err(Error::user(format!("{} is given twice; give each source once", path.display())));
        }
        let source = ListedSource::open(&whole, form, design.seed, design.skip_bad)?;
        let cold = design.page_cache.contains(&PageCache::Cold);
        let stays_warm = if cold { can_drop(source.files()).err() } else { None };
        let name = path.display().to_string();
        found.push(StudiedSource {
            name: if name.len() > 1 { name.trim_end_matches('/').to_string() } else { name },
            path: whole,
            form,
            images: source.count(design.largest())?,
            stays_warm,
        });
    }
    if found.is_empty() {
        return Err(Error::user("give at least one folder of photos or of shards"));
    }
    Ok(found)
}

/// Fills in what is known at the end; `late`: the time limit has passed.
fn finish(summary: &mut Summary, designed: &Designed, all: &[Measurement], order: &Speedtest, late: bool) {
    let images: u64 = all.iter().map(|m| m.images).sum();
    let seconds: f64 = all.iter().map(|m| m.seconds).sum();
    summary.examples_per_s = if seconds > 0.0 { images as f64 / seconds } else { f64::NAN };
    summary.seconds_train = seconds;
    summary.peak_rss_bytes = machine::peak_rss_bytes();
    let planned = designed.cells.len();
    summary.status = if all.len() == planned { Status::Done } else { Status::Stopped };
    if all.len() < planned {
        let why = match order.time_limit.filter(|_| late) {
            Some(limit) => {
                format!("the time limit of {limit} s ended the study ({})", order.names.of(StudySetting::TimeLimit))
            }
            None => "the study was stopped".into(),
        };
        summary.warnings.push(format!(
            "{why} after {} of {planned} measurements; their order is random, so that they are a fair part",
            all.len()
        ));
    }
    let not_cold: Vec<(&Measurement, &str)> = all.iter().filter_map(|m| Some((m, m.not_cold.as_deref()?))).collect();
    if let Some((first, why)) = not_cold.first() {
        summary.warnings.push(format!(
            "{} of {} measurements that were to be cold were not, and count for nothing; the first, of {}: {why}",
            not_cold.len(),
            all.iter().filter(|m| m.cell.page_cache == PageCache::Cold).count(),
            first.cell.source
        ));
    }
    // Of each source the last measurement knows all that was left out.
    let mut seen: Vec<&str> = Vec::new();
    for m in all.iter().rev() {
        if !m.skipped.is_empty() && !seen.contains(&m.cell.source.as_str()) {
            seen.push(&m.cell.source);
            summary.warnings.push(format!(
                "{}: {} left out: {}",
                m.cell.source,
                text::counted(m.skipped.len(), "bad image"),
                m.skipped.join("; ")
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_record::{Form, Variant};

    /// Hands over a fixed number of measurements whatever the clock says, then waits until it has been enough.
    struct Some3;

    impl Engine for Some3 {
        fn name(&self) -> &str {
            "three"
        }

        fn measure(
            &mut self,
            cells: &[Cell],
            enough: &dyn Fn() -> bool,
            take: &mut dyn FnMut(Measurement) -> Result<()>,
        ) -> Result<()> {
            for (number, cell) in cells.iter().take(3).enumerate() {
                take(Measurement {
                    engine: self.name().into(),
                    host: "here".into(),
                    started: 0.0,
                    seconds: 0.5,
                    images: cell.images() as u64,
                    from_cache: 0,
                    bytes: 1000,
                    partitions_used: 1,
                    resident: None,
                    not_cold: (number == 1).then(|| "it was in memory".into()),
                    skipped: Vec::new(),
                    cell: cell.clone(),
                })?;
            }
            while !enough() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            Ok(())
        }
    }

    fn order(folder: &Path, time_limit: Option<f64>) -> Speedtest {
        let photos = folder.join("photos");
        for class in ["ant", "bee"] {
            std::fs::create_dir_all(photos.join(class)).unwrap();
            std::fs::write(photos.join(class).join("1.png"), b"only listed").unwrap();
        }
        Speedtest {
            sources: vec![photos],
            design: Design {
                batch: vec![1, 2],
                batches: vec![1],
                repetitions: 5,
                page_cache: vec![PageCache::Warm],
                variants: vec![Variant::Neither],
                full: true,
                partitions: 2,
                threads: 1,
                decode: true,
                size: 8,
                verify: true,
                seed: 1,
                skip_bad: 0,
            },
            time_limit,
            run_dir: Some(folder.join("study")),
            names: StudySettingNames::default(),
        }
    }

    #[test]
    fn a_time_limit_keeps_what_was_measured_and_what_was_not_cold_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let order = order(folder.path(), Some(0.05));
        let finished = speedtest(&order, &mut Some3, &crate::Silent, &AtomicBool::new(false)).unwrap();
        assert_eq!(finished.summary.status, Status::Stopped);
        let warnings = finished.summary.warnings.join("\n");
        assert!(warnings.contains("the time limit of 0.05 s ended the study"), "{warnings}");
        assert!(warnings.contains("after 3 of 10 measurements"), "{warnings}");
        assert!(warnings.contains("measurements that were to be cold were not"), "{warnings}");
        let study = paceline_record::read_study(&finished.dir).unwrap();
        assert_eq!(study.measurements.len(), 3);
        assert_eq!(study.measurements[0].cell.form, Form::Files);
    }

    #[test]
    fn a_stopped_study_does_not_blame_the_time_limit() {
        let folder = tempfile::tempdir().unwrap();
        let order = order(folder.path(), Some(1e9));
        let finished = speedtest(&order, &mut Some3, &crate::Silent, &AtomicBool::new(true)).unwrap();
        let warnings = finished.summary.warnings.join("\n");
        assert!(warnings.contains("the study was stopped after 3 of 10"), "{warnings}");
    }
}
