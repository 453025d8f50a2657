//! Host memory apart from the device's: what makes the reference device opaque.

use crate::device::Staging;
use paceline_base::units::DType;
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::Arc;

/// A copy of a buffer that only its `Staging` touches.
struct HostCopy(UnsafeCell<Vec<f64>>);

// SAFETY: nobody reaches the content through `HostCopy` once its `Staging`, an exclusive loan, has been made.
unsafe impl Sync for HostCopy {}

/// A staging that holds a copy of `values`.
pub(super) fn copy_out(values: &[f64]) -> Staging {
    let keep = Arc::new(HostCopy(UnsafeCell::new(values.to_vec())));
    // SAFETY: `keep` was made here, so nothing else refers to its content yet.
    let data = unsafe { (*keep.0.get()).as_mut_ptr() };
    let data = NonNull::new(data.cast::<u8>()).expect("a vector's pointer is never null");
    // SAFETY: the vector is initialised, aligned for f64, lives as long as `keep`, and is reached only by this staging.
    unsafe { Staging::new(data, size_of_val(values), DType::F64, keep) }
}

/// Copies a staging's content back to the device.
pub(super) fn copy_back(staging: &Staging, to: &mut [f64]) {
    assert_eq!((staging.dtype(), staging.len()), (DType::F64, to.len()), "a staging of another buffer came back");
    for (to, bytes) in to.iter_mut().zip(staging.bytes().chunks_exact(8)) {
        *to = f64::from_ne_bytes(bytes.try_into().expect("chunks of eight bytes"));
    }
}
