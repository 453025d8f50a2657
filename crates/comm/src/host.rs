//! Staging that belongs to no device: for a few scalars (a loss, a sample count), for examples and for tests.
//!
//! ```
//! use paceline_comm::host;
//! let loan = host::stage(&[1.5f64, 2.5]);
//! assert_eq!(host::values::<f64>(&loan), [1.5, 2.5]);
//! ```

use crate::{Comm, Ticket};
use paceline_base::Result;
use paceline_base::units::DType;
use paceline_kernels::Staging;
use paceline_kernels::cpu::Floats;
use std::cell::UnsafeCell;
use std::ops::{Add, Range};
use std::ptr::NonNull;
use std::sync::Arc;

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

mod sealed {
    /// Only `f32` and `f64`: transports read their bytes as numbers.
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
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

/// Lends new memory for `len` numbers, all zero: to receive into.
pub fn zeros<T: Element>(len: usize) -> Result<Staging> {
    Ok(Floats::new(len * (size_of::<T>() / size_of::<f32>()))?.lend(T::DTYPE))
}

/// A message under way whose content others may read meanwhile.
#[must_use]
pub struct Sending(Ticket);

/// Starts to send a part of some numbers without taking them: several ranks may get the same ones, and this one may compute with them.
pub fn send_shared<T: Element, K: AsRef<[T]> + Send + Sync + 'static>(
    comm: &mut dyn Comm,
    to: usize,
    seq: u64,
    keep: &Arc<K>,
    part: Range<usize>,
) -> Result<Sending> {
    let values = &(**keep).as_ref()[part];
    let data = NonNull::from(values).cast::<u8>();
    // SAFETY: initialised, aligned, and kept by the clone of the `Arc`, through which nobody can write while there is more than one. What is
    // given to `send` is only read, by the contract of `Comm`, and the staging is dropped when it comes back.
    let staging = unsafe { Staging::new(data, size_of_val(values), T::DTYPE, Arc::clone(keep) as _) };
    comm.send(to, seq, staging).map(Sending)
}

/// Waits for the end of a message.
pub fn wait_sent(comm: &mut dyn Comm, message: Sending) -> Result<()> {
    comm.wait(message.0).map(drop)
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
/// If they are of another type.
pub fn values_mut<T: Element>(staging: &mut Staging) -> &mut [T] {
    assert_eq!(staging.dtype(), T::DTYPE, "the staging holds another type");
    let len = staging.len();
    // SAFETY: an exclusive loan of `len` initialised elements, aligned for their type.
    unsafe { std::slice::from_raw_parts_mut(staging.bytes_mut().as_mut_ptr().cast(), len) }
}
