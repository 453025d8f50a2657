//! Losses: a sum over samples, divided once by the global count. They split over samples only.

use super::{Launch, Local, Needs, Operator, Role, SplitDim};
use paceline_base::kernel::Kernel;
use paceline_base::op::Loss;
use paceline_base::region::Region;
use paceline_base::sample::TargetKind;
use paceline_base::{Error, Result};
use std::ops::Range;

/// The end of the network.
#[derive(Debug)]
pub(crate) struct LossOp {
    /// Its formula.
    pub loss: Loss,
    /// What its input is compared with.
    pub targets: TargetKind,
}

impl Operator for LossOp {
    fn kind(&self) -> String {
        match self.loss {
            Loss::SoftmaxCrossEntropy => "softmax-cross-entropy".into(),
            Loss::MeanSquaredError => "mean-squared-error".into(),
        }
    }

    fn output(&self, inputs: &[&[usize]]) -> Result<Vec<usize>> {
        if !self.loss.takes(self.targets) {
            return Err(Error::user(format!(
                "{} compares outputs with classes, but the data's targets are numbers; use type = \"mean-squared-error\", or set data.targets to \
                 classes if they are",
                self.kind()
            )));
        }
        let outputs = self.targets.outputs();
        if inputs[0] == [outputs] {
            return Ok(Vec::new());
        }
        let (with, units) = match self.targets {
            TargetKind::Classes { each: 1, .. } => ("classes", "\"classes\"".into()),
            TargetKind::Classes { .. } => ("targets, with outputs for each class of each", outputs.to_string()),
            TargetKind::Numbers { .. } => ("targets", outputs.to_string()),
        };
        Err(Error::user(format!(
            "the loss compares outputs of shape [{outputs}] with the data's {with}, but gets {:?}; give the last layer units = {units}",
            inputs[0]
        )))
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
        let mut args = vec![Role::Input(0), Role::Targets, Role::Metrics];
        args.extend(local.training.then_some(Role::InputGrad(0)));
        let rows = local.needs.output.range(0).len();
        let kernel = Kernel::Loss { loss: self.loss, targets: self.targets, rows, gradient: local.training };
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
