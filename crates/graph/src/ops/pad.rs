//! Zeros around an image. A part may lie in the zeros alone; then it reads nothing.

use super::image::{image, image_dims};
use super::{Launch, Local, Needs, Operator, Role, SplitDim};
use paceline_base::Result;
use paceline_base::kernel::Kernel;
use paceline_base::region::{Region, Strided};
use std::ops::Range;

/// Puts zeros around an image.
#[derive(Debug)]
pub(crate) struct PadZeros {
    /// Rows above and below, columns before and behind.
    pub pad: [usize; 2],
}

impl PadZeros {
    /// What a part reads, in the output's coordinates.
    fn moved(&self, needs: &Needs) -> Region {
        let mut region = needs.inputs[0].clone();
        for axis in 0..2 {
            let r = region.range(1 + axis);
            region = region.with(1 + axis, r.start + self.pad[axis]..r.end + self.pad[axis]);
        }
        region
    }
}

impl Operator for PadZeros {
    fn kind(&self) -> String {
        format!("pad {}×{}", self.pad[0], self.pad[1])
    }

    fn output(&self, inputs: &[&[usize]]) -> Result<Vec<usize>> {
        image("pad", inputs[0])?;
        let mut shape = inputs[0].to_vec();
        (0..2).for_each(|a| shape[a] += 2 * self.pad[a]);
        Ok(shape)
    }

    fn dims(&self, batch: usize, inputs: &[&[usize]]) -> Vec<SplitDim> {
        let size = [0, 1].map(|a| inputs[0][a] + 2 * self.pad[a]);
        image_dims(batch, size, inputs[0].get(2).copied())
    }

    fn needs(&self, part: &[Range<usize>], inputs: &[&[usize]]) -> Needs {
        let output = Region::new(part.iter().cloned());
        let mut input = output.clone();
        for axis in 0..2 {
            let clip = |at: usize| at.saturating_sub(self.pad[axis]).min(inputs[0][axis]);
            let r = clip(part[1 + axis].start)..clip(part[1 + axis].end);
            input = input.with(1 + axis, r);
        }
        Needs { inputs: vec![input], params: Vec::new(), output, partial: false }
    }

    fn forward(&self, local: &Local<'_>) -> Vec<Launch> {
        let inner = self.moved(local.needs);
        let output = &local.needs.output;
        let mut launches = Vec::new();
        if inner.len() < output.len() {
            let kernel = Kernel::Zero { len: output.len() };
            launches.push(Launch::Kernel { kernel, args: vec![Role::Output] });
        }
        if !inner.is_empty() {
            let kernel = Kernel::Copy(Strided::between(&inner, &inner, output));
            launches.push(Launch::Kernel { kernel, args: vec![Role::Input(0), Role::Output] });
        }
        launches
    }

    fn backward(&self, local: &Local<'_>) -> Vec<Launch> {
        let inner = self.moved(local.needs);
        if inner.is_empty() {
            return Vec::new();
        }
        let kernel = Kernel::Copy(Strided::between(&inner, &local.needs.output, &inner));
        vec![Launch::Kernel { kernel, args: vec![Role::OutputGrad, Role::InputGrad(0)] }]
    }

    fn follows(&self) -> bool {
        true
    }

    fn flops(&self, _: &[&[usize]]) -> f64 {
        0.0
    }
}
