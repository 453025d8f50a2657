//! Ranges of buffers on loan, which are known by address: several ranks work on disjoint ranges of one buffer.

use std::ops::Range;
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// To read.
///
/// # Safety
/// `data` is valid and aligned for `range`, which nobody writes during `'a`.
pub(crate) unsafe fn range<'a, T>(data: *mut T, range: &Range<usize>) -> &'a [T] {
    // SAFETY: the caller's promise.
    unsafe { from_raw_parts(data.add(range.start), range.len()) }
}

/// To read and write.
///
/// # Safety
/// `data` is valid and aligned for `range`, which nobody else touches during `'a`.
pub(crate) unsafe fn range_mut<'a, T>(data: *mut T, range: &Range<usize>) -> &'a mut [T] {
    // SAFETY: the caller's promise.
    unsafe { from_raw_parts_mut(data.add(range.start), range.len()) }
}
