//! Batch normalisation: one pass over the tensor for each step, with the activation behind it in the same pass.

use crate::cpu::Cpu;
use crate::cpu::activate::{Behind, behind};
use crate::cpu::simd::Simd;
use crate::cpu::submit::Arguments;
use crate::cpu::walk::{Columns, Formula, Terms, Walk};
use paceline_base::kernel::BufferId;
use paceline_base::op::Activation;

/// Sizes of a batch normalisation's part.
#[derive(Clone, Copy)]
pub(crate) struct BatchNormPart {
    pub rows: usize,
    pub channels: usize,
    /// Rows over all ranks.
    pub count: usize,
}

/// `f((x − mean) · scale + β)`: not `x · scale + shift`, which would cancel where the mean is large.
#[derive(Clone, Copy)]
struct Affine<'a, B> {
    x: *const f32,
    mean: &'a Columns<f32>,
    scale: &'a Columns<f32>,
    beta: &'a Columns<f32>,
    behind: B,
}

// SAFETY: numbers and pointers into device memory.
unsafe impl<B: Behind> Arguments for Affine<'_, B> {}

impl<B: Behind> Formula for Affine<'_, B> {
    #[inline(always)]
    unsafe fn at<S: Simd>(self, s: S, place: usize, column: usize, mask: Option<S::M>) -> S::V {
        // SAFETY: by the contract of `at`.
        unsafe {
            let d = s.sub(s.take(self.x.add(place), mask), self.mean.at(s, column, mask));
            self.behind.value(s, s.fma(d, self.scale.at(s, column, mask), self.beta.at(s, column, mask)))
        }
    }
}

/// `x − m` and its square.
#[derive(Clone, Copy)]
struct Moments<'a> {
    x: *const f32,
    around: &'a Columns<f32>,
}

// SAFETY: numbers and pointers into device memory.
unsafe impl Arguments for Moments<'_> {}

impl Terms for Moments<'_> {
    #[inline(always)]
    unsafe fn at<S: Simd>(self, s: S, _: usize, place: usize, column: usize, mask: Option<S::M>) -> (S::V, S::V) {
        // SAFETY: by the contract of `at`.
        let (x, m) = unsafe { (s.take(self.x.add(place), mask), self.around.at(s, column, mask)) };
        let d = s.sub(x, m);
        (d, s.mul(d, d))
    }
}

/// `dy · f′` and its product with `x − mean`.
#[derive(Clone, Copy)]
struct Gradients<'a, B> {
    dy: *const f32,
    x: *const f32,
    y: *const f32,
    mean: &'a Columns<f32>,
    behind: B,
}

// SAFETY: numbers and pointers into device memory.
unsafe impl<B: Behind> Arguments for Gradients<'_, B> {}

impl<B: Behind> Terms for Gradients<'_, B> {
    #[inline(always)]
    unsafe fn at<S: Simd>(self, s: S, _: usize, place: usize, column: usize, mask: Option<S::M>) -> (S::V, S::V) {
        // SAFETY: by the contract of `at`.
        unsafe {
            let dy = self.behind.gradient(s, s.take(self.dy.add(place), mask), self.y.wrapping_add(place), mask);
            let d = s.sub(s.take(self.x.add(place), mask), self.mean.at(s, column, mask));
            (dy, s.mul(dy, d))
        }
    }
}

/// `scale · (dy · f′ − shift − (x − mean) · slope)`
#[derive(Clone, Copy)]
struct Backward<'a, B> {
    dy: *const f32,
    x: *const f32,
    y: *const f32,
    mean: &'a Columns<f32>,
    scale: &'a Columns<f32>,
    shift: &'a Columns<f32>,
    slope: &'a Columns<f32>,
    behind: B,
}

// SAFETY: numbers and pointers into device memory.
unsafe impl<B: Behind> Arguments for Backward<'_, B> {}

impl<B: Behind> Formula for Backward<'_, B> {
    #[inline(always)]
    unsafe fn at<S: Simd>(self, s: S, place: usize, column: usize, mask: Option<S::M>) -> S::V {
        // SAFETY: by the contract of `at`.
        unsafe {
            let dy = self.behind.gradient(s, s.take(self.dy.add(place), mask), self.y.wrapping_add(place), mask);
            let d = s.sub(s.take(self.x.add(place), mask), self.mean.at(s, column, mask));
            let rest = s.sub_mul(d, self.slope.at(s, column, mask), s.sub(dy, self.shift.at(s, column, mask)));
            s.mul(self.scale.at(s, column, mask), rest)
        }
    }
}

impl Cpu {
    /// Reads values by channel.
    fn by_channel(&self, id: BufferId) -> impl Fn(usize) -> f32 + Copy + use<> {
        let values = self.at(id);
        // SAFETY: the contract was checked, and callers ask for channels only.
        move |c| unsafe { *values.add(c) }
    }

    /// `[Σ (x − m), Σ (x − m)²]`
    pub(in crate::cpu) fn batch_sums(&mut self, b: BatchNormPart, a: &[BufferId]) {
        let (x, sums, running) = (self.at(a[0]), self.at(a[2]), self.by_channel(a[1]));
        for walk in Walk::over(b.rows, b.channels) {
            let around = &walk.spread(running);
            // SAFETY: the contract was checked.
            unsafe {
                self.pair_sums(walk, Moments { x, around }, |c, first, second| {
                    *sums.add(c) = first as f32;
                    *sums.add(b.channels + c) = second as f32;
                });
            }
        }
    }

    /// Normalises with the moments of the batch, which it keeps, and moves the running ones.
    pub(in crate::cpu) fn batch_normalize(
        &mut self,
        b: BatchNormPart,
        eps: f64,
        momentum: f64,
        f: Option<Activation>,
        a: &[BufferId],
    ) {
        let BatchNormPart { channels, count, .. } = b;
        let (sums, kept) = (self.by_channel(a[1]), self.at(a[6]));
        let (running_mean, running_variance) = (self.at(a[2]), self.at(a[3]));
        let n = count.max(1) as f64;
        for c in 0..channels {
            // SAFETY: the contract was checked.
            unsafe {
                let (m, v) = (f64::from(*running_mean.add(c)), f64::from(*running_variance.add(c)));
                let shift = f64::from(sums(c)) / n;
                // Not by `max`, which would lose NaN.
                let variance = f64::from(sums(channels + c)) / n - shift * shift;
                let variance = if variance < 0.0 { 0.0 } else { variance };
                *kept.add(c) = (m + shift) as f32;
                *kept.add(channels + c) = (1.0 / (variance + eps).sqrt()) as f32;
                if count > 0 {
                    let unbiased = variance * n / (n - 1.0).max(1.0);
                    *running_mean.add(c) = (m + momentum * shift) as f32;
                    *running_variance.add(c) = (v + momentum * (unbiased - v)) as f32;
                }
            }
        }
        let kept = self.by_channel(a[6]);
        self.normalize(b, kept, move |c| kept(channels + c), f, [a[0], a[4], a[5], a[7]]);
    }

    /// Normalises with the running moments.
    pub(in crate::cpu) fn batch_infer(&mut self, b: BatchNormPart, eps: f64, f: Option<Activation>, a: &[BufferId]) {
        let (mean, variance) = (self.by_channel(a[1]), self.by_channel(a[2]));
        let scale = move |c| (1.0 / (f64::from(variance(c)) + eps).sqrt()) as f32;
        self.normalize(b, mean, scale, f, [a[0], a[3], a[4], a[5]]);
    }

    /// `y = f((x − mean) · scale · γ + β)`
    fn normalize(
        &mut self,
        b: BatchNormPart,
        mean: impl Fn(usize) -> f32,
        scale: impl Fn(usize) -> f32,
        f: Option<Activation>,
        [x, gamma, beta, y]: [BufferId; 4],
    ) {
        let (x, y, gamma, beta) = (self.at(x), self.at(y), self.by_channel(gamma), self.by_channel(beta));
        for walk in Walk::over(b.rows, b.channels) {
            let (mean, beta) = (&walk.spread(&mean), &walk.spread(beta));
            let scale = &walk.spread(|c| gamma(c) * scale(c));
            // SAFETY: the contract was checked.
            behind!(f, behind => unsafe { self.each(walk, y, Affine { x, mean, scale, beta, behind }) });
        }
    }

    /// `[Σ dy, Σ dy · x̂]`
    pub(in crate::cpu) fn batch_gradient_sums(
        &mut self,
        b: BatchNormPart,
        through: Option<Activation>,
        a: &[BufferId],
    ) {
        let (dy, x, sums, kept) = (self.at(a[0]), self.at(a[1]), self.at(a[3]), self.by_channel(a[2]));
        let y = through.map_or(std::ptr::null_mut(), |_| self.at(a[4]));
        for walk in Walk::over(b.rows, b.channels) {
            let mean = &walk.spread(kept);
            let put = |c: usize, first: f64, second: f64| {
                let scale = f64::from(kept(b.channels + c));
                // SAFETY: the contract was checked.
                unsafe {
                    *sums.add(c) = first as f32;
                    *sums.add(b.channels + c) = (second * scale) as f32;
                }
            };
            // SAFETY: the contract was checked.
            behind!(through, behind => unsafe { self.pair_sums(walk, Gradients { dy, x, y, mean, behind }, put) });
        }
    }

    /// `dx = γ / √… · (dy − sums₀ / count − x̂ · sums₁ / count)`
    pub(in crate::cpu) fn batch_backward(&mut self, b: BatchNormPart, through: Option<Activation>, a: &[BufferId]) {
        let BatchNormPart { rows, channels, count } = b;
        let (dy, x, dx) = (self.at(a[0]), self.at(a[1]), self.at(a[5]));
        let y = through.map_or(std::ptr::null_mut(), |_| self.at(a[6]));
        let (kept, gamma, sums) = (self.by_channel(a[2]), self.by_channel(a[3]), self.by_channel(a[4]));
        let n = count.max(1) as f32;
        for walk in Walk::over(rows, channels) {
            let (mean, shift) = (&walk.spread(kept), &walk.spread(|c| sums(c) / n));
            let scale = &walk.spread(|c| gamma(c) * kept(channels + c));
            let slope = &walk.spread(|c| kept(channels + c) * sums(channels + c) / n);
            behind!(through, behind => {
                let formula = Backward { dy, x, y, mean, scale, shift, slope, behind };
                // SAFETY: the contract was checked.
                unsafe { self.each(walk, dx, formula) }
            });
        }
    }
}
