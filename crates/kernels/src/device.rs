//! The `Device` trait: what the engine may ask of whatever computes.
//!
//! A device may compute while it is asked, as `Cpu` does, or queue what it is asked for and do it later, in that order. So all that can fail
//! returns a `Result`: an error may be that of work that was queued earlier.

use paceline_base::kernel::{Arena, BufferId, Call, DeviceKind, Fusion, Kernel, Slot, StepArgs, Values};
use paceline_base::staging::Lend;
use paceline_base::units::DType;
use paceline_base::{Result, Staging};
use std::time::{Duration, Instant};

/// A point in a device's work. It fires when all that was asked for before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event(pub u64);

/// Puts values at an element of the buffer that is being loaded.
pub type Put<'a> = dyn FnMut(usize, Values<'_>) + 'a;

/// Host memory as it is lent: a buffer whose length varies is as long as what it holds, or, to be overwritten, has room for any length.
pub(crate) fn lent_length(mut staging: Staging, slot: &Slot, lend: Lend, holds: usize) -> Staging {
    if slot.varies {
        if lend != Lend::Overwrite {
            staging.set_len(holds);
        }
        return staging.varying();
    }
    staging
}

/// How many elements came back for a buffer.
///
/// # Panics
/// If they are not the buffer's.
pub(crate) fn returned_length(staging: &Staging, slot: &Slot) -> usize {
    let len = staging.len();
    let fits = staging.dtype() == slot.dtype && (len == slot.len || slot.varies && len < slot.len);
    assert!(fits, "{len} elements of {:?} came back, those of another buffer than {slot:?}", staging.dtype());
    len
}

/// What a device's time is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Forward and backward kernels.
    Compute,
    /// The optimiser's update.
    Update,
}

/// Time that a device has spent in kernels since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    /// Forward and backward kernels.
    pub compute: Duration,
    /// The optimiser's update.
    pub update: Duration,
}

impl Busy {
    /// Adds to what was spent on one kind of work.
    pub fn add(&mut self, work: Work, time: Duration) {
        match work {
            Work::Compute => self.compute += time,
            Work::Update => self.update += time,
        }
    }
}

/// The time of a device that computes while it is asked: it is busy from one turn to the next.
#[derive(Debug, Default)]
pub(crate) struct Account {
    since: Option<(Work, Instant)>,
    pub(crate) busy: Busy,
}

impl Account {
    pub(crate) fn turn_to(&mut self, work: Option<Work>, now: Instant) {
        if let Some((work, since)) = self.since {
            self.busy.add(work, now - since);
        }
        self.since = work.map(|work| (work, now));
    }
}

/// Something that owns memory and computes.
///
/// One value belongs to one rank and is driven by one thread. Buffers exist after [`allocate`](Device::allocate); nothing
/// is allocated after that.
pub trait Device: Send {
    /// For people: "cpu (avx512, 2 threads)".
    fn describe(&self) -> String;

    /// The type of its floats.
    fn dtype(&self) -> DType;

    /// The kernel chains that it takes as one; lowering's fuse pass joins these.
    fn fusions(&self) -> &[Fusion];

    /// Makes room for all buffers, zeroed. Called once.
    fn allocate(&mut self, arena: &Arena) -> Result<()>;

    /// Other buffers in place of those there are. The first `kept` bytes of the arena keep what they hold; memory grows if it must, and
    /// never shrinks. Nothing may be on loan.
    fn reallocate(&mut self, arena: &Arena, kept: usize) -> Result<()>;

    /// Bytes of the arena: what lowering planned and the simulator predicts.
    fn allocated_bytes(&self) -> usize;

    /// Tells which kernels will be submitted, before the first of them: a device makes room for what they need beside the buffers.
    fn prepare(&mut self, kernels: &mut dyn Iterator<Item = &Kernel>) -> Result<()> {
        let _ = kernels;
        Ok(())
    }

    /// Bytes of the device's own working memory, beside the arena, for the kernels that it was told of.
    fn working_bytes(&self) -> usize {
        0
    }

    /// Starts a kernel, whose end is the event.
    fn submit(&mut self, call: &Call, args: &StepArgs) -> Result<Event>;

    /// Whether an event has fired. Never waits.
    fn has_fired(&mut self, event: Event) -> Result<bool>;

    /// Returns when an event has fired.
    fn wait(&mut self, event: Event) -> Result<()>;

    /// Puts host values into a buffer, floats converted to the device's type: all runs of elements in one call. `fill` is called once and calls
    /// what it is given for every run; the values are read before this returns. A buffer whose length varies then ends behind the last of them.
    fn load_all(&mut self, buffer: BufferId, fill: &mut dyn FnMut(&mut Put<'_>)) -> Result<()>;

    /// The same for one run of elements, beginning at element `at`.
    fn load(&mut self, buffer: BufferId, at: usize, values: Values<'_>) -> Result<()> {
        self.load_all(buffer, &mut |put| put(at, values))
    }

    /// A hint that these values will be loaded soon: a device that reads host memory itself may fetch them into its caches.
    fn prefetch(&self, values: Values<'_>) {
        let _ = values;
    }

    /// Reads a buffer's first `out.len()` elements, when all that was asked for before is done.
    fn read(&mut self, buffer: BufferId, out: &mut [f64]) -> Result<()>;

    /// Lends a buffer as host memory, from the event on (zero-copy on `Cpu`). Until it comes back through [`unpack`](Device::unpack), no kernel
    /// may touch any of its elements, under whatever name; of a buffer that is lent to be read they may read.
    fn pack(&mut self, buffer: BufferId, lend: Lend) -> Result<Event>;

    /// The host memory of a loan whose event has fired, in the buffer's type. Once for each loan.
    fn take_packed(&mut self, event: Event) -> Result<Staging>;

    /// Lends a buffer, and waits until it can.
    fn pack_now(&mut self, buffer: BufferId, lend: Lend) -> Result<Staging> {
        let event = self.pack(buffer, lend)?;
        self.wait(event)?;
        self.take_packed(event)
    }

    /// Takes back what was lent; the buffer then holds the staging's content, and is as long, if its length varies.
    fn unpack(&mut self, buffer: BufferId, staging: Staging) -> Result<()>;

    /// Says what the kernels that follow are for; none if none follow for a while. `now` is the caller's clock, so that a device that computes
    /// inside `submit` needs no other.
    fn turn_to(&mut self, work: Option<Work>, now: Instant);

    /// What lowering has to know of it.
    fn kind(&self) -> DeviceKind {
        DeviceKind::new(self.dtype(), self.fusions())
    }

    /// What the device's time was spent on, up to the last [`turn_to`](Device::turn_to).
    fn busy(&self) -> Busy;

    /// True if it wants to know where buffers' lives end: only devices for tests do.
    fn wants_retired(&self) -> bool {
        false
    }

    /// Nothing reads what this buffer holds any more.
    fn retire(&mut self, buffer: BufferId) -> Result<()> {
        let _ = buffer;
        Ok(())
    }
}

impl<D: Device + ?Sized> Device for Box<D> {
    fn describe(&self) -> String {
        (**self).describe()
    }

    fn dtype(&self) -> DType {
        (**self).dtype()
    }

    fn fusions(&self) -> &[Fusion] {
        (**self).fusions()
    }

    fn allocate(&mut self, arena: &Arena) -> Result<()> {
        (**self).allocate(arena)
    }

    fn reallocate(&mut self, arena: &Arena, kept: usize) -> Result<()> {
        (**self).reallocate(arena, kept)
    }

    fn allocated_bytes(&self) -> usize {
        (**self).allocated_bytes()
    }

    fn prepare(&mut self, kernels: &mut dyn Iterator<Item = &Kernel>) -> Result<()> {
        (**self).prepare(kernels)
    }

    fn working_bytes(&self) -> usize {
        (**self).working_bytes()
    }

    fn submit(&mut self, call: &Call, args: &StepArgs) -> Result<Event> {
        (**self).submit(call, args)
    }

    fn has_fired(&mut self, event: Event) -> Result<bool> {
        (**self).has_fired(event)
    }

    fn wait(&mut self, event: Event) -> Result<()> {
        (**self).wait(event)
    }

    fn load_all(&mut self, buffer: BufferId, fill: &mut dyn FnMut(&mut Put<'_>)) -> Result<()> {
        (**self).load_all(buffer, fill)
    }

    fn prefetch(&self, values: Values<'_>) {
        (**self).prefetch(values);
    }

    fn read(&mut self, buffer: BufferId, out: &mut [f64]) -> Result<()> {
        (**self).read(buffer, out)
    }

    fn pack(&mut self, buffer: BufferId, lend: Lend) -> Result<Event> {
        (**self).pack(buffer, lend)
    }

    fn take_packed(&mut self, event: Event) -> Result<Staging> {
        (**self).take_packed(event)
    }

    fn unpack(&mut self, buffer: BufferId, staging: Staging) -> Result<()> {
        (**self).unpack(buffer, staging)
    }

    fn turn_to(&mut self, work: Option<Work>, now: Instant) {
        (**self).turn_to(work, now);
    }

    fn busy(&self) -> Busy {
        (**self).busy()
    }

    fn wants_retired(&self) -> bool {
        (**self).wants_retired()
    }

    fn retire(&mut self, buffer: BufferId) -> Result<()> {
        (**self).retire(buffer)
    }
}
