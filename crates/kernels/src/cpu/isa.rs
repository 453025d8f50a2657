//! Instruction sets: which one this processor has, and the entry points that carry their `target_feature`.

use super::simd::Simd;
use super::simd::portable::Portable;
#[cfg(target_arch = "x86_64")]
use super::simd::{avx2::Avx2, avx512::Avx512};
use serde::{Deserialize, Serialize};
use std::fmt;

/// An instruction set that kernels exist for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isa {
    /// AVX-512F: 16 lanes.
    Avx512,
    /// AVX2 and FMA: 8 lanes.
    Avx2,
    /// Plain Rust, whatever the processor.
    Portable,
}

impl Isa {
    /// All of them, best first.
    pub const ALL: [Isa; 3] = [Isa::Avx512, Isa::Avx2, Isa::Portable];

    /// The best that this processor has.
    pub fn detect() -> Self {
        Self::ALL.into_iter().find(|isa| isa.is_available()).unwrap_or(Isa::Portable)
    }

    /// Whether this processor has it.
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => is_x86_feature_detected!("avx512f"),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx512 | Isa::Avx2 => false,
            Isa::Portable => true,
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Isa::Avx512 => "avx512",
            Isa::Avx2 => "avx2",
            Isa::Portable => "portable",
        })
    }
}

/// A kernel with its arguments, written once for all instruction sets.
pub(crate) trait Body {
    /// What comes out, apart from memory.
    type Out;
    /// Does it. Must be `inline(always)`, so that it is compiled with the entry point's features.
    ///
    /// # Safety
    /// The arguments' pointers must be valid for the kernel's sizes, and nobody else may touch what it writes.
    unsafe fn run<S: Simd>(self, s: S) -> Self::Out;
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn on_avx512<B: Body>(body: B) -> B::Out {
    // SAFETY: the caller detected AVX-512F and keeps the contract of `Body::run`.
    unsafe { body.run(Avx512::new()) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn on_avx2<B: Body>(body: B) -> B::Out {
    // SAFETY: the caller detected AVX2 and FMA and keeps the contract of `Body::run`.
    unsafe { body.run(Avx2::new()) }
}

/// An instruction set that was found on this processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detected(Isa);

impl Detected {
    /// `isa`, if this processor has it.
    pub(crate) fn new(isa: Isa) -> Option<Self> {
        isa.is_available().then_some(Self(isa))
    }

    /// Elements of a vector.
    pub(crate) fn lanes(self) -> usize {
        match self.0 {
            Isa::Avx512 => 16,
            Isa::Avx2 | Isa::Portable => 8,
        }
    }

    /// Runs a kernel.
    ///
    /// # Safety
    /// As for [`Body::run`].
    #[inline]
    pub(crate) unsafe fn run<B: Body>(self, body: B) -> B::Out {
        // SAFETY: `self` proves the instruction set; the caller vouches for the pointers.
        unsafe {
            match self.0 {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => on_avx512(body),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => on_avx2(body),
                _ => body.run(Portable),
            }
        }
    }
}
