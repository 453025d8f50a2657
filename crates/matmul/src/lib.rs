//! Products of large matrices over ranks: A·B, A·A, and the trace of A·A.
//!
//! [`Placement`] says who holds which block and what follows from it, as data: which blocks move and which are multiplied, step by step.
//! [`Cost`] counts those steps, and the ranks execute them, so that predicted bytes are the bytes that move.
//!
//! Why this is not a plan of `paceline-plan`: a schedule is one step that repeats, with every buffer in an arena that is laid out before the
//! first one. A product runs once, over matrices that may be larger than the memory of all ranks: blocks are read, received, multiplied
//! and given back as it goes, a slab at a time, and their number grows with (n / block)³ where a step has hundreds of tasks. What both
//! share is beneath: kernels, transports, and the rule that what is counted is what is executed.
//!
//! ```
//! use paceline_matmul::{MatmulOptions, matmul};
//! let mut world = paceline_comm::World::alone();
//! let options = MatmulOptions { n: Some(100), block: Some(30), ranks: Some(2), ..MatmulOptions::default() };
//! let report = matmul(&options, &mut world, &|_, _| {}, &false.into())?;
//! let run = report.layouts[0].run.as_ref().unwrap();
//! assert!(run.verified.as_ref().unwrap().right);
//! # Ok::<(), paceline_base::Error>(())
//! ```

mod blocks;
mod check;
mod cost;
mod factor;
mod npy;
mod output;
mod prepare;
mod rank;
mod setting;
mod slab;
#[cfg(test)]
mod tests;

pub use blocks::{Blocks, Layout, Matrix, Move, Piece, Placement, Product, Work};
pub use check::Verified;
pub use cost::{Burden, Cost, Keeping, Speeds};
pub use npy::Npy;
pub use setting::{MatmulSetting, MatmulSettingNames};

use output::Output;
use paceline_base::{Error, Result};
use paceline_comm::{World, agree};
use prepare::{Checked, keeping};
use rank::{Outcome, Rank, Task};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// What is to be multiplied, and how.
#[derive(Clone, Debug)]
pub struct MatmulOptions {
    /// Rows and columns; those of the files, if there are any.
    pub n: Option<usize>,
    /// Rows and columns of a block; 1000, or all of a smaller matrix, if not given.
    pub block: Option<usize>,
    /// What is computed.
    pub product: Product,
    /// The placements to run, one after the other.
    pub layouts: Vec<Layout>,
    /// What becomes of factors; stored if memory allows, if not given.
    pub keeping: Option<Keeping>,
    /// A from a file.
    pub a: Option<PathBuf>,
    /// B from a file.
    pub b: Option<PathBuf>,
    /// Where the product goes; it must not exist.
    pub out: Option<PathBuf>,
    /// Ranks of this process: one for each core if it is the only one, else 1.
    pub ranks: Option<usize>,
    /// Most memory of this process; 90 % of what is free, shared with the processes of the same host, if not given.
    pub memory: Option<u64>,
    /// Decides made elements, and the vectors of the check.
    pub seed: u64,
    /// Added to one element of the product before it is checked.
    pub inject: Option<f32>,
    /// What the user calls the settings, for errors.
    pub names: MatmulSettingNames,
}

impl Default for MatmulOptions {
    fn default() -> Self {
        Self {
            n: None,
            block: None,
            product: Product::Ab,
            layouts: vec![Layout::Summa],
            keeping: None,
            a: None,
            b: None,
            out: None,
            ranks: None,
            memory: None,
            seed: 1,
            inject: None,
            names: MatmulSettingNames::default(),
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct MatmulReport {
    /// Of this structure.
    pub format: u32,
    /// Rows and columns.
    pub n: usize,
    /// Rows and columns of a block.
    pub block: usize,
    /// What was computed.
    pub product: Product,
    /// Number of ranks.
    pub ranks: usize,
    /// Hosts of the processes.
    pub hosts: Vec<String>,
    /// What became of the factors.
    pub keeping: Keeping,
    /// What was measured before.
    pub speeds: Speeds,
    /// Every placement, whether it was run or not.
    pub layouts: Vec<LayoutReport>,
    /// Decisions in words.
    pub reasons: Vec<String>,
}

/// One placement.
#[derive(Clone, Debug, Serialize)]
pub struct LayoutReport {
    /// Which.
    pub layout: Layout,
    /// Rows and columns of the grid; of interest for `summa`.
    pub grid: (usize, usize),
    /// What each rank bears.
    pub ranks: Vec<Burden>,
    /// Seconds by the model.
    pub predicted_seconds: f64,
    /// What was measured, if it was run.
    pub run: Option<RunReport>,
}

/// One run, as measured.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    /// From the moment that all ranks were ready to the moment that all were done.
    pub seconds: f64,
    /// Seconds until stored factors were made or read, before that.
    pub made_seconds: f64,
    /// Floating-point operations per second of each rank, over all of `seconds`.
    pub flops: Vec<f64>,
    /// Share of the time that each rank waited for blocks.
    pub waiting: Vec<f64>,
    /// Share of the time that each rank copied blocks.
    pub copying: Vec<f64>,
    /// Share of the time that each rank multiplied.
    pub computing: Vec<f64>,
    /// Bytes that each rank received.
    pub received_bytes: Vec<u64>,
    /// The trace of the product.
    pub trace: f64,
    /// What the check found.
    pub verified: Option<Verified>,
    /// Seconds of the check.
    pub check_seconds: f64,
}

/// Multiplies, on the ranks of `world`. All its processes must call it with the same options; all get the same report.
/// `progress` is told of the finished operations and all operations of this process's first rank.
pub fn matmul(
    options: &MatmulOptions,
    world: &mut World,
    progress: &(dyn Fn(f64, f64) + Sync),
    stop: &AtomicBool,
) -> Result<MatmulReport> {
    let checked = Checked::new(options, world);
    let checked = agree(world, checked)?;
    let (keeping, reasons) = keeping(options, &checked, world)?;
    let out = Output::prepare(options, checked.blocks.n, world)?;
    let local = checked.local;
    let distant = world.hosts().iter().any(|host| host != &world.hosts()[0]);
    let ranks = world.ranks(local)?;
    let task = |progress| Task {
        factors: &checked.factors,
        keeping,
        seed: options.seed,
        out: out.as_ref().map(|out| &out.npy),
        inject: options.inject,
        stop,
        progress,
    };
    let silent = |_: f64, _: f64| {};
    let results: Vec<Result<(Speeds, Vec<Outcome>)>> = std::thread::scope(|scope| {
        let threads: Vec<_> = ranks
            .into_iter()
            .enumerate()
            .map(|(i, comm)| {
                let task = task(if i == 0 { progress } else { &silent });
                let placements = &checked.placements;
                let work = move || {
                    let mut rank = Rank::new(comm)?;
                    let all = work(&mut rank, placements, &options.layouts, &task, distant);
                    if let Err(e) = &all {
                        rank.abort(e.message());
                    }
                    all
                };
                // If it does not start, its end of the connection is dropped, and the others fail instead of waiting.
                std::thread::Builder::new().spawn_scoped(scope, work).map_err(|e| {
                    Error::failure(format!(
                        "the thread of rank {i} cannot start ({e}): {i} of {local} were started; use fewer {}",
                        options.names.of(MatmulSetting::Ranks)
                    ))
                })
            })
            .collect();
        let ended = threads
            .into_iter()
            .map(|t| t.and_then(|t| t.join().unwrap_or_else(|_| Err(Error::internal("a rank panicked")))));
        ended.collect()
    });
    let result = agree(world, first_result(results))?;
    if let Some(out) = out {
        // The first placement's product is the one that was written; a wrong one gets no name, and is removed.
        let right = result.1.first().and_then(|o| o.verified.as_ref()).is_none_or(|v| v.right);
        match right {
            true => out.finish(world)?,
            false => drop(out),
        }
    }
    Ok(report(options, &checked, world, keeping, reasons, result))
}

fn work(
    rank: &mut Rank,
    placements: &[Placement],
    layouts: &[Layout],
    task: &Task<'_>,
    distant: bool,
) -> Result<(Speeds, Vec<Outcome>)> {
    let speeds = rank.measure(&placements[0], task, distant)?;
    let mut outcomes = Vec::new();
    for (i, layout) in layouts.iter().enumerate() {
        let placement = placements.iter().find(|p| p.layout == *layout).expect("all layouts are placed");
        // The product is written once.
        let out = task.out.filter(|_| i == 0);
        outcomes.push(rank.run(placement, &Task { out, ..*task })?);
    }
    Ok((speeds, outcomes))
}

/// The result of the first rank, or the error that was the cause of the others.
fn first_result<T>(results: Vec<Result<T>>) -> Result<T> {
    if let Some(cause) = Error::first_cause(results.iter().filter_map(|r| r.as_ref().err())) {
        return Err(cause.clone());
    }
    results.into_iter().next().unwrap_or_else(|| Err(Error::internal("a process without ranks")))
}

fn report(
    options: &MatmulOptions,
    checked: &Checked,
    world: &World,
    keeping: Keeping,
    mut reasons: Vec<String>,
    (speeds, outcomes): (Speeds, Vec<Outcome>),
) -> MatmulReport {
    let mut runs: Vec<(Layout, Outcome)> = options.layouts.iter().copied().zip(outcomes).collect();
    let mut layouts = Vec::new();
    for placement in &checked.placements {
        let cost = Cost::of(placement, keeping);
        let run = runs.iter().position(|(layout, _)| *layout == placement.layout).map(|at| runs.swap_remove(at).1);
        let share = |seconds: &[f64], of: f64| seconds.iter().map(|s| s / of.max(1e-9)).collect::<Vec<f64>>();
        layouts.push(LayoutReport {
            layout: placement.layout,
            grid: placement.grid,
            predicted_seconds: cost.seconds(&speeds),
            run: run.map(|o| RunReport {
                seconds: o.seconds,
                made_seconds: o.made_seconds,
                flops: cost.ranks.iter().map(|b| b.flops / o.seconds.max(1e-9)).collect(),
                waiting: share(&o.waiting, o.seconds),
                copying: share(&o.copying, o.seconds),
                computing: share(&o.computing, o.seconds),
                received_bytes: o.received,
                trace: o.trace,
                verified: o.verified,
                check_seconds: o.check_seconds,
            }),
            ranks: cost.ranks,
        });
    }
    if options.product == Product::Trace {
        reasons.push(format!(
            "the product is not needed: the trace of A·A is Σ A(i, j)·A(j, i), {} operations instead of {}",
            paceline_base::text::si(2.0 * (checked.blocks.n as f64).powi(2)),
            paceline_base::text::si(2.0 * (checked.blocks.n as f64).powi(3)),
        ));
    }
    reasons.extend(uneven(checked, &options.layouts));
    MatmulReport {
        format: 1,
        n: checked.blocks.n,
        block: checked.blocks.block,
        product: options.product,
        ranks: checked.ranks,
        hosts: world.hosts().to_vec(),
        keeping,
        speeds,
        layouts,
        reasons,
    }
}

/// A note if some ranks have much more to do than others.
fn uneven(checked: &Checked, layouts: &[Layout]) -> Option<String> {
    let placement = checked.placements.iter().find(|p| layouts.contains(&p.layout))?;
    let held: Vec<usize> = (0..checked.ranks).map(|r| placement.held(r).len()).collect();
    let (most, mean) = (*held.iter().max()?, held.iter().sum::<usize>() as f64 / checked.ranks as f64);
    (most as f64 > 1.15 * mean).then(|| {
        format!(
            "{} blocks in a row do not divide evenly over {} ranks: the fullest has {:.0} % more than the mean; smaller blocks would even that out",
            checked.blocks.count(),
            checked.ranks,
            100.0 * (most as f64 / mean - 1.0)
        )
    })
}
