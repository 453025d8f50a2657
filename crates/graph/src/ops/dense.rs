//! The dense layer: `y = x·wᵀ + b` with `w` of shape [outputs, inputs], as PyTorch keeps it.
//!
//! Splits: over `sample` (weights copied, their gradients partial), over `out` (inputs copied, weights and outputs
//! owned), over `in` (inputs and weights owned, outputs partial). The bias belongs to the first part along `in`: a summand must carry it once.

use super::{Launch, Local, Needs, Operator, ParamSpec, Role, SplitDim};
use paceline_base::kernel::{DenseDims, Kernel};
use paceline_base::op::Init;
use paceline_base::region::Region;
use paceline_base::{Error, Result};
use std::ops::Range;

/// A dense layer.
#[derive(Debug)]
pub(crate) struct Dense {
    /// Output features of the whole layer.
    pub units: usize,
    /// Whether a bias is added.
    pub bias: bool,
    /// Initial weights; biases begin at zero.
    pub init: Init,
}

impl Dense {
    fn local_dims(needs: &Needs) -> DenseDims {
        let (x, y) = (&needs.inputs[0], &needs.output);
        DenseDims { rows: y.range(0).len(), outputs: y.range(1).len(), inputs: x.range(1).len() }
    }

    fn has_bias(needs: &Needs) -> bool {
        needs.params.get(1).is_some_and(Option::is_some)
    }
}

impl Operator for Dense {
    fn kind(&self) -> String {
        "dense".into()
    }

    fn output(&self, inputs: &[&[usize]]) -> Result<Vec<usize>> {
        match inputs[0] {
            [_] => Ok(vec![self.units]),
            shape => Err(Error::user(format!(
                "a dense layer of {} units takes samples with one axis, but gets {shape:?}; put a flatten layer before it",
                self.units
            ))),
        }
    }

    fn params(&self, inputs: &[&[usize]]) -> Vec<ParamSpec> {
        let fans = (inputs[0][0], self.units);
        let weight = ParamSpec {
            name: "weight",
            shape: vec![self.units, fans.0],
            init: self.init,
            fans,
            decays: true,
            trained: true,
        };
        let bias =
            ParamSpec { name: "bias", shape: vec![self.units], init: Init::Zeros, fans, decays: false, trained: true };
        if self.bias { vec![weight, bias] } else { vec![weight] }
    }

    fn dims(&self, batch: usize, inputs: &[&[usize]]) -> Vec<SplitDim> {
        vec![
            SplitDim { name: "sample", extent: batch },
            SplitDim { name: "out", extent: self.units },
            SplitDim { name: "in", extent: inputs[0][0] },
        ]
    }

    fn needs(&self, part: &[Range<usize>], inputs: &[&[usize]]) -> Needs {
        let [rows, outs, ins] = [part[0].clone(), part[1].clone(), part[2].clone()];
        let mut params = vec![Some(Region::new([outs.clone(), ins.clone()]))];
        if self.bias {
            params.push((ins.start == 0).then(|| Region::new([outs.clone()])));
        }
        Needs {
            inputs: vec![Region::new([rows.clone(), ins.clone()])],
            params,
            output: Region::new([rows, outs]),
            partial: ins.len() < inputs[0][0],
        }
    }

    fn forward(&self, local: &Local<'_>) -> Vec<Launch> {
        let bias = Self::has_bias(local.needs);
        let mut args = vec![Role::Input(0), Role::Param(0), Role::Output];
        args.extend(bias.then_some(Role::Param(1)));
        let dims = Self::local_dims(local.needs);
        vec![Launch::Kernel { kernel: Kernel::DenseForward { dims, bias, activation: None }, args }]
    }

    fn backward(&self, local: &Local<'_>) -> Vec<Launch> {
        let bias = Self::has_bias(local.needs);
        let dims = Self::local_dims(local.needs);
        let mut args = vec![Role::OutputGrad, Role::Input(0), Role::ParamGrad(0)];
        args.extend(bias.then_some(Role::ParamGrad(1)));
        let mut launches = vec![Launch::Kernel { kernel: Kernel::DenseBackwardWeights { dims, bias }, args }];
        if local.input_grads[0] {
            launches.push(Launch::Kernel {
                kernel: Kernel::DenseBackwardData { dims, through: None },
                args: vec![Role::OutputGrad, Role::Param(0), Role::InputGrad(0)],
            });
        }
        launches
    }

    fn flops(&self, inputs: &[&[usize]]) -> f64 {
        2.0 * (inputs[0][0] * self.units) as f64
    }
}
