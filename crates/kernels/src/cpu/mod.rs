//! The fast device: f32 on the host's cores, kernels chosen by instruction set at run time.
//!
//! A `Cpu` is driven by one thread and computes inline: work is done when `submit` returns. With `threads > 1` large kernels are
//! divided over a small pool, by elements of the *result*, so that the bits do not depend on the number of threads.

mod activate;
mod conv;
mod dense;
mod dropout;
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
use crate::device::{Account, Busy, Device, Event, Put, Work};
use crate::loans::{Loan, Loans};
use crate::tuning::Tuning;
use conv::Convs;
use isa::Detected;
use memory::Memory;
use moves::{FromBytes, FromDoubles};
use paceline_base::kernel::{Arena, BufferId, Call, Fusion, Kernel, StepArgs, Values};
use paceline_base::op::Activation;
use paceline_base::staging::Lend;
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
    slots: Vec<(usize, usize)>,
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
            loans: Loans::default(),
            events: 0,
            account: Account::default(),
        })
    }

    /// The kernel choices in use: save them, and give them to the device that resumes the run.
    pub fn tuning(&self) -> Tuning {
        self.tuning.clone()
    }

    /// Where a buffer begins, and its length.
    #[inline]
    fn buffer(&self, id: BufferId) -> (*mut f32, usize) {
        let (offset, len) = self.slots[id.0 as usize];
        // SAFETY: `allocate` saw that all slots lie within the memory.
        (unsafe { self.memory.as_ptr().add(offset) }, len)
    }

    /// A buffer's part from `at` on, which must hold `len` elements. Whether it is lent was checked.
    fn part(&self, id: BufferId, at: usize, len: usize) -> *mut f32 {
        let (start, all) = self.buffer(id);
        assert!(
            at <= all && len <= all - at,
            "elements {at}..{} of buffer {}, which has {all}",
            at as u128 + len as u128,
            id.0
        );
        start.wrapping_add(at)
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
        contract::check_arena(arena)?;
        if let Some(cores) = &self.cores {
            pin::pin(cores[0])?;
        }
        self.memory = Arc::new(Memory::new(arena.len)?);
        self.slots = arena.slots.clone();
        self.loans = Loans::default();
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
        self.execute(call, args);
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
        fill(&mut |at, values| self.put(buffer, at, values));
        Ok(())
    }

    fn prefetch(&self, values: Values<'_>) {
        let bytes = match values {
            Values::U8 { bytes, .. } => bytes.as_ptr_range(),
            Values::F32(v) => v.as_ptr_range().start.cast()..v.as_ptr_range().end.cast(),
            Values::F64(v) => v.as_ptr_range().start.cast()..v.as_ptr_range().end.cast(),
        };
        moves::prefetch(bytes);
    }

    fn read(&mut self, buffer: BufferId, out: &mut [f64]) -> Result<()> {
        self.loans.check("a read", buffer, self.slots[buffer.0 as usize], false);
        let from = self.part(buffer, 0, out.len());
        for (i, out) in out.iter_mut().enumerate() {
            // SAFETY: `part` checked the length.
            *out = f64::from(unsafe { *from.add(i) });
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
        let (start, len) = self.buffer(buffer);
        let data = NonNull::new(start.cast::<u8>()).expect("device memory is never null");
        let (bytes, memory) = (len * size_of::<f32>(), self.memory.clone());
        // SAFETY: initialised (zeroed) and aligned memory that the `Arc` keeps; until the staging comes back, whatever would touch these
        // elements is refused, or, if they are lent to be read, whatever would write them.
        Ok(unsafe {
            if lend.writes() {
                Staging::new(data, bytes, DType::F32, memory)
            } else {
                Staging::read_only(data, bytes, DType::F32, memory)
            }
        })
    }

    fn unpack(&mut self, buffer: BufferId, staging: Staging) -> Result<()> {
        self.loans.give_back(buffer, staging.is_writable());
        let (start, len) = self.buffer(buffer);
        assert_eq!((staging.dtype(), staging.len()), (DType::F32, len), "a staging of another buffer came back");
        if staging.as_ptr().as_ptr() != start.cast() {
            // SAFETY: both hold `len` elements; they may overlap, as buffers may.
            unsafe { std::ptr::copy(staging.as_ptr().as_ptr().cast_const().cast(), start, len) }
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

    fn put(&mut self, buffer: BufferId, at: usize, values: Values<'_>) {
        match values {
            Values::U8 { bytes, scale, offset } => {
                let to = submit::Shared(self.part(buffer, at, bytes.len()));
                let isa = self.isa;
                self.elements(bytes.len(), move |from, to_end| {
                    let to = to.get().wrapping_add(from);
                    let body = FromBytes { bytes: &bytes[from..to_end], to, scale, offset };
                    // SAFETY: `part` checked the length, and each thread has its own range.
                    unsafe { isa.run(body) }
                });
            }
            Values::F32(from) => {
                let to = self.part(buffer, at, from.len());
                // SAFETY: `part` checked the length; the host's slice is not device memory.
                unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) }
            }
            Values::F64(doubles) => {
                let to = self.part(buffer, at, doubles.len());
                // SAFETY: `part` checked the length.
                unsafe { self.isa.run(FromDoubles { doubles, to }) }
            }
        }
    }
}
