//! What a device is asked to do: kernel calls as data, over buffers known by number.
//!
//! A schedule's compute and update tasks carry a [`Call`]. Tensors are row-major and canonical at every border; the
//! device may hold them otherwise inside. Argument order is part of each kernel's contract and is listed with it.

use crate::op::{Activation, Loss};
use crate::optim::{Rule, Segment};
use crate::region::{Region, Strided};
use crate::sample::{IndexWidth, TargetKind};
use crate::units::DType;
use crate::window::{ConvDims, PoolDims};
use serde::{Deserialize, Serialize};

pub use crate::memory::{ALIGN, Arena, Elements, Slot, Values};

/// A buffer of one rank's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BufferId(pub u32);

/// One kernel launch, on a device's buffers by number, or on whatever else names them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call<B = BufferId> {
    /// What to do.
    pub kernel: Kernel,
    /// On which buffers, in the kernel's argument order.
    pub args: Vec<B>,
}

/// Sizes of a dense layer's part: `y[rows, outputs] = x[rows, inputs] · w[outputs, inputs]ᵀ`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DenseDims {
    /// Samples of this part of the batch.
    pub rows: usize,
    /// Output features of this part: rows of the weights.
    pub outputs: usize,
    /// Input features of this part: columns of the weights.
    pub inputs: usize,
}

/// Sizes of an embedding's part.
///
/// A buffer of lists holds `rows + 1` offsets, of which the first is 0, and behind them the indices: those of list `i` are numbers `offset[i]` to
/// `offset[i + 1]` of them. How many there are differs from step to step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EmbeddingDims {
    /// Lists: samples of this part of the batch.
    pub rows: usize,
    /// The first row of the table that this part holds …
    pub first: usize,
    /// … how many it holds …
    pub table_rows: usize,
    /// … and how many the whole table has: every index is below.
    pub table: usize,
    /// Columns of the table that this part holds.
    pub columns: usize,
    /// Indices that there is room for, in all lists together.
    pub entries: usize,
    /// Indices to be expected, for costs.
    pub expected: usize,
    /// What an index is.
    pub width: IndexWidth,
    /// Whether a sum is divided by the length of its list. Of an empty list both are zero.
    pub mean: bool,
}

impl EmbeddingDims {
    /// Elements of a buffer with all lists, at most.
    pub fn lists_len(&self) -> usize {
        self.rows + 1 + self.entries
    }
}

/// The kernels. Outputs are overwritten unless "adds" is said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Kernel {
    /// `y = f(x·wᵀ + b)`; args `x, w, y` and `b` if `bias`.
    DenseForward {
        /// The part's own sizes, not the whole layer's.
        dims: DenseDims,
        /// Whether a bias is added.
        bias: bool,
        /// Applied on the way out (after fusing).
        activation: Option<Activation>,
    },
    /// `dx = dy·w`, then times f′ of the layer before if fused; args `dy, w, dx` and that layer's output if `through`.
    DenseBackwardData {
        /// The part's own sizes, not the whole layer's.
        dims: DenseDims,
        /// Fused derivative of the activation that produced this layer's input.
        through: Option<Activation>,
    },
    /// `dw = dyᵀ·x`, `db = Σ dy`; args `dy, x, dw` and `db` if `bias`.
    DenseBackwardWeights {
        /// The part's own sizes, not the whole layer's.
        dims: DenseDims,
        /// Whether the layer has a bias.
        bias: bool,
    },
    /// `DenseBackwardWeights` and `Update` in one pass, the gradient never stored;
    /// args `dy, x, w, state…` and, if `bias`, `b, state of b…`.
    DenseBackwardUpdate {
        /// The part's own sizes, not the whole layer's.
        dims: DenseDims,
        /// Whether the layer has a bias.
        bias: bool,
        /// The update rule.
        rule: Rule,
        /// L2 penalty of the weights (biases have none).
        l2: f64,
    },
    /// `y = f(x ∗ w + b)`, then its maximum over windows if `pool`; args `x, w, y`, `b` if `bias`, and the codes of the
    /// maxima if `pool` and `codes`.
    ConvForward {
        /// The part's own sizes, with the zeros at its own borders.
        dims: ConvDims,
        /// Whether a bias is added.
        bias: bool,
        /// Applied on the way out (after fusing).
        activation: Option<Activation>,
        /// The maximum over windows that do not overlap (after fusing); `y` is then the pool's output.
        pool: Option<PoolDims>,
        /// Whether the pool's codes are written; with an activation [`DEAD`](crate::window::DEAD) where it passes nothing.
        codes: bool,
    },
    /// `dx`, then times f′ of the layer before if fused; args `dy, w, dx`, the codes if `pooled`, and this layer's input
    /// if `through`.
    ConvBackwardData {
        /// The part's own sizes, with the zeros at its own borders.
        dims: ConvDims,
        /// Fused derivative of the activation that produced this layer's input.
        through: Option<Activation>,
        /// `dy` is the gradient of this pool's output, spread by its codes (after fusing).
        pooled: Option<PoolDims>,
    },
    /// `dw` and `db`; args `dy, x, dw`, `db` if `bias`, and the codes if `pooled`.
    ConvBackwardWeights {
        /// The part's own sizes, with the zeros at its own borders.
        dims: ConvDims,
        /// Whether the layer has a bias.
        bias: bool,
        /// `dy` is the gradient of this pool's output, spread by its codes (after fusing).
        pooled: Option<PoolDims>,
    },
    /// The maximum of each window; args `x, y` and the codes if `codes`. Of equal ones the first counts; NaN wins.
    MaxPool {
        /// The part's own sizes, with the padding at its own borders.
        dims: PoolDims,
        /// Whether the places of the maxima are kept.
        codes: bool,
    },
    /// Puts each gradient where the maximum was (and adds, where windows overlap); args `dy, codes, dx`.
    MaxPoolBackward {
        /// The part's own sizes, with the padding at its own borders.
        dims: PoolDims,
    },
    /// The sum of each window over `divisor`; args `x, y`.
    AveragePool {
        /// The part's own sizes, with the padding at its own borders.
        dims: PoolDims,
        /// Elements of a whole window, zeros included.
        divisor: usize,
    },
    /// Its backward; args `dy, dx`.
    AveragePoolBackward {
        /// The part's own sizes, with the padding at its own borders.
        dims: PoolDims,
        /// Elements of a whole window, zeros included.
        divisor: usize,
    },
    /// `sums = [Σ (x − m), Σ (x − m)²]` by channel, where m is the running mean: close to the mean, so that nothing
    /// cancels; args `x, running mean, sums`.
    BatchSums {
        /// Rows: samples times places.
        rows: usize,
        /// Channels of each row.
        channels: usize,
    },
    /// `y = f((x − mean) / √(variance + eps) · γ + β)` with the moments of `count` rows, `sums` of all ranks; keeps
    /// `[mean, 1 / √…]` and moves the running mean and (unbiased) variance;
    /// args `x, sums, running mean, running variance, γ, β, kept, y`.
    BatchNormalize {
        /// Rows of this part.
        rows: usize,
        /// Channels of each row.
        channels: usize,
        /// Rows over all ranks.
        count: usize,
        /// Keeps the division finite.
        eps: f64,
        /// Share of this batch in the running moments.
        momentum: f64,
        /// Applied on the way out (after fusing).
        activation: Option<Activation>,
    },
    /// The same with the running moments; args `x, running mean, running variance, γ, β, y`.
    BatchInfer {
        /// Rows of this part.
        rows: usize,
        /// Channels of each row.
        channels: usize,
        /// Keeps the division finite.
        eps: f64,
        /// Applied on the way out (after fusing).
        activation: Option<Activation>,
    },
    /// `sums = [Σ dy, Σ dy·x̂]` by channel, with `dy` times f′ if `through`; args `dy, x, kept, sums` and `y` if `through`.
    BatchGradientSums {
        /// Rows of this part.
        rows: usize,
        /// Channels of each row.
        channels: usize,
        /// Fused derivative of the activation that follows, by its output.
        through: Option<Activation>,
    },
    /// `dx = γ / √… · (dy − sums₀ / count − x̂ · sums₁ / count)`; args `dy, x, kept, γ, sums, dx` and `y` if `through`.
    BatchBackward {
        /// Rows of this part.
        rows: usize,
        /// Channels of each row.
        channels: usize,
        /// Rows over all ranks.
        count: usize,
        /// Fused derivative of the activation that follows, by its output.
        through: Option<Activation>,
    },
    /// `y = x / (k + α/size · Σ x²)^β` over the `size` channels around each; args `x, y`.
    LocalResponse(LocalResponse),
    /// Its backward; args `dy, x, dx`. `dx` covers the channels that the part reads.
    LocalResponseBackward(LocalResponse),
    /// `y = (x − mean) / √(variance + eps) · γ + β` over each row, keeping `[mean, 1 / √…]` by row;
    /// args `x, γ, β, y, kept`.
    LayerNorm {
        /// Rows of `channels` values each.
        rows: usize,
        /// Elements of a row.
        channels: usize,
        /// Keeps the division finite.
        eps: f64,
    },
    /// Its gradient; args `dy, x, kept, γ, dx`.
    LayerNormBackwardData {
        /// Rows of `channels` values each.
        rows: usize,
        /// Elements of a row.
        channels: usize,
    },
    /// Its parameters' gradients; args `dy, x, kept, dγ, dβ`.
    LayerNormBackwardWeights {
        /// Rows of `channels` values each.
        rows: usize,
        /// Elements of a row.
        channels: usize,
    },
    /// `y = f(Σ x)`; args `x…, y`.
    Sum {
        /// Number of summands.
        inputs: usize,
        /// Elements of each argument.
        len: usize,
        /// Applied on the way out (after fusing).
        activation: Option<Activation>,
    },
    /// `y = f(x)`; args `x, y`.
    Activate {
        /// The activation, f.
        function: Activation,
        /// Elements of each argument.
        len: usize,
    },
    /// `dx = dy · f′`; args `dy, saved, dx`, where `saved` is y, or x if f′ is not a function of y.
    ActivateBackward {
        /// The activation, f.
        function: Activation,
        /// Elements of each argument.
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
    /// `y[i] = Σ w[j]` over the indices j of list i that lie in the part's rows of the table, divided by the length of the whole list if `mean`;
    /// args `lists, w, y`.
    EmbeddingForward(EmbeddingDims),
    /// `dw[j] = Σ dy[i]` over all places where a list i holds j, each divided by the length of that list if `mean`; args `dy, lists, dw`.
    EmbeddingBackward(EmbeddingDims),
    /// Adds to `metrics` ([`Loss::metrics`]) and, if `gradient`, writes the gradient of the mean loss;
    /// args `outputs, targets, metrics` and `gradient`.
    Loss {
        /// Decides the formula.
        loss: Loss,
        /// What outputs are compared with; decides how many there are.
        targets: TargetKind,
        /// Samples of this part.
        rows: usize,
        /// Whether the gradient is written.
        gradient: bool,
    },
    /// Copies a region; args `from, to`.
    Copy(Strided),
    /// Adds a region onto another; args `from, to`.
    Add(Strided),
    /// Sets all elements to zero; args `to`.
    Zero {
        /// Elements of each argument.
        len: usize,
    },
    /// Adds what was left over before, keeps the largest and leaves the rest over; args `x, left`, both written. Largest is
    /// judged by the first 16 bits of an `f32` without its sign; of equal ones the first are kept.
    Sparsify {
        /// Elements of each argument.
        len: usize,
        /// How many are kept.
        keep: usize,
    },
    /// Moves parameters by their gradients; args `w, g, state…`.
    Update {
        /// Gives the number of state arguments.
        rule: Rule,
        /// Runs of elements by their regularisation.
        segments: Vec<Segment>,
    },
}

/// Sizes of a local response normalisation's part (Krizhevsky et al. 2012, with PyTorch's meaning of the numbers).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LocalResponse {
    /// Rows: samples times places.
    pub rows: usize,
    /// Channels that the part reads.
    pub channels: usize,
    /// The first channel that it makes, counted from the first that it reads …
    pub first: usize,
    /// … and how many it makes.
    pub out_channels: usize,
    /// Channels in a window: those from ⌊size / 2⌋ before to ⌈size / 2⌉ − 1 behind.
    pub size: usize,
    /// α, the weight of the neighbours' squares.
    pub alpha: f64,
    /// β, the exponent.
    pub beta: f64,
    /// k, added to the sum before the power.
    pub k: f64,
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

/// What lowering has to know of a rank's device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceKind {
    /// Of its floats.
    pub dtype: DType,
    /// The kernel chains that it takes as one.
    pub fusions: Vec<Fusion>,
}

impl DeviceKind {
    /// A kind of device.
    pub fn new(dtype: DType, fusions: &[Fusion]) -> Self {
        Self { dtype, fusions: fusions.to_vec() }
    }
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
    /// Convolution forward with the activation that follows.
    ConvActivation(Activation),
    /// Convolution backward-data with the derivative of the activation before.
    ConvThrough(Activation),
    /// Convolution, this activation and a maximum over windows that do not overlap, forward and backward.
    ConvPool(Activation),
    /// Batch normalisation with the activation that follows, forward and backward.
    BatchActivation(Activation),
    /// A sum with the activation that follows.
    SumActivation(Activation),
}

impl Kernel {
    /// A short name for traces, time tables and `--explain`.
    pub fn name(&self) -> &'static str {
        match self {
            Kernel::DenseForward { .. } => "dense-forward",
            Kernel::DenseBackwardData { .. } => "dense-backward-data",
            Kernel::DenseBackwardWeights { .. } => "dense-backward-weights",
            Kernel::DenseBackwardUpdate { .. } => "dense-backward-update",
            Kernel::ConvForward { .. } => "conv-forward",
            Kernel::ConvBackwardData { .. } => "conv-backward-data",
            Kernel::ConvBackwardWeights { .. } => "conv-backward-weights",
            Kernel::MaxPool { .. } => "max-pool",
            Kernel::MaxPoolBackward { .. } => "max-pool-backward",
            Kernel::AveragePool { .. } => "average-pool",
            Kernel::AveragePoolBackward { .. } => "average-pool-backward",
            Kernel::BatchSums { .. } => "batch-sums",
            Kernel::BatchNormalize { .. } => "batch-normalize",
            Kernel::BatchInfer { .. } => "batch-infer",
            Kernel::BatchGradientSums { .. } => "batch-gradient-sums",
            Kernel::BatchBackward { .. } => "batch-backward",
            Kernel::LocalResponse(_) => "local-response",
            Kernel::LocalResponseBackward(_) => "local-response-backward",
            Kernel::LayerNorm { .. } => "layer-norm",
            Kernel::LayerNormBackwardData { .. } => "layer-norm-backward-data",
            Kernel::LayerNormBackwardWeights { .. } => "layer-norm-backward-weights",
            Kernel::Sum { .. } => "sum",
            Kernel::Activate { .. } => "activate",
            Kernel::ActivateBackward { .. } => "activate-backward",
            Kernel::Dropout { .. } => "dropout",
            Kernel::EmbeddingForward(_) => "embedding-forward",
            Kernel::EmbeddingBackward(_) => "embedding-backward",
            Kernel::Loss { .. } => "loss",
            Kernel::Copy(_) => "copy",
            Kernel::Add(_) => "add",
            Kernel::Zero { .. } => "zero",
            Kernel::Sparsify { .. } => "sparsify",
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
            Kernel::ConvForward { dims, .. }
            | Kernel::ConvBackwardData { dims, .. }
            | Kernel::ConvBackwardWeights { dims, .. } => dims.flops(),
            Kernel::MaxPool { dims, .. }
            | Kernel::MaxPoolBackward { dims }
            | Kernel::AveragePool { dims, .. }
            | Kernel::AveragePoolBackward { dims, .. } => (dims.output_len() * dims.window[0] * dims.window[1]) as f64,
            Kernel::BatchSums { rows, channels } | Kernel::BatchInfer { rows, channels, .. } => {
                4.0 * (rows * channels) as f64
            }
            Kernel::BatchNormalize { rows, channels, .. } => 4.0 * (rows * channels) as f64,
            Kernel::BatchGradientSums { rows, channels, .. } => 5.0 * (rows * channels) as f64,
            Kernel::BatchBackward { rows, channels, .. } => 7.0 * (rows * channels) as f64,
            Kernel::LocalResponse(l) => ((2 * l.size + 20) * l.rows * l.out_channels) as f64,
            Kernel::LocalResponseBackward(l) => ((4 * l.size + 30) * l.rows * l.out_channels) as f64,
            Kernel::LayerNorm { rows, channels, .. } => 7.0 * (rows * channels) as f64,
            Kernel::LayerNormBackwardData { rows, channels } => 9.0 * (rows * channels) as f64,
            Kernel::LayerNormBackwardWeights { rows, channels } => 5.0 * (rows * channels) as f64,
            Kernel::Sum { inputs, len, .. } => (inputs * len) as f64,
            Kernel::Activate { len, .. } | Kernel::ActivateBackward { len, .. } => 4.0 * *len as f64,
            Kernel::Dropout { region, .. } => 12.0 * region.len() as f64,
            Kernel::EmbeddingForward(d) | Kernel::EmbeddingBackward(d) => (d.expected * d.columns) as f64,
            Kernel::Loss { rows, targets, .. } => 20.0 * (rows * targets.outputs()) as f64,
            Kernel::Copy(_) | Kernel::Zero { .. } => 0.0,
            Kernel::Add(walk) => walk.len() as f64,
            Kernel::Sparsify { len, .. } => 2.0 * *len as f64,
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
            Kernel::ConvForward { dims, pool, .. } => {
                let made = pool.map_or(dims.output_len(), |p| p.output_len() + p.codes_len() / 4);
                (dims.input_len() + dims.weight_len() + made) as f64
            }
            Kernel::ConvBackwardData { dims, pooled, through } => {
                let read = pooled.map_or(dims.output_len(), |p| p.output_len() + p.codes_len() / 4);
                let saved = if through.is_some() { dims.input_len() } else { 0 };
                (read + saved + dims.weight_len() + dims.input_len()) as f64
            }
            Kernel::ConvBackwardWeights { dims, pooled, .. } => {
                let read = pooled.map_or(dims.output_len(), |p| p.output_len() + p.codes_len() / 4);
                (read + dims.weight_len() + dims.input_len()) as f64
            }
            Kernel::MaxPool { dims, .. } | Kernel::MaxPoolBackward { dims } => {
                (dims.input_len() + dims.output_len() + dims.codes_len() / 4) as f64
            }
            Kernel::AveragePool { dims, .. } | Kernel::AveragePoolBackward { dims, .. } => {
                (dims.input_len() + dims.output_len()) as f64
            }
            Kernel::BatchSums { rows, channels } => (rows * channels) as f64,
            Kernel::BatchNormalize { rows, channels, .. }
            | Kernel::BatchInfer { rows, channels, .. }
            | Kernel::LayerNorm { rows, channels, .. } => 2.0 * (rows * channels) as f64,
            Kernel::BatchGradientSums { rows, channels, through } => {
                (2 + usize::from(through.is_some())) as f64 * (rows * channels) as f64
            }
            Kernel::BatchBackward { rows, channels, through, .. } => {
                (3 + usize::from(through.is_some())) as f64 * (rows * channels) as f64
            }
            Kernel::LocalResponse(l) => (l.rows * (l.channels + l.out_channels)) as f64,
            Kernel::LocalResponseBackward(l) => (l.rows * (2 * l.channels + l.out_channels)) as f64,
            Kernel::LayerNormBackwardData { rows, channels } => 3.0 * (rows * channels) as f64,
            Kernel::LayerNormBackwardWeights { rows, channels } => 2.0 * (rows * channels) as f64,
            Kernel::Sum { inputs, len, .. } => ((inputs + 1) * len) as f64,
            Kernel::Activate { len, .. } => 2.0 * *len as f64,
            Kernel::ActivateBackward { len, .. } => 3.0 * *len as f64,
            Kernel::Dropout { region, .. } => 2.0 * region.len() as f64,
            Kernel::EmbeddingForward(d) => ((d.expected + d.rows) * d.columns + d.rows + d.expected) as f64,
            Kernel::EmbeddingBackward(d) => {
                ((2 * d.expected + d.rows + d.table_rows) * d.columns + d.rows + d.expected) as f64
            }
            Kernel::Loss { rows, targets, .. } => 2.0 * (rows * targets.outputs()) as f64,
            Kernel::Copy(walk) => 2.0 * walk.len() as f64,
            Kernel::Add(walk) => 3.0 * walk.len() as f64,
            Kernel::Zero { len } => *len as f64,
            Kernel::Sparsify { len, .. } => 6.0 * *len as f64,
            Kernel::Update { rule, segments } => {
                ((3 + 2 * rule.states().len()) * segments.iter().map(|s| s.len).sum::<usize>()) as f64
            }
        }
    }
}

impl Kernel {
    /// Positions in the argument list that are written (or read and written).
    pub fn writes(&self) -> Vec<usize> {
        match self {
            Kernel::DenseForward { .. } | Kernel::DenseBackwardData { .. } | Kernel::ActivateBackward { .. } => vec![2],
            Kernel::DenseBackwardWeights { .. } => vec![2, 3],
            Kernel::DenseBackwardUpdate { bias, rule, .. } => {
                (2..2 + (1 + rule.states().len()) * (1 + usize::from(*bias))).collect()
            }
            Kernel::ConvForward { bias, pool, codes, .. } => {
                if pool.is_some() && *codes {
                    vec![2, 3 + usize::from(*bias)]
                } else {
                    vec![2]
                }
            }
            Kernel::ConvBackwardData { .. } => vec![2],
            Kernel::ConvBackwardWeights { bias: true, .. } => vec![2, 3],
            Kernel::ConvBackwardWeights { bias: false, .. } => vec![2],
            Kernel::MaxPool { .. } => vec![1, 2],
            Kernel::AveragePool { .. } | Kernel::AveragePoolBackward { .. } | Kernel::LocalResponse(_) => vec![1],
            Kernel::MaxPoolBackward { .. } | Kernel::BatchSums { .. } | Kernel::LocalResponseBackward(_) => vec![2],
            Kernel::BatchNormalize { .. } => vec![2, 3, 6, 7],
            Kernel::BatchInfer { .. } | Kernel::BatchBackward { .. } => vec![5],
            Kernel::BatchGradientSums { .. } => vec![3],
            Kernel::LayerNorm { .. } | Kernel::LayerNormBackwardWeights { .. } => vec![3, 4],
            Kernel::LayerNormBackwardData { .. } => vec![4],
            Kernel::Sum { inputs, .. } => vec![*inputs],
            Kernel::Activate { .. } | Kernel::Dropout { .. } | Kernel::Copy(_) | Kernel::Add(_) => vec![1],
            Kernel::EmbeddingForward(_) | Kernel::EmbeddingBackward(_) => vec![2],
            Kernel::Loss { .. } => vec![2, 3],
            Kernel::Zero { .. } => vec![0],
            Kernel::Sparsify { .. } => vec![0, 1],
            Kernel::Update { rule, .. } => std::iter::once(0).chain(2..2 + rule.states().len()).collect(),
        }
    }

    /// What the elements of an argument are.
    pub fn elements(&self, argument: usize) -> Elements {
        let codes = match self {
            Kernel::ConvForward { bias, pool: Some(_), .. } => 3 + usize::from(*bias),
            Kernel::ConvBackwardData { pooled: Some(_), .. } => 3,
            Kernel::ConvBackwardWeights { bias, pooled: Some(_), .. } => 3 + usize::from(*bias),
            Kernel::MaxPool { .. } => 2,
            Kernel::MaxPoolBackward { .. } => 1,
            Kernel::EmbeddingForward(dims) if argument == 0 => return Elements::Index(dims.width),
            Kernel::EmbeddingBackward(dims) if argument == 1 => return Elements::Index(dims.width),
            Kernel::Loss { targets: TargetKind::Classes { .. }, .. } if argument == 1 => {
                return Elements::Index(IndexWidth::Bits32);
            }
            _ => return Elements::Float,
        };
        if argument == codes { Elements::Byte } else { Elements::Float }
    }
}
