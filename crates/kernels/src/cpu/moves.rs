//! Kernels that move values: strided copies and sums, and conversions from and to the host's types.

use super::isa::Body;
use super::simd::Simd;

/// `to += from` over a run.
pub(crate) struct AddRun {
    pub from: *const f32,
    pub to: *mut f32,
    pub len: usize,
}

impl Body for AddRun {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let full = self.len / S::LANES * S::LANES;
        // SAFETY: all accesses lie below `len`; the caller vouches for the pointers.
        unsafe {
            let mut i = 0;
            while i < full {
                s.store(self.to.add(i), s.add(s.load(self.to.add(i)), s.load(self.from.add(i))));
                i += S::LANES;
            }
            if full < self.len {
                let mask = s.head(self.len - full);
                let sum = s.add(s.load_head(self.to.add(full), mask), s.load_head(self.from.add(full), mask));
                s.store_head(self.to.add(full), mask, sum);
            }
        }
    }
}

/// `to = byte · scale + offset`; the compiler vectorises it with the entry point's features. Two roundings on every instruction set, so
/// that all devices hold the same inputs.
pub(crate) struct FromBytes<'a> {
    pub bytes: &'a [u8],
    pub to: *mut f32,
    pub scale: f32,
    pub offset: f32,
}

impl Body for FromBytes<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, _s: S) {
        for (i, byte) in self.bytes.iter().enumerate() {
            // SAFETY: the caller vouches for as many elements as there are bytes.
            unsafe { *self.to.add(i) = f32::from(*byte) * self.scale + self.offset };
        }
    }
}

/// `to = from`, rounded.
pub(crate) struct FromDoubles<'a> {
    pub doubles: &'a [f64],
    pub to: *mut f32,
}

impl Body for FromDoubles<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, _s: S) {
        for (i, x) in self.doubles.iter().enumerate() {
            // SAFETY: the caller vouches for as many elements as there are values.
            unsafe { *self.to.add(i) = *x as f32 };
        }
    }
}

/// Asks for host memory to come near; does nothing where the instruction set has no such hint.
pub(crate) fn prefetch(bytes: std::ops::Range<*const u8>) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        let mut line = bytes.start;
        while line < bytes.end {
            // SAFETY: a prefetch never faults and SSE is part of x86-64.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) };
            line = line.wrapping_add(64);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}
