//! Average-pool: the mean of each window, zeros of the padding included (PyTorch's default); and the mean of a whole image,
//! whose parts along height and width are summands over the divisor of the whole.

use super::image::{Slide, image, image_dims, region_channels};
use super::max_pool::{local_pool, pool_dims, pool_needs, pool_output};
use super::{Launch, Local, Needs, Operator, Role, SplitDim};
use paceline_base::Result;
use paceline_base::kernel::Kernel;
use paceline_base::region::Region;
use paceline_base::window::PoolDims;
use std::ops::Range;

fn forward(dims: PoolDims, divisor: usize) -> Vec<Launch> {
    vec![Launch::Kernel { kernel: Kernel::AveragePool { dims, divisor }, args: vec![Role::Input(0), Role::Output] }]
}

fn backward(dims: PoolDims, divisor: usize) -> Vec<Launch> {
    let kernel = Kernel::AveragePoolBackward { dims, divisor };
    vec![Launch::Kernel { kernel, args: vec![Role::OutputGrad, Role::InputGrad(0)] }]
}

/// The mean of each window.
#[derive(Debug)]
pub(crate) struct AveragePool {
    /// Window, stride and padding; padding counts as zeros.
    pub slide: Slide,
}

impl AveragePool {
    fn divisor(&self) -> usize {
        self.slide.window[0] * self.slide.window[1]
    }
}

impl Operator for AveragePool {
    fn kind(&self) -> String {
        format!("average-pool {}", self.slide.words(self.slide.window))
    }

    fn output(&self, inputs: &[&[usize]]) -> Result<Vec<usize>> {
        pool_output("average-pool", &self.slide, inputs[0])
    }

    fn dims(&self, batch: usize, inputs: &[&[usize]]) -> Vec<SplitDim> {
        pool_dims(&self.slide, batch, inputs[0])
    }

    fn needs(&self, part: &[Range<usize>], inputs: &[&[usize]]) -> Needs {
        pool_needs(&self.slide, part, inputs[0])
    }

    fn forward(&self, local: &Local<'_>) -> Vec<Launch> {
        forward(local_pool(&self.slide, local.needs), self.divisor())
    }

    fn backward(&self, local: &Local<'_>) -> Vec<Launch> {
        backward(local_pool(&self.slide, local.needs), self.divisor())
    }

    fn follows(&self) -> bool {
        true
    }

    fn flops(&self, inputs: &[&[usize]]) -> f64 {
        let [h, w] = self.slide.output("average-pool", inputs[0]).unwrap_or([0, 0]);
        (h * w * inputs[0].get(2).unwrap_or(&1) * self.divisor()) as f64
    }
}

/// The mean of each channel over the whole image.
#[derive(Debug)]
pub(crate) struct GlobalAveragePool;

impl GlobalAveragePool {
    fn local(local: &Local<'_>) -> (PoolDims, usize) {
        let x = &local.needs.inputs[0];
        let (height, width) = (x.range(1).len(), x.range(2).len());
        let dims = PoolDims {
            samples: x.range(0).len(),
            height,
            width,
            channels: region_channels(x),
            out_height: 1,
            out_width: 1,
            window: [height, width],
            stride: [height, width],
            pad: [0, 0],
        };
        (dims, local.inputs[0][0] * local.inputs[0][1])
    }
}

impl Operator for GlobalAveragePool {
    fn kind(&self) -> String {
        "global-average-pool".into()
    }

    fn output(&self, inputs: &[&[usize]]) -> Result<Vec<usize>> {
        image("global-average-pool", inputs[0]).map(|[_, _, c]| vec![c])
    }

    fn dims(&self, batch: usize, inputs: &[&[usize]]) -> Vec<SplitDim> {
        image_dims(batch, [inputs[0][0], inputs[0][1]], inputs[0].get(2).copied())
    }

    fn needs(&self, part: &[Range<usize>], inputs: &[&[usize]]) -> Needs {
        let channels = part.get(3).cloned().unwrap_or(0..1);
        Needs {
            inputs: vec![Region::new(part.iter().cloned())],
            params: Vec::new(),
            output: Region::new([part[0].clone(), channels]),
            partial: part[1].len() < inputs[0][0] || part[2].len() < inputs[0][1],
        }
    }

    fn forward(&self, local: &Local<'_>) -> Vec<Launch> {
        let (dims, divisor) = Self::local(local);
        forward(dims, divisor)
    }

    fn backward(&self, local: &Local<'_>) -> Vec<Launch> {
        let (dims, divisor) = Self::local(local);
        backward(dims, divisor)
    }

    fn follows(&self) -> bool {
        true
    }

    fn flops(&self, inputs: &[&[usize]]) -> f64 {
        inputs[0].iter().product::<usize>() as f64
    }
}
