//! Update rules on vectors: the same code moves parameters from a stored gradient and from one still in a tile.

use super::isa::Body;
use super::simd::Simd;
use paceline_base::kernel::StepArgs;
use paceline_base::optim::Rule;

/// A rule with its constants for one step, rounded to f32 once.
#[derive(Clone, Copy)]
pub(crate) struct Constants {
    pub kind: Kind,
    /// L2 penalty.
    l2: f32,
    /// Learning rate, for Adam divided by 1 − β₁ᵗ.
    rate: f32,
    /// Momentum or β₁.
    first: f32,
    /// 1 − β₁
    first_rest: f32,
    /// β₂
    second: f32,
    /// 1 − β₂
    second_rest: f32,
    /// 1 / √(1 − β₂ᵗ)
    root_scale: f32,
    eps: f32,
    /// 1 − r·decay
    keep: f32,
}

/// The rules without their constants.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sgd,
    Momentum,
    Nesterov,
    Adam,
    AdamW,
    Adagrad,
}

impl Constants {
    /// The constants of `rule` at this step.
    pub(crate) fn new(rule: &Rule, l2: f64, args: &StepArgs) -> Self {
        let mut c = Self {
            kind: Kind::Sgd,
            l2: l2 as f32,
            rate: args.rate as f32,
            first: 0.0,
            first_rest: 0.0,
            second: 0.0,
            second_rest: 0.0,
            root_scale: 1.0,
            eps: 0.0,
            keep: 1.0,
        };
        match *rule {
            Rule::Sgd => {}
            Rule::Momentum { momentum } => (c.kind, c.first) = (Kind::Momentum, momentum as f32),
            Rule::Nesterov { momentum } => (c.kind, c.first) = (Kind::Nesterov, momentum as f32),
            Rule::Adam { beta1, beta2, eps } => c.adam(Kind::Adam, beta1, beta2, eps, args),
            Rule::AdamW { beta1, beta2, eps, decay } => {
                c.adam(Kind::AdamW, beta1, beta2, eps, args);
                c.keep = (1.0 - args.rate * decay) as f32;
            }
            Rule::Adagrad { eps } => (c.kind, c.eps) = (Kind::Adagrad, eps as f32),
        }
        c
    }

    fn adam(&mut self, kind: Kind, beta1: f64, beta2: f64, eps: f64, args: &StepArgs) {
        // Bias corrections in f64: 1 − β₂ᵗ is about 0.001 at the first step and would lose half its digits in f32.
        let count = args.step as f64 + 1.0;
        self.kind = kind;
        self.rate = (args.rate / (1.0 - beta1.powf(count))) as f32;
        (self.first, self.first_rest) = (beta1 as f32, (1.0 - beta1) as f32);
        (self.second, self.second_rest) = (beta2 as f32, (1.0 - beta2) as f32);
        self.root_scale = (1.0 / (1.0 - beta2.powf(count)).sqrt()) as f32;
        self.eps = eps as f32;
    }
}

/// Where one run of parameters and its states lie; unused states are null.
#[derive(Clone, Copy)]
pub(crate) struct Parameters {
    pub w: *mut f32,
    pub first: *mut f32,
    pub second: *mut f32,
}

impl Parameters {
    /// The same, `by` elements on.
    #[inline(always)]
    pub(crate) fn add(self, by: usize) -> Self {
        let on = |p: *mut f32| if p.is_null() { p } else { p.wrapping_add(by) };
        Self { w: on(self.w), first: on(self.first), second: on(self.second) }
    }
}

/// Moves `w`, and its states, by the gradient `g`; returns (w, first state, second state).
#[inline(always)]
fn moved<S: Simd>(s: S, c: &Constants, kind: Kind, w: S::V, g: S::V, first: S::V, second: S::V) -> (S::V, S::V, S::V) {
    let g = if c.l2 == 0.0 { g } else { s.fma(s.splat(c.l2), w, g) };
    let rate = s.splat(c.rate);
    match kind {
        Kind::Sgd => (s.sub_mul(rate, g, w), first, second),
        Kind::Momentum => {
            let v = s.fma(s.splat(c.first), first, g);
            (s.sub_mul(rate, v, w), v, second)
        }
        Kind::Nesterov => {
            let v = s.fma(s.splat(c.first), first, g);
            (s.sub_mul(rate, s.fma(s.splat(c.first), v, g), w), v, second)
        }
        Kind::Adam | Kind::AdamW => {
            let w = if kind == Kind::AdamW { s.mul(w, s.splat(c.keep)) } else { w };
            let m = s.fma(s.splat(c.first), first, s.mul(s.splat(c.first_rest), g));
            let v = s.fma(s.splat(c.second), second, s.mul(s.splat(c.second_rest), s.mul(g, g)));
            let step = s.over_root(m, v, s.splat(c.root_scale), s.splat(c.eps));
            (s.sub_mul(rate, step, w), m, v)
        }
        Kind::Adagrad => {
            let sum = s.fma(g, g, first);
            let step = s.over_root(g, sum, s.splat(1.0), s.splat(c.eps));
            (s.sub_mul(rate, step, w), sum, second)
        }
    }
}

/// Moves `len` parameters by the gradient at `g`, for one kind of rule.
///
/// # Safety
/// All pointers that the rule uses must be valid for `len` elements.
#[inline(always)]
unsafe fn run_of<S: Simd>(s: S, c: &Constants, kind: Kind, p: Parameters, g: *const f32, len: usize) {
    let states = match kind {
        Kind::Sgd => 0,
        Kind::Momentum | Kind::Nesterov | Kind::Adagrad => 1,
        Kind::Adam | Kind::AdamW => 2,
    };
    let full = len / S::LANES * S::LANES;
    // SAFETY: all accesses lie below `len`, and states are touched only if the rule has them.
    unsafe {
        let mut i = 0;
        while i < full {
            let first = if states > 0 { s.load(p.first.add(i)) } else { s.zero() };
            let second = if states > 1 { s.load(p.second.add(i)) } else { s.zero() };
            let (w, first, second) = moved(s, c, kind, s.load(p.w.add(i)), s.load(g.add(i)), first, second);
            s.store(p.w.add(i), w);
            if states > 0 {
                s.store(p.first.add(i), first);
            }
            if states > 1 {
                s.store(p.second.add(i), second);
            }
            i += S::LANES;
        }
        if full < len {
            let mask = s.head(len - full);
            let first = if states > 0 { s.load_head(p.first.add(full), mask) } else { s.zero() };
            let second = if states > 1 { s.load_head(p.second.add(full), mask) } else { s.zero() };
            let (w, g) = (s.load_head(p.w.add(full), mask), s.load_head(g.add(full), mask));
            let (w, first, second) = moved(s, c, kind, w, g, first, second);
            s.store_head(p.w.add(full), mask, w);
            if states > 0 {
                s.store_head(p.first.add(full), mask, first);
            }
            if states > 1 {
                s.store_head(p.second.add(full), mask, second);
            }
        }
    }
}

/// Moves `len` parameters by the gradient at `g`.
///
/// # Safety
/// All pointers that the rule uses must be valid for `len` elements.
#[inline(always)]
pub(crate) unsafe fn update_run<S: Simd>(s: S, c: &Constants, p: Parameters, g: *const f32, len: usize) {
    // SAFETY: as promised by the caller. One loop per kind, so that the choice is made once per run.
    unsafe {
        match c.kind {
            Kind::Sgd => run_of(s, c, Kind::Sgd, p, g, len),
            Kind::Momentum => run_of(s, c, Kind::Momentum, p, g, len),
            Kind::Nesterov => run_of(s, c, Kind::Nesterov, p, g, len),
            Kind::Adam => run_of(s, c, Kind::Adam, p, g, len),
            Kind::AdamW => run_of(s, c, Kind::AdamW, p, g, len),
            Kind::Adagrad => run_of(s, c, Kind::Adagrad, p, g, len),
        }
    }
}

/// The `Update` kernel over one run.
pub(crate) struct Update {
    pub constants: Constants,
    pub parameters: Parameters,
    pub g: *const f32,
    pub len: usize,
}

impl Body for Update {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        // SAFETY: the caller vouches for the pointers.
        unsafe { update_run(s, &self.constants, self.parameters, self.g, self.len) }
    }
}
