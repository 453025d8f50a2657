//! Staging that belongs to no device: for a few scalars (a loss, a sample count), for examples and for tests; and sending what others read.

use crate::{Comm, Ticket};
use paceline_base::{Result, Staging};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

pub use paceline_base::staging::{Element, stage, values, values_mut};

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
    // SAFETY: initialised, aligned, and kept by the clone of the `Arc`, through which nobody can write while there is more than one.
    let staging = unsafe { Staging::read_only(data, size_of_val(values), T::DTYPE, Arc::clone(keep) as _) };
    comm.send(to, seq, staging).map(Sending)
}

/// Waits for the end of a message.
pub fn wait_sent(comm: &mut dyn Comm, message: Sending) -> Result<()> {
    comm.wait(message.0).map(drop)
}
