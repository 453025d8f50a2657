//! Activations and their derivatives: one function per vector, used alone and fused into dense kernels, so both give the same bits.

use super::isa::Body;
use super::math;
use super::simd::Simd;
use paceline_base::op::Activation;

/// f(x)
#[inline(always)]
pub(crate) fn value<S: Simd>(s: S, f: Activation, x: S::V) -> S::V {
    match f {
        // The second operand wins against NaN.
        Activation::Relu => s.max(s.zero(), x),
        Activation::Tanh => math::tanh(s, x),
        Activation::Sigmoid => math::sigmoid(s, x),
        Activation::Gelu => s.mul(x, math::normal_distribution(s, x)),
    }
}

/// dy · f′, where `saved` is f's output, or its input for GELU.
#[inline(always)]
pub(crate) fn derivative<S: Simd>(s: S, f: Activation, saved: S::V, dy: S::V) -> S::V {
    match f {
        Activation::Relu => s.select(s.le(saved, s.zero()), s.zero(), dy),
        Activation::Tanh => s.mul(dy, s.sub_mul(saved, saved, s.splat(1.0))),
        Activation::Sigmoid => s.mul(dy, s.mul(saved, s.sub(s.splat(1.0), saved))),
        Activation::Gelu => {
            let slope = s.fma(saved, math::normal_density(s, saved), math::normal_distribution(s, saved));
            s.mul(dy, slope)
        }
    }
}

/// The activation behind another kernel, as a type: the choice is made once, not per vector.
pub(crate) trait Behind: Copy + Sync {
    /// f(v)
    fn value<S: Simd>(self, s: S, v: S::V) -> S::V;
    /// `dy · f′`, by the output at `y`.
    ///
    /// # Safety
    /// The lanes of the mask must be readable.
    unsafe fn gradient<S: Simd>(self, s: S, dy: S::V, y: *const f32, mask: Option<S::M>) -> S::V;
}

/// No activation: values pass as they are.
#[derive(Clone, Copy)]
pub(crate) struct Nothing;

impl Behind for Nothing {
    #[inline(always)]
    fn value<S: Simd>(self, _: S, v: S::V) -> S::V {
        v
    }
    #[inline(always)]
    unsafe fn gradient<S: Simd>(self, _: S, dy: S::V, _: *const f32, _: Option<S::M>) -> S::V {
        dy
    }
}

/// Relu: a constant for the compiler.
#[derive(Clone, Copy)]
pub(crate) struct Relu;

impl Behind for Relu {
    #[inline(always)]
    fn value<S: Simd>(self, s: S, v: S::V) -> S::V {
        value(s, Activation::Relu, v)
    }
    #[inline(always)]
    unsafe fn gradient<S: Simd>(self, s: S, dy: S::V, y: *const f32, mask: Option<S::M>) -> S::V {
        // SAFETY: readable by the contract.
        derivative(s, Activation::Relu, unsafe { s.take(y, mask) }, dy)
    }
}

impl Behind for Activation {
    #[inline(always)]
    fn value<S: Simd>(self, s: S, v: S::V) -> S::V {
        value(s, self, v)
    }
    #[inline(always)]
    unsafe fn gradient<S: Simd>(self, s: S, dy: S::V, y: *const f32, mask: Option<S::M>) -> S::V {
        // SAFETY: readable by the contract.
        derivative(s, self, unsafe { s.take(y, mask) }, dy)
    }
}

/// Runs an expression with the activation as a type.
macro_rules! behind {
    ($f:expr, $b:ident => $run:expr) => {
        match $f {
            None => {
                let $b = $crate::cpu::activate::Nothing;
                $run
            }
            Some(paceline_base::op::Activation::Relu) => {
                let $b = $crate::cpu::activate::Relu;
                $run
            }
            Some($b) => $run,
        }
    };
}
pub(crate) use behind;

/// `y = f(x)` over `len` elements, in place or apart.
pub(crate) struct Activate {
    pub f: Activation,
    pub x: *const f32,
    pub y: *mut f32,
    pub len: usize,
}

impl Body for Activate {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        // SAFETY: the caller vouches for the pointers.
        unsafe {
            // One loop per function: the choice is made once, not per vector.
            match self.f {
                Activation::Relu => each(s, Activation::Relu, &self),
                Activation::Tanh => each(s, Activation::Tanh, &self),
                Activation::Sigmoid => each(s, Activation::Sigmoid, &self),
                Activation::Gelu => each(s, Activation::Gelu, &self),
            }
        }
    }
}

/// # Safety
/// `of.x` readable and `of.y` writable for `of.len` elements.
#[inline(always)]
unsafe fn each<S: Simd>(s: S, f: Activation, of: &Activate) {
    let full = of.len / S::LANES * S::LANES;
    // SAFETY: all accesses lie below `len`.
    unsafe {
        let mut i = 0;
        while i < full {
            s.store(of.y.add(i), value(s, f, s.load(of.x.add(i))));
            i += S::LANES;
        }
        if full < of.len {
            let mask = s.head(of.len - full);
            s.store_head(of.y.add(full), mask, value(s, f, s.load_head(of.x.add(full), mask)));
        }
    }
}

/// `dx = dy · f′` over `rows` rows of `len` elements, in place or apart.
pub(crate) struct ActivateBackward {
    pub f: Activation,
    pub dy: *const f32,
    pub saved: *const f32,
    pub dx: *mut f32,
    pub len: usize,
}

impl Body for ActivateBackward {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        // SAFETY: the caller vouches for the pointers.
        unsafe {
            match self.f {
                Activation::Relu => each_backward(s, Activation::Relu, &self),
                Activation::Tanh => each_backward(s, Activation::Tanh, &self),
                Activation::Sigmoid => each_backward(s, Activation::Sigmoid, &self),
                Activation::Gelu => each_backward(s, Activation::Gelu, &self),
            }
        }
    }
}

/// # Safety
/// `of.dy` and `of.saved` readable and `of.dx` writable for `of.len` elements.
#[inline(always)]
unsafe fn each_backward<S: Simd>(s: S, f: Activation, of: &ActivateBackward) {
    let full = of.len / S::LANES * S::LANES;
    // SAFETY: all accesses lie below `len`.
    unsafe {
        let mut i = 0;
        while i < full {
            s.store(of.dx.add(i), derivative(s, f, s.load(of.saved.add(i)), s.load(of.dy.add(i))));
            i += S::LANES;
        }
        if full < of.len {
            let mask = s.head(of.len - full);
            let (saved, dy) = (s.load_head(of.saved.add(full), mask), s.load_head(of.dy.add(full), mask));
            s.store_head(of.dx.add(full), mask, derivative(s, f, saved, dy));
        }
    }
}
