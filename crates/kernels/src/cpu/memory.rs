//! The arena: one zeroed block of f32, aligned to cache lines, on huge pages when it is big.
//!
//! Backward passes walk columns of row-major operands, a page per row; on 4 KiB pages that is a translation miss per row, on 2 MiB
//! pages none.

use paceline_base::units::DType;
use paceline_base::{Error, Result, Staging};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// From this size on a block is aligned to huge pages and asks for them.
const HUGE: usize = 2 << 20;

/// A zeroed block of f32 that lives until dropped.
pub(crate) struct Memory {
    data: NonNull<f32>,
    len: usize,
    origin: Origin,
}

enum Origin {
    Heap(Layout),
    #[cfg(target_os = "linux")]
    Map {
        start: *mut libc::c_void,
        bytes: usize,
    },
}

// SAFETY: `Memory` is only an owner; who may touch what is settled by the `Cpu` and its loans.
unsafe impl Send for Memory {}
// SAFETY: as above; no method reads or writes the content.
unsafe impl Sync for Memory {}

impl Memory {
    /// `len` zeroed elements, the last ones too on a huge page, if there are many.
    pub(crate) fn new(len: usize) -> Result<Self> {
        Self::with(len, usize::next_multiple_of)
    }

    /// `to_pages` makes whole huge pages of bytes.
    #[cfg_attr(not(target_os = "linux"), allow(unused_variables))]
    fn with(len: usize, to_pages: fn(usize, usize) -> usize) -> Result<Self> {
        let too_big = || {
            Error::failure(format!(
                "cannot get {} bytes of memory: use a smaller batch or model, or a machine with more memory",
                len as u128 * 4
            ))
        };
        let bytes = len.max(1).checked_mul(4).filter(|b| *b <= isize::MAX as usize - 2 * HUGE).ok_or_else(too_big)?;
        #[cfg(target_os = "linux")]
        if bytes >= HUGE / 2 {
            return Self::map(len, bytes, to_pages(bytes, HUGE)).ok_or_else(too_big);
        }
        let layout = Layout::from_size_align(bytes, 64).map_err(|_| too_big())?;
        // SAFETY: the layout has a size above zero.
        let data = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(too_big)?;
        Ok(Self { data: data.cast(), len, origin: Origin::Heap(layout) })
    }

    #[cfg(target_os = "linux")]
    fn map(len: usize, bytes: usize, on_huge: usize) -> Option<Self> {
        let bytes = bytes.next_multiple_of(HUGE) + HUGE; // room to move the start to a border of huge pages
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new private mapping touches nothing that exists.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        let data = start.map_addr(|a| a.next_multiple_of(HUGE));
        // SAFETY: within the mapping made above. A refusal changes speed only.
        unsafe { libc::madvise(data, on_huge, libc::MADV_HUGEPAGE) };
        Some(Self { data: NonNull::new(data.cast())?, len, origin: Origin::Map { start, bytes } })
    }

    /// The first element.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut f32 {
        self.data.as_ptr()
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match self.origin {
            // SAFETY: allocated in `new` with this layout.
            Origin::Heap(layout) => unsafe { dealloc(self.data.as_ptr().cast(), layout) },
            #[cfg(target_os = "linux")]
            // SAFETY: mapped in `map` with this start and length.
            Origin::Map { start, bytes } => unsafe {
                libc::munmap(start, bytes);
            },
        }
    }
}

/// Numbers in such memory, for those who keep large matrices of their own.
///
/// Pages come with the first touch. Where that is a read, as when products are added to zeros, a page is given twice, and the second
/// time all cores of the process are interrupted: write numbers before they are added to.
///
/// ```
/// use paceline_kernels::cpu::Floats;
/// let mut values = Floats::new(3)?;
/// values[1] = 2.0;
/// assert_eq!(values[..], [0.0, 2.0, 0.0]);
/// # Ok::<(), paceline_base::Error>(())
/// ```
pub struct Floats(Memory);

impl Floats {
    /// `len` zeros. Only whole huge pages are asked for, so that memory of some megabytes takes no more than it holds.
    pub fn new(len: usize) -> Result<Self> {
        Memory::with(len, |bytes, page| bytes / page * page).map(Self)
    }

    /// Lends the memory, as numbers of this type.
    pub fn lend(self, dtype: DType) -> Staging {
        let (data, bytes) = (self.0.data.cast(), self.0.len * size_of::<f32>());
        assert!(bytes.is_multiple_of(dtype.size()), "{bytes} bytes are no numbers of type {dtype:?}");
        // SAFETY: zeroed or written, aligned to cache lines, kept by what is given along, and no longer reached by another way.
        unsafe { Staging::new(data, bytes, dtype, Arc::new(self.0)) }
    }
}

/// Lends new memory for `len` numbers, all zero: to receive into.
pub fn zeros(len: usize) -> Result<Staging> {
    Ok(Floats::new(len)?.lend(DType::F32))
}

impl Deref for Floats {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: so many initialised elements; nobody else reaches them, and who borrows this value does not write.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), self.0.len) }
    }
}

impl DerefMut for Floats {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above, borrowed by one.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr(), self.0.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_lent_as_numbers_of_both_types() {
        let mut values = Floats::new(4).unwrap();
        values[2] = 1.0;
        let staging = values.lend(DType::F32);
        assert_eq!((staging.len(), &staging.bytes()[8..12]), (4, &1.0f32.to_ne_bytes()[..]));
        assert_eq!(Floats::new(6 << 20).unwrap().lend(DType::F64).len(), 3 << 20);
        assert!(std::panic::catch_unwind(|| Floats::new(3).unwrap().lend(DType::F64)).is_err());
    }

    #[test]
    fn blocks_are_aligned_and_zero() {
        for len in [0, 1, 1000, 3 << 20] {
            let memory = Memory::new(len).unwrap();
            assert_eq!(memory.as_ptr() as usize % 64, 0);
            // SAFETY: `len` elements, just made.
            let content = unsafe { std::slice::from_raw_parts(memory.as_ptr(), len) };
            assert!(content.iter().all(|x| *x == 0.0));
        }
        assert!(Memory::new(usize::MAX / 2).is_err());
    }
}
