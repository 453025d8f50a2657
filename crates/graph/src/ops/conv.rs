//! Convolution: `y[h, w, o] = b[o] + Σ x[h·stride + i·dilation − pad, …, c] · w[o, c, i, j]`, weights as PyTorch keeps them.
//!
//! Splits: over `sample`; over `height` and `width` (weights copied, their gradients partial, inputs with a halo); over
//! `out` (inputs copied, weights and outputs owned); over `in` (inputs and weights owned, outputs partial, the bias in the
//! first part). With groups, `out` splits by whole groups, which own their input channels too, and there is no `in`.

use super::image::{Slide, image, image_dims, region_channels, sizes, with_channels};
use super::{Launch, Local, Needs, Operator, ParamSpec, Role, SplitDim};
use paceline_base::kernel::Kernel;
use paceline_base::op::Init;
use paceline_base::region::Region;
use paceline_base::window::ConvDims;
use paceline_base::{Error, Result};
use std::ops::Range;

/// A two-dimensional convolution, channels last, with groups and dilation.
#[derive(Debug)]
pub(crate) struct Conv {
    /// Channels of the output.
    pub channels: usize,
    /// Channels that the input must have; any number if `None`.
    pub input_channels: Option<usize>,
    /// Kernel, stride, padding and dilation.
    pub slide: Slide,
    /// Groups of channels that are convolved apart.
    pub groups: usize,
    /// Whether a bias is added.
    pub bias: bool,
    /// Initial weights; biases begin at zero.
    pub init: Init,
}

/// Input channels of a shape that [`Conv::output`] has accepted.
fn inputs_of(shape: &[usize]) -> usize {
    shape.get(2).copied().unwrap_or(1)
}

impl Conv {
    fn dims_of(&self, local: &Local<'_>) -> ConvDims {
        let (x, y) = (&local.needs.inputs[0], &local.needs.output);
        let channels = region_channels(x);
        ConvDims {
            samples: y.range(0).len(),
            height: x.range(1).len(),
            width: x.range(2).len(),
            channels,
            out_height: y.range(1).len(),
            out_width: y.range(2).len(),
            out_channels: y.range(3).len(),
            kernel: self.slide.window,
            stride: self.slide.stride,
            dilation: self.slide.dilation,
            pad: self.slide.local_pad(y, x),
            groups: if self.groups == 1 { 1 } else { channels / (inputs_of(local.inputs[0]) / self.groups) },
        }
    }

    fn has_bias(needs: &Needs) -> bool {
        needs.params.get(1).is_some_and(Option::is_some)
    }
}

impl Operator for Conv {
    fn kind(&self) -> String {
        let groups = if self.groups == 1 { String::new() } else { format!(" groups {}", self.groups) };
        format!("conv {}{groups}", self.slide.words([1, 1]))
    }

    fn output(&self, inputs: &[&[usize]]) -> Result<Vec<usize>> {
        let [_, _, c] = image("a convolution", inputs[0])?;
        if let Some(wanted) = self.input_channels
            && wanted != c
        {
            return Err(Error::user(format!(
                "it takes images of shape height×width×{wanted} (input_channels = {wanted}), but gets {}, which has {c} \
                 channel{}; give data with {wanted} channels, or use a model for {c}",
                sizes(inputs[0]),
                if c == 1 { "" } else { "s" }
            )));
        }
        if self.groups == 0 || !c.is_multiple_of(self.groups) || !self.channels.is_multiple_of(self.groups) {
            return Err(Error::user(format!(
                "groups = {} does not divide both the {c} channels of its input {} and its {} channels; give a number that does",
                self.groups,
                sizes(inputs[0]),
                self.channels
            )));
        }
        let [h, w] = self.slide.output("conv", inputs[0])?;
        Ok(vec![h, w, self.channels])
    }

    fn params(&self, inputs: &[&[usize]]) -> Vec<ParamSpec> {
        let [kh, kw] = self.slide.window;
        let ins = inputs_of(inputs[0]) / self.groups;
        let fans = (ins * kh * kw, self.channels / self.groups * kh * kw);
        let shape = vec![self.channels, ins, kh, kw];
        let weight = ParamSpec { name: "weight", shape, init: self.init, fans, decays: true, trained: true };
        let shape = vec![self.channels];
        let bias = ParamSpec { name: "bias", shape, init: Init::Zeros, fans, decays: false, trained: true };
        if self.bias { vec![weight, bias] } else { vec![weight] }
    }

    fn dims(&self, batch: usize, inputs: &[&[usize]]) -> Vec<SplitDim> {
        let size = self.slide.output("conv", inputs[0]).unwrap_or([1, 1]);
        let out = if self.groups > 1 { self.groups } else { self.channels };
        let mut dims = image_dims(batch, size, Some(out));
        if self.groups == 1 {
            dims.push(SplitDim { name: "in", extent: inputs_of(inputs[0]) });
        }
        dims
    }

    fn needs(&self, part: &[Range<usize>], inputs: &[&[usize]]) -> Needs {
        let shape = inputs[0];
        let all = inputs_of(shape);
        let by_group = |per: usize| part[3].start * per..part[3].end * per;
        let (outs, ins, rows) = if self.groups > 1 {
            let per = all / self.groups;
            (by_group(self.channels / self.groups), by_group(per), 0..per)
        } else {
            (part[3].clone(), part[4].clone(), part[4].clone())
        };
        let [kh, kw] = self.slide.window;
        let mut params = vec![Some(Region::new([outs.clone(), rows, 0..kh, 0..kw]))];
        let first = self.groups > 1 || ins.start == 0;
        if self.bias {
            params.push(first.then(|| Region::new([outs.clone()])));
        }
        let reads = |axis: usize| self.slide.reads(axis, &part[1 + axis], shape[axis]);
        let mut input = vec![part[0].clone(), reads(0), reads(1)];
        if shape.len() == 3 {
            input.push(0..all);
        }
        let partial = self.groups == 1 && ins.len() < all;
        Needs {
            inputs: vec![with_channels(&Region::new(input), ins)],
            params,
            output: Region::new([part[0].clone(), part[1].clone(), part[2].clone(), outs]),
            partial,
        }
    }

    fn forward(&self, local: &Local<'_>) -> Vec<Launch> {
        let bias = Self::has_bias(local.needs);
        let mut args = vec![Role::Input(0), Role::Param(0), Role::Output];
        args.extend(bias.then_some(Role::Param(1)));
        let dims = self.dims_of(local);
        vec![Launch::Kernel {
            kernel: Kernel::ConvForward { dims, bias, activation: None, pool: None, codes: false },
            args,
        }]
    }

    fn backward(&self, local: &Local<'_>) -> Vec<Launch> {
        let bias = Self::has_bias(local.needs);
        let dims = self.dims_of(local);
        let mut args = vec![Role::OutputGrad, Role::Input(0), Role::ParamGrad(0)];
        args.extend(bias.then_some(Role::ParamGrad(1)));
        let mut launches =
            vec![Launch::Kernel { kernel: Kernel::ConvBackwardWeights { dims, bias, pooled: None }, args }];
        if local.input_grads[0] {
            launches.push(Launch::Kernel {
                kernel: Kernel::ConvBackwardData { dims, through: None, pooled: None },
                args: vec![Role::OutputGrad, Role::Param(0), Role::InputGrad(0)],
            });
        }
        launches
    }

    fn flops(&self, inputs: &[&[usize]]) -> f64 {
        let [h, w] = self.slide.output("conv", inputs[0]).unwrap_or([0, 0]);
        let terms = inputs_of(inputs[0]) / self.groups * self.slide.window[0] * self.slide.window[1];
        2.0 * (h * w * self.channels * terms) as f64
    }
}
