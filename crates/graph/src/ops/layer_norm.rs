//! Layer normalisation (Ba et al. 2016): each row of the last axis to mean 0 and variance 1, then `· γ + β`. It splits over
//! all axes but the last.

use super::{Launch, Local, Needs, Operator, ParamSpec, Role, SplitDim, elementwise_dims};
use paceline_base::Result;
use paceline_base::kernel::{Elements, Kernel};
use paceline_base::op::Init;
use paceline_base::region::Region;
use std::ops::Range;

/// Layer normalisation over the last axis.
#[derive(Debug)]
pub(crate) struct LayerNorm {
    /// Keeps the division finite.
    pub eps: f64,
}

/// (rows, channels) of a part.
fn rows(needs: &Needs) -> (usize, usize) {
    let channels = needs.output.range(needs.output.rank() - 1).len();
    (needs.output.len() / channels.max(1), channels)
}

const KEPT: Role = Role::Saved(0);

impl Operator for LayerNorm {
    fn kind(&self) -> String {
        "layer-norm".into()
    }

    fn output(&self, inputs: &[&[usize]]) -> Result<Vec<usize>> {
        Ok(inputs[0].to_vec())
    }

    fn params(&self, inputs: &[&[usize]]) -> Vec<ParamSpec> {
        let n = inputs[0][inputs[0].len() - 1];
        let spec = |name, init| ParamSpec { name, shape: vec![n], init, fans: (n, n), decays: false, trained: true };
        vec![spec("weight", Init::Ones), spec("bias", Init::Zeros)]
    }

    fn dims(&self, batch: usize, inputs: &[&[usize]]) -> Vec<SplitDim> {
        let mut dims = elementwise_dims(batch, inputs[0]);
        dims.pop();
        dims
    }

    fn needs(&self, part: &[Range<usize>], inputs: &[&[usize]]) -> Needs {
        let n = inputs[0][inputs[0].len() - 1];
        let region = Region::new(part.iter().cloned().chain(std::iter::once(0..n)));
        Needs {
            inputs: vec![region.clone()],
            params: vec![Some(Region::whole(&[n])); 2],
            output: region,
            partial: false,
        }
    }

    fn saved(&self, local: &Local<'_>) -> Vec<(Elements, usize)> {
        vec![(Elements::Float, 2 * rows(local.needs).0)]
    }

    fn forward(&self, local: &Local<'_>) -> Vec<Launch> {
        let (rows, channels) = rows(local.needs);
        vec![Launch::Kernel {
            kernel: Kernel::LayerNorm { rows, channels, eps: self.eps },
            args: vec![Role::Input(0), Role::Param(0), Role::Param(1), Role::Output, KEPT],
        }]
    }

    fn backward(&self, local: &Local<'_>) -> Vec<Launch> {
        let (rows, channels) = rows(local.needs);
        let mut launches = vec![Launch::Kernel {
            kernel: Kernel::LayerNormBackwardWeights { rows, channels },
            args: vec![Role::OutputGrad, Role::Input(0), KEPT, Role::ParamGrad(0), Role::ParamGrad(1)],
        }];
        if local.input_grads[0] {
            launches.push(Launch::Kernel {
                kernel: Kernel::LayerNormBackwardData { rows, channels },
                args: vec![Role::OutputGrad, Role::Input(0), KEPT, Role::Param(0), Role::InputGrad(0)],
            });
        }
        launches
    }

    fn follows(&self) -> bool {
        true
    }

    fn flops(&self, inputs: &[&[usize]]) -> f64 {
        7.0 * inputs[0].iter().product::<usize>() as f64
    }
}
