//! Zeros stay zeros. A pixel that reads nothing but zeros is zero by the definition, plus its bias; through the transforms it becomes some
//! ±1e-8 of what its neighbours read. Behind it a relu would pass the gradients of half of them: on photos with black areas, whose biases begin
//! at zero, gradients of biases came out up to a few percent wrong. So these pixels are found in the input, and finished as what they are.
//!
//! Almost every tile is cleared by a look at the one to four pixels of which every window holds one.

use super::Shape;
use crate::cpu::conv::scheme::Scheme;
use crate::cpu::isa::Body;
use crate::cpu::simd::Simd;
use std::marker::PhantomData;

/// Looks for pixels of the input that are zero in all channels.
pub(super) struct Zeros<'a> {
    pub image: *const f32,
    pub shape: &'a Shape,
    /// Whether no window lies outside the image altogether, so that a few pixels stand for all windows.
    quick: bool,
}

impl<'a> Zeros<'a> {
    pub(super) fn new<C: Scheme>(image: *const f32, shape: &'a Shape) -> Self {
        let (input, output, kernel) = (shape.input, shape.output, C::KERNEL as isize);
        let within = |pad: isize, size: usize, out: usize| {
            let after = out as isize - 1 + kernel - pad - size as isize;
            pad < kernel && after < kernel
        };
        let quick =
            within(shape.pad[0], input.height, output.height) && within(shape.pad[1], input.width, output.width);
        Self { image, shape, quick }
    }

    /// The pixels of a tile (bit `row · TILE + column`) whose windows hold only zeros; bits of pixels outside the image mean nothing.
    ///
    /// # Safety
    /// The images must be readable.
    #[inline(always)]
    pub(super) unsafe fn of_tile<S: Simd, C: Scheme>(&self, s: S, sample: usize, row: usize, column: usize) -> u16 {
        let input = self.shape.input;
        let (top, left) = (row as isize - self.shape.pad[0], column as isize - self.shape.pad[1]);
        if self.quick {
            let inside = |at: isize, size: usize| at.clamp(0, size as isize - 1) as usize;
            let mut cleared = true;
            for i in (C::KERNEL - 1..C::PATCH).step_by(C::KERNEL) {
                for j in (C::KERNEL - 1..C::PATCH).step_by(C::KERNEL) {
                    let (y, x) = (inside(top + i as isize, input.height), inside(left + j as isize, input.width));
                    // SAFETY: a pixel of the image.
                    cleared &= unsafe { !self.is_zero(s, self.pixel(sample, y, x)) };
                }
            }
            if cleared {
                return 0;
            }
        }
        // SAFETY: the caller's promise.
        unsafe { s.apart(Search::<C> { zeros: self, sample, top, left, scheme: PhantomData }) }
    }

    #[inline(always)]
    fn pixel(&self, sample: usize, y: usize, x: usize) -> *const f32 {
        let input = self.shape.input;
        self.image.wrapping_add(((sample * input.height + y) * input.width + x) * input.channels)
    }

    /// Whether all channels of a pixel are zero. NaN is not.
    ///
    /// # Safety
    /// The pixel must be readable.
    #[inline(always)]
    unsafe fn is_zero<S: Simd>(&self, s: S, pixel: *const f32) -> bool {
        let channels = self.shape.input.channels;
        // SAFETY: the caller's promise.
        unsafe {
            if channels < 4 {
                // As in photos: cheaper one by one than by a masked vector.
                return (0..channels).all(|c| *pixel.add(c) == 0.0);
            }
            let mut c = 0;
            while c < channels {
                let lanes = (channels - c).min(S::LANES);
                let v = if lanes == S::LANES { s.load(pixel.add(c)) } else { s.load_head(pixel.add(c), s.head(lanes)) };
                if s.bits(s.eq(v, s.zero())).count_ones() as usize != S::LANES {
                    return false;
                }
                c += S::LANES;
            }
            true
        }
    }
}

/// Looks at every pixel of a patch: the rare way.
struct Search<'a, C> {
    zeros: &'a Zeros<'a>,
    sample: usize,
    top: isize,
    left: isize,
    scheme: PhantomData<C>,
}

impl<C: Scheme> Body for Search<'_, C> {
    type Out = u16;
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) -> u16 {
        let Self { zeros, sample, top, left, .. } = self;
        let input = zeros.shape.input;
        let range = |start: isize, size: usize| {
            let first = (-start).clamp(0, C::PATCH as isize) as usize;
            first..((size as isize - start).clamp(first as isize, C::PATCH as isize) as usize)
        };
        let columns = range(left, input.width);
        let mut zero = (1u64 << (C::PATCH * C::PATCH)) - 1; // outside the image
        for i in range(top, input.height) {
            for j in columns.clone() {
                let (y, x) = ((top + i as isize) as usize, (left + j as isize) as usize);
                // SAFETY: a pixel of the image.
                if unsafe { !zeros.is_zero(s, zeros.pixel(sample, y, x)) } {
                    zero &= !(1 << (i * C::PATCH + j));
                }
            }
        }
        let mut window = 0u64;
        for i in 0..C::KERNEL {
            window |= ((1 << C::KERNEL) - 1) << (i * C::PATCH);
        }
        let mut found = 0;
        for i in 0..C::TILE {
            for j in 0..C::TILE {
                let here = window << (i * C::PATCH + j);
                found |= u16::from(zero & here == here) << (i * C::TILE + j);
            }
        }
        found
    }
}
