//! What a device is asked to do: kernel calls as data, over buffers known by number.
//!
//! A schedule's compute and update tasks carry a [`Call`]. Tensors are row-major and canonical at every border; the
//! device may hold them otherwise inside. Argument order is part of each kernel's contract and is listed with it.

use crate::op::{Activation, Loss};
use crate::optim::{Rule, Segment};
use crate::region::{Region, Strided};
use serde::{Deserialize, Serialize};

/// A buffer of one rank's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BufferId(pub u32);

/// One kernel launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// What to do.
    pub kernel: Kernel,
    /// On which buffers, in the kernel's argument order.
    pub args: Vec<BufferId>,
}

/// Sizes of a dense layer's part: `y[rows, outputs] = x[rows, inputs] · w[outputs, inputs]ᵀ`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DenseDims {
    /// Samples.
    pub rows: usize,
    /// Output features.
    pub outputs: usize,
    /// Input features.
    pub inputs: usize,
}

/// The kernels. Outputs are overwritten unless "adds" is said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Kernel {
    /// `y = f(x·wᵀ + b)`; args `x, w, y` and `b` if `bias`.
    DenseForward {
        /// Sizes.
        dims: DenseDims,
        /// Whether a bias is added.
        bias: bool,
        /// Applied on the way out (after fusing).
        activation: Option<Activation>,
    },
    /// `dx = dy·w`, then times f′ of the layer before if fused; args `dy, w, dx` and that layer's output if `through`.
    DenseBackwardData {
        /// Sizes.
        dims: DenseDims,
        /// Fused derivative of the activation that produced this layer's input.
        through: Option<Activation>,
    },
    /// `dw = dyᵀ·x`, `db = Σ dy`; args `dy, x, dw` and `db` if `bias`.
    DenseBackwardWeights {
        /// Sizes.
        dims: DenseDims,
        /// Whether the layer has a bias.
        bias: bool,
    },
    /// `DenseBackwardWeights` and `Update` in one pass, the gradient never stored;
    /// args `dy, x, w, state…` and, if `bias`, `b, state of b…`.
    DenseBackwardUpdate {
        /// Sizes.
        dims: DenseDims,
        /// Whether the layer has a bias.
        bias: bool,
        /// The update rule.
        rule: Rule,
        /// L2 penalty of the weights (biases have none).
        l2: f64,
    },
    /// `y = f(x)`; args `x, y`.
    Activate {
        /// f
        function: Activation,
        /// Elements.
        len: usize,
    },
    /// `dx = dy · f′`; args `dy, saved, dx`, where `saved` is y, or x if f′ is not a function of y.
    ActivateBackward {
        /// f
        function: Activation,
        /// Elements.
        len: usize,
    },
    /// `y = x · mask / (1 − rate)`; its own backward; args `x, y`. The mask is a function of (seed, step, layer, global coordinate).
    Dropout {
        /// Share of elements set to zero.
        rate: f64,
        /// Which random stream.
        layer: u32,
        /// The global coordinates of this part.
        region: Region,
        /// The shape of the whole tensor.
        shape: Vec<usize>,
    },
    /// Adds `[loss sum, correct, count]` to `metrics` and, if `gradient`, writes the gradient of the mean loss;
    /// args `outputs, labels, metrics` and `gradient`.
    Loss {
        /// Which loss.
        loss: Loss,
        /// Samples of this part.
        rows: usize,
        /// Classes.
        classes: usize,
        /// Whether the gradient is written.
        gradient: bool,
    },
    /// Copies a region; args `from, to`.
    Copy(Strided),
    /// Adds a region onto another; args `from, to`.
    Add(Strided),
    /// Sets all elements to zero; args `to`.
    Zero {
        /// Elements.
        len: usize,
    },
    /// Moves parameters by their gradients; args `w, g, state…`.
    Update {
        /// The rule.
        rule: Rule,
        /// Runs of elements by their regularisation.
        segments: Vec<Segment>,
    },
}

/// What changes from step to step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepArgs {
    /// Seed of the run.
    pub seed: u64,
    /// Number of the update, from 0.
    pub step: u64,
    /// Learning rate of this step.
    pub rate: f64,
    /// 1 / global number of samples in this batch.
    pub scale: f64,
}

/// Kernel chains that a device may take as one, declared in these types so that lowering's last pass can join them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Fusion {
    /// Dense forward with the activation that follows.
    DenseActivation(Activation),
    /// Dense backward-data with the derivative of the activation before.
    DenseThrough(Activation),
    /// Weight gradient with the update, where nothing else reads the gradient.
    DenseUpdate,
}

impl Kernel {
    /// A short name for traces, time tables and `--explain`.
    pub fn name(&self) -> &'static str {
        match self {
            Kernel::DenseForward { .. } => "dense-forward",
            Kernel::DenseBackwardData { .. } => "dense-backward-data",
            Kernel::DenseBackwardWeights { .. } => "dense-backward-weights",
            Kernel::DenseBackwardUpdate { .. } => "dense-backward-update",
            Kernel::Activate { .. } => "activate",
            Kernel::ActivateBackward { .. } => "activate-backward",
            Kernel::Dropout { .. } => "dropout",
            Kernel::Loss { .. } => "loss",
            Kernel::Copy(_) => "copy",
            Kernel::Add(_) => "add",
            Kernel::Zero { .. } => "zero",
            Kernel::Update { .. } => "update",
        }
    }

    /// Floating-point operations, for the cost model.
    pub fn flops(&self) -> f64 {
        let dense = |d: &DenseDims| 2.0 * d.rows as f64 * d.outputs as f64 * d.inputs as f64;
        match self {
            Kernel::DenseForward { dims, .. }
            | Kernel::DenseBackwardData { dims, .. }
            | Kernel::DenseBackwardWeights { dims, .. } => dense(dims),
            Kernel::DenseBackwardUpdate { dims, rule, .. } => {
                dense(dims) + (rule.flops_per_element() * dims.outputs * (dims.inputs + 1)) as f64
            }
            Kernel::Activate { len, .. } | Kernel::ActivateBackward { len, .. } => 4.0 * *len as f64,
            Kernel::Dropout { region, .. } => 12.0 * region.len() as f64,
            Kernel::Loss { rows, classes, .. } => 20.0 * (rows * classes) as f64,
            Kernel::Copy(_) | Kernel::Zero { .. } => 0.0,
            Kernel::Add(walk) => walk.len() as f64,
            Kernel::Update { rule, segments } => {
                (rule.flops_per_element() * segments.iter().map(|s| s.len).sum::<usize>()) as f64
            }
        }
    }

    /// Elements read and written, for the cost model.
    pub fn traffic(&self) -> f64 {
        let dense = |d: &DenseDims| (d.rows * d.inputs + d.rows * d.outputs + d.outputs * d.inputs) as f64;
        match self {
            Kernel::DenseForward { dims, .. }
            | Kernel::DenseBackwardData { dims, .. }
            | Kernel::DenseBackwardWeights { dims, .. } => dense(dims),
            Kernel::DenseBackwardUpdate { dims, rule, .. } => {
                dense(dims) + ((1 + 2 * rule.states().len()) * dims.outputs * dims.inputs) as f64
            }
            Kernel::Activate { len, .. } => 2.0 * *len as f64,
            Kernel::ActivateBackward { len, .. } => 3.0 * *len as f64,
            Kernel::Dropout { region, .. } => 2.0 * region.len() as f64,
            Kernel::Loss { rows, classes, .. } => 2.0 * (rows * classes) as f64,
            Kernel::Copy(walk) => 2.0 * walk.len() as f64,
            Kernel::Add(walk) => 3.0 * walk.len() as f64,
            Kernel::Zero { len } => *len as f64,
            Kernel::Update { rule, segments } => {
                ((3 + 2 * rule.states().len()) * segments.iter().map(|s| s.len).sum::<usize>()) as f64
            }
        }
    }
}

/// Values on the host, as a source has them; a device converts on the way in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values<'a> {
    /// `byte · scale + offset`
    U8 {
        /// Raw values.
        bytes: &'a [u8],
        /// Factor.
        scale: f32,
        /// Added after scaling.
        offset: f32,
    },
    /// As they are.
    F32(&'a [f32]),
    /// As they are; rounded by a device of less precision.
    F64(&'a [f64]),
}

/// Where each buffer of a rank lies in its device's memory, in elements. Made by lowering, before the first step.
///
/// Buffers may overlap: a bucket covers the gradients within it, and buffers of different phases share room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arena {
    /// Elements in all.
    pub len: usize,
    /// (offset, length) of each buffer.
    pub slots: Vec<(usize, usize)>,
}

/// Buffers begin at multiples of this many elements: a cache line of f32.
pub const ALIGN: usize = 16;

impl Kernel {
    /// Positions in the argument list that are written (or read and written).
    pub fn writes(&self) -> Vec<usize> {
        match self {
            Kernel::DenseForward { .. } | Kernel::DenseBackwardData { .. } | Kernel::ActivateBackward { .. } => vec![2],
            Kernel::DenseBackwardWeights { .. } => vec![2, 3],
            Kernel::DenseBackwardUpdate { bias, rule, .. } => {
                (2..2 + (1 + rule.states().len()) * (1 + usize::from(*bias))).collect()
            }
            Kernel::Activate { .. } | Kernel::Dropout { .. } | Kernel::Copy(_) | Kernel::Add(_) => vec![1],
            Kernel::Loss { .. } => vec![2, 3],
            Kernel::Zero { .. } => vec![0],
            Kernel::Update { rule, .. } => std::iter::once(0).chain(2..2 + rule.states().len()).collect(),
        }
    }
}
