//! What the device tests share: every device under test, and a bench that lays out buffers, runs one call and reads results.

#![allow(dead_code)] // each test binary uses its own part

pub(crate) mod shapes;

use paceline_base::kernel::{Arena, BufferId, Call, Elements, Kernel, Slot, StepArgs, Values};
use paceline_base::random::{Stream, Use};
use paceline_base::units::DType;
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
    let elements = |buffer: usize| {
        let of_call = |(kernel, args): &(Kernel, Vec<usize>)| {
            args.iter().position(|arg| *arg == buffer).map(|argument| kernel.elements(argument))
        };
        calls.iter().find_map(of_call).unwrap_or(Elements::Float)
    };
    let float = device.dtype();
    let (mut slots, mut bytes) = (Vec::new(), 3 * float.size());
    for (i, buffer) in buffers.iter().enumerate() {
        let dtype = elements(i).dtype(float);
        let slot = Slot::new(bytes.next_multiple_of(dtype.size()), buffer.len(), dtype);
        slots.push(slot);
        bytes = (slot.at + slot.bytes_of(slot.len)).next_multiple_of(float.size()) + 5 * float.size(); // odd places: kernels may not rely on alignment
    }
    let whole = BufferId(slots.len() as u32);
    slots.push(Slot::new(0, bytes, DType::U8));
    device.allocate(&Arena { bytes, slots: slots.clone() }).unwrap();
    device.load(whole, 0, Values::Bytes(&vec![77; bytes])).unwrap();
    for (i, buffer) in buffers.iter().enumerate() {
        load(&mut *device, BufferId(i as u32), slots[i].dtype, buffer);
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
    let mut all = vec![0.0; bytes];
    device.read(whole, &mut all).unwrap();
    for (i, value) in all.iter().enumerate() {
        let inside =
            slots[..buffers.len()].iter().any(|slot| (slot.at..slot.at + slot.bytes_of(slot.len)).contains(&i));
        assert!(inside || *value == 77.0, "{which} wrote outside its buffers, at byte {i}");
    }
    let content = |(i, buffer): (usize, &Vec<f64>)| {
        let mut content = vec![0.0; buffer.len()];
        device.read(BufferId(i as u32), &mut content).unwrap();
        content
    };
    buffers.iter().enumerate().map(content).collect()
}

/// Loads numbers as elements of a buffer's type.
pub(crate) fn load(device: &mut dyn Device, buffer: BufferId, dtype: DType, values: &[f64]) {
    match dtype {
        DType::F32 | DType::F64 => device.load(buffer, 0, Values::F64(values)),
        DType::U8 => device.load(buffer, 0, Values::Bytes(&values.iter().map(|x| *x as u8).collect::<Vec<_>>())),
        DType::U32 => device.load(buffer, 0, Values::U32(&values.iter().map(|x| *x as u32).collect::<Vec<_>>())),
        DType::U64 => device.load(buffer, 0, Values::U64(&values.iter().map(|x| *x as u64).collect::<Vec<_>>())),
    }
    .unwrap();
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

/// The codes of a pool.
pub(crate) fn codes_of(elements: &[f64]) -> Vec<u8> {
    elements.iter().map(|x| *x as u8).collect()
}

/// The elements that stand for these codes.
pub(crate) fn as_codes(codes: &[u8]) -> Vec<f64> {
    codes.iter().map(|x| f64::from(*x)).collect()
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
