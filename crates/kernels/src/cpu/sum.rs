//! Sums of tensors, with the activation behind them.

use super::Cpu;
use super::activate::value;
use super::isa::Body;
use super::simd::Simd;
use super::submit::Shared;
use paceline_base::kernel::BufferId;
use paceline_base::op::Activation;

/// Some elements of a sum. The summands are looked up as they are read: a list of pointers would have to be allocated.
#[derive(Clone, Copy)]
struct Sum<'a> {
    memory: *const f32,
    slots: &'a [(usize, usize)],
    inputs: &'a [BufferId],
    y: *mut f32,
    range: (usize, usize),
    f: Option<Activation>,
}

impl Sum<'_> {
    /// # Safety
    /// As for [`Body::run`].
    #[inline(always)]
    unsafe fn go<S: Simd>(self, s: S, after: impl Fn(S::V) -> S::V) {
        let from = |input: &BufferId| self.memory.wrapping_add(self.slots[input.0 as usize].0);
        let (begin, end) = self.range;
        let full = begin + (end - begin) / S::LANES * S::LANES;
        let tail = (full < end).then(|| s.head(end - full));
        // SAFETY: elements of the range only, which the caller vouches for.
        unsafe {
            if let [a, b] = self.inputs {
                let (a, b) = (from(a), from(b));
                let mut i = begin;
                while i < full {
                    s.store(self.y.add(i), after(s.add(s.load(a.add(i)), s.load(b.add(i)))));
                    i += S::LANES;
                }
                if tail.is_some() {
                    s.put(self.y.add(i), tail, after(s.add(s.take(a.add(i), tail), s.take(b.add(i), tail))));
                }
                return;
            }
            let sum = |i: usize, mask: Option<S::M>| {
                self.inputs.iter().fold(s.zero(), |sum, input| s.add(sum, s.take(from(input).add(i), mask)))
            };
            let mut i = begin;
            while i < full {
                s.store(self.y.add(i), after(sum(i, None)));
                i += S::LANES;
            }
            if tail.is_some() {
                s.put(self.y.add(i), tail, after(sum(i, tail)));
            }
        }
    }
}

impl Body for Sum<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        // SAFETY: passed on to the caller. The choice of f is made once, not per vector.
        unsafe {
            match self.f {
                None => self.go(s, |v| v),
                Some(Activation::Relu) => self.go(s, |v| value(s, Activation::Relu, v)),
                Some(f) => self.go(s, |v| value(s, f, v)),
            }
        }
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
