//! Batch normalisation (Ioffe & Szegedy 2015): each channel to mean 0 and variance 1 over all samples and places of the
//! *global* batch, then `· γ + β`. Names and defaults are PyTorch's: weight γ, bias β, running_mean, running_var.
//!
//! Training takes three stages: sums of a part; the sums of all parts with the same channels are added; each part
//! normalises its own rows with moments of the whole batch. So N ranks give what one gives, and the running moments stay
//! the same wherever they are held. Backward likewise; γ and β get the part's own sums as gradients, from before they are
//! added, because gradients of parameters are added up with their bucket. Evaluation uses the running moments.

use super::image::{channels, region_channels};
use super::{Launch, Local, Needs, Operator, ParamSpec, Role, SplitDim, elementwise_dims, elementwise_needs};
use paceline_base::kernel::{Elements, Kernel};
use paceline_base::op::Init;
use paceline_base::region::{Region, Strided};
use paceline_base::{Error, Result};
use std::ops::Range;

/// Normalises each channel over the global batch and all pixels.
#[derive(Debug)]
pub(crate) struct BatchNorm {
    /// Keeps the division finite.
    pub eps: f64,
    /// Share of each batch in the running moments.
    pub momentum: f64,
}

const GAMMA: usize = 0;
const BETA: usize = 1;
const MEAN: usize = 2;
const VARIANCE: usize = 3;

/// Saved: sums of the forward pass, mean and 1/√…, sums of the backward pass.
const SUMS: Role = Role::Saved(0);
const KEPT: Role = Role::Saved(1);
const GRADIENT_SUMS: usize = 2;

/// (rows, channels) of a part.
fn rows(needs: &Needs) -> (usize, usize) {
    let channels = region_channels(&needs.output);
    (needs.output.len() / channels.max(1), channels)
}

/// Rows of the whole batch.
fn count(local: &Local<'_>) -> usize {
    local.shape.iter().product::<usize>() / channels(&local.shape[1..]).max(1)
}

impl Operator for BatchNorm {
    fn kind(&self) -> String {
        "batch-norm".into()
    }

    fn output(&self, inputs: &[&[usize]]) -> Result<Vec<usize>> {
        match inputs[0].len() {
            1..=3 => Ok(inputs[0].to_vec()),
            _ => Err(Error::user(format!(
                "batch-norm takes samples of shape [channels] or [height, width, channels], but gets {:?}",
                inputs[0]
            ))),
        }
    }

    fn params(&self, inputs: &[&[usize]]) -> Vec<ParamSpec> {
        let n = channels(inputs[0]);
        let spec = |name, init, trained| ParamSpec { name, shape: vec![n], init, fans: (n, n), decays: false, trained };
        vec![
            spec("weight", Init::Ones, true),
            spec("bias", Init::Zeros, true),
            spec("running_mean", Init::Zeros, false),
            spec("running_var", Init::Ones, false),
        ]
    }

    fn dims(&self, batch: usize, inputs: &[&[usize]]) -> Vec<SplitDim> {
        elementwise_dims(batch, inputs[0])
    }

    fn needs(&self, part: &[Range<usize>], inputs: &[&[usize]]) -> Needs {
        let range = if inputs[0].len() == 2 { 0..1 } else { part[part.len() - 1].clone() };
        Needs { params: vec![Some(Region::new([range])); 4], ..elementwise_needs(part, 1) }
    }

    fn saved(&self, local: &Local<'_>) -> Vec<(Elements, usize)> {
        let (_, channels) = rows(local.needs);
        if local.training { vec![(Elements::Float, 2 * channels); 3] } else { Vec::new() }
    }

    fn forward(&self, local: &Local<'_>) -> Vec<Launch> {
        let (rows, channels) = rows(local.needs);
        let moments = [Role::Param(MEAN), Role::Param(VARIANCE), Role::Param(GAMMA), Role::Param(BETA)];
        if !local.training {
            let kernel = Kernel::BatchInfer { rows, channels, eps: self.eps, activation: None };
            let args = [Role::Input(0)].into_iter().chain(moments).chain([Role::Output]).collect();
            return vec![Launch::Kernel { kernel, args }];
        }
        let normalize = Kernel::BatchNormalize {
            rows,
            channels,
            count: count(local),
            eps: self.eps,
            momentum: self.momentum,
            activation: None,
        };
        vec![
            Launch::Kernel {
                kernel: Kernel::BatchSums { rows, channels },
                args: vec![Role::Input(0), Role::Param(MEAN), SUMS],
            },
            Launch::SumParts { saved: 0, param: GAMMA },
            Launch::Kernel {
                kernel: normalize,
                args: [Role::Input(0), SUMS].into_iter().chain(moments).chain([KEPT, Role::Output]).collect(),
            },
        ]
    }

    fn backward(&self, local: &Local<'_>) -> Vec<Launch> {
        let (rows, channels) = rows(local.needs);
        let sums = Role::Saved(GRADIENT_SUMS);
        let take = |from: usize, param: usize| Launch::Kernel {
            kernel: Kernel::Copy(Strided::contiguous(from, 0, channels)),
            args: vec![sums, Role::ParamGrad(param)],
        };
        let mut launches = vec![
            Launch::Kernel {
                kernel: Kernel::BatchGradientSums { rows, channels, through: None },
                args: vec![Role::OutputGrad, Role::Input(0), KEPT, sums],
            },
            take(channels, GAMMA),
            take(0, BETA),
        ];
        if local.input_grads[0] {
            launches.push(Launch::SumParts { saved: GRADIENT_SUMS, param: GAMMA });
            launches.push(Launch::Kernel {
                kernel: Kernel::BatchBackward { rows, channels, count: count(local), through: None },
                args: vec![Role::OutputGrad, Role::Input(0), KEPT, Role::Param(GAMMA), sums, Role::InputGrad(0)],
            });
        }
        launches
    }

    fn follows(&self) -> bool {
        true
    }

    fn flops(&self, inputs: &[&[usize]]) -> f64 {
        8.0 * inputs[0].iter().product::<usize>() as f64
    }
}
