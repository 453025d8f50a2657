//! Activations, sums, dropout and strided copies, element by element.

use super::Reference;
use super::erf::erfc;
use paceline_base::kernel::{BufferId, StepArgs};
use paceline_base::op::Activation;
use paceline_base::random::{Stream, Use};
use paceline_base::region::{Region, Strided};
use std::f64::consts::{PI, SQRT_2};

/// f(x)
pub(super) fn value(f: Activation, x: f64) -> f64 {
    match f {
        // Written so that NaN stays NaN.
        Activation::Relu => {
            if x < 0.0 {
                0.0
            } else {
                x
            }
        }
        Activation::Tanh => x.tanh(),
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Activation::Gelu => 0.5 * x * erfc(-x / SQRT_2),
    }
}

/// dy · f′, where `saved` is f's output, or its input for GELU.
pub(super) fn derivative(f: Activation, saved: f64, dy: f64) -> f64 {
    match f {
        Activation::Relu => {
            if saved <= 0.0 {
                0.0
            } else {
                dy
            }
        }
        Activation::Tanh => dy * (1.0 - saved * saved),
        Activation::Sigmoid => dy * saved * (1.0 - saved),
        Activation::Gelu => {
            let density = (-0.5 * saved * saved).exp() / (2.0 * PI).sqrt();
            dy * (0.5 * erfc(-saved / SQRT_2) + saved * density)
        }
    }
}

impl Reference {
    /// `y = f(x)`
    pub(super) fn activate(&mut self, f: Activation, len: usize, args: &[BufferId]) {
        let y: Vec<f64> = self.input(args[0], len).iter().map(|x| value(f, *x)).collect();
        self.output(args[1], &y);
    }

    /// `dx = dy · f′`
    pub(super) fn activate_backward(&mut self, f: Activation, len: usize, args: &[BufferId]) {
        let (dy, saved) = (self.input(args[0], len), self.input(args[1], len));
        let dx: Vec<f64> = dy.iter().zip(&saved).map(|(dy, saved)| derivative(f, *saved, *dy)).collect();
        self.output(args[2], &dx);
    }

    /// `y = f(Σ x)`
    pub(super) fn sum(&mut self, inputs: usize, len: usize, f: Option<Activation>, args: &[BufferId]) {
        let mut y = vec![0.0; len];
        for x in &args[..inputs] {
            y.iter_mut().zip(self.input(*x, len)).for_each(|(y, x)| *y += x);
        }
        if let Some(f) = f {
            y.iter_mut().for_each(|y| *y = value(f, *y));
        }
        self.output(args[inputs], &y);
    }

    /// `y = x · mask / (1 − rate)`
    pub(super) fn dropout(
        &mut self,
        rate: f64,
        layer: u32,
        region: &Region,
        shape: &[usize],
        args: &[BufferId],
        step: &StepArgs,
    ) {
        let stream = Stream::new(step.seed, Use::Dropout, layer, step.step);
        let extents = region.shape();
        let x = self.input(args[0], region.len());
        let mut y = vec![0.0; x.len()];
        for (flat, (x, y)) in x.iter().zip(&mut y).enumerate() {
            // The element's coordinate in the whole tensor, counted in row-major order.
            let (mut rest, mut coordinate, mut stride) = (flat, 0, 1);
            for axis in (0..shape.len()).rev() {
                coordinate += (region.range(axis).start + rest % extents[axis]) * stride;
                rest /= extents[axis];
                stride *= shape[axis];
            }
            if stream.uniform(coordinate as u64) >= rate {
                *y = x / (1.0 - rate);
            }
        }
        self.output(args[1], &y);
    }

    /// Copies or adds a region.
    pub(super) fn walk(&mut self, walk: &Strided, add: bool, args: &[BufferId]) {
        let (source, target) = (self.first(args[0]), self.first(args[1]));
        walk.for_each(|from, to, run| {
            for i in 0..run {
                let x = self.memory[source + from + i];
                let y = &mut self.memory[target + to + i];
                *y = if add { *y + x } else { x };
            }
        });
    }
}
