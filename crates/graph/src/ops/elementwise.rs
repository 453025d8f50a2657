//! Operators that treat every element alike: activations and dropout. They split along any axis.

use super::{Launch, Local, Needs, Operator, Role, SplitDim, elementwise_dims, elementwise_needs};
use paceline_base::Result;
use paceline_base::kernel::Kernel;
use paceline_base::op::Activation;
use std::ops::Range;

/// An activation function.
#[derive(Debug)]
pub(crate) struct Activate(pub Activation);

impl Operator for Activate {
    fn kind(&self) -> String {
        self.0.to_string()
    }

    fn output(&self, inputs: &[&[usize]]) -> Result<Vec<usize>> {
        Ok(inputs[0].to_vec())
    }

    fn dims(&self, batch: usize, inputs: &[&[usize]]) -> Vec<SplitDim> {
        elementwise_dims(batch, inputs[0])
    }

    fn needs(&self, part: &[Range<usize>], _: &[&[usize]]) -> Needs {
        elementwise_needs(part, 1)
    }

    fn forward(&self, local: &Local<'_>) -> Vec<Launch> {
        let kernel = Kernel::Activate { function: self.0, len: local.needs.output.len() };
        vec![Launch::Kernel { kernel, args: vec![Role::Input(0), Role::Output] }]
    }

    fn backward(&self, local: &Local<'_>) -> Vec<Launch> {
        let kernel = Kernel::ActivateBackward { function: self.0, len: local.needs.output.len() };
        let saved = if self.0.derivative_from_output() { Role::Output } else { Role::Input(0) };
        vec![Launch::Kernel { kernel, args: vec![Role::OutputGrad, saved, Role::InputGrad(0)] }]
    }

    fn follows(&self) -> bool {
        true
    }

    fn flops(&self, inputs: &[&[usize]]) -> f64 {
        4.0 * inputs[0].iter().product::<usize>() as f64
    }
}

/// Dropout: in training each element is kept with probability 1 − rate and scaled; in evaluation nothing happens.
#[derive(Debug)]
pub(crate) struct Dropout {
    /// Share of elements set to zero.
    pub rate: f64,
}

impl Dropout {
    fn launch(&self, local: &Local<'_>, args: Vec<Role>) -> Vec<Launch> {
        let kernel = Kernel::Dropout {
            rate: self.rate,
            layer: local.layer,
            region: local.needs.output.clone(),
            shape: local.shape.to_vec(),
        };
        vec![Launch::Kernel { kernel, args }]
    }
}

impl Operator for Dropout {
    fn kind(&self) -> String {
        format!("dropout {}", self.rate)
    }

    fn output(&self, inputs: &[&[usize]]) -> Result<Vec<usize>> {
        Ok(inputs[0].to_vec())
    }

    fn dims(&self, batch: usize, inputs: &[&[usize]]) -> Vec<SplitDim> {
        elementwise_dims(batch, inputs[0])
    }

    fn needs(&self, part: &[Range<usize>], _: &[&[usize]]) -> Needs {
        elementwise_needs(part, 1)
    }

    fn forward(&self, local: &Local<'_>) -> Vec<Launch> {
        if local.training {
            return self.launch(local, vec![Role::Input(0), Role::Output]);
        }
        let walk = paceline_base::region::Strided::contiguous(0, 0, local.needs.output.len());
        vec![Launch::Kernel { kernel: Kernel::Copy(walk), args: vec![Role::Input(0), Role::Output] }]
    }

    fn backward(&self, local: &Local<'_>) -> Vec<Launch> {
        self.launch(local, vec![Role::OutputGrad, Role::InputGrad(0)])
    }

    fn follows(&self) -> bool {
        true
    }

    fn flops(&self, inputs: &[&[usize]]) -> f64 {
        12.0 * inputs[0].iter().product::<usize>() as f64
    }
}
