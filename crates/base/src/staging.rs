//! Host memory on loan: what a device lends and `Comm` moves.
//!
//! A [`Staging`] keeps the memory behind it alive, so that a message under way outlives even a device that failed. It is an exclusive loan, or
//! a read-only one, of which there may be several at a time for the same memory.
//!
//! ```
//! use paceline_base::staging::{stage, values};
//! let loan = stage(&[1.5f64, 2.5]);
//! assert_eq!(values::<f64>(&loan), [1.5, 2.5]);
//! ```

use crate::units::DType;
use std::any::Any;
use std::cell::UnsafeCell;
use std::ops::Add;
use std::ptr::NonNull;
use std::sync::Arc;

/// What may be done with host memory on loan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lend {
    /// Its content is read, as by a send: it may be lent several times at once, and the lender may read it meanwhile.
    Read,
    /// It is overwritten whole, as by a receive: what it holds before does not count.
    Overwrite,
    /// It is read and written, as by a collective in place.
    Change,
}

impl Lend {
    /// True if the borrower may write.
    pub fn writes(self) -> bool {
        self != Self::Read
    }
}

/// Host memory on loan.
pub struct Staging {
    data: NonNull<u8>,
    bytes: usize,
    /// Bytes that there is room for.
    room: usize,
    varies: bool,
    dtype: DType,
    writable: bool,
    _keep: Arc<dyn Any + Send + Sync>,
}

// SAFETY: a staging is a loan of memory that `_keep` keeps alive, exclusive or only read (the contracts of `new` and `read_only`).
unsafe impl Send for Staging {}

impl Staging {
    /// An exclusive loan of `bytes` bytes at `data`.
    ///
    /// # Safety
    /// The memory must be initialised, aligned for `dtype`, stay valid while `keep` lives, and not be touched by anyone else until this value is
    /// dropped; it may be read by others if nobody writes through this value.
    pub unsafe fn new(data: NonNull<u8>, bytes: usize, dtype: DType, keep: Arc<dyn Any + Send + Sync>) -> Self {
        Self { data, bytes, room: bytes, varies: false, dtype, writable: true, _keep: keep }
    }

    /// A loan of `bytes` bytes at `data` that is only read.
    ///
    /// # Safety
    /// The memory must be initialised, aligned for `dtype`, stay valid while `keep` lives, and not be written by anyone until this value is
    /// dropped.
    pub unsafe fn read_only(data: NonNull<u8>, bytes: usize, dtype: DType, keep: Arc<dyn Any + Send + Sync>) -> Self {
        Self { data, bytes, room: bytes, varies: false, dtype, writable: false, _keep: keep }
    }

    /// The same memory, only to be read.
    pub fn into_read_only(self) -> Self {
        Self { writable: false, ..self }
    }

    /// The same memory, into which a message of any length may be received that there is room for.
    pub fn varying(self) -> Self {
        Self { varies: true, ..self }
    }

    /// Whether a shorter message may be received into it.
    pub fn varies(&self) -> bool {
        self.varies
    }

    /// Says how many elements it holds, from the first on: what is sent is so long.
    ///
    /// # Panics
    /// If there is no room for so many.
    pub fn set_len(&mut self, len: usize) {
        let bytes = len.checked_mul(self.dtype.size()).filter(|bytes| *bytes <= self.room);
        self.bytes = bytes.unwrap_or_else(|| panic!("{len} elements in room for {}", self.largest()));
    }

    /// The elements that there is room for.
    pub fn largest(&self) -> usize {
        self.room / self.dtype.size()
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// False if it may only be read.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// The content.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: valid, and not written by others, by the contracts of `new` and `read_only`.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.bytes) }
    }

    /// The content, to be changed.
    ///
    /// # Panics
    /// If it may only be read.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(self.writable, "host memory that may only be read was to be changed");
        // SAFETY: valid and exclusive by the contract of `new`.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.bytes) }
    }

    /// Where it is, for a transport that shares memory between threads; written only if [`is_writable`](Self::is_writable).
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

/// A number that [`DType`] knows.
pub trait Element: Copy + Default + Send + Sync + Add<Output = Self> + sealed::Sealed + 'static {
    /// Its name as data.
    const DTYPE: DType;
}

impl Element for f32 {
    const DTYPE: DType = DType::F32;
}

impl Element for f64 {
    const DTYPE: DType = DType::F64;
}

impl Element for u8 {
    const DTYPE: DType = DType::U8;
}

impl Element for u32 {
    const DTYPE: DType = DType::U32;
}

impl Element for u64 {
    const DTYPE: DType = DType::U64;
}

mod sealed {
    /// Only what a [`DType`](super::DType) stands for: transports read their bytes as numbers.
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for u8 {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

/// Memory that is reached only through the one `Staging` made from it.
struct Memory<T>(Box<[UnsafeCell<T>]>);

// SAFETY: nothing reads or writes the cells through a shared `Memory`; it only keeps them alive.
unsafe impl<T: Send> Sync for Memory<T> {}

/// Copies `values` into new memory and lends it.
pub fn stage<T: Element>(values: &[T]) -> Staging {
    let memory = Arc::new(Memory(values.iter().map(|&v| UnsafeCell::new(v)).collect()));
    let data = NonNull::from(&*memory.0).cast::<u8>();
    // SAFETY: the cells are initialised, aligned for T (whose DType this is), may be written through a shared pointer,
    // live as long as `memory`, and nobody else has a way to them.
    unsafe { Staging::new(data, size_of_val(values), T::DTYPE, memory) }
}

/// The numbers in a staging.
///
/// # Panics
/// If they are of another type.
pub fn values<T: Element>(staging: &Staging) -> &[T] {
    assert_eq!(staging.dtype(), T::DTYPE, "numbers of another type");
    // SAFETY: a staging is initialised and aligned for its dtype, which is T's; the borrow keeps it on loan.
    unsafe { std::slice::from_raw_parts(staging.bytes().as_ptr().cast(), staging.len()) }
}

/// The numbers in it, to be changed.
///
/// # Panics
/// If they are of another type, or may only be read.
pub fn values_mut<T: Element>(staging: &mut Staging) -> &mut [T] {
    assert_eq!(staging.dtype(), T::DTYPE, "numbers of another type");
    let len = staging.len();
    // SAFETY: an exclusive loan of `len` initialised elements, aligned for their type.
    unsafe { std::slice::from_raw_parts_mut(staging.bytes_mut().as_mut_ptr().cast(), len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_only_read_is_lent_twice_and_never_changed() {
        let keep = Arc::new([1.0f32, 2.0]);
        let data = NonNull::from(&*keep).cast();
        // SAFETY: initialised, aligned, kept by the clone, and nobody writes.
        let lend = || unsafe { Staging::read_only(data, 8, DType::F32, keep.clone()) };
        let (one, mut two) = (lend(), lend());
        assert_eq!(values::<f32>(&one), values::<f32>(&two));
        assert!(!two.is_writable() && stage(&[0f32]).is_writable());
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| two.bytes_mut().fill(0)));
        assert!(refused.is_err());
    }
}
