//! A device that poisons what nobody may touch: what is lent, under way, or freed.

use super::{content, copy};
use crate::contract::{Argument, check_arena, check_each};
use crate::device::{Busy, Device, Event, Put, Work};
use crate::loans::Loans;
use paceline_base::kernel::{Arena, BufferId, Call, Fusion, Kernel, Slot, StepArgs, Values};
use paceline_base::staging::Lend;
use paceline_base::units::DType;
use paceline_base::{Result, Staging};
use std::cell::RefCell;
use std::ops::Range;
use std::time::Instant;

/// Wraps a device. Loans are copies in memory of their own, while the buffer itself holds NaN; so does a buffer whose life has ended. What reads
/// such a buffer is refused, and what gets by gives NaN.
pub struct Checked<D> {
    inner: D,
    slots: Vec<Slot>,
    loans: Loans,
    /// By byte of the arena: the buffer that was freed there last, if nothing was written since.
    freed: RefCell<Vec<Option<BufferId>>>,
}

impl<D: Device> Checked<D> {
    /// Watches over `inner`.
    pub fn new(inner: D) -> Self {
        Self { inner, slots: Vec::new(), loans: Loans::default(), freed: RefCell::default() }
    }

    fn slot(&self, buffer: BufferId) -> Slot {
        self.slots[buffer.0 as usize]
    }

    /// The bytes of a buffer.
    fn bytes(&self, buffer: BufferId) -> Range<usize> {
        let slot = self.slot(buffer);
        slot.at..slot.at + slot.bytes_of(slot.len)
    }

    /// Fills a buffer with NaN, or with the largest index.
    fn poison(&mut self, buffer: BufferId) -> Result<()> {
        let Slot { len, dtype, .. } = self.slot(buffer);
        match dtype {
            DType::F32 | DType::F64 => self.inner.load(buffer, 0, Values::F64(&vec![f64::NAN; len])),
            DType::U8 => self.inner.load(buffer, 0, Values::Bytes(&vec![u8::MAX; len])),
            DType::U32 => self.inner.load(buffer, 0, Values::U32(&vec![u32::MAX; len])),
            DType::U64 => self.inner.load(buffer, 0, Values::U64(&vec![u64::MAX; len])),
        }
    }

    /// Panics if the bytes `start..end` were freed; with `written` they are in use again.
    fn use_bytes(&self, what: &str, buffer: BufferId, start: usize, end: usize, written: bool) {
        let mut freed = self.freed.borrow_mut();
        if written {
            freed[start..end].fill(None);
        } else if let Some(was) = freed[start..end].iter().flatten().next() {
            panic!("{what} reads buffer {}, where buffer {} was freed and nothing written since", buffer.0, was.0);
        }
    }

    fn use_buffer(&self, what: &str, buffer: BufferId, written: bool) {
        let Range { start, end } = self.bytes(buffer);
        self.use_bytes(what, buffer, start, end, written);
    }
}

impl<D: Device> Device for Checked<D> {
    fn describe(&self) -> String {
        format!("checked {}", self.inner.describe())
    }

    fn dtype(&self) -> DType {
        self.inner.dtype()
    }

    fn fusions(&self) -> &[Fusion] {
        self.inner.fusions()
    }

    fn allocate(&mut self, arena: &Arena) -> Result<()> {
        check_arena(arena, self.dtype())?;
        self.slots = arena.slots.clone();
        self.freed = RefCell::new(vec![None; arena.bytes]);
        self.inner.allocate(arena)
    }

    fn reallocate(&mut self, arena: &Arena, kept: usize) -> Result<()> {
        check_arena(arena, self.dtype())?;
        self.loans.check_none()?;
        self.inner.reallocate(arena, kept)?;
        self.slots = arena.slots.clone();
        let mut freed = self.freed.borrow_mut();
        let len = freed.len();
        freed.resize(arena.bytes.max(len), None);
        freed[kept..].fill(None);
        Ok(())
    }

    fn allocated_bytes(&self) -> usize {
        self.inner.allocated_bytes()
    }

    fn prepare(&mut self, kernels: &mut dyn Iterator<Item = &Kernel>) -> Result<()> {
        self.inner.prepare(kernels)
    }

    fn working_bytes(&self) -> usize {
        self.inner.working_bytes()
    }

    fn submit(&mut self, call: &Call, args: &StepArgs) -> Result<Event> {
        let name = call.kernel.name();
        // What is read first: what is written in place may be the same.
        check_each(call, &self.slots, &self.loans, |Argument { what, buffer, start, end, reads, .. }| {
            if reads {
                self.use_bytes(&format!("{name} ({what})"), buffer, start, end, false);
            }
        });
        check_each(call, &self.slots, &self.loans, |Argument { what, buffer, start, end, writes, .. }| {
            if writes {
                self.use_bytes(what, buffer, start, end, true);
            }
        });
        self.inner.submit(call, args)
    }

    fn has_fired(&mut self, event: Event) -> Result<bool> {
        self.inner.has_fired(event)
    }

    fn wait(&mut self, event: Event) -> Result<()> {
        self.inner.wait(event)
    }

    fn load_all(&mut self, buffer: BufferId, fill: &mut dyn FnMut(&mut Put<'_>)) -> Result<()> {
        self.loans.check("a load", buffer, self.slot(buffer), true);
        self.use_buffer("a load", buffer, true);
        self.inner.load_all(buffer, fill)
    }

    fn prefetch(&self, values: Values<'_>) {
        self.inner.prefetch(values);
    }

    fn read(&mut self, buffer: BufferId, out: &mut [f64]) -> Result<()> {
        self.loans.check("a read", buffer, self.slot(buffer), false);
        self.use_buffer("a read", buffer, false);
        self.inner.read(buffer, out)
    }

    fn pack(&mut self, buffer: BufferId, lend: Lend) -> Result<Event> {
        self.use_buffer("a loan", buffer, lend == Lend::Overwrite);
        let event = self.inner.pack(buffer, lend)?;
        self.loans.lend(buffer, self.slot(buffer), lend, event);
        Ok(event)
    }

    fn take_packed(&mut self, event: Event) -> Result<Staging> {
        let loan = self.loans.take(event)?;
        let staging = self.inner.take_packed(event)?;
        let copy = copy(&staging, loan.lend);
        self.inner.unpack(loan.buffer, staging)?;
        if loan.lend.writes() {
            self.poison(loan.buffer)?;
        }
        Ok(copy)
    }

    fn unpack(&mut self, buffer: BufferId, staging: Staging) -> Result<()> {
        let loan = self.loans.give_back(buffer, staging.is_writable());
        let now = self.inner.pack_now(buffer, Lend::Read)?;
        if loan.lend.writes() {
            let poisoned = match content(&now) {
                Values::F32(v) => v.iter().all(|x| x.is_nan()),
                Values::F64(v) => v.iter().all(|x| x.is_nan()),
                Values::Bytes(v) => v.iter().all(|x| *x == u8::MAX),
                Values::U32(v) => v.iter().all(|x| *x == u32::MAX),
                Values::U64(v) => v.iter().all(|x| *x == u64::MAX),
                Values::U8 { .. } => false,
            };
            assert!(poisoned, "buffer {} was written while it was lent", buffer.0);
        } else {
            assert!(now.bytes() == staging.bytes(), "buffer {} was written while it was lent to be read", buffer.0);
        }
        self.inner.unpack(buffer, now)?;
        if loan.lend.writes() { self.inner.load(buffer, 0, content(&staging)) } else { Ok(()) }
    }

    fn turn_to(&mut self, work: Option<Work>, now: Instant) {
        self.inner.turn_to(work, now);
    }

    fn busy(&self) -> Busy {
        self.inner.busy()
    }

    fn wants_retired(&self) -> bool {
        true
    }

    fn retire(&mut self, buffer: BufferId) -> Result<()> {
        self.loans.check("the end", buffer, self.slot(buffer), true);
        self.freed.borrow_mut()[self.bytes(buffer)].fill(Some(buffer));
        self.poison(buffer)?;
        self.inner.retire(buffer)
    }
}
