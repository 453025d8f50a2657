//! What a device must refuse, in every build: `submit`, `load`, `pack` and the others are safe functions over raw memory.

mod suite;

use paceline_base::kernel::{Arena, BufferId, Call, DenseDims, Kernel, LocalResponse, Slot, Values};
use paceline_base::op::{Activation, Loss};
use paceline_base::optim::{Rule, Segment};
use paceline_base::region::{Region, Strided};
use paceline_base::sample::TargetKind;
use paceline_base::staging::Lend;
use paceline_base::units::DType;
use paceline_base::window::ConvDims;
use paceline_kernels::Device;
use std::panic::{AssertUnwindSafe, catch_unwind};
use suite::{STEP, Which};

/// Four buffers of 64 elements one behind the other, then one that begins in the middle of the first, and one over the first two.
fn arena(dtype: DType) -> Arena {
    Arena::of(dtype, 256, &[(0, 64), (64, 64), (128, 64), (192, 64), (16, 64), (0, 128)])
}

fn refused(what: &str, expected: &str, act: impl FnOnce()) {
    let error = catch_unwind(AssertUnwindSafe(act)).expect_err(what);
    let text = error.downcast_ref::<String>().cloned().or_else(|| error.downcast_ref::<&str>().map(|s| s.to_string()));
    let text = text.unwrap_or_default();
    assert!(text.contains(expected), "{what}: wanted {expected:?}, got {text:?}");
}

/// Some devices: the obvious one, and the fast one with and without threads.
fn devices() -> Vec<(Which, Box<dyn Device>)> {
    let cpus = Which::cpus();
    [Which::Reference, cpus[0], cpus[cpus.len() - 1]]
        .map(|which| {
            let mut device = which.make();
            device.allocate(&arena(device.dtype())).unwrap();
            (which, device)
        })
        .into()
}

fn call(kernel: &Kernel, args: &[u32]) -> Call {
    Call { kernel: kernel.clone(), args: args.iter().map(|&a| BufferId(a)).collect() }
}

#[test]
fn what_a_kernel_writes_overlaps_nothing_else() {
    let dims = DenseDims { rows: 8, outputs: 8, inputs: 8 };
    let forward = Kernel::DenseForward { dims, bias: false, activation: None };
    let update = Kernel::DenseBackwardUpdate { dims, bias: false, rule: Rule::Momentum { momentum: 0.9 }, l2: 0.0 };
    let sparsify = Kernel::Sparsify { len: 64, keep: 3 };
    let add = Kernel::Add(Strided::contiguous(0, 0, 64));
    let copy = Kernel::Copy(Strided::contiguous(0, 0, 64));
    let sum = Kernel::Sum { inputs: 3, len: 64, activation: None };
    let relu = Kernel::Activate { function: Activation::Relu, len: 64 };
    let moved = Kernel::Update {
        rule: Rule::Momentum { momentum: 0.9 },
        segments: vec![Segment { start: 0, len: 64, l2: 0.0 }],
    };
    for (which, mut device) in devices() {
        let mut try_call = |kernel: &Kernel, args: &[u32]| {
            let name = format!("{which:?} {} {args:?}", kernel.name());
            refused(&name, "cannot have", || {
                device.submit(&call(kernel, args), &STEP).unwrap();
            });
        };
        try_call(&forward, &[0, 1, 0]); // y is x
        try_call(&forward, &[0, 1, 4]); // y begins in x
        try_call(&forward, &[0, 1, 5]); // y covers x and w
        try_call(&update, &[0, 1, 2, 2]); // a state is its parameters
        try_call(&sparsify, &[0, 0]); // two exclusive slices of one memory
        try_call(&sparsify, &[0, 4]);
        try_call(&add, &[0, 0]);
        try_call(&copy, &[0, 4]);
        try_call(&sum, &[1, 4, 2, 0]);
        try_call(&relu, &[0, 4]); // the same elements, but not at the same places
        try_call(&moved, &[0, 0, 1]);
        // What only reads may be the same, and element by element a kernel works in place.
        device.submit(&call(&forward, &[0, 0, 1]), &STEP).unwrap();
        device.submit(&call(&relu, &[0, 0]), &STEP).unwrap();
        device.submit(&call(&sum, &[1, 0, 1, 1]), &STEP).unwrap();
    }
}

#[test]
fn what_is_lent_is_not_touched_under_any_name() {
    let zero = Kernel::Zero { len: 64 };
    let relu = Kernel::Activate { function: Activation::Relu, len: 64 };
    for (which, mut device) in devices() {
        let name = format!("{which:?}");
        let staging = device.pack_now(BufferId(1), Lend::Change).unwrap();
        assert!(staging.is_writable());
        // Buffer 4 ends in it, and buffer 5 covers it.
        for (buffer, len) in [(1, 64), (4, 64), (5, 128)] {
            refused(&name, "lent", || drop(device.submit(&call(&Kernel::Zero { len }, &[buffer]), &STEP)));
            refused(&name, "lent", || drop(device.submit(&call(&relu, &[buffer.min(4), 2]), &STEP)));
            refused(&name, "lent", || drop(device.load(BufferId(buffer), 0, Values::F32(&[1.0]))));
            refused(&name, "lent", || drop(device.read(BufferId(buffer), &mut [0.0])));
            refused(&name, "lent", || drop(device.pack(BufferId(buffer), Lend::Read)));
        }
        device.submit(&call(&zero, &[2]), &STEP).unwrap();
        device.submit(&call(&Kernel::Zero { len: 32 }, &[4]), &STEP).unwrap(); // ends before the loan
        device.unpack(BufferId(1), staging).unwrap();
        device.submit(&call(&zero, &[1]), &STEP).unwrap();
        let staging = device.pack_now(BufferId(1), Lend::Change).unwrap();
        refused(&name, "was not lent", || drop(device.unpack(BufferId(2), staging)));
    }
}

#[test]
fn what_is_lent_to_be_read_is_read_by_all_and_written_by_none() {
    let relu = Kernel::Activate { function: Activation::Relu, len: 64 };
    for (which, mut device) in devices() {
        let name = format!("{which:?}");
        device.load(BufferId(1), 0, Values::F64(&[2.5; 64])).unwrap();
        let [one, two] = [(); 2].map(|()| device.pack_now(BufferId(1), Lend::Read).unwrap());
        assert!(!one.is_writable() && one.bytes() == two.bytes());
        device.submit(&call(&relu, &[1, 2]), &STEP).unwrap();
        refused(&name, "lent", || drop(device.submit(&call(&relu, &[2, 1]), &STEP)));
        device.unpack(BufferId(1), one).unwrap();
        refused(&name, "lent", || drop(device.submit(&call(&relu, &[2, 4]), &STEP)));
        refused(&name, "lent", || drop(device.pack(BufferId(1), Lend::Overwrite)));
        device.unpack(BufferId(1), two).unwrap();
        device.submit(&call(&relu, &[2, 1]), &STEP).unwrap();
        let mut out = [0.0];
        device.read(BufferId(2), &mut out).unwrap();
        assert_eq!(out, [2.5]);
    }
}

#[test]
fn sizes_that_wrap_round_do_not_pass() {
    let huge = usize::MAX / 2 + 1; // times two it is 0
    for which in [Which::Reference, Which::cpus()[0]] {
        let mut device = which.make();
        let slots = vec![Slot::new(usize::MAX - 15, 32, device.dtype())];
        let error = device.allocate(&Arena { bytes: 512, slots }).unwrap_err();
        assert!(error.message().contains("exceeds the arena"), "{error}");
    }
    let dims = |rows, outputs, inputs| DenseDims { rows, outputs, inputs };
    let conv = ConvDims {
        samples: huge,
        height: 1,
        width: 2,
        channels: 1,
        out_height: 1,
        out_width: 2,
        out_channels: 1,
        kernel: [1, 1],
        stride: [1, 1],
        dilation: [1, 1],
        pad: [0, 0],
        groups: 1,
    };
    let response = LocalResponse {
        rows: 1,
        channels: 4,
        first: usize::MAX,
        out_channels: 2,
        size: 1,
        alpha: 1.0,
        beta: 1.0,
        k: 1.0,
    };
    let region = Region::new([0..huge, 0..2]);
    let several = TargetKind::Classes { classes: huge, each: 2 };
    let kernels = [
        (Kernel::DenseForward { dims: dims(huge, 2, 2), bias: false, activation: None }, 3),
        (Kernel::ConvForward { dims: conv, bias: false, activation: None, pool: None, codes: false }, 3),
        (Kernel::LayerNorm { rows: huge, channels: 2, eps: 1e-5 }, 5),
        (Kernel::LocalResponse(response), 2),
        (Kernel::Loss { loss: Loss::SoftmaxCrossEntropy, targets: several, rows: 1, gradient: true }, 4),
        (Kernel::Dropout { rate: 0.5, layer: 0, region, shape: vec![huge, 2] }, 2),
        (Kernel::Copy(Strided { from: 0, to: 0, run: 1, loops: vec![(3, huge, 1)] }), 2),
        (Kernel::Add(Strided { from: usize::MAX, to: 0, run: 2, loops: Vec::new() }), 2),
        (Kernel::Update { rule: Rule::Sgd, segments: vec![Segment { start: usize::MAX, len: 2, l2: 0.0 }] }, 2),
    ];
    for (which, mut device) in devices() {
        for (kernel, args) in &kernels {
            let args: Vec<u32> = (0..*args).map(|i| [0, 1, 2, 3, 1][i as usize]).collect();
            let name = format!("{which:?} {}", kernel.name());
            refused(&name, "more than memory has", || {
                device.submit(&call(kernel, &args), &STEP).unwrap();
            });
        }
    }
}
