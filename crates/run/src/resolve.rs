//! From a configuration as written to a run that can begin: data opened, model built, plan made, every "auto" decided.

use crate::forecast::Measured;
use crate::input::{RunData, open_data};
use crate::limits;
use crate::monitor;
use crate::process_group::Workers;
use crate::tune::memory::{Needs, eval_batch};
use crate::tune::trial;
use paceline_base::kernel::DeviceKind;
use paceline_base::sample::{FeatureKind, SampleKind, TargetKind};
use paceline_base::text::{bytes, counted};
use paceline_base::units::GlobalBatch;
use paceline_base::{Error, Result};
use paceline_config::{Auto, Cadence, Config, Preset, StrategyName};
use paceline_engine::{CheckpointEvery, TrainOptions};
use paceline_graph::{Graph, model_file, presets};
use paceline_kernels::cpu::Isa;
use paceline_kernels::{DeviceOptions, Tuning};
use paceline_plan::{Batches, Compression, Plan, Processes, Schedule, Settings, Store, UpdateMode, lower};
use paceline_system::machine;
use paceline_system::threads::{check_threads, cores};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How the work is spread: decided.
#[derive(Clone, Debug)]
pub struct Layout {
    /// How operators are split over ranks.
    pub plan: Plan,
    /// Threads of each rank's kernels.
    pub threads: usize,
    /// The core that the one rank is bound to.
    pub core: Option<usize>,
    /// Global batch.
    pub batch: GlobalBatch,
}

/// A run with nothing left to decide.
pub struct Resolved {
    /// The configuration with every "auto" replaced.
    pub config: Config,
    /// The data.
    pub data: RunData,
    /// The model.
    pub graph: Arc<Graph>,
    /// How the work is spread.
    pub layout: Layout,
    /// Kernel choices.
    pub tuning: Tuning,
    /// What every rank does.
    pub schedule: Arc<Schedule>,
    /// What steers the loop.
    pub options: TrainOptions,
    /// Memory that it will need.
    pub needs: Needs,
    /// Decisions in words.
    pub reasons: Vec<String>,
}

/// Builds the model for this data.
pub fn build_graph(config: &Config, data: &RunData) -> Result<Graph> {
    build_model(config, &data.sample_kind())
}

/// Builds the model for samples of this kind.
pub fn build_model(config: &Config, sample: &SampleKind) -> Result<Graph> {
    let model = &config.model;
    if model.file.is_none()
        && let Some(other) = not_for_presets(sample)
    {
        return Err(Error::user(format!(
            "model.preset {} takes numbers and gives classes, but the data {other}; give a model.file that does (docs/models.md)",
            model.preset
        )));
    }
    let (name, layers) = match &model.file {
        Some(path) => {
            let text = read_text("read the model file", path)?;
            let file = model_file::parse(&text, &path.display().to_string())?;
            let stem = path.file_stem().map_or("model".into(), |s| s.to_string_lossy().into_owned());
            (file.name.unwrap_or(stem), file.layers)
        }
        None => match model.preset {
            Preset::Softmax => ("softmax".into(), presets::softmax()),
            Preset::Mlp => ("mlp".into(), presets::mlp(&model.hidden, model.activation, model.dropout)),
            other => {
                let name = other.to_string();
                let layers = presets::network(&name).ok_or_else(|| Error::internal(format!("no preset {name}")))??;
                (name, layers)
            }
        },
    };
    let graph = Graph::build_for(&name, &layers, sample, model.l2);
    graph.map_err(|e| match &model.file {
        Some(path) => e.context(format!("model file {}", path.display())),
        None => e,
    })
}

/// What presets are not for.
fn not_for_presets(sample: &SampleKind) -> Option<&'static str> {
    match (sample.features, sample.targets) {
        (FeatureKind::Lists { .. }, _) => Some("has lists of indices, which an embedding layer reads first"),
        (_, TargetKind::Numbers { .. }) => Some(
            "has numbers as targets, which type = \"mean-squared-error\" compares (data.targets = \"classes\" if they are classes)",
        ),
        (_, TargetKind::Classes { each, .. }) if each > 1 => Some("has several classes for each sample"),
        _ => None,
    }
}

/// Reads a file that a person wrote: a configuration, a model or a plan.
pub fn read_text(doing: &str, path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::InvalidData => {
            Error::user(format!("cannot {doing} {}: it is not UTF-8 text; give a TOML file", path.display()))
        }
        _ => Error::io(doing, path, &e),
    })
}

/// The batch sizes that a run will meet.
pub(crate) fn batches(batch: GlobalBatch, eval_batch: usize, data: &RunData) -> Batches {
    let parts = |n: usize, size: usize| [size.min(n), n % size].into_iter().filter(|&s| s > 0).collect::<Vec<_>>();
    let mut evaluate = parts(data.validation_pool().pass, eval_batch);
    if let Some(test) = data.test_pool() {
        evaluate.extend(parts(test.pass, eval_batch));
    }
    Batches { train: parts(data.samples(), batch.samples()), evaluate }
}

/// Data, model and plan file of a run, with nothing decided yet.
pub(crate) struct Opened {
    /// The data.
    pub data: RunData,
    /// The model.
    pub graph: Arc<Graph>,
    /// What the plan file says, if one is given; it fits the model.
    pub plan: Option<Plan>,
}

impl Opened {
    /// Opens the data, builds the model and reads the plan.
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let data = open_data(config)?;
        let graph = Arc::new(build_graph(config, &data)?);
        let plan = config.strategy.plan.as_ref().map(|path| read_plan(path, &graph)).transpose()?;
        Ok(Self { data, graph, plan })
    }

    /// What one checkpoint takes on disk; none if none are written.
    pub(crate) fn checkpoint_bytes(&self, config: &Config) -> Option<u64> {
        // What top-k holds back is kept for each rank; at least one, where their number is not known yet.
        let sparse = matches!(config.strategy.compression(), Compression::TopK { .. });
        let held = if sparse { config.strategy.replicas.chosen().unwrap_or(1) as u64 } else { 0 };
        let tensors = 1 + config.optimizer.rule().states().len() as u64 + held;
        (config.checkpoint.every != Cadence::Never).then(|| 4 * tensors * self.graph.parameter_count() as u64)
    }
}

fn read_plan(path: &Path, graph: &Graph) -> Result<Plan> {
    let plan = paceline_plan::parse(&read_text("read the plan file", path)?, &path.display().to_string())?;
    plan.check(graph).map_err(|e| e.context(format!("plan file {}", path.display())))?;
    Ok(plan)
}

/// An error if the run was asked to end while it is still being made ready: there is nothing yet to save.
pub(crate) fn unless_stopped(stop: &AtomicBool) -> Result<()> {
    match stop.load(Ordering::Relaxed) {
        true => Err(Error::stopped("stopped on request before the first step; nothing was written")),
        false => Ok(()),
    }
}

/// Decides everything. `tuning` comes from an earlier attempt, so that a resume uses the same kernels.
pub fn resolve(config: &Config, tuning: Option<Tuning>) -> Result<Resolved> {
    resolve_among(config, Opened::new(config)?, tuning, None, &AtomicBool::new(false))
}

/// The same as a run would on the hosts of a cluster file, with one process on each where its strategy or plan is one for several; and how its ranks lie
/// there.
pub fn resolve_on(config: &Config, tuning: Option<Tuning>, measured: &Measured) -> Result<(Resolved, Processes)> {
    let opened = Opened::new(config)?;
    let hosts = &measured.file.hosts;
    let several = config.strategy.name == StrategyName::MultiWorker || opened.plan.is_some();
    if !several || hosts.len() == 1 {
        let run = resolve_among(config, opened, tuning, None, &AtomicBool::new(false))?;
        let processes = measured.processes(run.layout.plan.ranks, run.layout.threads, false)?;
        return Ok((run, processes));
    }
    let ranks = opened.plan.as_ref().map(|plan| plan.ranks);
    let replicas = config.strategy.replicas.chosen().unwrap_or(1);
    let processes = measured.processes(ranks.unwrap_or(hosts.len() * replicas), 1, true)?;
    let fewest = hosts.iter().map(|h| h.cores / processes.replicas).min().unwrap_or(1).max(1);
    let workers = Workers {
        process: 0,
        hosts: processes.hosts.clone(),
        replicas: processes.replicas,
        threads: config.strategy.threads.chosen().unwrap_or(fewest),
        isa: Isa::detect(),
        bucket: config.strategy.bucket.chosen().unwrap_or(Store::default().bucket),
        reasons: vec![format!("{} on each of {}", counted(processes.replicas, "rank"), counted(hosts.len(), "host"))],
    };
    let run = resolve_among(config, opened, tuning, Some(&workers), &AtomicBool::new(false))?;
    let threads = run.layout.threads;
    Ok((run, Processes { threads, ..processes }))
}

/// The same for the processes of a job; none for a run in this process alone. Ends early when `stop` becomes true.
pub(crate) fn resolve_among(
    config: &Config,
    opened: Opened,
    tuning: Option<Tuning>,
    workers: Option<&Workers>,
    stop: &AtomicBool,
) -> Result<Resolved> {
    let mut config = config.clone();
    let Opened { mut data, graph, plan } = opened;
    let mut reasons = workers.map_or(Vec::new(), |w| w.reasons.clone());
    let isa = workers.filter(|_| tuning.is_none()).map(|w| w.isa);
    let device = DeviceOptions { tuning: tuning.clone(), isa, ..DeviceOptions::default() };
    let (chosen, kind) = (device.tuning()?, device.kind());
    let layout = match plan {
        Some(plan) => planned(&config, plan, workers, &mut reasons)?,
        None => layout(&config, &graph, &data, tuning.as_ref(), &kind, workers, &mut reasons, stop)?,
    };
    if layout.batch.samples() > data.samples() {
        return Err(Error::user(format!(
            "train.batch is {}, but there are only {} training samples; give at most that",
            layout.batch,
            data.samples()
        )));
    }
    let processes = workers.map_or(1, Workers::processes);
    reasons.extend(data.describe(&config, layout.batch.samples().div_ceil(processes)));
    let tuning = chosen;
    let rule = config.optimizer.rule();
    let settings = Settings { defer_updates: processes > 1, lists: data.list_room(), ..Settings::new(rule, kind) };
    let lowered = |batches: &Batches| lower(&graph, &layout.plan, batches, &settings);
    let training = lowered(&Batches { train: batches(layout.batch, 1, &data).train, evaluate: Vec::new() })?;
    let (monitor, why) = monitor::choose(config.train.monitor, &training.metrics)?;
    reasons.extend(why);
    let evaluated = eval_batch(config.train.eval_batch, layout.batch, training.largest_memory(), |n| {
        let evaluate = batches(layout.batch, n, &data).evaluate;
        Ok(lowered(&Batches { train: Vec::new(), evaluate })?.largest_memory())
    })?;
    let schedule = Arc::new(lowered(&batches(layout.batch, evaluated, &data))?);
    if let (Some(local), Some(shares), Some(workers)) = (&data.local, &layout.plan.shares, workers) {
        let ranks = workers.by_process();
        reasons.push(local.words(&ranks, shares, layout.batch.samples()));
        let words = local.validation_words(&ranks, shares, evaluated);
        data.notes.extend(words);
    }
    let needs = Needs::of(&schedule, &layout, &config, &data, Some(&tuning))?;
    let here = workers.map_or(layout.plan.ranks, Workers::on_this_host);
    needs.of_ranks(here, layout.plan.ranks).check(machine::free_memory_bytes(), &layout)?;
    let arena = schedule.largest_memory();
    tracing::info!("kernels: {}; {arena} bytes of device memory a rank", device.describe()?);
    for (i, phase) in schedule.phases.iter().enumerate() {
        tracing::debug!("phase {i}: {:?} of {} samples, {} tasks", phase.kind, phase.samples, phase.tasks().count());
    }
    let steps_per_epoch = layout.batch.steps_per_epoch(data.samples()) as u64;
    let base = config.optimizer.rate();
    let options = TrainOptions {
        seed: config.train.seed,
        epochs: config.train.epochs,
        batch: Arc::new({
            let batch = layout.batch;
            move |_, _| batch
        }),
        eval_batch: evaluated,
        rate: rates(&config, steps_per_epoch),
        monitor,
        patience: config.train.early_stopping,
        min_delta: config.train.min_delta,
        max_steps: config.train.max_steps,
        checkpoint: match config.checkpoint.every {
            Cadence::Never => CheckpointEvery::Never,
            Cadence::Epoch => CheckpointEvery::Epoch,
            Cadence::Steps(n) => CheckpointEvery::Steps(n),
            Cadence::Time(t) => CheckpointEvery::Seconds(t.as_secs_f64()),
        },
    };
    config.train.batch = paceline_config::Batch::fixed(layout.batch.samples() as u64);
    config.train.eval_batch = Auto::Is(evaluated);
    config.train.monitor = Auto::Is(monitor);
    config.data.validation = config.data.validation.resolved(&data.set);
    config.optimizer.rate = Auto::Is(base);
    config.optimizer.eps = Auto::Is(config.optimizer.eps());
    config.strategy.threads = Auto::Is(layout.threads);
    config.strategy.replicas = Auto::Is(workers.map_or(layout.plan.ranks, |w| w.replicas));
    config.strategy.bucket = Auto::Is(layout.plan.store.bucket);
    config.strategy.update = Auto::Is(layout.plan.store.update);
    Ok(Resolved { config, data, graph, layout, tuning, schedule, options, needs, reasons })
}

/// The learning rate by step. Where a run stops (`train.max_steps`) is not part of it, so that it can go on exactly.
pub(crate) fn rates(config: &Config, steps_per_epoch: u64) -> Arc<dyn Fn(u64) -> f64 + Send + Sync> {
    let (schedule, base) = (config.schedule.clone(), config.optimizer.rate());
    let length = schedule.length(steps_per_epoch, config.train.epochs);
    Arc::new(move |step| schedule.rate_at(base, step, steps_per_epoch, length))
}

#[allow(clippy::too_many_arguments)] // one call site; the values belong to no common thing
fn layout(
    config: &Config,
    graph: &Graph,
    data: &RunData,
    tuning: Option<&Tuning>,
    kind: &DeviceKind,
    workers: Option<&Workers>,
    reasons: &mut Vec<String>,
    stop: &AtomicBool,
) -> Result<Layout> {
    let strategy = &config.strategy;
    let cores = cores();
    let bucket = strategy.bucket.chosen().unwrap_or(Store::default().bucket);
    if let Some(workers) = workers {
        return among(config, graph, data, workers, reasons);
    }
    let core = (strategy.name == StrategyName::OneDevice).then_some(strategy.device.0);
    let allowed = paceline_kernels::cpu::allowed_cores();
    if let Some(core) = core.filter(|c| !allowed.is_empty() && !allowed.contains(c)) {
        let names: Vec<String> = allowed.iter().map(|c| format!("cpu:{c}")).collect();
        return Err(Error::user(format!(
            "strategy.device is cpu:{core}, which this process may not run on; give one of {}",
            names.join(", ")
        )));
    }
    let replicas: Vec<usize> = match (strategy.name, strategy.replicas) {
        (StrategyName::Mirrored, Auto::Is(n)) => vec![n],
        (StrategyName::Mirrored, Auto::Auto) => trial::powers(cores),
        _ => vec![1],
    };
    let threads: Vec<usize> = match (strategy.name, strategy.threads) {
        (StrategyName::OneDevice, Auto::Auto) => vec![1],
        (_, Auto::Is(n)) => vec![n],
        (_, Auto::Auto) => trial::powers(cores),
    };
    let updates = match strategy.update {
        Auto::Is(mode) => vec![mode],
        Auto::Auto => vec![UpdateMode::Sharded, UpdateMode::Replicated],
    };
    // What was asked for by number; what is tried by itself is no more than there are cores.
    check_threads("strategy.replicas or strategy.threads", replicas[0], threads[0])?;
    if let Auto::Is(n) = strategy.replicas {
        limits::check_replicas(n, config.train.batch.resolve(n)?)?;
    }
    limits::check_parameters(replicas[0], graph.parameter_count(), machine::free_memory_bytes())?;
    let mut candidates = Vec::new();
    for &r in &replicas {
        if r > 1 && r > config.train.batch.resolve(r)?.samples() {
            continue; // some would have nothing to do
        }
        for &t in threads.iter().filter(|&&t| r * t <= cores || (r, t) == (replicas[0], threads[0])) {
            for &update in if r == 1 { &updates[..1] } else { &updates[..] } {
                let mut plan = Plan::data_parallel(r);
                plan.store = Store { update, bucket, compression: config.strategy.compression() };
                let batch = config.train.batch.resolve(r)?;
                let layout = Layout { plan, threads: t, core, batch };
                if batch.samples() <= data.samples() {
                    candidates.push(layout);
                } else if candidates.is_empty() {
                    return Ok(layout); // too large a batch: the caller says so
                }
            }
        }
    }
    if candidates.len() > 1 {
        candidates = fitting(config, graph, data, tuning, kind, candidates, reasons)?;
    }
    trial::fastest(config, graph, data, tuning, candidates, reasons, stop)
}

/// The layout that a plan file asks for.
fn planned(config: &Config, plan: Plan, workers: Option<&Workers>, reasons: &mut Vec<String>) -> Result<Layout> {
    let threads = workers.map_or((cores() / plan.ranks).max(1), |w| w.threads);
    let threads = config.strategy.threads.chosen().unwrap_or(threads);
    let here = workers.map_or(plan.ranks, |w| w.replicas);
    check_threads("number of ranks in the plan, or strategy.threads", here, threads)?;
    let batch = config.train.batch.resolve(plan.ranks)?;
    let file = config.strategy.plan.as_ref().map_or(String::new(), |path| format!(" {}", path.display()));
    let (ranks, each) = (counted(plan.ranks, "rank"), counted(threads, "thread"));
    reasons.push(format!("{ranks} as the plan{file} says, {each} each"));
    Ok(Layout { plan, threads, core: None, batch })
}

/// Replicas over processes. Nothing is tried: a trial would have to be one of all processes.
fn among(
    config: &Config,
    graph: &Graph,
    data: &RunData,
    workers: &Workers,
    reasons: &mut Vec<String>,
) -> Result<Layout> {
    let ranks = workers.ranks();
    check_threads("strategy.replicas or strategy.threads", workers.replicas, workers.threads)?;
    let mut plan = Plan::data_parallel(ranks);
    // Every rank updates everything by default: then all that travels does so beside the backward pass.
    let update = config.strategy.update.chosen().unwrap_or(UpdateMode::Replicated);
    plan.store = Store { update, bucket: workers.bucket, compression: config.strategy.compression() };
    let batch = config.train.batch.resolve(ranks)?;
    let samples = data.samples();
    if ranks > samples {
        return Err(Error::user(format!(
            "there are {ranks} ranks, but only {samples} training samples; start fewer processes, or give more data"
        )));
    }
    if ranks > batch.samples() {
        return Err(Error::user(format!(
            "there are {ranks} ranks, but train.batch is {batch}: some would have nothing to do; give a batch of at least \
             {ranks} (such as train.batch = \"32*workers\"), or start fewer processes"
        )));
    }
    limits::check_parameters(workers.on_this_host(), graph.parameter_count(), machine::free_memory_bytes())?;
    if let Some(local) = &data.local {
        plan.shares = Some(local.shares(&workers.by_process(), batch.samples())?);
    }
    reasons.push(format!("{} for each rank; {update:?} updates", counted(workers.threads, "thread")).to_lowercase());
    Ok(Layout { plan, threads: workers.threads, core: None, batch })
}

/// The candidates that fit into memory: a trial must not take what the run may not.
fn fitting(
    config: &Config,
    graph: &Graph,
    data: &RunData,
    tuning: Option<&Tuning>,
    kind: &DeviceKind,
    candidates: Vec<Layout>,
    reasons: &mut Vec<String>,
) -> Result<Vec<Layout>> {
    let free = machine::free_memory_bytes();
    let (mut fit, mut refusal) = (Vec::new(), None);
    let settings = Settings { lists: data.list_room(), ..Settings::new(config.optimizer.rule(), kind.clone()) };
    for layout in candidates {
        let batches = Batches { train: vec![layout.batch.samples()], evaluate: Vec::new() };
        let schedule = lower(graph, &layout.plan, &batches, &settings)?;
        let needs = Needs::of(&schedule, &layout, config, data, tuning)?;
        match needs.check(free, &layout) {
            Ok(()) => fit.push(layout),
            Err(e) => {
                let (ranks, total) = (counted(layout.plan.ranks, "replica"), bytes(needs.total()));
                let threads = counted(layout.threads, "thread");
                reasons.push(format!("{ranks} × {threads} not tried: {total} needed"));
                refusal = refusal.or(Some(e)); // the first has the fewest ranks
            }
        }
    }
    match refusal {
        Some(e) if fit.is_empty() => Err(e),
        _ => Ok(fit),
    }
}
