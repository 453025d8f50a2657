//! What the device tests share: every device under test, and a bench that lays out buffers, runs one call and reads results.

#![allow(dead_code)] // each test binary uses its own part

pub(crate) mod shapes;

use paceline_base::kernel::{Arena, BufferId, Call, Kernel, StepArgs, Values};
use paceline_base::random::{Stream, Use};
use paceline_kernels::tuning::Blocks;
use paceline_kernels::{Cpu, CpuOptions, Device, Isa, Reference, Tuning};

/// A kind of device under test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Which {
    Reference,
    /// Instruction set, threads, and whether blocks are tiny, so that small shapes meet every path.
    Cpu(Isa, usize, bool),
}

impl Which {
    /// Reference, and Cpu for each instruction set of this machine and 1, 2 and 3 threads.
    pub(crate) fn all() -> Vec<Which> {
        let mut all = vec![Which::Reference];
        all.extend(Self::cpus());
        all
    }

    pub(crate) fn cpus() -> Vec<Which> {
        let mut all = Vec::new();
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            for threads in 1..4 {
                all.push(Which::Cpu(isa, threads, threads == 3));
            }
        }
        all
    }

    pub(crate) fn make(self) -> Box<dyn Device> {
        match self {
            Which::Reference => Box::new(Reference::with_fusions()),
            Which::Cpu(isa, threads, tiny) => {
                // Without thresholds, so that small shapes are divided too.
                let mut tuning = Tuning { parallel_flops: 0, parallel_elements: 0, ..Tuning::heuristic(isa) };
                if tiny {
                    let blocks = Blocks {
                        sample_elements: 300,
                        term_block: 5,
                        factor_elements: 200,
                        row_block: 7,
                        pack_rows: 3,
                        pack_terms: 2,
                        ..tuning.blocks
                    };
                    tuning.blocks = blocks;
                }
                Box::new(Cpu::new(CpuOptions { threads, tuning: Some(tuning), ..CpuOptions::default() }).unwrap())
            }
        }
    }

    /// Relative error that f32 or f64 arithmetic may make over sums of `terms` terms.
    pub(crate) fn tolerance(self, terms: usize) -> f64 {
        match self {
            Which::Reference => 1e-12,
            Which::Cpu(..) => 2e-6 * (1.0 + (terms as f64).sqrt()),
        }
    }
}

/// A value for a test's step.
pub(crate) const STEP: StepArgs = StepArgs { seed: 11, step: 3, rate: 0.1, scale: 0.25 };

/// Runs one call on fresh buffers with these contents (gaps between them hold a sentinel) and returns the contents afterwards.
pub(crate) fn run(which: Which, kernel: Kernel, buffers: &[Vec<f64>], step: &StepArgs) -> Vec<Vec<f64>> {
    run_all(which, &[(kernel, (0..buffers.len()).collect())], buffers, step)
}

/// Runs several calls, each with the numbers of its buffers.
pub(crate) fn run_all(
    which: Which,
    calls: &[(Kernel, Vec<usize>)],
    buffers: &[Vec<f64>],
    step: &StepArgs,
) -> Vec<Vec<f64>> {
    run_on(which.make(), &format!("{which:?}"), calls, buffers, step)
}

/// The same on a device of the caller's.
pub(crate) fn run_on(
    mut device: Box<dyn Device>,
    which: &str,
    calls: &[(Kernel, Vec<usize>)],
    buffers: &[Vec<f64>],
    step: &StepArgs,
) -> Vec<Vec<f64>> {
    let (mut slots, mut len) = (Vec::new(), 3);
    for buffer in buffers {
        slots.push((len, buffer.len()));
        len += buffer.len() + 5; // odd places: kernels may not rely on alignment
    }
    let whole = slots.len() as u32;
    slots.push((0, len));
    device.allocate(&Arena { len, slots: slots.clone() }).unwrap();
    device.load(BufferId(whole), 0, Values::F64(&vec![77.0; len])).unwrap();
    for (i, buffer) in buffers.iter().enumerate() {
        device.load(BufferId(i as u32), 0, Values::F64(buffer)).unwrap();
    }
    let call = |(kernel, args): &(Kernel, Vec<usize>)| Call {
        kernel: kernel.clone(),
        args: args.iter().map(|i| BufferId(*i as u32)).collect(),
    };
    let calls: Vec<Call> = calls.iter().map(call).collect();
    device.prepare(&mut calls.iter().map(|call| &call.kernel)).unwrap();
    for call in &calls {
        let event = device.submit(call, step).unwrap();
        device.wait(event).unwrap();
    }
    let mut all = vec![0.0; len];
    device.read(BufferId(whole), &mut all).unwrap();
    for (i, value) in all.iter().enumerate() {
        let inside = slots[..buffers.len()].iter().any(|(at, n)| (*at..at + n).contains(&i));
        assert!(inside || *value == 77.0, "{which} wrote outside its buffers, at {i}");
    }
    slots[..buffers.len()].iter().map(|(at, n)| all[*at..at + n].to_vec()).collect()
}

/// Random values in ±1 that f32 holds exactly.
pub(crate) fn values(seed: u64, len: usize) -> Vec<f64> {
    let stream = Stream::new(seed, Use::Data, 0, 0);
    (0..len).map(|i| (stream.uniform(i as u64) * 2.0 - 1.0) as f32 as f64).collect()
}

/// Asserts that two lists agree to `tolerance`, relative to the larger of 1 and the expected value.
pub(crate) fn close(what: &str, got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        let same = (g - e).abs() <= tolerance * e.abs().max(1.0) || g == e || (g.is_nan() && e.is_nan());
        assert!(same, "{what}: element {i} is {g}, not {e}");
    }
}

/// Asserts that two lists have the same bits.
pub(crate) fn same_bits(what: &str, got: &[f64], expected: &[f64]) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!(g.to_bits() == e.to_bits(), "{what}: element {i} is {g:e}, not {e:e}");
    }
}

/// The codes of a pool as a device keeps them, four to an element: numbers on the reference device, raw bytes elsewhere. (Reading goes through
/// f64, which keeps the bits of an f32 that holds places below 128 and dead ones.)
pub(crate) fn codes_of(which: Which, elements: &[f64], count: usize) -> Vec<u8> {
    let bytes = |x: &f64| match which {
        Which::Reference => (*x as u32).to_le_bytes(),
        Which::Cpu(..) => (*x as f32).to_bits().to_le_bytes(),
    };
    elements.iter().flat_map(bytes).take(count).collect()
}

/// The elements that hold these codes on a device.
pub(crate) fn as_codes(which: Which, codes: &[u8]) -> Vec<f64> {
    let element = |four: &[u8]| {
        let bits = four.iter().rev().fold(0, |all, code| all << 8 | u32::from(*code));
        match which {
            Which::Reference => f64::from(bits),
            Which::Cpu(..) => f64::from(f32::from_bits(bits)),
        }
    };
    codes.chunks(4).map(element).collect()
}

/// Runs calls on every device: `Reference` gives the expected buffers, those of the list are compared, and all `Cpu`s of one instruction set
/// must give the same bits. Returns what `Reference` gave.
pub(crate) fn agree(
    what: &str,
    calls: &[(Kernel, Vec<usize>)],
    buffers: &[Vec<f64>],
    compared: &[usize],
    terms: usize,
) -> Vec<Vec<f64>> {
    let expected = run_all(Which::Reference, calls, buffers, &STEP);
    let mut first: Option<(Isa, Vec<Vec<f64>>)> = None;
    for which in Which::cpus() {
        let Which::Cpu(isa, ..) = which else { continue };
        let got = run_all(which, calls, buffers, &STEP);
        for i in compared {
            close(&format!("{which:?} {what} buffer {i}"), &got[*i], &expected[*i], which.tolerance(terms));
        }
        match &first {
            Some((same, one)) if *same == isa => {
                for (i, (got, one)) in got.iter().zip(one).enumerate() {
                    same_bits(&format!("{which:?} {what} buffer {i}"), got, one);
                }
            }
            _ => first = Some((isa, got)),
        }
    }
    expected
}
