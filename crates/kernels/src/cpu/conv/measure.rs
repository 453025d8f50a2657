//! Choosing by measuring: every algorithm that can compute a convolution does it a few times, and the fastest is kept.
//!
//! Done once for a shape and a kind of machine; the choices are a value ([`ConvChoice`]) that others keep and hand back. On a busy machine
//! rounds differ: then more of them are taken, and [`Decision::settled`] says whether the choice is worth keeping.

use super::config::{Algorithm, ConvCase, Pass};
use crate::cpu::{Cpu, CpuOptions};
use crate::device::Device;
use crate::tuning::{ConvChoice, Tuning};
use paceline_base::Result;
use paceline_base::kernel::{Arena, BufferId, Call, Kernel, StepArgs, Values};
use paceline_base::op::Activation;
use paceline_base::units::DType;
use std::time::{Duration, Instant};

/// How long a convolution is measured, all algorithms together, if that gives enough rounds; and how long if a busy machine leaves the
/// choice open after that.
const BUDGET: Duration = Duration::from_millis(60);
const LONGER: Duration = Duration::from_millis(300);

/// Rounds at least and at most; an algorithm's best counts, because everything else that runs only makes it slower.
const ROUNDS: (usize, usize) = (2, 12);
/// Rounds at most where the choice stays open.
const MORE_ROUNDS: usize = 40;

/// A spread up to this one is that of a machine with nothing else to do.
const QUIET: f64 = 0.15;

/// What one algorithm took for a convolution.
#[derive(Clone, Debug)]
pub struct Measured {
    /// How it was computed.
    pub algorithm: Algorithm,
    /// Seconds of its rounds.
    pub rounds: Vec<f64>,
}

impl Measured {
    /// Seconds of its best round.
    pub fn best(&self) -> f64 {
        self.rounds.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// What the measured rounds say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// The algorithm with the fastest round.
    pub algorithm: Algorithm,
    /// How far typical rounds are from the best ones: (median − best) / best of the algorithm where that is largest.
    pub spread: f64,
    /// Whether it would come out the same again: rounds agree, or the others are slower by far more than rounds differ.
    pub settled: bool,
}

/// Chooses by each algorithm's best round: what else runs only makes one slower.
pub fn decide(measured: &[Measured]) -> Decision {
    let spread_of = |m: &Measured| {
        let mut rounds = m.rounds.clone();
        rounds.sort_by(f64::total_cmp);
        rounds.get(rounds.len() / 2).map_or(f64::INFINITY, |median| median / rounds[0] - 1.0)
    };
    let mut order: Vec<&Measured> = measured.iter().collect();
    order.sort_by(|a, b| a.best().total_cmp(&b.best()));
    let algorithm = order.first().map_or(Algorithm::Direct, |m| m.algorithm);
    let spread = measured.iter().map(spread_of).fold(0.0, f64::max);
    let lead = if order.len() > 1 { order[1].best() / order[0].best() - 1.0 } else { f64::INFINITY };
    Decision { algorithm, spread, settled: spread <= QUIET || lead >= 2.0 * spread }
}

/// Times all algorithms of a case, in turns, on memory of its own.
pub fn measure(case: &ConvCase, tuning: &Tuning, threads: usize) -> Result<Vec<Measured>> {
    let (kernel, lens) = call_of(case);
    let mut cpu = Cpu::new(CpuOptions { threads, tuning: Some(tuning.clone()), ..CpuOptions::default() })?;
    cpu.allocate(&Arena::packed(DType::F32, lens.iter().enumerate().map(|(i, n)| (kernel.elements(i), *n))))?;
    for (i, n) in lens.iter().enumerate() {
        // Small numbers of both signs; all-zero codes are valid ones.
        let values: Vec<f32> = (0..*n).map(|k| ((k * 7919 + i) % 2003) as f32 / 1001.5 - 1.0).collect();
        if !(i + 1 == lens.len() && case.pool.is_some()) {
            cpu.load(BufferId(i as u32), 0, Values::F32(&values))?;
        }
    }
    let call = Call { kernel, args: (0..lens.len() as u32).map(BufferId).collect() };
    let step = StepArgs { seed: 0, step: 0, rate: 0.0, scale: 1.0 };
    let mut list: Vec<Measured> =
        case.candidates().into_iter().map(|algorithm| Measured { algorithm, rounds: Vec::new() }).collect();
    let begin = Instant::now();
    for round in 0..=MORE_ROUNDS {
        for measured in &mut list {
            cpu.tuning.convs = vec![ConvChoice { case: case.shape(), algorithm: measured.algorithm }];
            cpu.convs.forget(case);
            cpu.prepare(&mut std::iter::once(&call.kernel))?;
            let start = Instant::now();
            cpu.submit(&call, &step)?;
            if round > 0 {
                measured.rounds.push(start.elapsed().as_secs_f64()); // the first warms caches and pages
            }
        }
        let enough = round >= ROUNDS.0 && begin.elapsed() > BUDGET || round >= ROUNDS.1;
        if enough && (decide(&list).settled || begin.elapsed() > LONGER) {
            break;
        }
    }
    Ok(list)
}

/// The choice for a case, and what was decided from which rounds.
pub fn choose(case: &ConvCase, tuning: &Tuning, threads: usize) -> Result<(ConvChoice, Decision)> {
    let decision = decide(&measure(case, tuning, threads)?);
    Ok((ConvChoice { case: case.shape(), algorithm: decision.algorithm }, decision))
}

/// A kernel for a case, and the lengths of its buffers; the codes are the last.
fn call_of(case: &ConvCase) -> (Kernel, Vec<usize>) {
    let (d, pool) = (case.dims, case.pool);
    let made = pool.map_or(d.output_len(), |p| p.output_len());
    let codes = pool.map(|p| p.codes_len());
    let (kernel, mut lens) = match case.pass {
        Pass::Forward => {
            let activation = pool.map(|_| Activation::Relu);
            let kernel = Kernel::ConvForward { dims: d, bias: true, activation, pool, codes: pool.is_some() };
            (kernel, vec![d.input_len(), d.weight_len(), made, d.out_channels])
        }
        Pass::Data => {
            let kernel = Kernel::ConvBackwardData { dims: d, through: None, pooled: pool };
            (kernel, vec![made, d.weight_len(), d.input_len()])
        }
        Pass::Weights => {
            let kernel = Kernel::ConvBackwardWeights { dims: d, bias: true, pooled: pool };
            (kernel, vec![made, d.input_len(), d.weight_len(), d.out_channels])
        }
    };
    lens.extend(codes);
    (kernel, lens)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rounds: &[(Algorithm, &[f64])]) -> Decision {
        let list = rounds.iter().map(|&(algorithm, rounds)| Measured { algorithm, rounds: rounds.to_vec() });
        decide(&list.collect::<Vec<_>>())
    }

    #[test]
    fn quiet_rounds_settle_a_choice_however_close() {
        let d = of(&[(Algorithm::Direct, &[1.00, 1.02, 1.01]), (Algorithm::Winograd2, &[0.99, 1.01, 1.05])]);
        assert_eq!((d.algorithm, d.settled), (Algorithm::Winograd2, true));
        assert!((d.spread - 0.0202).abs() < 1e-3, "{d:?}");
    }

    #[test]
    fn a_busy_machine_settles_only_what_is_far_apart() {
        // Typical rounds take twice the best: a lead of 30 % may be luck, one of 300 % is none.
        let close = of(&[(Algorithm::Direct, &[1.0, 2.0, 2.5]), (Algorithm::Winograd4, &[1.3, 2.4, 2.6])]);
        assert_eq!((close.algorithm, close.settled), (Algorithm::Direct, false));
        assert!((close.spread - 1.0).abs() < 1e-9, "{close:?}");
        let far = of(&[(Algorithm::Direct, &[4.0, 8.0, 8.5]), (Algorithm::Winograd4, &[1.0, 2.0, 2.6])]);
        assert_eq!((far.algorithm, far.settled), (Algorithm::Winograd4, true));
    }

    #[test]
    fn one_algorithm_is_always_settled() {
        assert!(of(&[(Algorithm::Direct, &[1.0, 9.0, 9.0])]).settled);
    }
}
