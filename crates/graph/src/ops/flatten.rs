//! Flatten: the same numbers as one axis.

use super::{Launch, Local, Needs, Operator, Role, SplitDim};
use paceline_base::Result;
use paceline_base::kernel::Kernel;
use paceline_base::region::{Region, Strided};
use std::ops::Range;

/// Joins all axes of a sample.
#[derive(Debug)]
pub(crate) struct Flatten;

impl Operator for Flatten {
    fn kind(&self) -> String {
        "flatten".into()
    }

    fn output(&self, inputs: &[&[usize]]) -> Result<Vec<usize>> {
        Ok(vec![inputs[0].iter().product()])
    }

    fn dims(&self, batch: usize, _: &[&[usize]]) -> Vec<SplitDim> {
        vec![SplitDim { name: "sample", extent: batch }]
    }

    fn needs(&self, part: &[Range<usize>], inputs: &[&[usize]]) -> Needs {
        let rows = part[0].clone();
        let whole = inputs[0].iter().map(|&n| 0..n);
        Needs {
            inputs: vec![Region::new(std::iter::once(rows.clone()).chain(whole))],
            params: Vec::new(),
            output: Region::new([rows, 0..inputs[0].iter().product()]),
            partial: false,
        }
    }

    fn forward(&self, local: &Local<'_>) -> Vec<Launch> {
        let walk = Strided::contiguous(0, 0, local.needs.output.len());
        vec![Launch::Kernel { kernel: Kernel::Copy(walk), args: vec![Role::Input(0), Role::Output] }]
    }

    fn backward(&self, local: &Local<'_>) -> Vec<Launch> {
        let walk = Strided::contiguous(0, 0, local.needs.output.len());
        vec![Launch::Kernel { kernel: Kernel::Copy(walk), args: vec![Role::OutputGrad, Role::InputGrad(0)] }]
    }

    fn is_view(&self) -> bool {
        true
    }

    fn follows(&self) -> bool {
        true
    }

    fn flops(&self, _: &[&[usize]]) -> f64 {
        0.0
    }
}
