//! Concatenation: inputs laid one behind the other along an axis, the last (channels) by default. A part along that axis
//! reads from each input only what falls into it, which may be nothing.

use super::{Launch, Local, Needs, Operator, Role, SplitDim, elementwise_dims};
use paceline_base::kernel::Kernel;
use paceline_base::region::{Region, Strided};
use paceline_base::{Error, Result};
use std::ops::Range;

/// Joins inputs along one axis.
#[derive(Debug)]
pub(crate) struct Concatenate {
    /// How many tensors are joined, at least two.
    pub inputs: usize,
    /// Which axis of [sample, …]; the last if `None`.
    pub axis: Option<usize>,
}

impl Concatenate {
    /// The axis, counting the sample axis as 0.
    fn axis(&self, rank: usize) -> usize {
        self.axis.unwrap_or(rank)
    }

    /// Each input's region, moved to where it lies in the output, and the output's own coordinates.
    fn shifted(&self, local: &Local<'_>) -> Vec<Region> {
        let axis = self.axis(local.inputs[0].len());
        let mut offset = 0;
        local
            .needs
            .inputs
            .iter()
            .zip(local.inputs)
            .map(|(region, shape)| {
                let r = region.range(axis);
                let moved = region.with(axis, r.start + offset..r.end + offset);
                offset += shape[axis - 1];
                moved
            })
            .collect()
    }
}

impl Operator for Concatenate {
    fn kind(&self) -> String {
        "concatenate".into()
    }

    fn output(&self, inputs: &[&[usize]]) -> Result<Vec<usize>> {
        let axis = self.axis(inputs[0].len());
        if axis == 0 || axis > inputs[0].len() {
            return Err(Error::user(format!(
                "axis is {axis}, but its inputs of shape {:?} have axes 1 to {}",
                inputs[0],
                inputs[0].len()
            )));
        }
        let fits =
            |s: &[usize]| s.len() == inputs[0].len() && (0..s.len()).all(|a| a == axis - 1 || s[a] == inputs[0][a]);
        if let Some(other) = inputs.iter().find(|s| !fits(s)) {
            return Err(Error::user(format!(
                "concatenate along axis {axis} takes inputs that are equal along the others, but gets {:?} and {other:?}",
                inputs[0]
            )));
        }
        let mut shape = inputs[0].to_vec();
        shape[axis - 1] = inputs.iter().map(|s| s[axis - 1]).sum();
        Ok(shape)
    }

    fn dims(&self, batch: usize, inputs: &[&[usize]]) -> Vec<SplitDim> {
        elementwise_dims(batch, &self.output(inputs).unwrap_or_default())
    }

    fn needs(&self, part: &[Range<usize>], inputs: &[&[usize]]) -> Needs {
        let axis = self.axis(inputs[0].len());
        let output = Region::new(part.iter().cloned());
        let mut offset = 0;
        let regions = inputs
            .iter()
            .map(|shape| {
                let n = shape[axis - 1];
                let clip = |at: usize| at.clamp(offset, offset + n) - offset;
                let own = clip(part[axis].start)..clip(part[axis].end);
                offset += n;
                output.with(axis, if own.is_empty() { 0..0 } else { own })
            })
            .collect();
        Needs { inputs: regions, params: Vec::new(), output, partial: false }
    }

    fn forward(&self, local: &Local<'_>) -> Vec<Launch> {
        let regions = self.shifted(local);
        (0..self.inputs)
            .filter(|&i| !regions[i].is_empty())
            .map(|i| Launch::Kernel {
                kernel: Kernel::Copy(Strided::between(&regions[i], &regions[i], &local.needs.output)),
                args: vec![Role::Input(i), Role::Output],
            })
            .collect()
    }

    fn backward(&self, local: &Local<'_>) -> Vec<Launch> {
        let regions = self.shifted(local);
        (0..self.inputs)
            .filter(|&i| local.input_grads[i] && !regions[i].is_empty())
            .map(|i| Launch::Kernel {
                kernel: Kernel::Copy(Strided::between(&regions[i], &local.needs.output, &regions[i])),
                args: vec![Role::OutputGrad, Role::InputGrad(i)],
            })
            .collect()
    }

    fn follows(&self) -> bool {
        true
    }

    fn flops(&self, _: &[&[usize]]) -> f64 {
        0.0
    }
}
