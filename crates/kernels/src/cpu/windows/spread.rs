//! The way back from windows: each element of the input gathers from the windows that hold it.

use super::{Holder, Inputs, inputs};
use crate::cpu::Cpu;
use crate::cpu::isa::Body;
use crate::cpu::simd::{Simd, vectors};
use crate::cpu::submit::{Arguments, Shared};
use paceline_base::window::PoolDims;

/// What an element gets of the gradient of a window that holds it.
pub(super) trait Share: Arguments {
    /// For one vector of channels: `from` is the first of them in the output, `place` where the element is in the window.
    ///
    /// # Safety
    /// The output must be readable there.
    unsafe fn of<S: Simd>(&self, s: S, from: usize, place: usize, lanes: usize, mask: Option<S::M>) -> S::V;
}

/// Some input lines.
#[derive(Clone, Copy)]
struct Spread<F> {
    dims: PoolDims,
    share: F,
    dx: *mut f32,
    lines: (usize, usize),
}

/// The same on an instruction set.
struct SpreadOn<S, F> {
    s: S,
    of: Spread<F>,
}

impl<S: Simd, F: Share> Inputs for SpreadOn<S, F> {
    #[inline(always)]
    unsafe fn held(&mut self, input: usize, by: Holder) {
        let (s, Spread { dims: d, share, dx, .. }) = (self.s, self.of);
        let (from, to) = (by.output * d.channels, input * d.channels);
        vectors!(s, S, d.channels, |c, lanes, mask| {
            // SAFETY: elements of this image; the caller vouches for the pointers.
            unsafe {
                let own = share.of(s, from + c, by.place, lanes, mask);
                let sum = if by.first { own } else { s.add(s.take(dx.add(to + c), mask), own) };
                s.put(dx.add(to + c), mask, sum);
            }
        });
    }

    #[inline(always)]
    unsafe fn alone(&mut self, input: usize) {
        let d = &self.of.dims;
        // SAFETY: an element of this image; the caller vouches for the pointer.
        unsafe { self.of.dx.add(input * d.channels).write_bytes(0, d.channels) };
    }
}

// SAFETY: numbers and pointers into device memory.
unsafe impl<F: Share> Arguments for Spread<F> {}

impl<F: Share> Body for Spread<F> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        // SAFETY: passed on to the caller.
        unsafe { inputs(&self.dims, self.lines.0..self.lines.1, &mut SpreadOn { s, of: self }) }
    }
}

impl Cpu {
    /// Fills the gradient of a pool's input, from pointers that the contract has checked.
    pub(super) fn spread<F: Share>(&mut self, dims: &PoolDims, share: F, dx: *mut f32) {
        let whole = Shared(Spread { dims: *dims, share, dx, lines: (0, 0) });
        let (isa, worth) = (self.isa, dims.input_len() >= self.tuning.parallel_elements);
        self.divide(worth, dims.samples * dims.height, |_, first, end| {
            // SAFETY: the contract was checked; parts have their own lines.
            unsafe { isa.run(Spread { lines: (first, end), ..whole.get() }) }
        });
    }
}
