//! Losses: a sum over samples, divided once by the global count. They split over samples only.

use super::{Launch, Local, Needs, Operator, Role, SplitDim};
use paceline_base::kernel::Kernel;
use paceline_base::op::Loss;
use paceline_base::region::Region;
use paceline_base::{Error, Result};
use std::ops::Range;

/// The end of the network.
#[derive(Debug)]
pub(crate) struct LossOp {
    /// Its formula.
    pub loss: Loss,
    /// Classes of the data set.
    pub classes: usize,
}

impl Operator for LossOp {
    fn kind(&self) -> String {
        match self.loss {
            Loss::SoftmaxCrossEntropy => "softmax-cross-entropy".into(),
            Loss::MeanSquaredError => "mean-squared-error".into(),
        }
    }

    fn output(&self, inputs: &[&[usize]]) -> Result<Vec<usize>> {
        if inputs[0] == [self.classes] {
            Ok(Vec::new())
        } else {
            Err(Error::user(format!(
                "the loss compares outputs of shape [{}] with the data's classes, but gets {:?}; give the last layer units = \"classes\"",
                self.classes, inputs[0]
            )))
        }
    }

    fn dims(&self, batch: usize, _: &[&[usize]]) -> Vec<SplitDim> {
        vec![SplitDim { name: "sample", extent: batch }]
    }

    fn needs(&self, part: &[Range<usize>], inputs: &[&[usize]]) -> Needs {
        let rows = part[0].clone();
        Needs {
            inputs: vec![Region::new([rows.clone(), 0..inputs[0][0]])],
            params: Vec::new(),
            output: Region::new([rows]),
            partial: false,
        }
    }

    /// In training the loss and its gradient come from one kernel, in the forward pass.
    fn forward(&self, local: &Local<'_>) -> Vec<Launch> {
        let mut args = vec![Role::Input(0), Role::Labels, Role::Metrics];
        args.extend(local.training.then_some(Role::InputGrad(0)));
        let rows = local.needs.output.range(0).len();
        let kernel = Kernel::Loss { loss: self.loss, rows, classes: self.classes, gradient: local.training };
        vec![Launch::Kernel { kernel, args }]
    }

    fn backward(&self, _: &Local<'_>) -> Vec<Launch> {
        Vec::new()
    }

    fn loss(&self) -> Option<Loss> {
        Some(self.loss)
    }

    fn flops(&self, inputs: &[&[usize]]) -> f64 {
        20.0 * inputs[0][0] as f64
    }
}
