//! Kernel choices of a run: which algorithm computes each convolution.
//!
//! Measured once for a shape, a kind of processor, an instruction set and a number of threads; kept in the cache folder for
//! later runs, and saved with the run, so that a resume computes with the same kernels and gives the same bits. What a busy machine
//! left open (rounds that differ more than algorithms do) serves the run at hand, and the next one measures it again.

use crate::resolve::{Layout, unless_stopped};
use paceline_base::{Error, Result};
use paceline_data::Catalogue;
use paceline_kernels::Tuning;
use paceline_kernels::cpu::{ConvCase, Isa, measure};
use paceline_kernels::tuning::ConvChoice;
use paceline_plan::{PhaseKind, Schedule, TaskKind};
use paceline_system::{atomic, machine};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// The cache's file in the cache folder.
const FILE: &str = "kernels.toml";

/// Version of its format: 2 holds how far measured rounds were apart.
const FORMAT: u32 = 2;

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
    convs: Vec<Kept>,
}

/// A choice that was measured.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Kept {
    /// Whether later runs take it as it is; else they measure again.
    settled: bool,
    /// How far typical rounds were from the best, relative to these.
    spread: f64,
    #[serde(flatten)]
    choice: ConvChoice,
}

/// Chooses an algorithm for every convolution in the schedule that the tuning has none for: from the cache, or by measuring now.
/// Ends early when `stop` becomes true.
pub(crate) fn choose(
    schedule: &Schedule,
    layout: &Layout,
    mut tuning: Tuning,
    reasons: &mut Vec<String>,
    stop: &AtomicBool,
) -> Result<Tuning> {
    let mut cases = cases(schedule);
    cases.retain(|case| tuning.convs.iter().all(|c| c.case != case.shape()));
    if cases.is_empty() {
        return Ok(tuning);
    }
    let given = tuning.convs.len();
    let path = Catalogue::from_env().cache().map(|dir| dir.join(FILE));
    let mut known = path.as_deref().map_or_else(Known::new, |p| Known::read(p, reasons));
    let entry = known.machine(tuning.isa, layout.threads);
    let begin = Instant::now();
    let (mut measured, mut open) = (0, 0);
    for case in &cases {
        let kept = entry.take(case, || {
            unless_stopped(stop)?;
            let (choice, decision) = measure::choose(&sized(case), &tuning, layout.threads)?;
            tracing::debug!("{} of {:?}: {decision:?}", case.pass, case.dims);
            measured += 1;
            Ok(Kept { settled: decision.settled, spread: decision.spread, choice })
        })?;
        open += usize::from(!kept.settled);
        tuning.convs.push(kept.choice);
    }
    let chosen = &tuning.convs[given..];
    let count = |name: &str| chosen.iter().filter(|c| c.algorithm.to_string().starts_with(name)).count();
    let how = match (measured, &path) {
        (0, Some(path)) => format!("as measured before ({})", path.display()),
        (0, None) => "as measured".into(),
        (n, path) => {
            let kept = path.as_ref().map_or(String::new(), |p| match known.write(p) {
                Ok(()) => format!(", kept in {}", p.display()),
                Err(e) => format!(", not kept: {e}"),
            });
            let open = match open {
                0 => String::new(),
                _ => format!("; {open} of them while the machine was busy: the next run measures these again"),
            };
            format!("{n} measured now in {:.1} s{kept}{open}", begin.elapsed().as_secs_f64())
        }
    };
    reasons.push(format!(
        "{} convolution kernels: {} by Winograd's transforms, {} straight; {how}",
        chosen.len(),
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
        for (_, task) in phase.tasks() {
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

    /// Removes what is known for a processor, or for all of them.
    fn forget(&mut self, cpu: Option<&str>) -> Vec<Forgotten> {
        let (gone, stay) =
            std::mem::take(&mut self.machine).into_iter().partition(|m| cpu.is_none_or(|cpu| m.cpu == cpu));
        self.machine = stay;
        let words = |m: Machine| Forgotten {
            convs: m.convs.len(),
            cpu: m.cpu,
            isa: m.isa.to_string(),
            threads: m.threads,
            version: m.version,
        };
        Vec::into_iter(gone).map(words).collect()
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
        self.machine[at].convs.retain(|c| c.choice.case.candidates().contains(&c.choice.algorithm));
        &mut self.machine[at]
    }
}

impl Machine {
    /// What is kept for a case, if it is settled; else what `measure` says, which is kept from now on.
    fn take(&mut self, case: &ConvCase, measure: impl FnOnce() -> Result<Kept>) -> Result<Kept> {
        let shape = case.shape();
        let at = self.convs.iter().position(|c| c.choice.case == shape);
        match at {
            Some(at) if self.convs[at].settled => Ok(self.convs[at]),
            Some(at) => {
                self.convs[at] = measure()?;
                Ok(self.convs[at])
            }
            None => {
                self.convs.push(measure()?);
                Ok(self.convs[self.convs.len() - 1])
            }
        }
    }
}

/// Kept choices of one kind of machine that were removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Forgotten {
    /// The processor, as the system names it.
    pub cpu: String,
    /// The instruction set.
    pub isa: String,
    /// Threads of the kernels.
    pub threads: usize,
    /// Version of the program that measured.
    pub version: String,
    /// Convolutions that had a choice.
    pub convs: usize,
}

/// Removes the kept kernel choices, of this kind of processor or of `all`; later runs measure anew. Says where they were, and what was removed.
pub fn forget_kernels(all: bool) -> Result<(PathBuf, Vec<Forgotten>)> {
    let path = Catalogue::from_env().cache().map(|dir| dir.join(FILE)).ok_or_else(|| {
        Error::user("there is no cache folder, so that no kernel choices are kept; set PACELINE_CACHE to have one")
    })?;
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok((path, Vec::new())),
        Err(e) => return Err(Error::io("read the kernel choices", &path, &e)),
    };
    let mut known = match toml::from_str::<Known>(&text) {
        Ok(known) if known.format == FORMAT => known,
        _ => {
            return Err(Error::user(format!(
                "{} was written by another version, or is damaged: no run takes choices from it; delete the file",
                path.display()
            )));
        }
    };
    let cpu = machine::describe().cpu;
    let gone = known.forget((!all).then_some(cpu.as_str()));
    if !gone.is_empty() {
        known.write(&path)?;
    }
    Ok((path, gone))
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_base::window::ConvDims;
    use paceline_kernels::cpu::{Algorithm, Pass};

    fn case() -> ConvCase {
        let dims = ConvDims {
            samples: 4,
            height: 8,
            width: 8,
            channels: 16,
            out_height: 8,
            out_width: 8,
            out_channels: 16,
            kernel: [3, 3],
            stride: [1, 1],
            dilation: [1, 1],
            pad: [1, 1],
            groups: 1,
        };
        ConvCase { pass: Pass::Weights, dims, pool: None }
    }

    fn kept(algorithm: Algorithm, settled: bool) -> Kept {
        Kept { settled, spread: 0.4, choice: ConvChoice { case: case().shape(), algorithm } }
    }

    fn machine(cpu: &str, threads: usize) -> Machine {
        Machine { cpu: cpu.into(), isa: Isa::Portable, threads, version: "1".into(), convs: Vec::new() }
    }

    #[test]
    fn an_open_choice_is_measured_again_and_a_settled_one_is_not() {
        let mut known = machine("a", 1);
        let first = known.take(&case(), || Ok(kept(Algorithm::Direct, false))).unwrap();
        assert_eq!(first.choice.algorithm, Algorithm::Direct, "used for this run");
        let again = known.take(&case(), || Ok(kept(Algorithm::Winograd4, true))).unwrap();
        assert_eq!(again.choice.algorithm, Algorithm::Winograd4);
        let last = known.take(&case(), || panic!("measured a settled choice")).unwrap();
        assert_eq!((last.choice.algorithm, known.convs.len()), (Algorithm::Winograd4, 1));
    }

    #[test]
    fn the_file_keeps_what_was_open() {
        let mut known = Known::new();
        known.machine.push(Machine { convs: vec![kept(Algorithm::Winograd2, false)], ..machine("a", 2) });
        let text = toml::to_string(&known).unwrap();
        let back: Known = toml::from_str(&text).unwrap();
        let conv = back.machine[0].convs[0];
        assert_eq!((conv.settled, conv.spread), (false, 0.4), "{text}");
        assert_eq!(conv.choice, kept(Algorithm::Winograd2, false).choice);
    }

    #[test]
    fn forgetting_removes_one_processor_or_all() {
        let known = || {
            let convs = vec![kept(Algorithm::Direct, true)];
            Known {
                format: FORMAT,
                machine: vec![machine("a", 1), Machine { convs, ..machine("a", 2) }, machine("b", 1)],
            }
        };
        let mut one = known();
        let gone = one.forget(Some("a"));
        assert_eq!(gone.iter().map(|f| (f.threads, f.convs)).collect::<Vec<_>>(), [(1, 0), (2, 1)]);
        assert_eq!(one.machine.iter().map(|m| m.cpu.as_str()).collect::<Vec<_>>(), ["b"]);
        assert_eq!(known().forget(None).len(), 3);
        assert!(known().forget(Some("c")).is_empty());
    }
}
