//! Local response normalisation (Krizhevsky et al. 2012): `y = x / (k + α/size · Σ x²)^β` over the channels around each.
//! A part along `out` also reads the neighbouring channels, as a part along `height` of a convolution reads its halo.

use super::image::{channels, region_channels, with_channels};
use super::{Launch, Local, Needs, Operator, Role, SplitDim, elementwise_dims, elementwise_needs};
use paceline_base::kernel::{Kernel, LocalResponse};
use paceline_base::{Error, Result};
use std::ops::Range;

/// Local response normalisation over channels.
#[derive(Debug)]
pub(crate) struct LocalResponseNorm {
    /// Channels in a window.
    pub size: usize,
    /// α, the weight of the neighbours' squares.
    pub alpha: f64,
    /// β, the exponent.
    pub beta: f64,
    /// k, added to the sum before the power.
    pub k: f64,
}

impl LocalResponseNorm {
    fn local(&self, needs: &Needs) -> LocalResponse {
        let (x, y) = (&needs.inputs[0], &needs.output);
        let (read, made) = (region_channels(x), region_channels(y));
        let axis = x.rank() - 1;
        LocalResponse {
            rows: y.len() / made.max(1),
            channels: read,
            first: if x.rank() == 3 { 0 } else { y.range(axis).start - x.range(axis).start },
            out_channels: made,
            size: self.size,
            alpha: self.alpha,
            beta: self.beta,
            k: self.k,
        }
    }
}

impl Operator for LocalResponseNorm {
    fn kind(&self) -> String {
        format!("local-response-norm {}", self.size)
    }

    fn output(&self, inputs: &[&[usize]]) -> Result<Vec<usize>> {
        match inputs[0].len() {
            1..=3 => Ok(inputs[0].to_vec()),
            _ => Err(Error::user(format!(
                "local-response-norm takes samples of shape [channels] or [height, width, channels], but gets {:?}",
                inputs[0]
            ))),
        }
    }

    fn dims(&self, batch: usize, inputs: &[&[usize]]) -> Vec<SplitDim> {
        elementwise_dims(batch, inputs[0])
    }

    fn needs(&self, part: &[Range<usize>], inputs: &[&[usize]]) -> Needs {
        let mut needs = elementwise_needs(part, 1);
        if inputs[0].len() != 2 {
            let made = &part[part.len() - 1];
            let end = (made.end + self.size.div_ceil(2) - 1).min(channels(inputs[0]));
            needs.inputs[0] = with_channels(&needs.output, made.start.saturating_sub(self.size / 2)..end);
        }
        needs
    }

    fn forward(&self, local: &Local<'_>) -> Vec<Launch> {
        let kernel = Kernel::LocalResponse(self.local(local.needs));
        vec![Launch::Kernel { kernel, args: vec![Role::Input(0), Role::Output] }]
    }

    fn backward(&self, local: &Local<'_>) -> Vec<Launch> {
        let kernel = Kernel::LocalResponseBackward(self.local(local.needs));
        vec![Launch::Kernel { kernel, args: vec![Role::OutputGrad, Role::Input(0), Role::InputGrad(0)] }]
    }

    fn follows(&self) -> bool {
        true
    }

    fn flops(&self, inputs: &[&[usize]]) -> f64 {
        (2 * self.size + 20) as f64 * inputs[0].iter().product::<usize>() as f64
    }
}
