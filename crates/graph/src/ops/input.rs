//! The network's input. Every rank can read any sample, so lowering loads each region where it is wanted.

use super::{Launch, Local, Needs, Operator, SplitDim, elementwise_dims, elementwise_needs};
use paceline_base::Result;
use std::ops::Range;

/// Samples of the data set.
#[derive(Debug)]
pub(crate) struct Input {
    /// Shape of one sample.
    pub shape: Vec<usize>,
}

impl Operator for Input {
    fn kind(&self) -> String {
        "input".into()
    }

    fn output(&self, _: &[&[usize]]) -> Result<Vec<usize>> {
        Ok(self.shape.clone())
    }

    fn dims(&self, batch: usize, _: &[&[usize]]) -> Vec<SplitDim> {
        elementwise_dims(batch, &self.shape)
    }

    fn needs(&self, part: &[Range<usize>], _: &[&[usize]]) -> Needs {
        elementwise_needs(part, 0)
    }

    fn forward(&self, _: &Local<'_>) -> Vec<Launch> {
        Vec::new()
    }

    fn backward(&self, _: &Local<'_>) -> Vec<Launch> {
        Vec::new()
    }

    fn flops(&self, _: &[&[usize]]) -> f64 {
        0.0
    }
}
