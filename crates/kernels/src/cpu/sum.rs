//! Sums of tensors, with the activation behind them.

use super::Cpu;
use super::activate::{Behind, behind};
use super::isa::Body;
use super::simd::{Simd, vectors};
use super::submit::Shared;
use paceline_base::kernel::{BufferId, Slot};
use paceline_base::op::Activation;

/// Some elements of a sum. The summands are looked up as they are read: a list of pointers would have to be allocated.
#[derive(Clone, Copy)]
struct Sum<'a> {
    memory: *const f32,
    slots: &'a [Slot],
    inputs: &'a [BufferId],
    y: *mut f32,
    range: (usize, usize),
    f: Option<Activation>,
}

impl Sum<'_> {
    /// Where a summand begins, at the first element of the range.
    #[inline(always)]
    fn from(&self, input: BufferId) -> *const f32 {
        self.memory.wrapping_byte_add(self.slots[input.0 as usize].at).wrapping_add(self.range.0)
    }

    /// # Safety
    /// As for [`Body::run`].
    #[inline(always)]
    unsafe fn go<S: Simd>(self, s: S, behind: impl Behind) {
        let (begin, end) = self.range;
        // SAFETY: elements of the range only, which the caller vouches for.
        unsafe {
            let y = self.y.add(begin);
            if let [a, b] = self.inputs {
                let (a, b) = (self.from(*a), self.from(*b));
                vectors!(s, S, end - begin, |i, n, mask| {
                    let sum = s.add(s.take(a.add(i), mask), s.take(b.add(i), mask));
                    s.put(y.add(i), mask, behind.value(s, sum));
                });
                return;
            }
            vectors!(s, S, end - begin, |i, n, mask| {
                let mut sum = s.zero();
                for input in self.inputs {
                    sum = s.add(sum, s.take(self.from(*input).add(i), mask));
                }
                s.put(y.add(i), mask, behind.value(s, sum));
            });
        }
    }
}

impl Body for Sum<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        // SAFETY: passed on to the caller.
        behind!(self.f, behind => unsafe { self.go(s, behind) });
    }
}

impl Cpu {
    pub(super) fn sum(&mut self, inputs: usize, len: usize, f: Option<Activation>, a: &[BufferId]) {
        let (memory, y, isa) = (Shared(self.memory.as_ptr().cast_const()), Shared(self.at(a[inputs])), self.isa);
        let slots = std::mem::take(&mut self.slots);
        self.elements(len, |first, end| {
            let (memory, y) = (memory.get(), y.get());
            // SAFETY: the contract was checked; parts have their own elements.
            unsafe { isa.run(Sum { memory, slots: &slots, inputs: &a[..inputs], y, range: (first, end), f }) }
        });
        self.slots = slots;
    }
}
