//! Deciding by trying: a few milliseconds of real steps for each candidate, in turns, the median of each compared. Where that leaves it open,
//! a long run may spend up to a hundredth of its time on further rounds ([`decide`] says when). The layout then stays what it is: no later
//! measurement changes it within a run, so that a run is repeated by its choices.
//!
//! The reports found that more cores made training *slower*. What is tried cannot be slower than one core, because one
//! core is among the candidates and wins ties.

mod decide;

use crate::devices;
use crate::input::list_room;
use crate::input::{self, RunData};
use crate::resolve::{Layout, unless_stopped};
use decide::{Candidate, ROUNDS, choose, goes_on, hopeful};
use paceline_base::kernel::StepArgs;
use paceline_base::text::counted;
use paceline_base::units::GlobalBatch;
use paceline_base::{Error, Result};
use paceline_comm::{Comm, threads};
use paceline_config::{CacheName, Config};
use paceline_data::{Labelled, Order, Preview, Samples};
use paceline_engine::checkpoint::initialize;
use paceline_engine::{Agreement, Batch, Control, Next, Rank};
use paceline_graph::Graph;
use paceline_kernels::{Device, Tuning};
use paceline_plan::{Batches, PhaseKind, Schedule, Settings, UpdateMode, lower};
use paceline_system::threads::cores;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Seconds of each trial.
const BUDGET: f64 = 0.012;
/// A step that is longer than this needs no second one to warm up; one expected to be as long as `LONG` not even a first.
const SHORT: f64 = 0.1;
const LONG: f64 = 4.0;
/// Seconds of one core beyond which a smaller batch is tried in place of the run's: a large network must not be tried for minutes.
const LONGEST: f64 = 2.0;
/// Floating-point operations a second of a core, roughly and rather high: only tells steps of milliseconds from those of seconds.
const CORE_FLOPS: f64 = 60e9;

/// 1, 2, 4, … and the number of cores itself.
pub(crate) fn powers(cores: usize) -> Vec<usize> {
    let mut list: Vec<usize> = (0..).map(|p| 1 << p).take_while(|&n| n < cores).collect();
    list.push(cores);
    list
}

fn short(layout: &Layout) -> String {
    let update = match layout.plan.store.update {
        _ if layout.plan.ranks == 1 => "",
        UpdateMode::Sharded => " sharded",
        UpdateMode::Replicated => " replicated",
    };
    format!("{}×{}{update}", layout.plan.ranks, layout.threads)
}

fn long(layout: &Layout) -> String {
    let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let update = match layout.plan.store.update {
        _ if layout.plan.ranks == 1 => "",
        UpdateMode::Sharded => " with a sharded update",
        UpdateMode::Replicated => " with a replicated update",
    };
    format!("{} × {}{update}", plural(layout.plan.ranks, "replica"), plural(layout.threads, "thread"))
}

/// The fastest candidate by samples per second, with the reason. Ends early when `stop` becomes true.
pub(crate) fn fastest(
    config: &Config,
    graph: &Graph,
    data: &RunData,
    tuning: Option<&Tuning>,
    mut candidates: Vec<Layout>,
    reasons: &mut Vec<String>,
    stop: &AtomicBool,
) -> Result<Layout> {
    if candidates.len() == 1 {
        return Ok(candidates.swap_remove(0));
    }
    let tried = Tried::new(config, data, &candidates)?;
    let cores_of = |layout: &Layout| layout.plan.ranks * layout.threads;
    let mut times: Vec<Candidate> =
        candidates.iter().map(|layout| Candidate { cores: cores_of(layout), rounds: Vec::new() }).collect();
    let (begin, mut last) = (Instant::now(), 0.0);
    // Of one core: forward, and twice as much backward.
    let mut expected = 3.0 * paceline_graph::summary::flops_per_sample(graph) / CORE_FLOPS;
    let limit = (LONGEST / expected) as usize; // the same for all: what is compared is the same work
    let mut steps = u64::MAX;
    let mut run_seconds = f64::INFINITY;
    while goes_on(&times, begin.elapsed().as_secs_f64(), last, run_seconds) {
        let before = begin.elapsed().as_secs_f64();
        for (i, layout) in candidates.iter().enumerate() {
            if !hopeful(&times, i) {
                continue;
            }
            unless_stopped(stop)?;
            let batch = shortened(layout, limit)?;
            let core_seconds = expected * batch.samples() as f64;
            let long = core_seconds / cores_of(layout) as f64 > LONG;
            let shorter = Layout { batch, ..layout.clone() };
            let run = seconds_per_sample(config, graph, tried.samples(), tuning, &shorter, long)?;
            tracing::debug!("trial of {}: {:.3} µs a sample", short(layout), run.seconds * 1e6);
            times[i].rounds.push(tried.with_decoding(layout, run.seconds));
            steps = steps.min(run.steps);
            // From the first on it is known, not guessed.
            if cores_of(layout) == 1 {
                expected = run.seconds;
            }
        }
        last = begin.elapsed().as_secs_f64() - before;
        let choice = choose(&times);
        run_seconds = choice.typical[choice.chosen] * samples_planned(config, data, &candidates[choice.chosen]);
    }
    let choice = choose(&times);
    let rate = |i: usize| paceline_base::text::si(1.0 / choice.typical[i]);
    let list: Vec<String> = (0..candidates.len()).map(|i| format!("{} {}", short(&candidates[i]), rate(i))).collect();
    let (chosen, tries) = (&candidates[choice.chosen], times[choice.chosen].rounds.len());
    let batch = shortened(chosen, limit)?;
    let fewer = if batch == chosen.batch { String::new() } else { format!(" with {batch} samples") };
    let rounds = match tries {
        ROUNDS => String::new(),
        n if n < ROUNDS => {
            let (tries, steps) = (counted(tries, "round"), counted(steps as usize, "step"));
            format!("; steps are long: {tries} instead of {ROUNDS}, of {steps} or more{fewer}")
        }
        _ => format!("; {tries} rounds in {:.1} s, because it was close", begin.elapsed().as_secs_f64()),
    };
    let rival = match choice.rival {
        Some(i) if tries >= ROUNDS => format!("; these rounds do not tell {} from it", short(&candidates[i])),
        _ => String::new(),
    };
    let (what, words) = (self::long(chosen), tried.words());
    reasons
        .push(format!("{what}: the fastest in a short trial (examples/s: {}){words}{rounds}{rival}", list.join(", ")));
    Ok(candidates.swap_remove(choice.chosen))
}

/// Samples that the run will compute, at most.
fn samples_planned(config: &Config, data: &RunData, layout: &Layout) -> f64 {
    let all = data.samples() as f64 * config.train.epochs as f64;
    match config.train.max_steps {
        0 => all,
        steps => all.min(steps as f64 * layout.batch.samples() as f64),
    }
}

/// The batch that a layout is tried with: its own, or `limit` samples if it has more, but one for each rank.
fn shortened(layout: &Layout, limit: usize) -> Result<GlobalBatch> {
    GlobalBatch::new(layout.batch.samples().min(limit.max(layout.plan.ranks)))
}

/// What a trial computes on: the samples themselves, or some of them decoded beforehand, so that it judges computing. What
/// decoding costs is added in figures.
enum Tried<'a> {
    Memory(&'a dyn Samples),
    Decoded { preview: Box<Preview>, decoding: f64 },
}

impl<'a> Tried<'a> {
    fn new(config: &Config, data: &'a RunData, candidates: &[Layout]) -> Result<Self> {
        let Some(source) = input::source(&data.training) else {
            let samples = data.training.memory().ok_or_else(|| Error::internal("a part of no kind"))?;
            return Ok(Self::Memory(&**samples));
        };
        let largest = candidates.iter().map(|c| c.batch.samples()).max().unwrap_or(1);
        let order = Order::new(source.len(), config.train.seed);
        let indices = (0..source.len().min(2 * largest)).map(|position| order.at(0, position));
        let preview = Box::new(Preview::new(&**source, indices)?);
        let seconds: f64 = preview.times.busy.iter().map(|time| time.as_secs_f64()).sum();
        // With a cache only the first epoch decodes, which is not what a layout is chosen for.
        let kept = config.data.cache != CacheName::None && config.train.epochs > 1;
        let decoding = if kept { 0.0 } else { seconds / preview.len() as f64 };
        Ok(Self::Decoded { preview, decoding })
    }

    fn samples(&self) -> &dyn Samples {
        match self {
            Self::Memory(samples) => *samples,
            Self::Decoded { preview, .. } => &**preview,
        }
    }

    /// Seconds per sample when the cores that compute also decode: either computing takes longest, or all cores
    /// together have no more to give.
    fn with_decoding(&self, layout: &Layout, computing: f64) -> f64 {
        match self {
            Self::Memory(_) => computing,
            Self::Decoded { decoding, .. } => {
                let busy = (layout.plan.ranks * layout.threads) as f64 * computing + decoding;
                computing.max(busy / cores() as f64)
            }
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Decoded { decoding, .. } if *decoding > 0.0 => format!(
                ", decoding counted in: {:.3} ms of a core for each sample, on the same {}",
                decoding * 1e3,
                counted(cores(), "core")
            ),
            _ => String::new(),
        }
    }
}

/// One layout, tried once.
struct Trial {
    /// Seconds per sample.
    seconds: f64,
    /// Steps that were timed.
    steps: u64,
}

/// Real training steps under a layout, on parameters that are thrown away; only one if a step is expected to be `long`.
fn seconds_per_sample(
    config: &Config,
    graph: &Graph,
    samples: &dyn Samples,
    tuning: Option<&Tuning>,
    layout: &Layout,
    long: bool,
) -> Result<Trial> {
    let batches = Batches { train: vec![layout.batch.samples()], evaluate: Vec::new() };
    let rule = config.optimizer.rule();
    let settings =
        Settings { lists: list_room(&[samples]), ..Settings::new(rule, devices::of_layout(layout, tuning).kind()) };
    let schedule = Arc::new(lower(graph, &layout.plan, &batches, &settings)?);
    let order = Order::new(samples.len(), config.train.seed);
    std::thread::scope(|scope| {
        let handles: Vec<_> = threads(layout.plan.ranks)
            .into_iter()
            .map(|comm| {
                let (schedule, order) = (schedule.clone(), &order);
                let number = comm.rank();
                let work = move || {
                    let device = devices::of_layout(layout, tuning).make()?;
                    try_steps(config, graph, samples, layout, schedule, order, device, comm, long)
                };
                // If it does not start, its end of the connection is dropped, and the others fail instead of waiting.
                std::thread::Builder::new()
                    .spawn_scoped(scope, work)
                    .map_err(|e| no_thread(number, layout.plan.ranks, &e))
            })
            .collect();
        // All are waited for before the first error is told; that a thread could not start is the cause of others.
        let (started, failed): (Vec<_>, Vec<_>) = handles.into_iter().partition(Result::is_ok);
        let started = started.into_iter().flatten().map(|h| h.join());
        let results: Vec<_> = started.map(|r| r.unwrap_or_else(|_| Err(Error::internal("a trial panicked")))).collect();
        if let Some(error) = failed.into_iter().find_map(Result::err) {
            return Err(error);
        }
        let mut results = results.into_iter();
        let first = results.next().unwrap_or_else(|| Err(Error::internal("a trial without ranks")))?;
        results.try_for_each(|r: Result<Trial>| r.map(drop))?;
        Ok(first)
    })
}

#[allow(clippy::too_many_arguments)] // one call site; the values belong to no common thing
fn try_steps(
    config: &Config,
    graph: &Graph,
    memory: &dyn Samples,
    layout: &Layout,
    schedule: Arc<Schedule>,
    order: &Order,
    device: Box<dyn Device>,
    comm: paceline_comm::Threads,
    long: bool,
) -> Result<Trial> {
    let mut rank = Rank::new(device, comm, schedule)?;
    initialize(&mut rank, graph, config.train.seed)?;
    let (batch, samples) = (layout.batch.samples(), memory.len());
    let phase = rank
        .schedule
        .phase(PhaseKind::Train, batch)
        .ok_or_else(|| Error::internal("the trial's step was not planned"))?;
    let mut agreement = Agreement::new(0);
    let mut begin = Instant::now();
    let (mut steps, mut cold, mut brief) = (0u64, 0u64, false);
    loop {
        let start = (steps as usize * batch) % (samples - batch + 1);
        let at = |row| order.at(0, start + row);
        let next_start = ((steps + 1) as usize * batch) % (samples - batch + 1);
        let at_next = |row| order.at(0, next_start + row);
        let next = Some(Next { phase, id: steps + 1, at: &at_next });
        let rows = Batch { id: Some(steps), next, ..Batch::new(memory, &at) };
        let args = StepArgs { seed: 1, step: steps, rate: 1e-4, scale: 1.0 / batch as f64 };
        let elapsed = begin.elapsed().as_secs_f64();
        // The end is agreed on as in training.
        let enough = long || brief || steps >= 4 && elapsed > BUDGET;
        agreement.before_step(&mut rank, steps, false, || Control { stop: enough, checkpoint: false })?;
        rank.step_now(phase, &rows, &args)?;
        let agreed = agreement.after_step(&mut rank)?;
        steps += 1;
        if agreed.stop {
            let seconds = begin.elapsed().as_secs_f64() / ((steps - cold) as usize * batch) as f64;
            return Ok(Trial { seconds, steps: steps - cold });
        }
        brief = steps == 1 && begin.elapsed().as_secs_f64() > SHORT;
        if steps <= 2 {
            (begin, cold) = (Instant::now(), steps); // caches and pages are warm now
        }
    }
}

/// Why a rank's thread did not start, and how many there were before it.
pub(crate) fn no_thread(rank: usize, ranks: usize, error: &std::io::Error) -> Error {
    Error::failure(format!(
        "the thread of rank {rank} cannot start ({error}): {rank} of {ranks} were started; use fewer strategy.replicas"
    ))
}
