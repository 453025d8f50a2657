//! `prepare` as a run: a job, an engine, and a run directory that can be watched and compared.

use paceline_base::{Error, Result, text};
use paceline_prepare::job::{self, Begun, Job, JobProgress, Prepared, Setting, SettingNames, TaskFigures, Threads};
use paceline_prepare::spark::{self, Cluster, Event, Request};
use paceline_record::{CpuWatch, ProgressRecord, ProgressWriter, RunDir, Status, Summary, Work};
use paceline_system::machine;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// What runs the stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataEngine {
    /// Threads of this process.
    Local,
    /// A Spark cluster.
    Spark(Cluster),
}

impl DataEngine {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Spark(_) => "spark",
        }
    }
}

/// What to prepare, where and with what.
#[derive(Clone, Debug)]
pub struct PrepareOptions {
    /// Source, destination and settings.
    pub spec: job::JobSpec,
    /// Threads that decode, resize and encode (under Spark: of each task); none is one for each core (under Spark: one).
    pub threads: Option<usize>,
    /// Threads that read files; none is two.
    pub readers: Option<usize>,
    /// What runs the stages.
    pub engine: DataEngine,
    /// The run directory; none is `prepare-N` in `runs`.
    pub run_dir: Option<PathBuf>,
    /// Where run directories are made.
    pub runs: PathBuf,
}

/// Is told how it goes.
pub trait PrepareWatcher {
    /// Before the first image: what will be done.
    fn started(&self, title: &str, total: u64, notes: &[String]);
    /// Some times a second.
    fn live(&self, live: &JobProgress);
    /// Something worth a line.
    fn note(&self, note: &str);
    /// After the last image, or an error.
    fn ended(&self);
}

/// How a preparation ended.
#[derive(Clone, Debug)]
pub struct PrepareFinished {
    /// The shards.
    pub prepared: Prepared,
    /// Its run directory; none if there was nothing to do.
    pub dir: Option<PathBuf>,
    /// Its summary, as written.
    pub summary: Summary,
}

/// `run.toml` of a preparation, besides `format = 1`.
#[derive(Serialize)]
struct RunToml<'a> {
    version: &'static str,
    work: Work,
    engine: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<&'a Cluster>,
    source: String,
    destination: String,
    skip_bad: usize,
    readers: usize,
    threads: usize,
    settings: &'a job::Settings,
    machine: machine::Machine,
}

/// Prepares. Ends cleanly, with finished shards kept, when `stop` becomes true.
pub fn prepare(options: &PrepareOptions, watcher: &dyn PrepareWatcher, stop: &AtomicBool) -> Result<PrepareFinished> {
    let begin = Instant::now();
    let (readers, workers) = (options.readers.unwrap_or(0), options.threads.unwrap_or(0));
    let names = [Setting::Threads, Setting::Readers].map(|setting| options.spec.names.of(setting)).join(" or ");
    paceline_system::threads::check_threads(&names, 1, readers.saturating_add(workers))?;
    if let DataEngine::Spark(_) = options.engine {
        spark::spark_submit()?; // before anything is made
    }
    if options.spec.source.to_str().is_none() {
        let source = options.spec.source.display();
        return Err(Error::user(format!(
            "{source}: the path is not UTF-8, which the index of shards is; rename the folder"
        )));
    }
    let job = match job::begin(&options.spec)? {
        Begun::Job(job) => *job,
        Begun::Complete(prepared) => {
            return Ok(PrepareFinished {
                prepared: *prepared,
                dir: None,
                summary: Summary { work: Work::Prepare, status: Status::Done, ..Summary::default() },
            });
        }
    };
    let cores = machine::describe().cores;
    let threads = Threads {
        readers: options.readers.unwrap_or(2),
        workers: options.threads.unwrap_or(if options.engine == DataEngine::Local { cores } else { 1 }),
    };
    let dir = match &options.run_dir {
        Some(path) => RunDir::create(path)?,
        None => RunDir::create_next(&options.runs, "prepare")?,
    };
    dir.write_run_toml(&RunToml {
        version: env!("CARGO_PKG_VERSION"),
        work: Work::Prepare,
        engine: options.engine.name(),
        cluster: match &options.engine {
            DataEngine::Local => None,
            DataEngine::Spark(cluster) => Some(cluster),
        },
        source: options.spec.source.display().to_string(),
        destination: options.spec.destination.display().to_string(),
        skip_bad: options.spec.skip_bad,
        readers: threads.readers,
        threads: threads.workers,
        settings: &options.spec.settings,
        machine: machine::describe(),
    })?;
    let mut summary = Summary {
        work: Work::Prepare,
        name: dir.name(),
        data: options.spec.source.display().to_string(),
        strategy: options.engine.name().into(),
        threads: threads.workers,
        seed: options.spec.settings.seed,
        classes: Some(job.manifest().classes.len() as u64),
        started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        machine: machine::describe(),
        ..Summary::default()
    };
    dir.write_summary(&summary)?;
    announce(&job, options, watcher);
    let about_images = job.manifest().notes.clone();
    let cores = CpuWatch::start();
    let result = work(job, options, threads, &dir, watcher, stop);
    if options.engine == DataEngine::Local {
        summary.cpu = vec![cores.so_far()]; // under Spark others do the work
    }
    drop(cores);
    watcher.ended();
    summary.seconds_total = begin.elapsed().as_secs_f64();
    summary.peak_rss_bytes = machine::peak_rss_bytes();
    let (prepared, live, notes) = match result {
        Ok(done) => done,
        Err(e) => {
            let stopped = stop.load(Ordering::Relaxed);
            summary.status = if stopped { Status::Stopped } else { Status::Failed { why: e.message().to_string() } };
            dir.write_summary(&summary)?;
            return Err(e);
        }
    };
    let handled = live.images;
    summary.status = Status::Done;
    summary.seconds_train = live.seconds;
    summary.examples_per_s = handled as f64 / live.seconds;
    summary.stages = live.stages.clone();
    summary.reasons = about_images.into_iter().chain(notes).collect();
    summary.warnings = prepared.index.skipped.iter().map(|s| format!("left out: {s}")).collect();
    for (class, name) in prepared.index.classes.iter().enumerate() {
        if prepared.index.shards.iter().all(|shard| shard.per_class.get(class).is_none_or(|&n| n == 0)) {
            summary.warnings.push(format!("the class {name} has no records: all of its images were left out"));
        }
    }
    summary.prepared = Some(paceline_record::PreparedSummary {
        destination: options.spec.destination.display().to_string(),
        shards: prepared.index.shards.len(),
        kept: prepared.kept,
        records: prepared.records() as u64,
        images: handled,
        skipped: prepared.index.skipped.len() as u64,
        bytes_read: live.bytes_read,
        bytes_written: live.bytes_written,
    });
    dir.write_summary(&summary)?;
    Ok(PrepareFinished { prepared, dir: Some(dir.path().to_path_buf()), summary })
}

fn announce(job: &Job, options: &PrepareOptions, watcher: &dyn PrepareWatcher) {
    let manifest = job.manifest();
    let s = &manifest.settings;
    let images: usize = job.pending().iter().map(|&p| manifest.shards[p].images).sum();
    let title = format!(
        "{} of {} from {} → {} of {}×{} {} in {}",
        text::counted(manifest.images(), "image"),
        text::counted(manifest.classes.len(), "class"),
        options.spec.source.display(),
        text::counted(manifest.shards.len(), "shard"),
        s.width,
        s.height,
        if s.encoding == job::ImageFormat::Raw { "raw".into() } else { format!("JPEG (quality {})", s.quality) },
        options.spec.destination.display()
    );
    let mut notes = manifest.notes.clone();
    if job.kept() > 0 {
        notes.push(format!(
            "{} of {} shards were finished before, are whole and are kept",
            job.kept(),
            manifest.shards.len()
        ));
    }
    watcher.started(&title, images as u64, &notes);
}

/// What an engine gives back: the shards, the figures, and what there is to say.
type Worked = (Prepared, JobProgress, Vec<String>);

fn work(
    job: Job,
    options: &PrepareOptions,
    threads: Threads,
    dir: &RunDir,
    watcher: &dyn PrepareWatcher,
    stop: &AtomicBool,
) -> Result<Worked> {
    let mut recorder = Recorder { writer: dir.begin_progress()?, last: 0.0 };
    let mut watch = |live: &JobProgress| {
        recorder.live(live);
        watcher.live(live);
    };
    match &options.engine {
        DataEngine::Local => {
            let (prepared, live) = job.run(threads, &mut watch, stop)?;
            recorder.push(&live)?;
            Ok((prepared, live, Vec::new()))
        }
        DataEngine::Spark(cluster) => {
            let log = dir.path().join("spark.log");
            let worked = on_spark(job, cluster, threads, options.spec.names, &log, watcher, &mut watch, stop)?;
            recorder.push(&worked.1)?;
            Ok(worked)
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "one caller; a struct would only name them again")]
fn on_spark(
    job: Job,
    cluster: &Cluster,
    threads: Threads,
    names: SettingNames,
    log: &std::path::Path,
    watcher: &dyn PrepareWatcher,
    watch: &mut dyn FnMut(&JobProgress),
    stop: &AtomicBool,
) -> Result<Worked> {
    let program = std::env::current_exe().map_err(|e| Error::failure(format!("cannot find this program: {e}")))?;
    let request = Request {
        name: "paceline prepare".into(),
        program,
        arguments: job.task(threads)?.arguments()?,
        tasks: job.pending().iter().map(ToString::to_string).collect(),
    };
    let (total, _) = job.images_pending_and_finished();
    let begin = Instant::now();
    let mut notes = Vec::new();
    let mut events = |event: Option<&Event>| {
        match event {
            Some(Event::Connected { master, version }) => watcher.note(&format!("Spark {version} at {master}")),
            Some(Event::Started { cores, wanted, partitions, tasks }) => {
                let few = if partitions < wanted {
                    let shards = names.of(Setting::Shards);
                    format!("; {wanted} were wanted, but a shard is made by one task: more {shards} would use them")
                } else {
                    String::new()
                };
                let note = format!(
                    "{} for {} and {}{few}",
                    text::counted(*partitions, "partition"),
                    text::counted(*cores, "core"),
                    text::counted(*tasks, "shard")
                );
                watcher.note(&note);
                notes.push(note);
            }
            _ => {}
        }
        // Finished shards can be seen from here: the destination is shared.
        let (_, images) = job.images_pending_and_finished();
        watch(&JobProgress { images, total, seconds: begin.elapsed().as_secs_f64(), ..JobProgress::default() });
    };
    let answers = spark::submit(cluster, &request, log, &mut events, &|| stop.load(Ordering::Relaxed))?;
    let mut live =
        JobProgress { images: total, total, seconds: begin.elapsed().as_secs_f64(), ..JobProgress::default() };
    for line in answers.iter().flat_map(|a| &a.lines) {
        let Ok(part) = serde_json::from_str::<TaskFigures>(line) else { continue };
        live.bytes_read += part.bytes_read;
        live.bytes_written += part.bytes_written;
        merge(&mut live.stages, part.stages);
    }
    let mut hosts: Vec<&str> = answers.iter().map(|a| a.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let again = answers.iter().filter(|a| a.attempt > 0).count();
    notes.push(format!(
        "{} ran on {}{}, the longest for {}",
        text::counted(answers.len(), "partition"),
        text::counted(hosts.len(), "host"),
        if again > 0 { format!(", {again} of them after a failure") } else { String::new() },
        text::duration(answers.iter().map(|a| a.seconds).fold(0.0, f64::max))
    ));
    Ok((job.collect()?, live, notes))
}

fn merge(all: &mut Vec<paceline_base::stage::StageFigures>, more: Vec<paceline_base::stage::StageFigures>) {
    for stage in more {
        match all.iter_mut().find(|s| s.name == stage.name) {
            Some(same) => {
                same.add(&stage);
                same.threads = same.threads.max(stage.threads);
            }
            None => all.push(stage),
        }
    }
}

/// Appends to `progress.jsonl` once a second.
struct Recorder {
    writer: ProgressWriter,
    last: f64,
}

impl Recorder {
    fn live(&mut self, live: &JobProgress) {
        if live.seconds - self.last >= 1.0 {
            self.last = live.seconds;
            // Progress that cannot be written must not end the work; the last line, and the summary, will say so.
            let _ = self.push(live);
        }
    }

    fn push(&mut self, live: &JobProgress) -> Result<()> {
        self.writer.push(&ProgressRecord {
            seconds: live.seconds,
            images: live.images,
            total: live.total,
            bytes_read: live.bytes_read,
            bytes_written: live.bytes_written,
            stages: live.stages.clone(),
        })
    }
}
