//! The fast device: f32 on the host's cores, kernels chosen by instruction set at run time.
//!
//! A `Cpu` is driven by one thread and computes inline: work is done when `submit` returns. With `threads > 1` large kernels are
//! divided over a small pool, by elements of the *result*, so that the bits do not depend on the number of threads.

mod activate;
mod conv;
mod dense;
mod dropout;
mod embedding;
mod gemm;
mod isa;
mod loss;
mod math;
mod memory;
mod moves;
mod norm;
mod peak;
mod pin;
mod pool;
mod rule;
mod simd;
mod sparsify;
mod submit;
mod sum;
mod verify;
mod walk;
mod windows;

pub use conv::{Algorithm, ConvCase, Pass, measure};
pub use gemm::Gemm;
pub use isa::Isa;
pub use memory::{Floats, zeros};
pub use peak::peak_flops;
pub use pin::allowed_cores;
pub use verify::{VECTORS, add_times_vectors, transposed_dot};

use crate::contract;
use crate::device::{Account, Busy, Device, Event, Put, Work, lent_length, returned_length};
use crate::loans::{Loan, Loans};
use crate::tuning::Tuning;
use conv::Convs;
use isa::Detected;
use memory::Memory;
use moves::{FromBytes, FromDoubles};
use paceline_base::kernel::{Arena, BufferId, Call, Fusion, Kernel, Slot, StepArgs, Values};
use paceline_base::op::Activation;
use paceline_base::staging::{Element, Lend};
use paceline_base::units::DType;
use paceline_base::{Error, Result, Staging};
use pool::Pool;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

/// What it computes in.
pub(crate) const DTYPE: DType = DType::F32;

/// What this device takes as one kernel.
pub(crate) const FUSIONS: [Fusion; 13] = [
    Fusion::DenseActivation(Activation::Relu),
    Fusion::DenseActivation(Activation::Tanh),
    Fusion::DenseActivation(Activation::Sigmoid),
    Fusion::DenseActivation(Activation::Gelu),
    Fusion::DenseThrough(Activation::Relu),
    Fusion::DenseThrough(Activation::Tanh),
    Fusion::DenseThrough(Activation::Sigmoid),
    Fusion::DenseUpdate,
    Fusion::ConvActivation(Activation::Relu),
    Fusion::ConvThrough(Activation::Relu),
    Fusion::ConvPool(Activation::Relu),
    Fusion::BatchActivation(Activation::Relu),
    Fusion::SumActivation(Activation::Relu),
];

/// How to make a [`Cpu`].
#[derive(Clone, Debug, Default)]
pub struct CpuOptions {
    /// Threads per kernel, the driving one included; 0 means 1.
    pub threads: usize,
    /// Cores for the driving thread (the first, pinned when memory is allocated) and its helpers (the others, counting round).
    pub cores: Option<Vec<usize>>,
    /// The instruction set; the best that the processor has if none is given.
    pub isa: Option<Isa>,
    /// Kernel choices from an earlier run; heuristics if none are given. `isa` must then be absent or the same.
    pub tuning: Option<Tuning>,
}

/// The kernel choices of a device: those that are given, or what is likely.
pub(crate) fn choose(isa: Option<Isa>, tuning: Option<Tuning>) -> Result<Tuning> {
    let tuning = tuning.unwrap_or_else(|| Tuning::heuristic(isa.unwrap_or_else(Isa::detect)));
    if let Some(problem) = tuning.problem() {
        return Err(Error::user(problem));
    }
    if isa.is_some_and(|isa| isa != tuning.isa) {
        return Err(Error::user(format!("the tuning is for {}: give that instruction set, or none", tuning.isa)));
    }
    Ok(tuning)
}

/// What people call a device.
pub(crate) fn describe(isa: Isa, threads: usize) -> String {
    let threads = threads.max(1);
    format!("cpu ({isa}, {threads} thread{})", if threads == 1 { "" } else { "s" })
}

/// Elements of scratch for all threads.
fn scratch_len(tuning: &Tuning, threads: usize) -> usize {
    threads * tuning.blocks.scratch()
}

/// Bytes that [`Device::working_bytes`] will say of a device that was told of these kernels.
pub(crate) fn working_bytes(
    tuning: &Tuning,
    threads: usize,
    kernels: &mut dyn Iterator<Item = &Kernel>,
) -> Result<usize> {
    let isa = Detected::new(tuning.isa).ok_or_else(|| Error::internal("an undetected instruction set"))?;
    let threads = threads.max(1);
    let convs = Convs::scratch_len(kernels.filter_map(ConvCase::of), tuning, isa.lanes(), threads);
    Ok((scratch_len(tuning, threads) + convs) * size_of::<f32>())
}

/// The host's processor as a device.
pub struct Cpu {
    isa: Detected,
    tuning: Tuning,
    cores: Option<Vec<usize>>,
    pool: Pool,
    /// Scratch of each thread, one after the other.
    scratch: Memory,
    convs: Convs,
    /// Partial sums by channel.
    partial: Memory,
    memory: Arc<Memory>,
    slots: Vec<Slot>,
    /// By buffer: the elements that it holds.
    lengths: Vec<usize>,
    loans: Loans,
    events: u64,
    account: Account,
}

impl Cpu {
    /// A device without buffers yet.
    ///
    /// ```
    /// use paceline_kernels::{Cpu, CpuOptions, Device};
    /// let cpu = Cpu::new(CpuOptions { threads: 2, ..CpuOptions::default() }).unwrap();
    /// assert!(cpu.describe().ends_with("2 threads)"));
    /// ```
    pub fn new(options: CpuOptions) -> Result<Self> {
        let CpuOptions { threads, cores, isa, tuning } = options;
        let tuning = choose(isa, tuning)?;
        if let Some(cores) = &cores {
            pin::check(cores)?;
        }
        let pool = Pool::new(threads.max(1), cores.as_deref())?;
        Ok(Self {
            isa: Detected::new(tuning.isa).ok_or_else(|| Error::internal("an undetected instruction set"))?,
            scratch: Memory::new(scratch_len(&tuning, pool.threads()))?,
            tuning,
            cores,
            // Pairs of f64.
            partial: Memory::new(4 * walk::PIECES * walk::WIDTH)?,
            pool,
            convs: Convs::default(),
            memory: Arc::new(Memory::new(0)?),
            slots: Vec::new(),
            lengths: Vec::new(),
            loans: Loans::default(),
            events: 0,
            account: Account::default(),
        })
    }

    /// The kernel choices in use: save them, and give them to the device that resumes the run.
    pub fn tuning(&self) -> Tuning {
        self.tuning.clone()
    }

    /// Where a buffer begins.
    #[inline]
    fn at(&self, id: BufferId) -> *mut f32 {
        // SAFETY: `allocate` saw that all slots lie within the memory.
        unsafe { self.memory.as_ptr().byte_add(self.slots[id.0 as usize].at) }
    }

    /// A buffer's part from `at` on, which must hold `len` elements of this type. Whether it is lent was checked.
    fn part<T: Element>(&self, id: BufferId, at: usize, len: usize) -> *mut T {
        let Slot { len: all, dtype, .. } = self.slots[id.0 as usize];
        assert!(
            at <= all && len <= all - at,
            "elements {at}..{} of buffer {}, which has {all}",
            at as u128 + len as u128,
            id.0
        );
        assert_eq!(dtype, T::DTYPE, "values of another type than those of buffer {}", id.0);
        self.at(id).cast::<T>().wrapping_add(at)
    }

    /// Takes buffers in the place of those there are.
    fn take_slots(&mut self, arena: &Arena) {
        self.slots = arena.slots.clone();
        self.lengths = arena.slots.iter().map(|slot| slot.len).collect();
    }

    /// Copies host values into a buffer of their type.
    fn copy_in<T: Element>(&mut self, buffer: BufferId, at: usize, from: &[T]) {
        let to = self.part::<T>(buffer, at, from.len());
        // SAFETY: `part` checked length and type; the host's slice is not device memory.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) }
    }

    /// Reads the first elements of a buffer.
    fn copy_out<T: Element>(&self, buffer: BufferId, out: &mut [f64], to_f64: impl Fn(T) -> f64) {
        let from = self.part::<T>(buffer, 0, out.len());
        for (i, out) in out.iter_mut().enumerate() {
            // SAFETY: `part` checked length and type.
            *out = to_f64(unsafe { *from.add(i) });
        }
    }
}

impl Device for Cpu {
    fn describe(&self) -> String {
        describe(self.tuning.isa, self.pool.threads())
    }

    fn dtype(&self) -> DType {
        DTYPE
    }

    fn fusions(&self) -> &[Fusion] {
        &FUSIONS
    }

    fn allocate(&mut self, arena: &Arena) -> Result<()> {
        contract::check_arena(arena, DTYPE)?;
        if let Some(cores) = &self.cores {
            pin::pin(cores[0])?;
        }
        self.memory = Arc::new(Memory::new(arena.bytes.div_ceil(size_of::<f32>()))?);
        self.take_slots(arena);
        self.loans = Loans::default();
        Ok(())
    }

    fn reallocate(&mut self, arena: &Arena, kept: usize) -> Result<()> {
        contract::check_arena(arena, DTYPE)?;
        self.loans.check_none()?;
        let len = arena.bytes.div_ceil(size_of::<f32>());
        if len > self.memory.len() {
            let longer = Memory::new(len)?;
            let kept = kept.div_ceil(size_of::<f32>()).min(self.memory.len());
            // SAFETY: both blocks have as many elements, are apart, and nothing is on loan, so that nobody else reads or writes them.
            unsafe { std::ptr::copy_nonoverlapping(self.memory.as_ptr(), longer.as_ptr(), kept) };
            self.memory = Arc::new(longer);
        }
        self.take_slots(arena);
        Ok(())
    }

    fn allocated_bytes(&self) -> usize {
        self.memory.len() * size_of::<f32>()
    }

    fn prepare(&mut self, kernels: &mut dyn Iterator<Item = &Kernel>) -> Result<()> {
        kernels.filter_map(ConvCase::of).try_for_each(|case| self.conv_config(&case).map(drop))
    }

    fn working_bytes(&self) -> usize {
        self.scratch.len() * size_of::<f32>() + self.convs.bytes()
    }

    fn submit(&mut self, call: &Call, args: &StepArgs) -> Result<Event> {
        self.execute(call, args)?;
        Ok(self.event())
    }

    fn has_fired(&mut self, _event: Event) -> Result<bool> {
        Ok(true)
    }

    fn wait(&mut self, _event: Event) -> Result<()> {
        Ok(())
    }

    fn load_all(&mut self, buffer: BufferId, fill: &mut dyn FnMut(&mut Put<'_>)) -> Result<()> {
        self.loans.check("a load", buffer, self.slots[buffer.0 as usize], true);
        let mut end = 0;
        fill(&mut |at, values| end = end.max(at + self.put(buffer, at, values)));
        if self.slots[buffer.0 as usize].varies {
            self.lengths[buffer.0 as usize] = end;
        }
        Ok(())
    }

    fn prefetch(&self, values: Values<'_>) {
        fn bytes<T>(values: &[T]) -> std::ops::Range<*const u8> {
            values.as_ptr_range().start.cast()..values.as_ptr_range().end.cast()
        }
        moves::prefetch(match values {
            Values::U8 { bytes, .. } | Values::Bytes(bytes) => bytes.as_ptr_range(),
            Values::F32(v) => bytes(v),
            Values::F64(v) => bytes(v),
            Values::U32(v) => bytes(v),
            Values::U64(v) => bytes(v),
        });
    }

    fn read(&mut self, buffer: BufferId, out: &mut [f64]) -> Result<()> {
        self.loans.check("a read", buffer, self.slots[buffer.0 as usize], false);
        match self.slots[buffer.0 as usize].dtype {
            DType::F32 => self.copy_out(buffer, out, |x: f32| f64::from(x)),
            DType::F64 => self.copy_out(buffer, out, |x: f64| x),
            DType::U8 => self.copy_out(buffer, out, |x: u8| f64::from(x)),
            DType::U32 => self.copy_out(buffer, out, |x: u32| f64::from(x)),
            DType::U64 => self.copy_out(buffer, out, |x: u64| x as f64),
        }
        Ok(())
    }

    fn pack(&mut self, buffer: BufferId, lend: Lend) -> Result<Event> {
        let event = self.event();
        self.loans.lend(buffer, self.slots[buffer.0 as usize], lend, event);
        Ok(event)
    }

    fn take_packed(&mut self, event: Event) -> Result<Staging> {
        let Loan { buffer, lend, .. } = self.loans.take(event)?;
        let slot = self.slots[buffer.0 as usize];
        let data = NonNull::new(self.at(buffer).cast::<u8>()).expect("device memory is never null");
        let (bytes, memory) = (slot.bytes_of(slot.len), self.memory.clone());
        // SAFETY: initialised (zeroed) and aligned memory that the `Arc` keeps; until the staging comes back, whatever would touch these
        // elements is refused, or, if they are lent to be read, whatever would write them.
        let staging = unsafe {
            if lend.writes() {
                Staging::new(data, bytes, slot.dtype, memory)
            } else {
                Staging::read_only(data, bytes, slot.dtype, memory)
            }
        };
        Ok(lent_length(staging, &slot, lend, self.lengths[buffer.0 as usize]))
    }

    fn unpack(&mut self, buffer: BufferId, staging: Staging) -> Result<()> {
        self.loans.give_back(buffer, staging.is_writable());
        let start = self.at(buffer).cast::<u8>();
        self.lengths[buffer.0 as usize] = returned_length(&staging, &self.slots[buffer.0 as usize]);
        if staging.as_ptr().as_ptr() != start {
            // SAFETY: there is room for so many elements, as was checked; they may overlap, as buffers may.
            unsafe { std::ptr::copy(staging.as_ptr().as_ptr().cast_const(), start, staging.bytes().len()) }
        }
        Ok(())
    }

    fn turn_to(&mut self, work: Option<Work>, now: Instant) {
        self.account.turn_to(work, now);
    }

    fn busy(&self) -> Busy {
        self.account.busy
    }
}

impl Cpu {
    fn event(&mut self) -> Event {
        self.events += 1;
        Event(self.events)
    }

    /// Puts values at an element of a buffer, and says how many.
    fn put(&mut self, buffer: BufferId, at: usize, values: Values<'_>) -> usize {
        match values {
            Values::U8 { bytes, scale, offset } => {
                let to = submit::Shared(self.part::<f32>(buffer, at, bytes.len()));
                let isa = self.isa;
                self.elements(bytes.len(), move |from, to_end| {
                    let to = to.get().wrapping_add(from);
                    let body = FromBytes { bytes: &bytes[from..to_end], to, scale, offset };
                    // SAFETY: `part` checked the length, and each thread has its own range.
                    unsafe { isa.run(body) }
                });
            }
            Values::F32(from) => self.copy_in(buffer, at, from),
            Values::F64(doubles) => {
                let to = self.part(buffer, at, doubles.len());
                // SAFETY: `part` checked length and type.
                unsafe { self.isa.run(FromDoubles { doubles, to }) }
            }
            Values::Bytes(from) => self.copy_in(buffer, at, from),
            Values::U32(from) => self.copy_in(buffer, at, from),
            Values::U64(from) => self.copy_in(buffer, at, from),
        }
        values.len()
    }
}
