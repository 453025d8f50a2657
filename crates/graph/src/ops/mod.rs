//! What an operator is. One file per operator; a new one is a file here and its kernels in the devices.

mod add;
mod average_pool;
mod batch_norm;
mod concatenate;
mod conv;
mod dense;
mod elementwise;
mod embedding;
mod flatten;
mod image;
mod input;
mod layer_norm;
mod local_response;
mod loss;
mod max_pool;
mod pad;

pub(crate) use add::Add;
pub(crate) use average_pool::{AveragePool, GlobalAveragePool};
pub(crate) use batch_norm::BatchNorm;
pub(crate) use concatenate::Concatenate;
pub(crate) use conv::Conv;
pub(crate) use dense::Dense;
pub(crate) use elementwise::{Activate, Dropout};
pub(crate) use embedding::Embedding;
pub(crate) use flatten::Flatten;
pub(crate) use image::Slide;
pub(crate) use input::Input;
pub(crate) use layer_norm::LayerNorm;
pub(crate) use local_response::LocalResponseNorm;
pub(crate) use loss::LossOp;
pub(crate) use max_pool::MaxPool;
pub(crate) use pad::PadZeros;

use paceline_base::Result;
use paceline_base::kernel::{Elements, Kernel};
use paceline_base::op::{Init, Loss};
use paceline_base::region::Region;
use std::fmt;
use std::ops::Range;

/// A dimension along which an operator can be split. `sample` is always the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitDim {
    /// The name used in plan files: `sample`, `height`, `width`, `out`, `in`, …
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
    /// Shape of the whole tensor, of which a part may hold a region.
    pub shape: Vec<usize>,
    /// What its elements begin as; a function of global coordinates.
    pub init: Init,
    /// (fan in, fan out), for the initial values.
    pub fans: (usize, usize),
    /// True if the L2 penalty applies.
    pub decays: bool,
    /// False for what the forward pass itself moves (running moments): it has no gradient, no update and no exchange.
    pub trained: bool,
}

/// Which buffer a kernel argument stands for; lowering puts real buffers in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The part's i-th input.
    Input(usize),
    /// The i-th parameter.
    Param(usize),
    /// What the part makes.
    Output,
    /// Gradient of the output.
    OutputGrad,
    /// Gradient of the i-th input.
    InputGrad(usize),
    /// Gradient of the i-th parameter.
    ParamGrad(usize),
    /// Targets of the part's samples.
    Targets,
    /// The rank's metrics.
    Metrics,
    /// The part's i-th [saved](Operator::saved) buffer.
    Saved(usize),
}

/// One piece of a part's work.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)] // few exist, and only while a step is lowered
pub enum Launch {
    /// A kernel with roles in place of buffers.
    Kernel {
        /// With the sizes of the part.
        kernel: Kernel,
        /// What each argument of the kernel is; lowering puts buffers in their place.
        args: Vec<Role>,
    },
    /// A saved buffer becomes the sum of those of all parts that use the same region of a parameter: what every part did
    /// before comes first. Operators say what is summed; how it travels is lowering's.
    SumParts {
        /// Which saved buffer.
        saved: usize,
        /// Parts with the same region of this parameter belong together.
        param: usize,
    },
}

/// What an operator knows when it names the kernels of one part.
pub struct Local<'a> {
    /// The part's regions.
    pub needs: &'a Needs,
    /// Whole output shape, sample axis first.
    pub shape: &'a [usize],
    /// Shape of one sample of each input.
    pub inputs: &'a [&'a [usize]],
    /// Number of this operator in the graph: its random stream.
    pub layer: u32,
    /// Whether gradients are wanted at all.
    pub training: bool,
    /// Whether the gradient of input i is wanted.
    pub input_grads: &'a [bool],
    /// Indices that there is room for in the lists of the part's samples, if it takes lists.
    pub entries: usize,
    /// Indices to be expected in them.
    pub expected_entries: usize,
}

/// What a model file's layer computes: pure functions of shapes and regions. Lowering asks them; devices never see them.
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

    /// The buffers that one part keeps beside its output, such as from the forward to the backward pass.
    fn saved(&self, local: &Local<'_>) -> Vec<(Elements, usize)> {
        let _ = local;
        Vec::new()
    }

    /// Kernels of the forward pass of one part.
    fn forward(&self, local: &Local<'_>) -> Vec<Launch>;

    /// Kernels of the backward pass of one part: parameter gradients first, so that they can leave early.
    fn backward(&self, local: &Local<'_>) -> Vec<Launch>;

    /// True if its input is lists of indices, and not numbers.
    fn takes_lists(&self) -> bool {
        false
    }

    /// True if the output is the input seen with another shape: lowering then copies nothing.
    fn is_view(&self) -> bool {
        false
    }

    /// True if the gradient of every input is the gradient of the output: lowering then passes it on as it is.
    fn passes_gradient(&self) -> bool {
        self.is_view()
    }

    /// True if, unless a plan says otherwise, it is split as the operator before it, so that nothing has to move.
    fn follows(&self) -> bool {
        false
    }

    /// True if this operator closes the graph and takes labels.
    fn is_loss(&self) -> bool {
        self.loss().is_some()
    }

    /// Which loss it is, if it is one.
    fn loss(&self) -> Option<Loss> {
        None
    }

    /// Floating-point operations of the forward pass for one sample.
    fn flops(&self, inputs: &[&[usize]]) -> f64;
}

/// The shape of a batch: `[batch, shape…]`.
pub fn batched(batch: usize, shape: &[usize]) -> Vec<usize> {
    std::iter::once(batch).chain(shape.iter().copied()).collect()
}

/// The dimensions of an operator that treats every element alike: images by name, other shapes by number.
fn elementwise_dims(batch: usize, shape: &[usize]) -> Vec<SplitDim> {
    let names: &[&'static str] = match shape.len() {
        1 => &["out"],
        2 => &["height", "width"],
        3 => &["height", "width", "out"],
        _ => &["axis1", "axis2", "axis3", "axis4"],
    };
    let mut dims = vec![SplitDim { name: "sample", extent: batch }];
    dims.extend(shape.iter().zip(names).map(|(&extent, &name)| SplitDim { name, extent }));
    dims
}

/// The needs of an operator that treats every element alike: all inputs and the output share one region.
fn elementwise_needs(part: &[Range<usize>], inputs: usize) -> Needs {
    let region = Region::new(part.iter().cloned());
    Needs { inputs: vec![region.clone(); inputs], params: Vec::new(), output: region, partial: false }
}
