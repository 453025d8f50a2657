//! The devices for tests: same bits as what they wrap, and what they refuse.

mod suite;

use paceline_base::kernel::{Arena, BufferId, Call, Kernel, Values};
use paceline_base::op::Activation;
use paceline_base::staging::Lend;
use paceline_kernels::testing::{Checked, Queued};
use paceline_kernels::{Cpu, CpuOptions, Device, DeviceOptions, Reference};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;
use suite::STEP;

const X: BufferId = BufferId(0);
const Y: BufferId = BufferId(1);
/// The second half of the first and the first half of the second.
const ACROSS: BufferId = BufferId(2);

fn ready(mut device: impl Device) -> impl Device {
    device.allocate(&Arena::of(device.dtype(), 32, &[(0, 16), (16, 16), (8, 16)])).unwrap();
    device.load(X, 0, Values::F64(&[2.0; 16])).unwrap();
    device
}

fn relu(from: BufferId, to: BufferId) -> Call {
    Call { kernel: Kernel::Activate { function: Activation::Relu, len: 16 }, args: vec![from, to] }
}

fn cpu() -> Cpu {
    Cpu::new(CpuOptions::default()).unwrap()
}

fn refused(words: &str, act: impl FnOnce()) {
    let panic = catch_unwind(AssertUnwindSafe(act)).expect_err(words);
    let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(text.contains(words), "wanted {words:?}, got {text:?}");
}

fn first(device: &mut impl Device, buffer: BufferId) -> f64 {
    let mut out = [0.0];
    device.read(buffer, &mut out).unwrap();
    out[0]
}

/// A round of everything, with one kernel between, comes to the same on all.
#[test]
fn they_compute_what_they_wrap() {
    fn check(device: impl Device) {
        let mut device = ready(device);
        device.submit(&relu(X, Y), &STEP).unwrap();
        let mut staging = device.pack_now(Y, Lend::Change).unwrap();
        let size = staging.dtype().size();
        staging.bytes_mut()[..size].fill(0);
        device.unpack(Y, staging).unwrap();
        let [one, two] = [(); 2].map(|()| device.pack_now(Y, Lend::Read).unwrap());
        device.submit(&relu(Y, X), &STEP).unwrap();
        device.unpack(Y, one).unwrap();
        device.unpack(Y, two).unwrap();
        let mut out = [9.0; 3];
        device.read(X, &mut out).unwrap();
        assert_eq!(out, [0.0, 2.0, 2.0], "{}", device.describe());
    }
    check(cpu());
    check(Checked::new(cpu()));
    check(Checked::new(Reference::new()));
    check(Queued::new(cpu(), u64::MAX));
    check(Queued::new(Reference::new(), 2));
    check(Checked::new(Queued::new(cpu(), u64::MAX)));
}

#[test]
fn what_is_lent_is_poisoned() {
    let mut device = ready(Checked::new(cpu()));
    let staging = device.pack_now(X, Lend::Change).unwrap();
    refused("lent", || drop(device.submit(&relu(ACROSS, Y), &STEP)));
    device.unpack(X, staging).unwrap();
    assert_eq!(first(&mut device, X), 2.0);
    // What is received into holds nothing before.
    let staging = device.pack_now(X, Lend::Overwrite).unwrap();
    device.unpack(X, staging).unwrap();
    assert!(first(&mut device, X).is_nan());
}

#[test]
fn what_is_freed_is_poisoned() {
    let mut device = ready(Checked::new(cpu()));
    device.submit(&relu(X, Y), &STEP).unwrap();
    assert!(device.wants_retired());
    device.retire(X).unwrap();
    refused("was freed", || drop(device.submit(&relu(X, Y), &STEP)));
    refused("was freed", || drop(device.submit(&relu(ACROSS, ACROSS), &STEP)));
    refused("was freed", || drop(device.read(X, &mut [0.0])));
    refused("was freed", || drop(device.pack(X, Lend::Read)));
    device.submit(&relu(Y, X), &STEP).unwrap();
    assert_eq!(first(&mut device, X), 2.0);
    let lent = device.pack_now(X, Lend::Read).unwrap();
    refused("lent", || drop(device.retire(X)));
    drop(lent);
}

#[test]
fn work_is_done_later_and_who_forgets_an_event_fails() {
    let mut device = ready(Queued::new(cpu(), u64::MAX));
    device.submit(&relu(X, Y), &STEP).unwrap();
    let event = device.pack(Y, Lend::Change).unwrap();
    assert!(!device.has_fired(event).unwrap());
    let error = device.take_packed(event).err().expect("it has not fired");
    assert!(error.message().contains("has not fired"), "{error}");
    device.wait(event).unwrap();
    assert!(device.has_fired(event).unwrap());
    let staging = device.take_packed(event).unwrap();
    assert!(device.take_packed(event).is_err(), "once");
    device.unpack(Y, staging).unwrap();
    assert_eq!(first(&mut device, Y), 2.0);
}

/// A panic in queued work is an error of what follows; nothing hangs.
#[test]
fn queued_work_that_fails_is_an_error() {
    let mut device = ready(Queued::new(cpu(), u64::MAX));
    let next = relu(Y, X);
    device.load(X, 9, Values::F64(&[1.0; 16])).unwrap(); // 9 + 16 elements of 16
    let event = device.pack(Y, Lend::Read).unwrap();
    for error in [device.wait(event).err(), device.has_fired(event).err(), device.submit(&next, &STEP).err()] {
        let error = error.expect("the load failed");
        assert!(error.message().contains("queued work panicked"), "{error}");
    }
    assert!(device.read(Y, &mut [0.0]).is_err());
}

#[test]
fn time_is_that_of_kernels() {
    let mut device = ready(Queued::new(cpu(), 0));
    device.turn_to(Some(paceline_kernels::Work::Update), Instant::now());
    let done = device.submit(&relu(X, Y), &STEP).unwrap();
    device.wait(done).unwrap();
    let busy = device.busy();
    assert!(busy.update.as_nanos() > 0 && busy.compute.is_zero());
}

#[test]
fn questions_are_answered_without_a_device() {
    let dims = paceline_base::window::ConvDims {
        samples: 2,
        height: 9,
        width: 9,
        channels: 16,
        out_height: 9,
        out_width: 9,
        out_channels: 32,
        kernel: [3, 3],
        stride: [1, 1],
        dilation: [1, 1],
        pad: [1, 1],
        groups: 1,
    };
    let kernels = [
        Kernel::ConvForward { dims, bias: false, activation: None, pool: None, codes: false },
        Kernel::ConvBackwardData { dims, through: None, pooled: None },
        Kernel::ConvBackwardWeights { dims, bias: true, pooled: None },
        Kernel::Zero { len: 3 },
    ];
    for threads in [0, 1, 2] {
        let options = DeviceOptions { threads, ..DeviceOptions::default() };
        let mut device = options.make().unwrap();
        device.prepare(&mut kernels.iter()).unwrap();
        assert_eq!(options.working_bytes(&mut kernels.iter()).unwrap(), device.working_bytes());
        assert_eq!(options.describe().unwrap(), device.describe());
        assert_eq!(options.kind(), device.kind());
        assert_eq!(
            options.tuning().unwrap(),
            Cpu::new(CpuOptions { threads, ..CpuOptions::default() }).unwrap().tuning()
        );
    }
}

/// Other buffers, in more memory or in the same: what is kept stays, memory never shrinks, and nothing changes while a buffer is lent.
#[test]
fn buffers_change_around_what_is_kept() {
    fn check(device: impl Device) {
        let mut device = ready(device);
        let size = device.dtype().size();
        for (len, allocated) in [(48, 48), (24, 48), (500_000, 500_000)] {
            device
                .reallocate(&Arena::of(device.dtype(), len, &[(0, 16), (16, 8)]), 16 * device.dtype().size())
                .unwrap();
            assert_eq!((device.allocated_bytes(), first(&mut device, X)), (allocated * size, 2.0));
        }
        device.reallocate(&Arena::of(device.dtype(), 32, &[(0, 16), (16, 16)]), 16 * device.dtype().size()).unwrap();
        device.submit(&relu(X, Y), &STEP).unwrap();
        assert_eq!(first(&mut device, Y), 2.0);
        let lent = device.pack_now(X, Lend::Read).unwrap();
        let refused =
            device.reallocate(&Arena::of(device.dtype(), 16, &[(0, 16)]), 16 * device.dtype().size()).unwrap_err();
        assert!(refused.to_string().contains("buffer 0 is lent"), "{refused}");
        device.unpack(X, lent).unwrap();
    }
    check(cpu());
    check(Reference::new());
    check(Checked::new(cpu()));
    check(Queued::new(cpu(), u64::MAX));
}
