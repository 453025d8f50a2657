//! Dense layers: three loops per product.

use super::Reference;
use super::elementwise::{derivative, value};
use super::update::{Step, apply};
use paceline_base::kernel::{BufferId, DenseDims, StepArgs};
use paceline_base::op::Activation;
use paceline_base::optim::Rule;

impl Reference {
    /// `y = f(x·wᵀ + b)`
    pub(super) fn forward(&mut self, dims: DenseDims, bias: bool, f: Option<Activation>, args: &[BufferId]) {
        let DenseDims { rows, outputs, inputs } = dims;
        let (x, w) = (self.input(args[0], rows * inputs), self.input(args[1], outputs * inputs));
        let b = if bias { self.input(args[3], outputs) } else { vec![0.0; outputs] };
        let mut y = vec![0.0; rows * outputs];
        for r in 0..rows {
            for o in 0..outputs {
                let dot: f64 = (0..inputs).map(|k| x[r * inputs + k] * w[o * inputs + k]).sum();
                let linear = dot + b[o];
                y[r * outputs + o] = f.map_or(linear, |f| value(f, linear));
            }
        }
        self.output(args[2], &y);
    }

    /// `dx = dy·w`, then times f′
    pub(super) fn backward_data(&mut self, dims: DenseDims, through: Option<Activation>, args: &[BufferId]) {
        let DenseDims { rows, outputs, inputs } = dims;
        let (dy, w) = (self.input(args[0], rows * outputs), self.input(args[1], outputs * inputs));
        let mut dx = vec![0.0; rows * inputs];
        for r in 0..rows {
            for k in 0..inputs {
                dx[r * inputs + k] = (0..outputs).map(|o| dy[r * outputs + o] * w[o * inputs + k]).sum();
            }
        }
        if let Some(f) = through {
            let saved = self.input(args[3], rows * inputs);
            for (dx, saved) in dx.iter_mut().zip(saved) {
                *dx = derivative(f, saved, *dx);
            }
        }
        self.output(args[2], &dx);
    }

    /// `dw = dyᵀ·x` and `db = Σ dy`
    fn gradients(&self, dims: DenseDims, dy: BufferId, x: BufferId) -> (Vec<f64>, Vec<f64>) {
        let DenseDims { rows, outputs, inputs } = dims;
        let (dy, x) = (self.input(dy, rows * outputs), self.input(x, rows * inputs));
        let mut dw = vec![0.0; outputs * inputs];
        let mut db = vec![0.0; outputs];
        for o in 0..outputs {
            for k in 0..inputs {
                dw[o * inputs + k] = (0..rows).map(|r| dy[r * outputs + o] * x[r * inputs + k]).sum();
            }
            db[o] = (0..rows).map(|r| dy[r * outputs + o]).sum();
        }
        (dw, db)
    }

    /// Writes both gradients.
    pub(super) fn backward_weights(&mut self, dims: DenseDims, bias: bool, args: &[BufferId]) {
        let (dw, db) = self.gradients(dims, args[0], args[1]);
        self.output(args[2], &dw);
        if bias {
            self.output(args[3], &db);
        }
    }

    /// Both gradients, then the update.
    pub(super) fn backward_update(
        &mut self,
        dims: DenseDims,
        bias: bool,
        rule: &Rule,
        l2: f64,
        args: &[BufferId],
        step: &StepArgs,
    ) {
        let (dw, db) = self.gradients(dims, args[0], args[1]);
        let states = rule.states().len();
        let step = Step::new(step);
        self.move_parameters(rule, step, l2, &dw, &args[2..3 + states]);
        if bias {
            self.move_parameters(rule, step, 0.0, &db, &args[3 + states..]);
        }
    }

    /// Moves the parameters `of[0]` with states `of[1..]` by `gradient`.
    fn move_parameters(&mut self, rule: &Rule, step: Step, l2: f64, gradient: &[f64], of: &[BufferId]) {
        for (i, &g) in gradient.iter().enumerate() {
            let at: Vec<usize> = of.iter().map(|id| self.first(*id) + i).collect();
            apply(rule, step, l2, g, &at, &mut self.memory);
        }
    }
}
