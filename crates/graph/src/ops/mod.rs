//! What an operator is. One file per operator; a new one is a file here and its kernels in the devices.

mod add;
mod dense;
mod elementwise;
mod flatten;
mod input;
mod loss;

pub use add::Add;
pub use dense::Dense;
pub use elementwise::{Activate, Dropout};
pub use flatten::Flatten;
pub use input::Input;
pub use loss::LossOp;

use paceline_base::Result;
use paceline_base::kernel::Kernel;
use paceline_base::op::Init;
use paceline_base::region::Region;
use std::fmt;
use std::ops::Range;

/// A dimension along which an operator can be split. `sample` is always the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitDim {
    /// The name used in plan files: `sample`, `out`, `in`, …
    pub name: &'static str,
    /// Its extent, for a batch of the given size.
    pub extent: usize,
}

/// What one part of an operator reads, holds and makes, in global coordinates (sample axis first).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Region of each input.
    pub inputs: Vec<Region>,
    /// Region of each parameter; `None` if this part does not use it.
    pub params: Vec<Option<Region>>,
    /// Region of the output.
    pub output: Region,
    /// True if the part's output is a summand.
    pub partial: bool,
}

/// A parameter as an operator declares it.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamSpec {
    /// Short name: `weight`, `bias`.
    pub name: &'static str,
    /// Global shape.
    pub shape: Vec<usize>,
    /// Initial values.
    pub init: Init,
    /// (fan in, fan out), for the initial values.
    pub fans: (usize, usize),
    /// True if the L2 penalty applies.
    pub decays: bool,
}

/// Which buffer a kernel argument stands for; lowering puts real buffers in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The part's i-th input.
    Input(usize),
    /// The i-th parameter.
    Param(usize),
    /// The output.
    Output,
    /// Gradient of the output.
    OutputGrad,
    /// Gradient of the i-th input.
    InputGrad(usize),
    /// Gradient of the i-th parameter.
    ParamGrad(usize),
    /// Class labels of the part's samples.
    Labels,
    /// The rank's `[loss, correct, count, control]`.
    Metrics,
}

/// A kernel with roles in place of buffers.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// The kernel.
    pub kernel: Kernel,
    /// Its arguments.
    pub args: Vec<Role>,
}

/// What an operator knows when it names the kernels of one part.
pub struct Local<'a> {
    /// The part's regions.
    pub needs: &'a Needs,
    /// Whole output shape, sample axis first.
    pub shape: &'a [usize],
    /// Number of this operator in the graph: its random stream.
    pub layer: u32,
    /// Whether gradients are wanted at all.
    pub training: bool,
    /// Whether the gradient of input i is wanted.
    pub input_grads: &'a [bool],
}

/// An operator.
pub trait Operator: fmt::Debug + Send + Sync {
    /// The name used in model files and tables.
    fn kind(&self) -> String;

    /// Shape of one sample's output, or an error with the shapes in it.
    fn output(&self, inputs: &[&[usize]]) -> Result<Vec<usize>>;

    /// Its parameters, given the inputs' shapes.
    fn params(&self, inputs: &[&[usize]]) -> Vec<ParamSpec> {
        let _ = inputs;
        Vec::new()
    }

    /// The dimensions it can be split along, `sample` first.
    fn dims(&self, batch: usize, inputs: &[&[usize]]) -> Vec<SplitDim>;

    /// What the part with these ranges (one per dimension of [`dims`](Operator::dims)) needs.
    fn needs(&self, part: &[Range<usize>], inputs: &[&[usize]]) -> Needs;

    /// Kernels of the forward pass of one part.
    fn forward(&self, local: &Local<'_>) -> Vec<Launch>;

    /// Kernels of the backward pass of one part: parameter gradients first, so that they can leave early.
    fn backward(&self, local: &Local<'_>) -> Vec<Launch>;

    /// True if the output is the input seen with another shape: lowering then copies nothing.
    fn is_view(&self) -> bool {
        false
    }

    /// True if this operator closes the graph and takes labels.
    fn is_loss(&self) -> bool {
        false
    }

    /// Floating-point operations of the forward pass for one sample.
    fn flops(&self, inputs: &[&[usize]]) -> f64;
}

/// `[batch, shape…]`
pub fn batched(batch: usize, shape: &[usize]) -> Vec<usize> {
    std::iter::once(batch).chain(shape.iter().copied()).collect()
}

/// The dimensions of an operator that treats every element alike.
fn elementwise_dims(batch: usize, shape: &[usize]) -> Vec<SplitDim> {
    const NAMES: [&str; 4] = ["axis1", "axis2", "axis3", "axis4"];
    let mut dims = vec![SplitDim { name: "sample", extent: batch }];
    match shape {
        [n] => dims.push(SplitDim { name: "out", extent: *n }),
        more => dims.extend(more.iter().zip(NAMES).map(|(&extent, name)| SplitDim { name, extent })),
    }
    dims
}

/// The needs of an operator that treats every element alike: all inputs and the output share one region.
fn elementwise_needs(part: &[Range<usize>], inputs: usize) -> Needs {
    let region = Region::new(part.iter().cloned());
    Needs { inputs: vec![region.clone(); inputs], params: Vec::new(), output: region, partial: false }
}
