//! Max-pool: the maximum of each window, channel by channel. In training the place of each maximum is kept as a byte, so
//! that the backward pass needs neither the input nor the output.

use super::image::{Slide, image, image_dims, region_channels};
use super::{Launch, Local, Needs, Operator, Role, SplitDim};
use paceline_base::kernel::{Elements, Kernel};
use paceline_base::region::Region;
use paceline_base::window::PoolDims;
use paceline_base::{Error, Result};
use std::ops::Range;

/// The maximum of each window.
#[derive(Debug)]
pub(crate) struct MaxPool {
    /// Window, stride and padding; padding counts as absent.
    pub slide: Slide,
}

/// Places that a byte can tell apart, one code being taken for "nowhere".
const PLACES: usize = 255;

/// What PyTorch says of a pool's padding: beyond half of the window, a window could lie outside.
pub(super) fn pool_output(what: &str, slide: &Slide, shape: &[usize]) -> Result<Vec<usize>> {
    image(what, shape)?;
    if (0..2).any(|a| 2 * slide.pad[a] > slide.window[a]) {
        return Err(Error::user(format!(
            "{what}: a pad of {}×{} is more than half of its {}×{} window; give less",
            slide.pad[0], slide.pad[1], slide.window[0], slide.window[1]
        )));
    }
    let [h, w] = slide.output(what, shape)?;
    Ok([h, w].into_iter().chain(shape.get(2).copied()).collect())
}

/// The dimensions of a pool: those of its output.
pub(super) fn pool_dims(slide: &Slide, batch: usize, shape: &[usize]) -> Vec<SplitDim> {
    image_dims(batch, slide.output("pool", shape).unwrap_or([1, 1]), shape.get(2).copied())
}

/// What a part of a pool reads and makes.
pub(super) fn pool_needs(slide: &Slide, part: &[Range<usize>], shape: &[usize]) -> Needs {
    let mut input = vec![part[0].clone()];
    input.extend((0..2).map(|axis| slide.reads(axis, &part[1 + axis], shape[axis])));
    input.extend(part.get(3).cloned());
    Needs {
        inputs: vec![Region::new(input)],
        params: Vec::new(),
        output: Region::new(part.iter().cloned()),
        partial: false,
    }
}

/// The sizes of a part of a pool.
pub(super) fn local_pool(slide: &Slide, needs: &Needs) -> PoolDims {
    let (x, y) = (&needs.inputs[0], &needs.output);
    PoolDims {
        samples: y.range(0).len(),
        height: x.range(1).len(),
        width: x.range(2).len(),
        channels: region_channels(x),
        out_height: y.range(1).len(),
        out_width: y.range(2).len(),
        window: slide.window,
        stride: slide.stride,
        pad: slide.local_pad(y, x),
    }
}

impl Operator for MaxPool {
    fn kind(&self) -> String {
        format!("max-pool {}", self.slide.words(self.slide.window))
    }

    fn output(&self, inputs: &[&[usize]]) -> Result<Vec<usize>> {
        let [h, w] = self.slide.window;
        if h * w > PLACES {
            return Err(Error::user(format!(
                "a {h}×{w} window has {} places, but max-pool takes up to {PLACES}; use two smaller pools one after the other",
                h * w
            )));
        }
        pool_output("max-pool", &self.slide, inputs[0])
    }

    fn dims(&self, batch: usize, inputs: &[&[usize]]) -> Vec<SplitDim> {
        pool_dims(&self.slide, batch, inputs[0])
    }

    fn needs(&self, part: &[Range<usize>], inputs: &[&[usize]]) -> Needs {
        pool_needs(&self.slide, part, inputs[0])
    }

    fn saved(&self, local: &Local<'_>) -> Vec<(Elements, usize)> {
        if local.input_grads[0] {
            vec![(Elements::Byte, local_pool(&self.slide, local.needs).codes_len())]
        } else {
            Vec::new()
        }
    }

    fn forward(&self, local: &Local<'_>) -> Vec<Launch> {
        let codes = local.input_grads[0];
        let mut args = vec![Role::Input(0), Role::Output];
        args.extend(codes.then_some(Role::Saved(0)));
        vec![Launch::Kernel { kernel: Kernel::MaxPool { dims: local_pool(&self.slide, local.needs), codes }, args }]
    }

    fn backward(&self, local: &Local<'_>) -> Vec<Launch> {
        let kernel = Kernel::MaxPoolBackward { dims: local_pool(&self.slide, local.needs) };
        vec![Launch::Kernel { kernel, args: vec![Role::OutputGrad, Role::Saved(0), Role::InputGrad(0)] }]
    }

    fn follows(&self) -> bool {
        true
    }

    fn flops(&self, inputs: &[&[usize]]) -> f64 {
        let [h, w] = self.slide.output("max-pool", inputs[0]).unwrap_or([0, 0]);
        (h * w * inputs[0].get(2).unwrap_or(&1) * self.slide.window[0] * self.slide.window[1]) as f64
    }
}
