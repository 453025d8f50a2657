//! Update rules, one element at a time; formulas and the place of `eps` are PyTorch's.

use super::Reference;
use paceline_base::kernel::{BufferId, StepArgs};
use paceline_base::optim::{Rule, Segment};

/// What an update rule needs to know of the step.
#[derive(Clone, Copy)]
pub(super) struct Step {
    rate: f64,
    /// Updates so far, this one included.
    count: f64,
}

impl Step {
    pub(super) fn new(args: &StepArgs) -> Self {
        Self { rate: args.rate, count: args.step as f64 + 1.0 }
    }
}

/// Moves one parameter; `at` is its place in `memory`, then those of its states.
pub(super) fn apply(rule: &Rule, step: Step, l2: f64, gradient: f64, at: &[usize], memory: &mut [f64]) {
    let rate = step.rate;
    let mut w = memory[at[0]];
    let g = if l2 == 0.0 { gradient } else { gradient + l2 * w };
    match *rule {
        Rule::Sgd => w -= rate * g,
        Rule::Momentum { momentum } => {
            let v = momentum * memory[at[1]] + g;
            memory[at[1]] = v;
            w -= rate * v;
        }
        Rule::Nesterov { momentum } => {
            let v = momentum * memory[at[1]] + g;
            memory[at[1]] = v;
            w -= rate * (g + momentum * v);
        }
        Rule::Adam { beta1, beta2, eps } => {
            w -= rate * adam(beta1, beta2, eps, step, g, at, memory);
        }
        Rule::AdamW { beta1, beta2, eps, decay } => {
            w *= 1.0 - rate * decay;
            w -= rate * adam(beta1, beta2, eps, step, g, at, memory);
        }
        Rule::Adagrad { eps } => {
            let s = memory[at[1]] + g * g;
            memory[at[1]] = s;
            w -= rate * g / (s.sqrt() + eps);
        }
    }
    memory[at[0]] = w;
}

/// Renews the two moments and returns m̂ / (√v̂ + eps).
fn adam(beta1: f64, beta2: f64, eps: f64, step: Step, g: f64, at: &[usize], memory: &mut [f64]) -> f64 {
    let m = beta1 * memory[at[1]] + (1.0 - beta1) * g;
    let v = beta2 * memory[at[2]] + (1.0 - beta2) * g * g;
    memory[at[1]] = m;
    memory[at[2]] = v;
    let m_hat = m / (1.0 - beta1.powf(step.count));
    let v_hat = v / (1.0 - beta2.powf(step.count));
    m_hat / (v_hat.sqrt() + eps)
}

impl Reference {
    /// Moves the parameters of all segments.
    pub(super) fn update(&mut self, rule: &Rule, segments: &[Segment], args: &[BufferId], step: &StepArgs) {
        let step = Step::new(step);
        for segment in segments {
            for i in segment.start..segment.start + segment.len {
                let gradient = self.memory[self.first(args[1]) + i];
                let at: Vec<usize> = [&args[..1], &args[2..2 + rule.states().len()]]
                    .concat()
                    .iter()
                    .map(|id| self.first(*id) + i)
                    .collect();
                apply(rule, step, segment.l2, gradient, &at, &mut self.memory);
            }
        }
    }
}
