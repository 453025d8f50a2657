//! The `Device` trait: what the engine may ask of whatever computes.

use paceline_base::Result;
use paceline_base::kernel::{Arena, BufferId, Call, Fusion, Kernel, StepArgs, Values};
use paceline_base::units::DType;
use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

/// A ticket for submitted work. On `Cpu` work is done when `submit` returns; a queueing device hands out real ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event(pub u64);

/// Something that owns memory and computes.
///
/// One value belongs to one rank and is driven by one thread. Buffers exist after [`allocate`](Device::allocate); nothing
/// is allocated after that.
pub trait Device: Send {
    /// For people: "cpu (avx512, 2 threads)".
    fn describe(&self) -> String;

    /// The element type of all its buffers.
    fn dtype(&self) -> DType;

    /// The kernel chains that it takes as one; lowering's fuse pass joins these.
    fn fusions(&self) -> &[Fusion];

    /// Makes room for all buffers, zeroed. Called once.
    fn allocate(&mut self, arena: &Arena) -> Result<()>;

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

    /// Starts a kernel; kernels on one device run in the order of submission.
    fn submit(&mut self, call: &Call, args: &StepArgs) -> Event;

    /// Returns when the work up to `event` is done.
    fn wait(&mut self, event: Event);

    /// Puts host values into a buffer, beginning at element `at`, converting to the device's type.
    fn load(&mut self, buffer: BufferId, at: usize, values: Values<'_>);

    /// A hint that these values will be loaded soon: a device that reads host memory itself may fetch them into its caches.
    fn prefetch(&self, values: Values<'_>) {
        let _ = values;
    }

    /// Reads a buffer's first `out.len()` elements.
    fn read(&mut self, buffer: BufferId, out: &mut [f64]);

    /// Lends a buffer's content as host memory in the device's type (zero-copy on `Cpu`). Until it comes back through
    /// [`unpack`](Device::unpack), no kernel may touch the buffer.
    fn pack(&mut self, buffer: BufferId) -> Staging;

    /// Takes back what `pack` lent; the buffer then holds the staging's content.
    fn unpack(&mut self, buffer: BufferId, staging: Staging);
}

/// Host memory on loan from a device: what `Comm` moves.
///
/// It keeps the device's memory alive, so that a message under way outlives even a device that failed.
pub struct Staging {
    data: NonNull<u8>,
    bytes: usize,
    dtype: DType,
    _keep: Arc<dyn Any + Send + Sync>,
}

// SAFETY: a staging is an exclusive loan of memory that `_keep` keeps alive (the contract of `new`).
unsafe impl Send for Staging {}

impl Staging {
    /// A loan of `bytes` bytes at `data`.
    ///
    /// # Safety
    /// The memory must be initialised, aligned for `dtype`, stay valid while `keep` lives, and not be touched by anyone else until this value is
    /// dropped; it may be read by others if nobody writes through this value.
    pub unsafe fn new(data: NonNull<u8>, bytes: usize, dtype: DType, keep: Arc<dyn Any + Send + Sync>) -> Self {
        Self { data, bytes, dtype, _keep: keep }
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The content.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: valid and exclusive by the contract of `new`.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.bytes) }
    }

    /// The content, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: valid and exclusive by the contract of `new`.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.bytes) }
    }

    /// Where it is, for a transport that shares memory between threads.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.data
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.bytes / self.dtype.size()
    }

    /// True if it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}
