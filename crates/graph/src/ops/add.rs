//! The sum of branches. Backward, every branch gets the gradient as it is: nothing is copied.

use super::{Launch, Local, Needs, Operator, Role, SplitDim, elementwise_dims, elementwise_needs};
use paceline_base::kernel::Kernel;
use paceline_base::{Error, Result};
use std::ops::Range;

/// Adds inputs of equal shape.
#[derive(Debug)]
pub(crate) struct Add {
    /// How many tensors are added, at least two.
    pub inputs: usize,
}

impl Operator for Add {
    fn kind(&self) -> String {
        "add".into()
    }

    fn output(&self, inputs: &[&[usize]]) -> Result<Vec<usize>> {
        match inputs.iter().find(|s| **s != inputs[0]) {
            None => Ok(inputs[0].to_vec()),
            Some(other) => {
                Err(Error::user(format!("add takes inputs of one shape, but gets {:?} and {other:?}", inputs[0])))
            }
        }
    }

    fn dims(&self, batch: usize, inputs: &[&[usize]]) -> Vec<SplitDim> {
        elementwise_dims(batch, inputs[0])
    }

    fn needs(&self, part: &[Range<usize>], _: &[&[usize]]) -> Needs {
        elementwise_needs(part, self.inputs)
    }

    fn forward(&self, local: &Local<'_>) -> Vec<Launch> {
        let kernel = Kernel::Sum { inputs: self.inputs, len: local.needs.output.len(), activation: None };
        let args = (0..self.inputs).map(Role::Input).chain([Role::Output]).collect();
        vec![Launch::Kernel { kernel, args }]
    }

    fn backward(&self, _: &Local<'_>) -> Vec<Launch> {
        Vec::new()
    }

    fn passes_gradient(&self) -> bool {
        true
    }

    fn follows(&self) -> bool {
        true
    }

    fn flops(&self, inputs: &[&[usize]]) -> f64 {
        (self.inputs - 1) as f64 * inputs[0].iter().product::<usize>() as f64
    }
}
