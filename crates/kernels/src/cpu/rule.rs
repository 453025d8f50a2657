//! Update rules on vectors: the same code moves parameters from a stored gradient and from one still in a tile.

#![allow(clippy::needless_range_loop)] // indexed loops read as the formula, and unroll into registers

use super::isa::Body;
use super::simd::Simd;
use super::submit::Arguments;
use paceline_base::kernel::StepArgs;
use paceline_base::optim::Rule;

/// A rule with its constants for one step, rounded to f32 once.
#[derive(Clone, Copy)]
pub(crate) struct Constants {
    pub kind: RuleKind,
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
    /// Whether small state becomes zero at this step.
    settling: bool,
}

/// State is settled at every so many steps: in between, what is above the limit cannot decay to a subnormal number.
const SETTLE_EVERY: u64 = 16;

/// The rules without their constants.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleKind {
    Sgd,
    Momentum,
    Nesterov,
    Adam,
    AdamW,
    Adagrad,
}

impl RuleKind {
    const ALL: [RuleKind; 6] =
        [RuleKind::Sgd, RuleKind::Momentum, RuleKind::Nesterov, RuleKind::Adam, RuleKind::AdamW, RuleKind::Adagrad];

    /// State tensors per parameter.
    pub(crate) const fn states(self) -> usize {
        match self {
            RuleKind::Sgd => 0,
            RuleKind::Momentum | RuleKind::Nesterov | RuleKind::Adagrad => 1,
            RuleKind::Adam | RuleKind::AdamW => 2,
        }
    }
}

impl Constants {
    /// The constants of `rule` at this step.
    pub(crate) fn new(rule: &Rule, l2: f64, args: &StepArgs) -> Self {
        let mut c = Self {
            kind: RuleKind::Sgd,
            l2: l2 as f32,
            rate: args.rate as f32,
            first: 0.0,
            first_rest: 0.0,
            second: 0.0,
            second_rest: 0.0,
            root_scale: 1.0,
            eps: 0.0,
            keep: 1.0,
            settling: args.step.is_multiple_of(SETTLE_EVERY),
        };
        match *rule {
            Rule::Sgd => {}
            Rule::Momentum { momentum } => (c.kind, c.first) = (RuleKind::Momentum, momentum as f32),
            Rule::Nesterov { momentum } => (c.kind, c.first) = (RuleKind::Nesterov, momentum as f32),
            Rule::Adam { beta1, beta2, eps } => c.adam(RuleKind::Adam, beta1, beta2, eps, args),
            Rule::AdamW { beta1, beta2, eps, decay } => {
                c.adam(RuleKind::AdamW, beta1, beta2, eps, args);
                c.keep = (1.0 - args.rate * decay) as f32;
            }
            Rule::Adagrad { eps } => (c.kind, c.eps) = (RuleKind::Adagrad, eps as f32),
        }
        c
    }

    fn adam(&mut self, kind: RuleKind, beta1: f64, beta2: f64, eps: f64, args: &StepArgs) {
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

// SAFETY: numbers and pointers into device memory.
unsafe impl Arguments for Parameters {}

impl Parameters {
    /// The same, `by` elements on; the places of unused states mean nothing.
    #[inline(always)]
    pub(crate) fn add(self, by: usize) -> Self {
        Self { w: self.w.wrapping_add(by), first: self.first.wrapping_add(by), second: self.second.wrapping_add(by) }
    }
}

/// The constants in registers: loaded once per call, not once per vector.
struct Vectors<S: Simd> {
    penalised: bool,
    l2: S::V,
    rate: S::V,
    first: S::V,
    first_rest: S::V,
    second: S::V,
    second_rest: S::V,
    root_scale: S::V,
    eps: S::V,
    keep: S::V,
    /// Whether this is a step at which small means become zero.
    settling: bool,
    /// Decaying means below this are zero.
    least: S::V,
    /// Decaying means of squares below this are zero: well under the square of any eps.
    least_square: S::V,
}

impl<S: Simd> Vectors<S> {
    #[inline(always)]
    fn new(s: S, c: &Constants) -> Self {
        Self {
            penalised: c.l2 != 0.0,
            l2: s.splat(c.l2),
            rate: s.splat(c.rate),
            first: s.splat(c.first),
            first_rest: s.splat(c.first_rest),
            second: s.splat(c.second),
            second_rest: s.splat(c.second_rest),
            root_scale: s.splat(c.root_scale),
            eps: s.splat(c.eps),
            keep: s.splat(c.keep),
            settling: c.settling,
            least: s.splat(1e-30),
            least_square: s.splat(1e-37),
        }
    }

    /// A decaying mean, or zero once it no longer matters. Where the gradient stays zero (a pixel that is always black) it
    /// would decay into subnormal numbers, on which arithmetic is a hundred times slower: an MLP's epochs grew from 0.26 to
    /// 0.37 s. NaN stays NaN.
    #[inline(always)]
    fn settled(&self, s: S, mean: S::V) -> S::V {
        if !self.settling {
            return mean;
        }
        let size = s.max(mean, s.sub(s.zero(), mean));
        s.select(s.lt(size, self.least), s.zero(), mean)
    }

    /// Moves N vectors of `w` and their states by the gradients `g`.
    #[inline(always)]
    fn moved<const N: usize>(&self, s: S, kind: RuleKind, of: Moving<S, N>) -> Moving<S, N> {
        macro_rules! each {
            ($i:ident => $value:expr) => {{
                let mut out = [s.zero(); N];
                for $i in 0..N {
                    out[$i] = $value;
                }
                out
            }};
        }
        let Moving { w, mut g, mut first, mut second } = of;
        if self.penalised {
            g = each!(i => s.fma(self.l2, w[i], g[i]));
        }
        let w = match kind {
            RuleKind::Sgd => each!(i => s.sub_mul(self.rate, g[i], w[i])),
            RuleKind::Momentum => {
                first = each!(i => self.settled(s, s.fma(self.first, first[i], g[i])));
                each!(i => s.sub_mul(self.rate, first[i], w[i]))
            }
            RuleKind::Nesterov => {
                first = each!(i => self.settled(s, s.fma(self.first, first[i], g[i])));
                each!(i => s.sub_mul(self.rate, s.fma(self.first, first[i], g[i]), w[i]))
            }
            RuleKind::Adam | RuleKind::AdamW => {
                let w = if kind == RuleKind::AdamW { each!(i => s.mul(w[i], self.keep)) } else { w };
                let old = each!(i => s.mul(self.second, second[i]));
                let new = each!(i => s.mul(self.second_rest, g[i]));
                second = each!(i => s.fma(new[i], g[i], old[i]));
                if self.settling {
                    second = each!(i => s.select(s.lt(second[i], self.least_square), s.zero(), second[i]));
                }
                let new = each!(i => s.mul(self.first_rest, g[i]));
                first = each!(i => self.settled(s, s.fma(self.first, first[i], new[i])));
                let step = s.over_root(first, second, self.root_scale, self.eps);
                each!(i => s.sub_mul(self.rate, step[i], w[i]))
            }
            RuleKind::Adagrad => {
                first = each!(i => s.fma(g[i], g[i], first[i]));
                let step = s.over_root(g, first, self.root_scale, self.eps);
                each!(i => s.sub_mul(self.rate, step[i], w[i]))
            }
        };
        Moving { w, g, first, second }
    }
}

/// N vectors of parameters with their gradients and states.
struct Moving<S: Simd, const N: usize> {
    w: [S::V; N],
    g: [S::V; N],
    first: [S::V; N],
    second: [S::V; N],
}

/// A block of parameters to move: `rows` rows of `len`, with their gradient in rows of its own stride.
#[derive(Clone, Copy)]
pub(crate) struct Update<'a> {
    pub constants: &'a Constants,
    pub parameters: Parameters,
    /// Elements from one row of parameters to the next.
    pub stride: usize,
    pub g: *const f32,
    pub g_stride: usize,
    pub rows: usize,
    pub len: usize,
}

impl Body for Update<'_> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        // SAFETY: the caller vouches for the pointers. One function per kind, so that the choice is made once per block.
        unsafe {
            match self.constants.kind {
                RuleKind::Sgd => s.apart(Of::<{ RuleKind::Sgd as u8 }>(self)),
                RuleKind::Momentum => s.apart(Of::<{ RuleKind::Momentum as u8 }>(self)),
                RuleKind::Nesterov => s.apart(Of::<{ RuleKind::Nesterov as u8 }>(self)),
                RuleKind::Adam => s.apart(Of::<{ RuleKind::Adam as u8 }>(self)),
                RuleKind::AdamW => s.apart(Of::<{ RuleKind::AdamW as u8 }>(self)),
                RuleKind::Adagrad => s.apart(Of::<{ RuleKind::Adagrad as u8 }>(self)),
            }
        }
    }
}

/// An update by the rule of this number.
struct Of<'a, const KIND: u8>(Update<'a>);

impl<const KIND: u8> Body for Of<'_, KIND> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let kind = RuleKind::ALL[KIND as usize];
        let Update { constants, mut parameters, stride, mut g, g_stride, rows, len } = self.0;
        let c = Vectors::new(s, constants);
        let full = len / S::LANES * S::LANES;
        let mask = s.head(len - full);
        // SAFETY: all accesses lie below `len` in their row, by the caller's promise.
        unsafe {
            for _ in 0..rows {
                let mut at = 0;
                while at + 4 * S::LANES <= full {
                    whole::<S, 4>(s, &c, kind, parameters.add(at), g.add(at));
                    at += 4 * S::LANES;
                }
                while at < full {
                    whole::<S, 1>(s, &c, kind, parameters.add(at), g.add(at));
                    at += S::LANES;
                }
                if full < len {
                    let p = parameters.add(full);
                    let first = if kind.states() > 0 { s.load_head(p.first, mask) } else { s.zero() };
                    let second = if kind.states() > 1 { s.load_head(p.second, mask) } else { s.zero() };
                    let (w, g) = (s.load_head(p.w, mask), s.load_head(g.add(full), mask));
                    let of = Moving { w: [w], g: [g], first: [first], second: [second] };
                    let moved = c.moved(s, kind, of);
                    s.store_head(p.w, mask, moved.w[0]);
                    if kind.states() > 0 {
                        s.store_head(p.first, mask, moved.first[0]);
                    }
                    if kind.states() > 1 {
                        s.store_head(p.second, mask, moved.second[0]);
                    }
                }
                parameters = parameters.add(stride);
                g = g.wrapping_add(g_stride);
            }
        }
    }
}

/// Moves N whole vectors.
///
/// # Safety
/// They must be valid for all that the rule uses.
#[inline(always)]
unsafe fn whole<S: Simd, const N: usize>(s: S, c: &Vectors<S>, kind: RuleKind, p: Parameters, g: *const f32) {
    let mut of = Moving { w: [s.zero(); N], g: [s.zero(); N], first: [s.zero(); N], second: [s.zero(); N] };
    // SAFETY: by the contract.
    unsafe {
        for i in 0..N {
            let at = i * S::LANES;
            of.w[i] = s.load(p.w.add(at));
            of.g[i] = s.load(g.add(at));
            if kind.states() > 0 {
                of.first[i] = s.load(p.first.add(at));
            }
            if kind.states() > 1 {
                of.second[i] = s.load(p.second.add(at));
            }
        }
        let of = c.moved(s, kind, of);
        for i in 0..N {
            let at = i * S::LANES;
            s.store(p.w.add(at), of.w[i]);
            if kind.states() > 0 {
                s.store(p.first.add(at), of.first[i]);
            }
            if kind.states() > 1 {
                s.store(p.second.add(at), of.second[i]);
            }
        }
    }
}
