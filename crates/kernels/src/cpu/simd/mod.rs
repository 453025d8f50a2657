//! Vectors of f32: the small language that all fast kernels are written in, once, for every instruction set.
//!
//! A value of a type that implements [`Simd`] is a proof that the processor has that instruction set: such values are made only by
//! [`Isa::run`](super::isa::Isa::run), after detection. So arithmetic is safe to call, and only memory access is not. All methods and all
//! kernels are `inline(always)` into one entry point per instruction set, which carries the `target_feature`.

#![allow(clippy::needless_range_loop)] // indexed loops read as the formula, and unroll into registers

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
mod bytes;
pub(crate) mod portable;

use super::isa::Body;

/// Does something for each vector of `$len` elements: `$i` is its first element, `$n` its lanes, `$mask` none or the mask of the last ones.
///
/// A macro and not a function of a closure: a closure that the compiler does not inline is compiled without the entry point's features, and every
/// operation in it becomes a call (measured: 20 times slower).
macro_rules! vectors {
    ($s:expr, $S:ty, $len:expr, |$i:ident, $n:ident, $mask:ident| $body:block) => {{
        let (s, len): ($S, usize) = ($s, $len);
        let full = len / <$S>::LANES * <$S>::LANES;
        let mut at = 0;
        while at < full {
            let ($i, $n, $mask) = (at, <$S>::LANES, None::<<$S as $crate::cpu::simd::Simd>::M>);
            let _ = $n;
            $body
            at += <$S>::LANES;
        }
        if full < len {
            let ($i, $n, $mask) = (full, len - full, Some(s.head(len - full)));
            let _ = $n;
            $body
        }
    }};
}
pub(crate) use vectors;

/// How many accumulators fit the register file, for the two products.
#[derive(Clone, Copy)]
pub(crate) struct Tiles {
    /// Dot products (forward): samples by outputs.
    pub dot: (usize, usize),
    /// Dot products with few outputs: at most so many, all at once, two samples at a time.
    pub dot_wide: usize,
    /// Outer products (backward): rows by vectors.
    pub outer: (usize, usize),
}

/// One instruction set's vectors of f32.
pub(crate) trait Simd: Copy {
    /// A vector.
    type V: Copy;
    /// One bit per lane.
    type M: Copy;
    /// Elements per vector: 8 or 16.
    const LANES: usize;
    /// Register blocking.
    const TILES: Tiles;

    /// Runs a kernel's inner part as a function of its own: large loops get the whole register file, and the compiler does not
    /// have to allocate it for forty of them at once.
    ///
    /// # Safety
    /// As for [`Body::run`].
    unsafe fn apart<B: Body>(self, body: B) -> B::Out;

    /// The same value in all lanes.
    fn splat(self, x: f32) -> Self::V;
    /// Reads `LANES` elements.
    ///
    /// # Safety
    /// They must be readable.
    unsafe fn load(self, from: *const f32) -> Self::V;
    /// Writes `LANES` elements.
    ///
    /// # Safety
    /// They must be writable.
    unsafe fn store(self, to: *mut f32, v: Self::V);
    /// The first `n` lanes.
    fn head(self, n: usize) -> Self::M;
    /// Reads the lanes of a mask made by `head`; the others are zero.
    ///
    /// # Safety
    /// The lanes of the mask must be readable.
    unsafe fn load_head(self, from: *const f32, mask: Self::M) -> Self::V;
    /// Writes the lanes of a mask made by `head`.
    ///
    /// # Safety
    /// The lanes of the mask must be writable.
    unsafe fn store_head(self, to: *mut f32, mask: Self::M, v: Self::V);

    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    fn sqrt(self, a: Self::V) -> Self::V;
    /// a·b + c
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The larger; `b` if either is NaN.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// The smaller; `b` if either is NaN.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// To the nearest integer.
    fn round(self, a: Self::V) -> Self::V;
    /// a·2ⁿ for integral n in −252 … 254.
    fn scale_by_power(self, a: Self::V, n: Self::V) -> Self::V;
    /// a ≤ b; false for NaN.
    fn le(self, a: Self::V, b: Self::V) -> Self::M;
    /// a < b; false for NaN.
    fn lt(self, a: Self::V, b: Self::V) -> Self::M;
    /// a = b; false for NaN.
    fn eq(self, a: Self::V, b: Self::V) -> Self::M;
    /// a > b, or a is NaN and b is not: what a running maximum in which NaN wins must take up.
    fn beats(self, a: Self::V, b: Self::V) -> Self::M;
    /// `yes` in the lanes of the mask, `no` in the others.
    fn select(self, mask: Self::M, yes: Self::V, no: Self::V) -> Self::V;
    /// The mask as an integer, lane 0 lowest.
    fn bits(self, mask: Self::M) -> u32;
    /// |a| and the sign of `sign`.
    fn copy_sign(self, a: Self::V, sign: Self::V) -> Self::V;

    /// `a / (√b · s + e)` for b ≥ 0 to about 2 units in the last place: the heart of Adam. On several vectors, step by step: one alone is
    /// a chain of a dozen operations, and the processor's window holds too few such chains to fill its units.
    #[inline(always)]
    fn over_root<const N: usize>(self, a: [Self::V; N], b: [Self::V; N], s: Self::V, e: Self::V) -> [Self::V; N] {
        let mut out = a;
        for i in 0..N {
            out[i] = self.div(a[i], self.fma(self.sqrt(b[i]), s, e));
        }
        out
    }

    /// Each of the lowest `LANES` bytes as a number.
    fn widen(self, bytes: u128) -> Self::V;
    /// Lanes that hold integers in 0 … 255, as the lowest `LANES` bytes.
    fn narrow(self, v: Self::V) -> u128;
    /// Reads `n` bytes, at most `LANES`, as numbers; the other lanes are zero.
    ///
    /// # Safety
    /// They must be readable.
    #[inline(always)]
    unsafe fn load_bytes(self, from: *const u8, n: usize) -> Self::V {
        // SAFETY: passed on to the caller.
        self.widen(unsafe { bytes::read(from, n.min(Self::LANES)) })
    }
    /// Writes the first `n` lanes, integers in 0 … 255, as bytes.
    ///
    /// # Safety
    /// They must be writable.
    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8, n: usize, v: Self::V) {
        // SAFETY: passed on to the caller.
        unsafe { bytes::write(to, n.min(Self::LANES), self.narrow(v)) }
    }

    /// Reads all lanes, or those of a mask made by `head`; the others are zero.
    ///
    /// # Safety
    /// They must be readable.
    #[inline(always)]
    unsafe fn take(self, from: *const f32, mask: Option<Self::M>) -> Self::V {
        // SAFETY: passed on to the caller.
        unsafe {
            match mask {
                None => self.load(from),
                Some(mask) => self.load_head(from, mask),
            }
        }
    }
    /// Writes all lanes, or those of a mask made by `head`.
    ///
    /// # Safety
    /// They must be writable.
    #[inline(always)]
    unsafe fn put(self, to: *mut f32, mask: Option<Self::M>, v: Self::V) {
        // SAFETY: passed on to the caller.
        unsafe {
            match mask {
                None => self.store(to, v),
                Some(mask) => self.store_head(to, mask, v),
            }
        }
    }

    /// Half of a transposing reduction: lane l holds `a[l] + a[l ^ D]` if bit D of l is clear, else the same of `b`.
    fn fold<const D: usize>(self, a: Self::V, b: Self::V) -> Self::V;

    /// Zero in all lanes.
    #[inline(always)]
    fn zero(self) -> Self::V {
        self.splat(0.0)
    }

    /// −a·b + c
    #[inline(always)]
    fn sub_mul(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        self.fma(self.sub(self.zero(), a), b, c)
    }

    /// The sum over the lanes.
    #[inline(always)]
    fn sum(self, v: Self::V) -> f32 {
        self.first(self.spread_sum(v))
    }

    /// The sum over the lanes, in all of them.
    #[inline(always)]
    fn spread_sum(self, v: Self::V) -> Self::V {
        let v = self.fold::<4>(v, v);
        let v = self.fold::<2>(v, v);
        let v = self.fold::<1>(v, v);
        if Self::LANES == 16 { self.fold::<8>(v, v) } else { v }
    }

    /// Lane 0.
    fn first(self, v: Self::V) -> f32;

    /// The largest lane, in all of them; NaN lanes may or may not show.
    fn spread_largest(self, v: Self::V) -> Self::V;

    /// The largest lane; NaN lanes may or may not show.
    #[inline(always)]
    fn largest(self, v: Self::V) -> f32 {
        self.first(self.spread_largest(v))
    }

    /// The first seven eighths of the way to the lane sums of eight vectors in a row in memory: with eight lanes, lane l is the sum of
    /// vector l; with sixteen, lanes l and l + 8 are its two halves.
    ///
    /// Each sum is taken by the same tree, whatever its place, so a dot product's bits do not depend on the tile that computed it.
    ///
    /// # Safety
    /// Eight vectors must be readable.
    #[inline(always)]
    unsafe fn sums_of_eight(self, from: *const f32) -> Self::V {
        let mut v = [self.zero(); 8];
        for j in 0..8 {
            // SAFETY: readable by the contract.
            v[j] = unsafe { self.load(from.add(j * Self::LANES)) };
        }
        for j in 0..4 {
            v[j] = self.fold::<4>(v[j], v[j + 4]);
        }
        for j in 0..2 {
            v[j] = self.fold::<2>(v[j], v[j + 2]);
        }
        self.fold::<1>(v[0], v[1])
    }
}
