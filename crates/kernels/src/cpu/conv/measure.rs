//! Choosing by measuring: every algorithm that can compute a convolution does it a few times, and the fastest is kept.
//!
//! Done once for a shape and a kind of machine; the choices are a value ([`ConvChoice`]) that others keep and hand back.

use super::plan::{Algorithm, ConvCase, Pass};
use crate::cpu::{Cpu, CpuOptions};
use crate::device::Device;
use crate::tuning::{ConvChoice, Tuning};
use paceline_base::Result;
use paceline_base::kernel::{Arena, BufferId, Call, Kernel, StepArgs, Values};
use paceline_base::op::Activation;
use std::time::{Duration, Instant};

/// How long a convolution is measured, all algorithms together, if that gives enough rounds.
const BUDGET: Duration = Duration::from_millis(60);

/// Rounds at least and at most; an algorithm's best counts, because everything else that runs only makes it slower.
const ROUNDS: (usize, usize) = (2, 12);

/// What one algorithm took for a convolution.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// How it was computed.
    pub algorithm: Algorithm,
    /// Seconds of its best round.
    pub seconds: f64,
}

/// Times all algorithms of a case, in turns, on memory of its own.
pub fn measure(case: &ConvCase, tuning: &Tuning, threads: usize) -> Result<Vec<Measured>> {
    let (kernel, lens) = call_of(case);
    let (mut slots, mut len) = (Vec::new(), 0);
    for n in &lens {
        slots.push((len, *n));
        len += n.next_multiple_of(16);
    }
    let mut cpu = Cpu::new(CpuOptions { threads, tuning: Some(tuning.clone()), ..CpuOptions::default() })?;
    cpu.allocate(&Arena { len, slots })?;
    for (i, n) in lens.iter().enumerate() {
        // Small numbers of both signs; all-zero codes are valid ones.
        let values: Vec<f32> = (0..*n).map(|k| ((k * 7919 + i) % 2003) as f32 / 1001.5 - 1.0).collect();
        if !(i + 1 == lens.len() && case.pool.is_some()) {
            cpu.load(BufferId(i as u32), 0, Values::F32(&values));
        }
    }
    let call = Call { kernel, args: (0..lens.len() as u32).map(BufferId).collect() };
    let step = StepArgs { seed: 0, step: 0, rate: 0.0, scale: 1.0 };
    let mut list: Vec<Measured> =
        case.candidates().into_iter().map(|algorithm| Measured { algorithm, seconds: f64::INFINITY }).collect();
    let begin = Instant::now();
    for round in 0..=ROUNDS.1 {
        for measured in &mut list {
            cpu.tuning.convs = vec![ConvChoice { case: case.shape(), algorithm: measured.algorithm }];
            cpu.convs.forget(case);
            cpu.prepare(&mut std::iter::once(&call))?;
            let start = Instant::now();
            cpu.submit(&call, &step);
            if round > 0 {
                measured.seconds = measured.seconds.min(start.elapsed().as_secs_f64()); // the first warms caches and pages
            }
        }
        if round >= ROUNDS.0 && begin.elapsed() > BUDGET {
            break;
        }
    }
    Ok(list)
}

/// The choice for a case, and what every algorithm took.
pub fn choose(case: &ConvCase, tuning: &Tuning, threads: usize) -> Result<(ConvChoice, Vec<Measured>)> {
    let list = measure(case, tuning, threads)?;
    let best = list.iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds)).map_or(Algorithm::Direct, |m| m.algorithm);
    Ok((ConvChoice { case: case.shape(), algorithm: best }, list))
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
