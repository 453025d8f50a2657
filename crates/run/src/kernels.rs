//! Kernel choices of a run: which algorithm computes each convolution.
//!
//! Measured once for a shape, a kind of processor, an instruction set and a number of threads; kept in the cache folder for
//! later runs, and saved with the run, so that a resume computes with the same kernels and gives the same bits.

use crate::resolve::{Layout, unless_stopped};
use paceline_base::Result;
use paceline_data::Catalogue;
use paceline_kernels::Tuning;
use paceline_kernels::cpu::{ConvCase, Isa, measure};
use paceline_kernels::tuning::ConvChoice;
use paceline_plan::{PhaseKind, Schedule, TaskKind};
use paceline_record::{atomic, machine};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// The cache's file in the cache folder.
const FILE: &str = "kernels.toml";

/// Version of its format.
const FORMAT: u32 = 1;

/// Floating-point operations of the convolution that is measured: it gets as many samples as make about this much.
const MEASURED_FLOPS: f64 = 4e9;

/// What is known, for all kinds of machines.
#[derive(Debug, Serialize, Deserialize)]
struct Known {
    format: u32,
    #[serde(default)]
    machine: Vec<Machine>,
}

/// What is known for one kind of machine.
#[derive(Debug, Serialize, Deserialize)]
struct Machine {
    /// The processor, as the system names it.
    cpu: String,
    isa: Isa,
    threads: usize,
    /// Version of the program: other kernels, other choices.
    version: String,
    #[serde(default)]
    convs: Vec<ConvChoice>,
}

/// Chooses an algorithm for every convolution in the schedule: from the cache, or by measuring now.
/// Ends early when `stop` becomes true.
pub fn choose(
    schedule: &Schedule,
    layout: &Layout,
    mut tuning: Tuning,
    reasons: &mut Vec<String>,
    stop: &AtomicBool,
) -> Result<Tuning> {
    let cases = cases(schedule);
    if cases.is_empty() {
        return Ok(tuning);
    }
    let path = Catalogue::from_env().cache().map(|dir| dir.join(FILE));
    let mut known = path.as_deref().map_or_else(Known::new, |p| Known::read(p, reasons));
    let entry = known.machine(tuning.isa, layout.threads);
    let begin = Instant::now();
    let mut measured = 0;
    for case in &cases {
        let shape = case.shape();
        let choice = match entry.convs.iter().find(|c| c.case == shape) {
            Some(choice) => *choice,
            None => {
                unless_stopped(stop)?;
                let (choice, times) = measure::choose(&sized(case), &tuning, layout.threads)?;
                tracing::debug!("{} of {:?}: {times:?}", case.pass, case.dims);
                measured += 1;
                entry.convs.push(choice);
                choice
            }
        };
        tuning.convs.push(choice);
    }
    let count = |name: &str| tuning.convs.iter().filter(|c| c.algorithm.to_string().starts_with(name)).count();
    let how = match (measured, &path) {
        (0, Some(path)) => format!("as measured before ({})", path.display()),
        (0, None) => "as measured".into(),
        (n, path) => {
            let kept = path.as_ref().map_or(String::new(), |p| match known.write(p) {
                Ok(()) => format!(", kept in {}", p.display()),
                Err(e) => format!(", not kept: {e}"),
            });
            format!("{n} measured now in {:.1} s{kept}", begin.elapsed().as_secs_f64())
        }
    };
    reasons.push(format!(
        "{} convolution kernels: {} by Winograd's transforms, {} straight; {how}",
        tuning.convs.len(),
        count("winograd"),
        count("direct")
    ));
    Ok(tuning)
}

/// The convolutions that have a choice, by shape; of each the one with most samples, training before evaluation.
fn cases(schedule: &Schedule) -> Vec<ConvCase> {
    let mut cases: Vec<ConvCase> = Vec::new();
    let phases = |kind: PhaseKind| schedule.phases.iter().filter(move |p| p.kind == kind);
    for phase in phases(PhaseKind::Train).chain(phases(PhaseKind::Evaluate)) {
        for task in &phase.tasks {
            let TaskKind::Compute(call) = &task.kind else { continue };
            let Some(case) = ConvCase::of(&call.kernel).filter(|c| c.candidates().len() > 1 && c.dims.samples > 0)
            else {
                continue;
            };
            match cases.iter_mut().find(|c| c.shape() == case.shape()) {
                None => cases.push(case),
                Some(seen) if phase.kind == PhaseKind::Train && seen.dims.samples < case.dims.samples => *seen = case,
                Some(_) => {}
            }
        }
    }
    cases
}

/// The case with no more samples than measuring needs.
fn sized(case: &ConvCase) -> ConvCase {
    let mut case = *case;
    let one = case.dims.flops() / case.dims.samples as f64;
    let samples = ((MEASURED_FLOPS / one) as usize).clamp(1, case.dims.samples);
    case.dims.samples = samples;
    if let Some(pool) = &mut case.pool {
        pool.samples = samples;
    }
    case
}

impl Known {
    fn new() -> Self {
        Self { format: FORMAT, machine: Vec::new() }
    }

    /// Reads the cache. One that cannot be used is said and made anew: it holds nothing that cannot be measured again.
    fn read(path: &Path, reasons: &mut Vec<String>) -> Self {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Self::new(),
            Err(e) => {
                reasons.push(format!("kernel choices in {} cannot be read ({e}): measured anew", path.display()));
                return Self::new();
            }
        };
        match toml::from_str::<Self>(&text) {
            Ok(known) if known.format == FORMAT => known,
            Ok(known) => {
                let format = known.format;
                reasons.push(format!("kernel choices in {} have format {format}: measured anew", path.display()));
                Self::new()
            }
            Err(_) => {
                reasons.push(format!("kernel choices in {} are damaged: measured anew", path.display()));
                Self::new()
            }
        }
    }

    fn write(&self, path: &Path) -> Result<()> {
        let text = toml::to_string(self).map_err(|e| paceline_base::Error::internal(e.to_string()))?;
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .map_err(|e| paceline_base::Error::io("make the cache folder", folder, &e))?;
        }
        atomic::write(path, text.as_bytes())
    }

    /// What is known for this machine.
    fn machine(&mut self, isa: Isa, threads: usize) -> &mut Machine {
        let (cpu, version) = (machine::describe().cpu, env!("CARGO_PKG_VERSION").to_string());
        let at = self
            .machine
            .iter()
            .position(|m| m.cpu == cpu && m.isa == isa && m.threads == threads && m.version == version)
            .unwrap_or_else(|| {
                self.machine.push(Machine { cpu, isa, threads, version, convs: Vec::new() });
                self.machine.len() - 1
            });
        // A choice that this program cannot make is not one.
        self.machine[at].convs.retain(|c| c.case.candidates().contains(&c.algorithm));
        &mut self.machine[at]
    }
}
